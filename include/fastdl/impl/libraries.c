/* SPDX-License-Identifier: Apache-2.0 */

#define FASTDL_IMMUTABLE_ (FASTDL_TYPE_READ_ONLY | FASTDL_TYPE_IMMUTABLE)

/* All rows, then one with a NULL name. */
static const fastdl_peer_fact fastdl_peers[] = {
    {"numpy", "ndarray", 0}, /* the installed package has a table for it */
    {"torch", "FakeTensor", FASTDL_TYPE_TRACED},
    {"jax", "Tracer", FASTDL_TYPE_TRACED},
    {"torch", "Tensor", FASTDL_TYPE_ASK_BITS | FASTDL_TYPE_TRUSTED},
    {"jaxlib", "ArrayImpl",
     FASTDL_IMMUTABLE_ | FASTDL_TYPE_STREAM_NONE_SYNCS | FASTDL_TYPE_BUFFER |
         FASTDL_TYPE_ASK_DELETED},
    {"jax", "Array", FASTDL_IMMUTABLE_ | FASTDL_TYPE_STREAM_NONE_SYNCS},
    {"tensorflow", "EagerTensor", FASTDL_IMMUTABLE_ | FASTDL_TYPE_BUFFER | FASTDL_TYPE_ASK_DTYPE},
    {"mlx", "array", FASTDL_IMMUTABLE_ | FASTDL_TYPE_EXPORT_DOES_NOT_SYNC},
    /* Not IMMUTABLE: their memory may be that of a NumPy array, which others may write to. */
    {"pyarrow", "FixedShapeTensorArray", FASTDL_TYPE_READ_ONLY | FASTDL_TYPE_ASK_NULLS},
    {"pyarrow", "Array", FASTDL_TYPE_READ_ONLY | FASTDL_TYPE_EXPORT_DOES_NOT_SYNC},
    {"pyarrow", "Tensor", FASTDL_TYPE_READ_ONLY | FASTDL_TYPE_EXPORT_DOES_NOT_SYNC},
    {"onnxruntime", "OrtValue", FASTDL_TYPE_KEEP},
    {"cuda.core", "Buffer", FASTDL_TYPE_UNORDERED},
    {"cuda.core", "StridedMemoryView", FASTDL_TYPE_UNORDERED | FASTDL_TYPE_NO_STREAM},
    {"nanobind", "nb_ndarray", FASTDL_TYPE_UNORDERED},
    {"tvm_ffi", "Tensor", FASTDL_TYPE_EXPORT_DOES_NOT_SYNC | FASTDL_TYPE_UNORDERED},
    {NULL, NULL, 0},
};

/* The row for types without a row of their own. */
static const fastdl_peer_fact *fastdl_no_peer_(void)
{
    const fastdl_peer_fact *row = fastdl_peers;
    while (row->name != NULL)
        row++;
    return row;
}

/* Whether the module of a class, which need not be a string, is `package` or in it. */
static int fastdl_is_in_package_(PyObject *module, const char *package)
{
    Py_ssize_t length;
    const char *text = PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, &length) : NULL;
    size_t prefix = strlen(package);
    (void)fastdl_clear_if_(PyExc_Exception); /* a name with lone surrogates */
    return text != NULL && strncmp(text, package, prefix) == 0 &&
           (text[prefix] == '.' || text[prefix] == '\0');
}

/* The row of one class, bases aside; the last row if it has none. NULL with an exception. */
FASTDL_SHARED_ const fastdl_peer_fact *fastdl_peer_of_(PyTypeObject *type)
{
    const fastdl_peer_fact *row = fastdl_peers;
    PyObject *module, *name = fastdl_of_type_(type, "__qualname__");
    if (name == NULL)
        return NULL;
    module = fastdl_of_type_(type, "__module__");
    if (module == NULL)
        (void)fastdl_clear_if_(PyExc_Exception); /* a class may be without one */
    while (row->name != NULL &&
           !(module != NULL && PyUnicode_CompareWithASCIIString(name, row->name) == 0 &&
             fastdl_is_in_package_(module, row->package)))
        row++;
    Py_XDECREF(module);
    Py_DECREF(name);
    return row;
}

/* The row of `type` or of its nearest base that has one; the last row if none has. NULL with an
 * exception. */
static const fastdl_peer_fact *fastdl_find_peer_(PyTypeObject *type)
{
    const fastdl_peer_fact *row = NULL;
    PyObject *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    for (Py_ssize_t i = 0; i < count; i++) {
        row = fastdl_peer_of_((PyTypeObject *)PyTuple_GetItem(mro, i));
        if (row == NULL || row->name != NULL)
            break;
    }
    Py_XDECREF(mro);
    return row;
}
