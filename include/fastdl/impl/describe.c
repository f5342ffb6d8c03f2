/* SPDX-License-Identifier: Apache-2.0 */

/* Determines the facts about a type from its name, `__dlpack__`, and the table that it publishes
 * (NULL if none). */
FASTDL_SHARED_ int fastdl_fill_record_(PyTypeObject *type, fastdl_record *record)
{
    PyObject *method;
    int named = fastdl_has_names_(type), is_checked;
    memset(record, 0, sizeof(*record));
    if (named <= 0 || fastdl_add_facts_(type, &record->facts) < 0)
        return named == 0 ? 0 : -1;
    if (record->facts & FASTDL_TYPE_TRACED) {
        record->api = &fastdl_traced_table_;
        return 0;
    }
    if (fastdl_published_table_(type, &record->api, &is_checked) < 0)
        return -1;
    if (record->api != NULL) {
        record->facts |= FASTDL_TYPE_NATIVE;
        record->lend = record->api->dltensor_from_py_object_no_sync;
        if (is_checked)
            record->facts |= FASTDL_TYPE_CHECKED;
    }
    method = fastdl_type_lookup_(type, "__dlpack__");
    if (method != NULL && method != Py_None) { /* None: opted out */
        record->facts |= FASTDL_TYPE_HAS_DLPACK;
        if (fastdl_read_signature_(method, &record->refused) < 0) {
            Py_DECREF(method);
            return -1;
        }
    }
    Py_XDECREF(method);
    return PyErr_Occurred() ? -1 : 0;
}

/* The same, with the header's own table for types without one. */
static int fastdl_fill_record_alone_(PyTypeObject *type, fastdl_record *record)
{
    if (fastdl_fill_record_(type, record) < 0)
        return -1;
    if (record->api == NULL) {
        record->facts |= FASTDL_TYPE_PROTOCOL;
        record->api = &fastdl_protocol_table_;
    }
    return 0;
}

/* Makes CPython assign the type a version tag, if it has none. */
static uint32_t fastdl_make_tag_(PyTypeObject *type)
{
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030C0000
    (void)PyUnstable_Type_AssignVersionTag(type);
#elif !defined(Py_LIMITED_API)
    Py_XDECREF(fastdl_type_lookup_(type, "__dlpack__"));
#endif
    return fastdl_tag_(type);
}

static int fastdl_watch_(PyTypeObject *type, PyObject **watch);

/* Gets the facts of a type from `describe`, and caches them in `cache` if `remember` is set.
 * Describing runs code of the type's descriptors, so the tag is compared afterwards. NULL with an
 * exception. */
FASTDL_SHARED_ const fastdl_record *
fastdl_discover(fastdl_cache *cache, PyTypeObject *type,
                int (*describe)(PyTypeObject *, fastdl_record *), int remember)
{
    const fastdl_record *kept;
    fastdl_record found;
    uint32_t tag;
    int tries = 0;
    do {
        tag = fastdl_make_tag_(type);
        if (describe(type, &found) < 0)
            return NULL;
    } while (tag != fastdl_tag_(type) && ++tries < 4);
    kept = fastdl_keep_record_(cache, &found);
    if (kept != NULL && remember && tries < 4 && tag != 0 && fastdl_is_tensor_type(kept)) {
        PyObject *watch = NULL;
        if (fastdl_watch_(type, &watch) == 0)
            fastdl_add_type_(cache, type, tag, kept, watch);
    }
    return kept;
}

#ifdef Py_LIMITED_API

/* The callback of a weak reference to a type; `self` is its address. */
static PyObject *fastdl_has_died_(PyObject *self, PyObject *unused)
{
    const void *type = PyLong_AsVoidPtr(self);
    (void)unused;
    if (type != NULL)
        fastdl_forget_(&fastdl_own_types_, type);
    Py_INCREF(Py_None);
    return Py_None;
}

static int fastdl_watch_(PyTypeObject *type, PyObject **watch)
{
    static PyMethodDef definition = {"has_died", fastdl_has_died_, METH_O, NULL};
    PyObject *address, *callback;
    if (fastdl_state_.tag_offset != 0)
        return 0;
    address = PyLong_FromVoidPtr(type);
    callback = address == NULL ? NULL : PyCFunction_NewEx(&definition, address, NULL);
    *watch = callback == NULL ? NULL : PyWeakref_NewRef((PyObject *)type, callback);
    Py_XDECREF(callback);
    Py_XDECREF(address);
    (void)fastdl_clear_if_(PyExc_Exception);
    return *watch == NULL ? -1 : 0;
}

#else

static int fastdl_watch_(PyTypeObject *type, PyObject **watch)
{
    (void)type;
    (void)watch;
    return 0;
}

#endif
