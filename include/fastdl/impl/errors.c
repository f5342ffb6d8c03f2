/* SPDX-License-Identifier: Apache-2.0 */

/* ---- errors ---- */

/* Appends to a text as printf does; what does not fit is cut off. */
static void fastdl_put_(fastdl_text_ *text, const char *format, ...)
{
    size_t room = sizeof(text->text) - text->length;
    va_list values;
    va_start(values, format);
    (void)PyOS_vsnprintf(text->text + text->length, room, format, values);
    va_end(values);
    text->length += strlen(text->text + text->length);
}

static void fastdl_put_tuple_(fastdl_text_ *text, const int64_t *values, int32_t n)
{
    fastdl_put_(text, "(");
    for (int32_t i = 0; i < n; i++)
        fastdl_put_(text, "%lld%s", (long long)values[i], i + 1 < n ? ", " : n == 1 ? "," : "");
    fastdl_put_(text, ")");
}

static void fastdl_put_dtype_(fastdl_text_ *text, uint32_t dtype)
{
    uint8_t code = (uint8_t)dtype, bits = (uint8_t)(dtype >> 8);
    const fastdl_dtype_family *family = fastdl_find_dtype(code);
    if (family == NULL)
        fastdl_put_(text, "type %d of %d bits", code, bits);
    else if (family->min_bits != family->max_bits)
        fastdl_put_(text, "%s%d", family->name, bits);
    else
        fastdl_put_(text, "%s", family->name);
    if (dtype >> 16 != 1)
        fastdl_put_(text, "x%d", (int)(dtype >> 16));
}

static void fastdl_put_device_type_(fastdl_text_ *text, int32_t type)
{
    const char *name = fastdl_find_device(type)->name;
    if (name != NULL)
        fastdl_put_(text, "%s", name);
    else
        fastdl_put_(text, "device type %d", (int)type);
}

static void fastdl_put_device_(fastdl_text_ *text, DLDevice device)
{
    fastdl_put_device_type_(text, (int32_t)device.device_type);
    fastdl_put_(text, ":%d", (int)device.device_id);
}

/* Appends "a float32 tensor of shape (2, 3) and strides (3, 1) on cpu:0, read-only". */
static void fastdl_put_tensor_(fastdl_text_ *text, const DLTensor *tensor, uint64_t flags)
{
    fastdl_put_(text, tensor->dtype.code == kDLInt ? "an " : "a ");
    fastdl_put_dtype_(text, fastdl_dtype(tensor->dtype));
    fastdl_put_(text, " tensor of shape ");
    fastdl_put_tuple_(text, tensor->shape, tensor->ndim);
    fastdl_put_(text, " and strides ");
    fastdl_put_tuple_(text, tensor->strides, tensor->ndim);
    fastdl_put_(text, " on ");
    fastdl_put_device_(text, tensor->device);
    if (flags & DLPACK_FLAG_BITMASK_READ_ONLY)
        fastdl_put_(text, ", read-only");
}

/* Restores the exception from PyErr_Fetch, unless one that is not an Exception is pending by now,
 * which then stays. */
