/* SPDX-License-Identifier: Apache-2.0 */

/* ---- calling `__dlpack__` ---- */

#ifdef Py_LIMITED_API

/* Signatures cannot be read, and the attributes found on a type may have changed since. */
static int fastdl_read_signature_(PyObject *function, uint32_t *refused)
{
    (void)function;
    (void)refused;
    return 0;
}

#else

/* Removes the keywords that a code object has from *refused. */
static int fastdl_read_code_(PyObject *object, uint32_t *refused)
{
    const PyCodeObject *code = (const PyCodeObject *)object;
    PyObject *names = fastdl_attribute_(object, "co_varnames");
    Py_ssize_t first = code->co_posonlyargcount > 0 ? code->co_posonlyargcount : 1; /* `self` */
    Py_ssize_t end = code->co_argcount + code->co_kwonlyargcount;
    if (names == NULL || !PyTuple_Check(names)) {
        Py_XDECREF(names);
        return -1;
    }
    if (code->co_flags & CO_VARKEYWORDS || end > PyTuple_GET_SIZE(names))
        *refused = 0;
    for (Py_ssize_t i = first; i < end && *refused != 0; i++)
        for (const fastdl_keyword_fact *row = fastdl_keywords(); row->name != NULL; row++)
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), row->name) == 0)
                *refused &= ~row->keyword;
    Py_DECREF(names);
    return 0;
}

/* Finds the keywords that a method does not accept, from its signature: functions of Python and
 * Cython have one, and the flags of a C function show whether it accepts any. For other functions
 * nothing is found, and each call has to try. An exception of a call is never recorded for the
 * type: it may come from another function, to which the keywords were forwarded for this one
 * object. */
static int fastdl_read_signature_(PyObject *function, uint32_t *refused)
{
    static const char cython[] = "cython_function_or_method";
    const char *kind = Py_TYPE(function)->tp_name, *point = strrchr(kind, '.');
    *refused = FASTDL_KEYWORD_STREAM | FASTDL_KEYWORD_MAX_VERSION | FASTDL_KEYWORD_DL_DEVICE |
               FASTDL_KEYWORD_COPY | FASTDL_KEYWORD_VERSION;
    if (PyFunction_Check(function) || strcmp(point == NULL ? kind : point + 1, cython) == 0) {
        PyObject *code = fastdl_attribute_(function, "__code__");
        int result = code == NULL ? -1 : 0;
        if (result == 0 && PyCode_Check(code))
            result = fastdl_read_code_(code, refused);
        else
            *refused = 0;
        Py_XDECREF(code);
        return result;
    }
    if (Py_TYPE(function) != &PyMethodDescr_Type ||
        ((PyMethodDescrObject *)function)->d_method->ml_flags & METH_KEYWORDS)
        *refused = 0;
    return 0;
}

#endif

/* The start of the quoted keyword in the message of a TypeError; NULL if it names none. */
static const char *fastdl_named_keyword_(const char *message)
{
    static const char unexpected[] = "unexpected keyword argument '";
    const char *keyword = strstr(message, unexpected);
    if (keyword != NULL)
        return keyword + sizeof(unexpected) - 1;
    return message[0] == '\'' && strstr(message, "' is an invalid keyword argument") != NULL
               ? message + 1
               : NULL;
}

/* Texts in messages of TypeErrors about the keywords of a call. */
static const char *const fastdl_refusals_[] = {
    "unexpected keyword argument",
    "invalid keyword argument",
    "no keyword arguments",
    "keyword argument (", /* "takes at most 1 keyword argument (2 given)" */
    "keyword arguments (",
    "passed as keyword arguments", /* "got some positional-only arguments passed as ..." */
    "incompatible function arguments",
};

/* Which of `keywords` to drop after `__dlpack__` has raised a TypeError with this message; 0 if the
 * error is not about keywords. It is if the message has the form used by CPython, Cython, pybind11
 * or nanobind; any keyword that it names was passed; and it was raised before any frame of the
 * producer ran, or names `__dlpack__`, to which the producer has forwarded the keywords. */
FASTDL_SHARED_ uint32_t fastdl_refused_keyword(const char *message, int has_frames,
                                               uint32_t keywords)
{
    const fastdl_keyword_fact *row = fastdl_keywords();
    const char *named = fastdl_named_keyword_(message);
    size_t i = 0, count = sizeof(fastdl_refusals_) / sizeof(fastdl_refusals_[0]);
    while (i < count && strstr(message, fastdl_refusals_[i]) == NULL)
        i++;
    if (i == count || (has_frames && strstr(message, "__dlpack__(") == NULL))
        return 0;
    for (; row->name != NULL; row++) {
        size_t length = strlen(row->name);
        if (keywords & row->keyword &&
            (named == NULL || (strncmp(named, row->name, length) == 0 && named[length] == '\'')))
            return row->keyword;
    }
    return 0;
}

