/* SPDX-License-Identifier: Apache-2.0 */

/* ---- objects that are not tensors ---- */

#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030B0000

/* The element type for the format of a buffer; lanes 0 if there is none. The item size decides
 * where the size of a letter depends on the platform (long) or on the byte-order prefix. */
static DLDataType fastdl_dtype_of_format_(const char *format, Py_ssize_t itemsize)
{
    static const struct {
        char letter;
        uint8_t code, bytes; /* 0 bytes: 4 or 8 */
    } numbers[] = {
        {'?', kDLBool, 1}, {'b', kDLInt, 1},   {'h', kDLInt, 2},   {'i', kDLInt, 4},
        {'q', kDLInt, 8},  {'l', kDLInt, 0},   {'n', kDLInt, 0},   {'B', kDLUInt, 1},
        {'H', kDLUInt, 2}, {'I', kDLUInt, 4},  {'Q', kDLUInt, 8},  {'L', kDLUInt, 0},
        {'N', kDLUInt, 0}, {'e', kDLFloat, 2}, {'f', kDLFloat, 4}, {'d', kDLFloat, 8},
    };
    DLDataType result = {0, 0, 0};
    int is_complex;
    format += *format == '@' || *format == '=' || *format == (PY_BIG_ENDIAN ? '>' : '<');
    is_complex = *format == 'Z';
    format += is_complex;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        Py_ssize_t bytes = is_complex ? itemsize / 2 : itemsize;
        if (format[0] != numbers[i].letter || format[1] != '\0' ||
            (is_complex && (numbers[i].code != kDLFloat || numbers[i].bytes < 4)) ||
            (numbers[i].bytes != 0 ? bytes != numbers[i].bytes : bytes != 4 && bytes != 8))
            continue;
        result.code = is_complex ? (uint8_t)kDLComplex : numbers[i].code;
        result.bits = (uint8_t)(itemsize * 8);
        result.lanes = 1;
    }
    return result;
}

static int fastdl_has_suboffsets_(const Py_buffer *buffer)
{
    for (int i = 0; i < buffer->ndim && buffer->suboffsets != NULL; i++)
        if (buffer->suboffsets[i] >= 0)
            return 1;
    return 0;
}

/* Describes a buffer with a format and strides in *tensor: 0, or -1 with BufferError. `dims`, which
 * receives its shape and strides, has room for 2 * FASTDL_MAX_NDIM numbers. */
FASTDL_SHARED_ int fastdl_read_buffer_(const Py_buffer *buffer, DLTensor *tensor, int64_t *dims)
{
    const char *format = buffer->format == NULL ? "B" : buffer->format;
    fastdl_layout layout;
    fastdl_fault fault;
    int has_elements = 1;
    if (buffer->ndim > FASTDL_MAX_NDIM || (buffer->ndim > 0 && buffer->shape == NULL)) {
        fastdl_raise_(PyExc_BufferError, "expected a shape of at most %d sizes, got %d",
                      FASTDL_MAX_NDIM, buffer->ndim);
        return -1;
    }
    if (fastdl_has_suboffsets_(buffer)) {
        fastdl_raise_(PyExc_BufferError,
                      "expected a buffer of elements, got one of pointers to them (with "
                      "suboffsets), which DLPack cannot describe: copy the data first");
        return -1;
    }
    memset(tensor, 0, sizeof(*tensor));
    tensor->dtype = fastdl_dtype_of_format_(format, buffer->itemsize);
    if (tensor->dtype.lanes == 0) {
        PyObject *text = PyUnicode_DecodeLatin1(format, (Py_ssize_t)strlen(format), NULL);
        if (text != NULL)
            fastdl_raise_(PyExc_BufferError,
                          "expected a buffer of native numbers or bools, got format %R with "
                          "itemsize %zd, which DLPack cannot describe: convert the values first",
                          text, buffer->itemsize);
        Py_XDECREF(text);
        return -1;
    }
    tensor->data = buffer->buf;
    tensor->device.device_type = kDLCPU;
    tensor->ndim = buffer->ndim;
    tensor->shape = dims;
    for (int i = 0; i < buffer->ndim; i++) {
        dims[i] = buffer->shape[i];
        has_elements &= dims[i] != 0;
    }
    /* Exporters without strides, such as ctypes, are compact. Without elements, strides mean
     * nothing. */
    if (buffer->strides != NULL && has_elements)
        tensor->strides = dims + FASTDL_MAX_NDIM;
    for (int i = 0; tensor->strides != NULL && i < buffer->ndim; i++) {
        tensor->strides[i] = buffer->strides[i] / buffer->itemsize;
        if (dims[i] > 1 && buffer->strides[i] % buffer->itemsize != 0) {
            fastdl_raise_(PyExc_BufferError,
                          "expected strides in multiples of %zd bytes, one element, got %zd in "
                          "dimension %d: copy the array first",
                          buffer->itemsize, buffer->strides[i], i);
            return -1;
        }
    }
    fault = fastdl_check(tensor, 0, &layout);
    if (fault == FASTDL_OK)
        return 0;
    fastdl_raise_fault(fault, tensor);
    return -1;
}

static DLManagedTensorVersioned *fastdl_export_(const fastdl_description *description);

/* The tensor of an object's buffer, which is locked as long as the tensor lives: 1; 0 if the object
 * has no buffer, or one that hides the element type; -1 with an exception. */