static void fastdl_restore_(PyObject *type, PyObject *value, PyObject *traceback)
{
    if (fastdl_clear_if_(PyExc_Exception)) {
        PyErr_Restore(type, value, traceback);
        return;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* Sets an exception with fastdl's own message, and marks it as such: fastdl_borrow_as puts the name
 * of the argument before such a message, never before a producer's. If making the message fails,
 * that exception remains: PyErr_Format of CPython before 3.12 would replace it. */
FASTDL_SHARED_ void fastdl_raise_(PyObject *exception, const char *format, ...)
{
    PyObject *type, *value, *traceback, *text;
    va_list values;
    va_start(values, format);
    text = PyUnicode_FromFormatV(format, values);
    va_end(values);
    if (text == NULL)
        return;
    PyErr_SetObject(exception, text);
    Py_DECREF(text);
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL) /* without the mark no name is added later */
        (void)PyObject_SetAttrString(value, "_fastdl", Py_True);
    fastdl_restore_(type, value, traceback);
}

/* Sets BufferError for a fault that fastdl_check found in `tensor`. Reads only what the fault
 * allows: `shape` only if ndim is plausible. */
FASTDL_SHARED_ void fastdl_raise_fault(fastdl_fault fault, const DLTensor *tensor)
{
    fastdl_text_ shape, strides;
    int readable = tensor->ndim >= 0 && tensor->ndim <= FASTDL_MAX_NDIM &&
                   (tensor->ndim == 0 || tensor->shape != NULL);
    shape.length = strides.length = 0;
    if (readable) {
        fastdl_put_tuple_(&shape, tensor->shape, tensor->ndim);
    } else {
        fastdl_put_(&shape, "of %d dimensions", (int)tensor->ndim);
    }
    if (readable && tensor->strides != NULL)
        fastdl_put_tuple_(&strides, tensor->strides, tensor->ndim);
    else
        fastdl_put_(&strides, "NULL");
    fastdl_raise_(
        PyExc_BufferError,
        "the tensor has %s: got shape %s, strides %s, byte_offset %llu, dtype (code %d, "
        "bits %d, lanes %d), device (%d, %d). %s",
        fastdl_fault_text(fault), shape.text, strides.text, (unsigned long long)tensor->byte_offset,
        (int)tensor->dtype.code, (int)tensor->dtype.bits, (int)tensor->dtype.lanes,
        (int)tensor->device.device_type, (int)tensor->device.device_id,
        fault == FASTDL_NULL_DATA
            ? "Its memory was freed, it wraps other tensors, or its producer is at fault: pass a "
              "tensor that has the values"
            : "Its producer is at fault; a copy made by the producer may help");
}

/* An attribute, a new reference; NULL with an exception. The name is interned because CPython's
 * attribute cache keeps a reference to each name looked up. */
static PyObject *fastdl_attribute_(PyObject *obj, const char *name)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *value = interned == NULL ? NULL : PyObject_GetAttr(obj, interned);
    Py_XDECREF(interned);
    return value;
}

/* An attribute, a new reference; NULL without an exception if there is none. */
static PyObject *fastdl_optional_attribute_(PyObject *obj, const char *name)
{
    PyObject *value = fastdl_attribute_(obj, name);
    if (value == NULL)
        (void)fastdl_clear_if_(PyExc_AttributeError);
    return value;
}

/* A module that is imported already, a new reference; NULL if it is not, or with an exception. */
static PyObject *fastdl_loaded_(const char *name)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *module = interned == NULL ? NULL : PyImport_GetModule(interned);
    Py_XDECREF(interned);
    return module;
}

/* The name of a type with its module, as Python shows it in a traceback ("torch.Tensor", "int"): a
 * new reference, or NULL with an exception. */
static PyObject *fastdl_type_name_(PyTypeObject *type)
{
    PyObject *full, *module, *name = fastdl_attribute_((PyObject *)type, "__qualname__");
    if (name == NULL)
        return NULL;
    if (!PyUnicode_Check(name)) {
        Py_DECREF(name);
        PyErr_SetString(PyExc_TypeError, "expected a type whose __qualname__ is a str");
        return NULL;
    }
    module = fastdl_attribute_((PyObject *)type, "__module__");
    if (!fastdl_clear_if_(PyExc_Exception)) { /* else only the name */
        Py_DECREF(name);
        return NULL;
    }
    if (module == NULL || !PyUnicode_Check(module) ||
        PyUnicode_CompareWithASCIIString(module, "builtins") == 0) {
        Py_XDECREF(module);
        return name;
    }
    full = PyUnicode_FromFormat("%U.%U", module, name);
    Py_DECREF(module);
    Py_DECREF(name);
    return full;
}

