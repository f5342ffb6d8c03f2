/* SPDX-License-Identifier: Apache-2.0 */

/* What a safe exchange with particular libraries requires. A row applies to the class of that name
 * in that package, at any depth, and to its subclasses. Rows are found by name, so nothing is
 * imported. All other facts about a library are in the package (src/fastdl/_bridges), since they
 * change with the library. */
static const struct {
    const char *package, *name;
    uint32_t facts;
} fastdl_peers[] = {
    {"torch", "FakeTensor", FASTDL_TYPE_TRACED},
    {"jax", "Tracer", FASTDL_TYPE_TRACED},
    {"torch", "Tensor", FASTDL_TYPE_ASK_BITS | FASTDL_TYPE_KEEP | FASTDL_TYPE_STORAGE},
    {"jaxlib", "ArrayImpl", FASTDL_TYPE_READ_ONLY | FASTDL_TYPE_ASK_DELETED},
    {"jax", "Array", FASTDL_TYPE_READ_ONLY},
    {"tensorflow", "EagerTensor", FASTDL_TYPE_READ_ONLY},
    {"mlx", "array", FASTDL_TYPE_READ_ONLY},
    {"pyarrow", "Array", FASTDL_TYPE_READ_ONLY},
    {"pyarrow", "Tensor", FASTDL_TYPE_READ_ONLY},
    {"onnxruntime", "OrtValue", FASTDL_TYPE_KEEP},
    {"cuda.core", "Buffer", FASTDL_TYPE_UNORDERED},
    {"cuda.core", "StridedMemoryView", FASTDL_TYPE_UNORDERED | FASTDL_TYPE_NO_STREAM},
    {"nanobind", "nb_ndarray", FASTDL_TYPE_UNORDERED},
    {"tvm_ffi", "Tensor", FASTDL_TYPE_UNORDERED},
};

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

/* Adds the facts of one class, bases aside: 1, 0 if it has no row, or -1 with an exception. */
static int fastdl_add_own_facts_(PyTypeObject *type, uint32_t *facts)
{
    const size_t count = sizeof(fastdl_peers) / sizeof(*fastdl_peers);
    size_t row = 0;
    PyObject *module, *name = fastdl_of_type_(type, "__qualname__");
    if (name == NULL)
        return -1;
    module = fastdl_of_type_(type, "__module__");
    if (module == NULL)
        (void)fastdl_clear_if_(PyExc_Exception); /* a class may have none */
    while (row < count && !(module != NULL &&
                            PyUnicode_CompareWithASCIIString(name, fastdl_peers[row].name) == 0 &&
                            fastdl_is_in_package_(module, fastdl_peers[row].package)))
        row++;
    if (row < count)
        *facts |= fastdl_peers[row].facts;
    Py_XDECREF(module);
    Py_DECREF(name);
    return row < count;
}

/* Adds the facts of `type`, or of its nearest base that has a row: 0, or -1 with an exception. */
static int fastdl_add_facts_(PyTypeObject *type, uint32_t *facts)
{
    PyObject *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    int found = mro == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; i < count && found == 0; i++)
        found = fastdl_add_own_facts_((PyTypeObject *)PyTuple_GetItem(mro, i), facts);
    Py_XDECREF(mro);
    return found < 0 ? -1 : 0;
}
