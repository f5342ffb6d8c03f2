/* SPDX-License-Identifier: Apache-2.0 */

/* ---- lazy views: conjugate and negative bits ---- */

/* Calls a method without arguments: 1 or 0 for its truth value, or -1 with an exception. */
static int fastdl_call_predicate_(PyObject *obj, const char *method)
{
    int answer;
    PyObject *bound = fastdl_attribute_(obj, method);
    PyObject *result = bound == NULL ? NULL : PyObject_CallObject(bound, NULL);
    Py_XDECREF(bound);
    if (result == NULL)
        return -1;
    answer = PyObject_IsTrue(result);
    Py_DECREF(result);
    return answer;
}

/* Slow path of fastdl_check_bits, for tensors that the quick check cannot clear. */
static int fastdl_lazy_bits_(PyObject *obj, const DLTensor *tensor)
{
    const char *bit = "conj";
    int answer = 0;
    if (fastdl_is_complex_(tensor->dtype)) {
        answer = fastdl_call_predicate_(obj, "is_conj");
    } else {
        for (int32_t i = tensor->ndim; i-- > 0;)
            if (tensor->shape[i] > 1 && tensor->strides[i] & 1)
                return 0;
    }
    if (answer == 0) {
        bit = "neg";
        answer = fastdl_call_predicate_(obj, "is_neg");
    }
    if (answer > 0) {
        fastdl_text_ text;
        text.length = 0;
        fastdl_put_(&text,
                    "expected a tensor whose memory holds its values, got a lazy view of type "
                    "'%%U' with its %s bit set: call resolve_%s() first",
                    bit, bit);
        fastdl_raise_about_(PyExc_BufferError, text.text, Py_TYPE(obj));
    }
    return answer == 0 ? 0 : -1;
}

/* Raises BufferError for an element type whose memory format DLPack cannot express. */
static void fastdl_raise_dtype_(PyObject *dtype)
{
    fastdl_raise_(PyExc_BufferError,
                  "expected numbers, got a tensor of dtype %S, which DLPack cannot describe: "
                  "x.view(torch.int8) has the same bits",
                  dtype);
}

/* torch.int8 and torch.uint8 (one object each), after their first use. */
static const void *fastdl_byte_dtypes_[2];

/* Refuses a torch tensor of integers of fewer bits (int4), which torch exports as int8 or uint8: 0,
 * or -1 with BufferError or what the object raised. */
static int fastdl_check_width_(PyObject *obj, const DLTensor *tensor)
{
    int is_unsigned = tensor->dtype.code == kDLUInt;
    const void **known = &fastdl_byte_dtypes_[is_unsigned];
    const fastdl_names_ *names;
    PyObject *dtype, *name = NULL;
    int found = 0;
    if ((!is_unsigned && tensor->dtype.code != kDLInt) || tensor->dtype.bits != 8)
        return 0;
    names = fastdl_get_names_();
    dtype = names == NULL ? NULL : PyObject_GetAttr(obj, names->dtype);
    if (dtype != NULL && fastdl_atomic_load_(known) == (const void *)dtype)
        found = 1;
    else
        name = dtype == NULL ? NULL : PyObject_Repr(dtype);
    if (name != NULL) {
        found =
            PyUnicode_CompareWithASCIIString(name, is_unsigned ? "torch.uint8" : "torch.int8") == 0;
        if (!found) {
            fastdl_raise_dtype_(name);
        } else if (fastdl_atomic_load_(known) == NULL) {
            Py_INCREF(dtype); /* so that its address is never reused */
            fastdl_atomic_store_(known, dtype);
        }
    }
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    return found ? 0 : -1;
}

/* `untyped_storage` of torch's C class, after its first use. It checks the type of its argument. */
static const void *fastdl_storage_method_;

/* The `untyped_storage` of the last class in the MRO that has one, a new reference; NULL, if none
 * has or with an exception. The storage that a subclass returns need not hold the memory. */