/* Sets an exception whose format has a %U, for the name of a type, and then a %R, for what an
 * object of that type returned. */
static void fastdl_raise_answer_(PyObject *exception, const char *format, PyTypeObject *type,
                                 PyObject *answer)
{
    PyObject *name = fastdl_type_name_(type);
    if (name != NULL)
        fastdl_raise_(exception, format, name, answer);
    Py_XDECREF(name);
}

/* Sets an exception whose format has only a %U, for the name of a type. */
static void fastdl_raise_about_(PyObject *exception, const char *format, PyTypeObject *type)
{
    fastdl_raise_answer_(exception, format, type, NULL);
}

/* Whether an object is one of Python's own numbers, or may consist of them. */
static int fastdl_is_of_numbers_(PyObject *obj)
{
    return PyList_Check(obj) || PyTuple_Check(obj) || PyObject_TypeCheck(obj, &PyRange_Type) ||
           PyLong_Check(obj) || PyFloat_Check(obj) || PyComplex_Check(obj);
}

/* Sets the TypeError for an object that is not a tensor. Only the rule FASTDL_ASARRAY accepts an
 * object with a buffer. */
FASTDL_SHARED_ void fastdl_raise_no_tensor(PyObject *obj)
{
    PyObject *array = NULL, *buffer = PyMemoryView_FromObject(obj);
    if (fastdl_clear_if_(PyExc_Exception) && buffer == NULL)
        array = fastdl_optional_attribute_((PyObject *)Py_TYPE(obj), "__array__");
    if (!fastdl_clear_if_(PyExc_Exception))
        return;
    fastdl_raise_about_(
        PyExc_TypeError,
        buffer != NULL  ? "expected a tensor, got '%U', which has a buffer but neither a DLPack "
                          "exchange table nor __dlpack__: pass fastdl.asarray(x)"
        : array != NULL ? "expected a tensor, got '%U', which has __array__ but neither a DLPack "
                          "exchange table nor __dlpack__: pass fastdl.asarray(x)"
        : fastdl_is_of_numbers_(obj)
            ? "expected a tensor, got '%U', which has neither a DLPack exchange table nor "
              "__dlpack__: pass an array, such as numpy.asarray(x)"
            : "expected a tensor, got '%U', which has neither a DLPack exchange table nor "
              "__dlpack__",
        Py_TYPE(obj));
    Py_XDECREF(array);
    Py_XDECREF(buffer);
}

/* Puts the name of an argument into the pending exception: before the message if it is fastdl's
 * own, otherwise as a note, from Python 3.11 on. An interrupt stays unchanged. */
static void fastdl_name_argument_(const char *name)
{
    PyObject *type, *value, *traceback, *mark, *text = NULL, *result = NULL;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    mark = PyObject_GetAttrString(value, "_fastdl");
    if (!fastdl_clear_if_(PyExc_Exception)) {
        /* interrupted */
    } else if (mark != NULL) {
        PyObject *message = PyObject_Str(value);
        text = message == NULL ? NULL : PyUnicode_FromFormat("%s: %U", name, message);
        result = text == NULL ? NULL : Py_BuildValue("(O)", text);
        if (result != NULL && PyObject_SetAttrString(value, "args", result) == 0)
            PyObject_SetAttrString(value, "_fastdl", NULL); /* so that it is named only once */
        Py_XDECREF(message);
    } else {
        /* Some producers raise the same object again and again: it gets the note once. */
        PyObject *notes = fastdl_optional_attribute_(value, "__notes__");
        text = PyErr_Occurred() ? NULL : PyUnicode_FromFormat("raised by argument %s", name);
        if (text != NULL && (notes == NULL || PySequence_Contains(notes, text) == 0))
            result = PyObject_CallMethod(value, "add_note", "O", text);
        Py_XDECREF(notes);
    }
    Py_XDECREF(mark);
    Py_XDECREF(text);
    Py_XDECREF(result);
    fastdl_restore_(type, value, traceback);
}