/* fastdl_refused_keyword for the pending exception, which is cleared if it is about a keyword. */
static uint32_t fastdl_take_refusal_(uint32_t keywords)
{
    PyObject *type, *value, *traceback, *text;
    const char *message;
    Py_ssize_t length;
    uint32_t refused = 0;
    if (keywords == 0 || !PyErr_ExceptionMatches(PyExc_TypeError))
        return 0;
    PyErr_Fetch(&type, &value, &traceback);
    text = value == NULL ? NULL : PyObject_Str(value);
    message = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, &length);
    if (message != NULL)
        refused = fastdl_refused_keyword(message, traceback != NULL, keywords);
    Py_XDECREF(text);
    fastdl_restore_(type, value, traceback);
    if (refused != 0)
        (void)fastdl_clear_if_(PyExc_TypeError);
    return refused;
}

/* Calls `__dlpack__` with these keywords, among them `stream`, for the device's default stream. */
static PyObject *fastdl_call_with_stream_(const fastdl_method_ *method, const fastdl_names_ *names,
                                          uint32_t keywords, int32_t device_type)
{
    int is_cuda = fastdl_ordering_(device_type) == FASTDL_STREAM_CUDA;
    PyObject *values[2] = {is_cuda ? names->one : names->zero, names->version};
    Py_ssize_t count = keywords & FASTDL_KEYWORD_MAX_VERSION ? 2 : 1;
    PyObject *passed = PyTuple_Pack(count, names->keywords[FASTDL_AT_STREAM_],
                                    names->keywords[FASTDL_AT_MAX_VERSION_]);
    PyObject *capsule = passed == NULL ? NULL : fastdl_call_(method, passed, values, count);
    Py_XDECREF(passed);
    return capsule;
}

/* Whether a type follows the draft of 2022, which only the package implements, in Python: 1, 0, or
 * -1 with an exception. */
static int fastdl_is_of_draft_(PyTypeObject *type)
{
    PyObject *info = fastdl_type_lookup_(type, "__dlpack_info__");
    Py_XDECREF(info);
    return PyErr_Occurred() ? -1 : info != NULL;
}

/* Calls `__dlpack__` of an object with data on that device, with as many keywords as it accepts. A
 * new capsule, or NULL with an exception; NULL without an exception if `for_package` and the type
 * follows the draft. */
static PyObject *fastdl_negotiate_(PyObject *obj, const fastdl_method_ *method,
                                   const fastdl_names_ *names, uint32_t refused,
                                   int32_t device_type, int for_package)
{
    uint32_t keywords = FASTDL_KEYWORD_MAX_VERSION;
    if (FASTDL_UNLIKELY_(fastdl_is_ordered_(device_type)))
        keywords |= FASTDL_KEYWORD_STREAM; /* dropping it is safe: the default stream is implied */
    for (;;) {
        PyObject *capsule;
        uint32_t dropped = keywords & refused;
        keywords &= ~dropped;
        if (FASTDL_UNLIKELY_(dropped & FASTDL_KEYWORD_MAX_VERSION) && for_package &&
            fastdl_is_of_draft_(Py_TYPE(obj)) != 0)
            return NULL;
        capsule = keywords == 0 ? fastdl_call_(method, NULL, NULL, 0)
                  : FASTDL_LIKELY_(keywords == FASTDL_KEYWORD_MAX_VERSION)
                      ? fastdl_call_(method, names->max_version, &names->version, 1)
                      : fastdl_call_with_stream_(method, names, keywords, device_type);
        if (FASTDL_LIKELY_(capsule != NULL))
            return capsule;
        dropped = fastdl_take_refusal_(keywords);
        if (dropped == 0)
            return NULL;
        refused |= dropped;
    }
}

/* 0 if `__dlpack_device__` and `__dlpack__` of an object may be called; -1 with an exception if its
 * memory was released or its elements are more than numbers. `facts` are those of its type, which
 * need not have `__dlpack__` (a proxy). Call it before each such call. */