static PyObject *fastdl_find_storage_method_(PyTypeObject *type)
{
    PyObject *found = NULL, *mro = fastdl_mro_(type);
    for (Py_ssize_t i = mro == NULL ? 0 : PyTuple_Size(mro);
         i-- > 0 && found == NULL && !PyErr_Occurred();) {
        PyObject *attributes = fastdl_of_type_((PyTypeObject *)PyTuple_GetItem(mro, i), "__dict__");
        found = attributes == NULL ? NULL : fastdl_class_item_(attributes, "untyped_storage");
        Py_XDECREF(attributes);
    }
    Py_XDECREF(mro);
    if (found != NULL && Py_TYPE(found) == &PyMethodDescr_Type &&
        fastdl_atomic_load_(&fastdl_storage_method_) == NULL) {
        Py_INCREF(found); /* for ever */
        fastdl_atomic_store_(&fastdl_storage_method_, found);
    }
    return found;
}

/* The object that keeps the memory of `obj` alive, a new reference: `obj` itself or, for a torch
 * tensor, its storage if it has one (`x.data = y` and module.to() replace the storage). NULL with
 * an exception that is not an Exception. */
FASTDL_SHARED_ PyObject *fastdl_keeper_(PyObject *obj, uint32_t facts)
{
    if (facts & FASTDL_TYPE_STORAGE) {
        PyObject *storage = NULL, *found = NULL;
        fastdl_method_ method;
        method.self = obj;
        method.callable = (PyObject *)fastdl_atomic_load_(&fastdl_storage_method_);
        if (FASTDL_UNLIKELY_(method.callable == NULL))
            method.callable = found = fastdl_find_storage_method_(Py_TYPE(obj));
        if (method.callable != NULL)
            storage = fastdl_call_(&method, NULL, NULL, 0);
        Py_XDECREF(found);
        if (FASTDL_LIKELY_(storage != NULL) || !fastdl_clear_if_(PyExc_Exception))
            return storage;
    }
    Py_INCREF(obj);
    return obj;
}

/* Refuses a torch tensor whose data is an offset from NULL, since its storage has no memory: 0, or
 * -1 with BufferError or what the object raised. */
static int fastdl_check_offset_(PyObject *obj, const DLTensor *tensor)
{
    PyObject *offset;
    long long elements;
    if (FASTDL_LIKELY_(!fastdl_may_lack_memory_(tensor)) || fastdl_is_empty_(tensor))
        return 0;
    offset = PyObject_CallMethod(obj, "storage_offset", NULL);
    elements = offset == NULL ? -1 : PyLong_AsLongLong(offset);
    Py_XDECREF(offset);
    if (elements == -1 && PyErr_Occurred())
        return -1;
    if ((uint64_t)elements * (uint64_t)fastdl_itemsize(tensor->dtype) != fastdl_address_(tensor))
        return 0;
    fastdl_raise_fault(FASTDL_NULL_DATA, tensor);
    return -1;
}

/* Refuses tensors whose memory does not hold the values of `obj`: 0, or -1 with an exception. */
FASTDL_SHARED_ int fastdl_check_values_(PyObject *obj, const DLTensor *tensor, uint32_t facts)
{
    if (!(facts & FASTDL_TYPE_ASK_BITS))
        return 0;
    return fastdl_check_offset_(obj, tensor) < 0 || fastdl_check_bits(obj, tensor) < 0
               ? -1
               : fastdl_check_width_(obj, tensor);
}

/* ---- elements that are more than numbers ---- */

static const char *const fastdl_meanings_[] = {"mask", "unit", "units", "__array_ufunc__"};

/* Adds FASTDL_TYPE_ASK_MEANING and FASTDL_TYPE_ARITHMETIC to the facts of a type if a class in its
 * MRO has an attribute that gives elements a meaning, and inherits a `__dlpack__` that ignores it.
 * A class that defines `__dlpack__` is trusted to export correctly. 0, or -1 with an exception. */
static int fastdl_add_meaning_(PyTypeObject *type, uint32_t *facts)
{
    PyObject *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    int found[4] = {0, 0, 0, 0}, exports = 0;
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        PyObject *attributes = fastdl_of_type_((PyTypeObject *)PyTuple_GetItem(mro, i), "__dict__");
        PyObject *value = attributes == NULL ? NULL : fastdl_class_item_(attributes, "__dlpack__");
        exports |= value != NULL;
        Py_XDECREF(value);
        /* The `__array_ufunc__` of ndarray is ordinary arithmetic. */
        for (int k = 0; k < (exports ? 3 : 4) && attributes != NULL && !PyErr_Occurred(); k++) {
            value = fastdl_class_item_(attributes, fastdl_meanings_[k]);
            if (value != NULL &&
                (k == 3 || !PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_METHOD_DESCRIPTOR)))
                found[k] = !exports;
            Py_XDECREF(value);
        }
        Py_XDECREF(attributes);
    }
    Py_XDECREF(mro);
    if (found[0] || found[1] || found[2])
        *facts |= FASTDL_TYPE_ASK_MEANING;
    else if (found[3])
        *facts |= FASTDL_TYPE_ASK_MEANING | FASTDL_TYPE_ARITHMETIC;
    return PyErr_Occurred() ? -1 : 0;
}