static int fastdl_own_buffer_(PyObject *obj, DLManagedTensorVersioned **out)
{
    fastdl_description description;
    Py_buffer buffer;
    PyObject *lock, *interface = fastdl_type_lookup_(Py_TYPE(obj), "__array_interface__");
    Py_XDECREF(interface);
    if (PyErr_Occurred())
        return -1;
    if (interface != NULL) /* NumPy exports dates as a buffer of bytes */
        return 0;
    lock = PyMemoryView_FromObject(obj);
    if (lock == NULL)
        return fastdl_clear_if_(PyExc_TypeError) ? 0 : -1;
    *out = NULL;
    fastdl_start_description_(lock, &description);
    if (PyObject_GetBuffer(lock, &buffer, PyBUF_FULL_RO) == 0) {
        if (buffer.readonly)
            description.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
        if (fastdl_read_buffer_(&buffer, &description.dl, description.room) == 0)
            *out = fastdl_export_(&description);
        PyBuffer_Release(&buffer);
    }
    fastdl_release_object_(lock); /* which the tensor keeps */
    return *out != NULL ? 1 : -1;
}

#else

static int fastdl_own_buffer_(PyObject *obj, DLManagedTensorVersioned **out)
{
    (void)obj;
    (void)out;
    return 0;
}

#endif

/* Makes a view that owns `managed`, which is ready on the stream that `api` names. */
static void fastdl_fill_view_(fastdl_view *view, DLManagedTensorVersioned *managed,
                              const DLPackExchangeAPI *api)
{
    view->own_ = managed;
    view->api_ = api;
    view->flags = managed->flags;
    view->dl = managed->dl_tensor;
    fastdl_normalise_(&view->dl);
}

/* The same for the tensor of `obj`: 0, or -1 with an exception. */
static int fastdl_view_owned_(PyObject *obj, fastdl_view *view)
{
    const fastdl_record *record = fastdl_known_(Py_TYPE(obj));
    const DLPackExchangeAPI *api;
    DLManagedTensorVersioned *managed;
    fastdl_init(view);
    if (record == NULL || fastdl_own_(obj, record, &managed, &api) < 0)
        return -1;
    fastdl_fill_view_(view, managed, api);
    return 0;
}

/* The same for the buffer of an object, on the host: 1; 0 if it has none; -1 with an exception. */
static int fastdl_view_buffer_(PyObject *obj, fastdl_view *view)
{
    DLManagedTensorVersioned *managed;
    int result = fastdl_own_buffer_(obj, &managed);
    if (result > 0)
        fastdl_fill_view_(view, managed, &fastdl_protocol_table_);
    return result;
}

/* The same for the tensor that fastdl.asarray makes of an object or, without the package, for its
 * buffer. */
static int fastdl_view_array_(PyObject *obj, fastdl_view *view)
{
    PyObject *tensor, *package = PyImport_ImportModule("fastdl");
    int result;
    if (package == NULL)
        return fastdl_clear_if_(PyExc_Exception) ? fastdl_view_buffer_(obj, view) : -1;
    tensor = PyObject_CallMethod(package, "asarray", "(O)", obj);
    Py_DECREF(package);
    result = tensor == NULL || fastdl_view_owned_(tensor, view) < 0 ? -1 : 1;
    Py_XDECREF(tensor); /* the view owns an export of it */
    return result;
}

/* Whether an object has `__dlpack__`, or -1 with an exception. */
static int fastdl_has_dlpack_(PyObject *obj)
{
    fastdl_names_ made;
    const fastdl_names_ *names = fastdl_get_names_(&made);
    fastdl_method_ method;
    int result = names == NULL ? -1 : fastdl_find_method_(obj, names->dlpack, &method);
    if (result > 0)
        Py_DECREF(method.callable);
    if (names == &made)
        fastdl_drop_names_(&made);
    return result;
}

/* Called with the exception of a failed borrow. If the object is not a tensor: makes a view of it
 * as an array, and returns 0. Otherwise -1 with that exception, or with a better one. */
static int fastdl_view_as_array_(PyObject *obj, fastdl_view *view)
{
    PyObject *type, *value, *traceback;
    int result;
    PyErr_Fetch(&type, &value, &traceback);
    result = fastdl_has_dlpack_(obj) == 0 ? fastdl_view_array_(obj, view) : 0;
    if (result == 0) {
        fastdl_restore_(type, value, traceback);
        return -1;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return result < 0 ? -1 : 0;
}

/* Handles an argument that could not be borrowed: 0 if the rules allow an alternative that worked;
 * else -1 with an exception that names the argument. */
static int fastdl_argument_failed_(PyObject *obj, const char *name, int32_t rules,
                                   fastdl_view *view)
{
    if (rules & FASTDL_ASARRAY && PyErr_ExceptionMatches(PyExc_TypeError) &&
        fastdl_view_as_array_(obj, view) == 0)
        return 0;
    fastdl_name_argument_(name);
    return -1;
}

static int fastdl_own_as_(PyObject *obj, const char *name, const fastdl_spec *spec,
                          DLManagedTensorVersioned **out)
{
    fastdl_view view;
    *out = NULL;
    if (fastdl_view_owned_(obj, &view) < 0 &&
        fastdl_argument_failed_(obj, name, spec->rules, &view) < 0)
        return -1;
    if (fastdl_check_spec_(obj, name, spec, &view) < 0) {
        fastdl_release(&view);
        return -1;
    }
    *out = view.own_;
    return 0;
}