FASTDL_SHARED_ int fastdl_check_exporter_(PyObject *obj, uint32_t facts)
{
    PyObject *deleted;
    int found;
    if ((facts & FASTDL_TYPE_ASK_MEANING || !(facts & FASTDL_TYPE_HAS_DLPACK)) &&
        fastdl_check_meaning_(obj, facts) < 0)
        return -1;
    if (!(facts & FASTDL_TYPE_ASK_DELETED))
        return 0;
    deleted = PyObject_CallMethod(obj, "is_deleted", NULL);
    if (deleted == NULL)
        return fastdl_clear_if_(PyExc_Exception) ? 0 : -1;
    found = deleted == Py_True;
    Py_DECREF(deleted);
    if (found)
        fastdl_raise_(PyExc_BufferError,
                      "expected an array with memory, got one that was deleted, perhaps donated to "
                      "a function: use what that function returned");
    return found ? -1 : 0;
}

/* Requests a capsule from `__dlpack__`: 1, with a new capsule in *capsule; or -1 with an exception.
 * *device is the result of `__dlpack_device__`. `record` is that of the type. 0 if there is no
 * `__dlpack__` (device[0] is 0 then), or with `host_only` (for the package) if the data is not in
 * host memory or the type follows the draft of 2022. */
FASTDL_SHARED_ int fastdl_request_capsule_(PyObject *obj, const fastdl_record *record,
                                           int host_only, int32_t *device, PyObject **capsule)
{
    const fastdl_names_ *names = fastdl_get_names_();
    fastdl_method_ method;
    int result = names == NULL ? -1 : fastdl_find_method_(obj, names->dlpack, &method);
    *capsule = NULL;
    device[0] = device[1] = 0;
    if (FASTDL_LIKELY_(result > 0)) {
        if (FASTDL_UNLIKELY_(fastdl_check_exporter_(obj, record->facts) < 0 ||
                             fastdl_request_device_(obj, names, device) < 0)) {
            result = -1;
        } else if (host_only && !fastdl_find_device(device[0])->host) {
            result = 0;
        } else {
            *capsule =
                fastdl_negotiate_(obj, &method, names, record->refused, device[0], host_only);
            result = *capsule != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
        }
        Py_DECREF(method.callable);
    }
    return result;
}

/* Consumes a capsule: *versioned or *legacy is the managed tensor that it held, both NULL if it
 * holds no tensor, or if `host_only` is set and the tensor is not in ordinary host memory: the
 * capsule is then untouched. Its destructor, which has nothing left to do, is not called: some
 * raise and clear an exception to detect that. */
FASTDL_SHARED_ void fastdl_open_capsule_(PyObject *capsule, int host_only,
                                         DLManagedTensorVersioned **versioned,
                                         DLManagedTensor **legacy)
{
    const char *name;
    *versioned = NULL;
    *legacy = NULL;
    if (!PyCapsule_CheckExact(capsule))
        return;
#ifdef Py_GIL_DISABLED
    Py_BEGIN_CRITICAL_SECTION(capsule); /* else two threads could both consume it */
#endif
    name = PyCapsule_GetName(capsule);
    if (name != NULL && strcmp(name, "dltensor_versioned") == 0) {
        DLManagedTensorVersioned *found =
            (DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, name);
        /* With another major version only the offset of the deleter is known. */
        if (!host_only || found->version.major != FASTDL_DLPACK_MAJOR ||
            found->dl_tensor.device.device_type == kDLCPU) {
            *versioned = found;
            PyCapsule_SetName(capsule, "used_dltensor_versioned");
            PyCapsule_SetDestructor(capsule, NULL);
        }
    } else if (name != NULL && strcmp(name, "dltensor") == 0) {
        DLManagedTensor *found = (DLManagedTensor *)PyCapsule_GetPointer(capsule, name);
        if (!host_only || found->dl_tensor.device.device_type == kDLCPU) {
            *legacy = found;
            PyCapsule_SetName(capsule, "used_dltensor");
            PyCapsule_SetDestructor(capsule, NULL);
        }
    }
#ifdef Py_GIL_DISABLED
    Py_END_CRITICAL_SECTION();
#endif
}

/* Takes the managed tensor out of a capsule, which is consumed. */
static int fastdl_take_(PyObject *obj, PyObject *capsule, uint32_t facts,
                        DLManagedTensorVersioned **out)
{
    DLManagedTensorVersioned *versioned;
    DLManagedTensor *legacy;
    fastdl_open_capsule_(capsule, 0, &versioned, &legacy);
    if (versioned != NULL || legacy != NULL)
        return fastdl_adopt_(obj, versioned, legacy, facts, out);
    fastdl_raise_answer_(PyExc_TypeError,
                         "expected a new DLPack capsule from __dlpack__ of '%U', got %R",
                         Py_TYPE(obj), capsule);
    return -1;
}