/* Raises BufferError for an object with a mask, unit or arithmetic. `described` is stolen, and NULL
 * after a failure. `kind` is an index of fastdl_meanings_. Returns -1. */
static int fastdl_raise_meaning_(PyObject *obj, PyObject *described, int kind)
{
    static const struct {
        int first, last; /* the kinds for which it is a remedy */
        const char *attribute, *remedy;
    } ways[] = {{0, 0, "filled", "x.filled(...)"},
                {0, 0, "unmasked", "x.unmasked"},
                {1, 2, "magnitude", "x.magnitude"},
                {1, 2, "value", "x.value"},
                {0, 3, "__array_finalize__", "x.view(numpy.ndarray)"}};
    const char *remedy = "its plain numbers";
    PyObject *value = NULL;
    for (int i = 0; i < 5 && value == NULL && described != NULL; i++) {
        if (kind < ways[i].first || kind > ways[i].last)
            continue;
        value = fastdl_attribute_(obj, ways[i].attribute);
        if (value != NULL)
            remedy = ways[i].remedy;
        else if (!fastdl_clear_if_(PyExc_Exception))
            Py_CLEAR(described);
    }
    Py_XDECREF(value);
    if (described != NULL)
        fastdl_raise_(PyExc_BufferError, "the array has %U, which a tensor cannot express: pass %s",
                      described, remedy);
    Py_XDECREF(described);
    return -1;
}

/* Whether an attribute describes the elements, unlike None, False, a class or a method.
 */
static int fastdl_has_meaning_(PyObject *value)
{
    PyObject *self;
    if (value == NULL || value == Py_None || value == Py_False || PyType_Check(value) ||
        PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_METHOD_DESCRIPTOR))
        return 0;
    self = fastdl_optional_attribute_((PyObject *)Py_TYPE(value), "__self__");
    Py_XDECREF(self);
    return self == NULL && !PyErr_Occurred();
}

/* A text about the masked elements, a new reference; NULL without an exception if there are
 * none. */
static PyObject *fastdl_describe_mask_(PyObject *mask)
{
    PyObject *size, *count = PyObject_CallMethod(mask, "sum", NULL);
    PyObject *described = NULL;
    int any = count == NULL ? -1 : PyObject_IsTrue(count);
    if (any < 0 && fastdl_clear_if_(PyExc_Exception)) {
        described = PyUnicode_FromString("a mask");
    } else if (any > 0) {
        size = fastdl_optional_attribute_(mask, "size");
        if (size != NULL && PyLong_Check(size))
            described = PyUnicode_FromFormat("masked elements (%S of %S)", count, size);
        else if (!PyErr_Occurred())
            described = PyUnicode_FromFormat("masked elements (%S)", count);
        Py_XDECREF(size);
    }
    Py_XDECREF(count);
    return described;
}

/* 0 if the elements of an object are the numbers in its memory; -1 with BufferError if it has a
 * mask, a unit or its own arithmetic, or with what its attributes raised. */
static int fastdl_check_meaning_(PyObject *obj, uint32_t facts)
{
    for (int kind = 0; kind < 3; kind++) {
        PyObject *described = NULL;
        PyObject *value = fastdl_optional_attribute_(obj, fastdl_meanings_[kind]);
        if (fastdl_has_meaning_(value))
            described = kind == 0 ? fastdl_describe_mask_(value)
                                  : PyUnicode_FromFormat("a unit (%S)", value);
        Py_XDECREF(value);
        if (described != NULL)
            return fastdl_raise_meaning_(obj, described, kind);
        if (PyErr_Occurred())
            return -1;
    }
    if (!(facts & FASTDL_TYPE_ARITHMETIC))
        return 0;
    return fastdl_raise_meaning_(obj, PyUnicode_FromString("its own arithmetic (__array_ufunc__)"),
                                 3);
}
