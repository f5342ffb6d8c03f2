/* SPDX-License-Identifier: Apache-2.0 */

/* ---- exchange tables that types publish ---- */

/* The first table in the chain of `table` with the supported major version, if it is complete;
 * otherwise NULL. */
FASTDL_SHARED_ const DLPackExchangeAPI *fastdl_usable_table(const DLPackExchangeAPI *table)
{
    const DLPackExchangeAPIHeader *header = (const DLPackExchangeAPIHeader *)table;
    for (int links = 0; links < 16; links++) { /* a chain may be circular */
        if (header == NULL || (uintptr_t)header % sizeof(void *) != 0)
            return NULL;
        if (header->version.major == FASTDL_DLPACK_MAJOR) {
            table = (const DLPackExchangeAPI *)header;
            if (table->managed_tensor_allocator == NULL ||
                table->managed_tensor_from_py_object_no_sync == NULL ||
                table->managed_tensor_to_py_object_no_sync == NULL ||
                table->current_work_stream == NULL)
                return NULL;
            return table;
        }
        header = header->prev_api;
    }
    return NULL;
}

/* The class attribute for `value`, found in a dictionary in the MRO of `type`, a new reference: the
 * value itself, or what it returns as a descriptor. NULL without an exception on AttributeError. */
static PyObject *fastdl_class_attribute_(PyObject *value, PyTypeObject *type)
{
    descrgetfunc get = fastdl_getter_(value);
    PyObject *result;
    if (get == NULL) {
        Py_INCREF(value);
        return value;
    }
    result = get(value, NULL, (PyObject *)type);
    if (result == NULL)
        (void)fastdl_clear_if_(PyExc_AttributeError);
    return result;
}

/* FASTDL_PRODUCER's tables check what they lend, so consumers need not. Their capsules are marked
 * by a context that no other code has a reason to set: the address right after the table, which is
 * never dereferenced. */
#define FASTDL_MARK_(table) ((void *)(uintptr_t)((table) + 1))

/* Looks in one class of `type`. 1: the search is over, *table is the result. 0: continue. -1: an
 * exception. */
static int fastdl_published_here_(PyTypeObject *type, PyObject *attributes,
                                  const DLPackExchangeAPI **table, int *is_checked)
{
    static const char *const names[] = {"__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"};
    PyObject *exporter;
    for (int i = 0; i < 2; i++) {
        PyObject *capsule, *value = fastdl_class_item_(attributes, names[i]);
        if (value == NULL) {
            if (PyErr_Occurred())
                return -1;
            continue;
        }
        if (value == Py_None) {
            Py_DECREF(value);
            return 1;
        }
        capsule = fastdl_class_attribute_(value, type);
        Py_DECREF(value);
        if (capsule == NULL && PyErr_Occurred())
            return -1;
        if (capsule != NULL && PyCapsule_IsValid(capsule, "dlpack_exchange_api")) {
            *table = fastdl_usable_table(
                (const DLPackExchangeAPI *)PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
            *is_checked = *table != NULL && PyCapsule_GetContext(capsule) == FASTDL_MARK_(*table);
        }
        Py_XDECREF(capsule);
        if (*table != NULL)
            return 1;
    }
    exporter = fastdl_class_item_(attributes, "__dlpack__");
    Py_XDECREF(exporter);
    return PyErr_Occurred() ? -1 : exporter != NULL;
}

/* Finds the table that `type` publishes; NULL in *table if none. A table counts only if no class
 * before its provider in the MRO defines `__dlpack__`, since a subclass may override the export.
 * Only capsules count; the integer of older libraries cannot be checked before it is dereferenced.
 * *is_checked: whether its borrowing slot checks what it lends. */
static int fastdl_published_table_(PyTypeObject *type, const DLPackExchangeAPI **table,
                                   int *is_checked)
{
    PyObject *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    int found = 0;
    *table = NULL;
    *is_checked = 0;
    for (Py_ssize_t i = 0; i < count && found == 0; i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GetItem(mro, i);
        PyObject *attributes = fastdl_of_type_(base, "__dict__");
        found =
            attributes == NULL ? -1 : fastdl_published_here_(type, attributes, table, is_checked);
        Py_XDECREF(attributes);
    }
    Py_XDECREF(mro);
    return found < 0 || mro == NULL ? -1 : 0;
}
