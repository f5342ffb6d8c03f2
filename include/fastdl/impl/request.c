/* SPDX-License-Identifier: Apache-2.0 */

/* ---- the arguments of `__dlpack__` ---- */

#ifdef Py_LIMITED_API
#define FASTDL_SIZE_OF_ PyTuple_Size
#define FASTDL_ITEM_OF_ PyTuple_GetItem
#else
#define FASTDL_SIZE_OF_ PyTuple_GET_SIZE
#define FASTDL_ITEM_OF_ PyTuple_GET_ITEM
#endif

/* Reads a tuple of two ints: 1; 0 for subclasses, other objects and larger numbers. CPython has one
 * object for each small int, so those of (1, 0) are known. */
static int fastdl_read_plain_pair_(PyObject *pair, const fastdl_names_ *names, int64_t *numbers)
{
    PyObject *first, *second;
    int overflow[2] = {0, 0};
    if (FASTDL_UNLIKELY_(!PyTuple_CheckExact(pair) || FASTDL_SIZE_OF_(pair) != 2))
        return 0;
    first = FASTDL_ITEM_OF_(pair, 0);
    second = FASTDL_ITEM_OF_(pair, 1);
    if (FASTDL_UNLIKELY_(!PyLong_CheckExact(first) || !PyLong_CheckExact(second)))
        return 0;
    numbers[0] = first == names->one ? 1 : PyLong_AsLongLongAndOverflow(first, &overflow[0]);
    numbers[1] = second == names->zero ? 0 : PyLong_AsLongLongAndOverflow(second, &overflow[1]);
    return !overflow[0] && !overflow[1];
}

/* Reads an int of 64 bits: 0; 1 if it has more, saturated; -1 with TypeError, whose format has a
 * %R, or with what the object raised. */
static int fastdl_read_int_(PyObject *value, const char *format, int64_t *number)
{
    PyObject *index;
    int overflow;
    if (PyBool_Check(value) || !PyIndex_Check(value)) {
        PyErr_Format(PyExc_TypeError, format, value);
        return -1;
    }
    index = PyNumber_Index(value);
    if (index == NULL)
        return -1;
    *number = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow != 0)
        *number = overflow > 0 ? INT64_MAX : INT64_MIN;
    return PyErr_Occurred() ? -1 : overflow != 0;
}

/* Reads two ints from a tuple or a list: 0; -1 with TypeError, also for any other object, or with
 * what an item raised. */
static int fastdl_read_pair_(PyObject *pair, const char *format, const char *item_format,
                             int64_t *numbers)
{
    Py_ssize_t size = -1;
    if (PyTuple_Check(pair) || PyList_Check(pair))
        size = PySequence_Size(pair);
    if (size != 2) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, format, pair);
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        PyObject *item = PySequence_GetItem(pair, i);
        int failed = item == NULL || fastdl_read_int_(item, item_format, &numbers[i]) < 0;
        Py_XDECREF(item);
        if (failed)
            return -1;
    }
    return 0;
}

static int fastdl_read_max_version_(PyObject *max_version, int64_t *numbers)
{
    if (fastdl_read_pair_(max_version, "expected max_version as (major, minor), got %R",
                          "expected an int in max_version, got %R", numbers) < 0)
        return -1;
    if (numbers[0] >= 0 && numbers[1] >= 0)
        return 0;
    PyErr_Format(PyExc_TypeError, "expected max_version with numbers of at least 0, got %R",
                 max_version);
    return -1;
}

static int fastdl_read_target_(PyObject *dl_device, DLDevice *target)
{
    int64_t numbers[2] = {0, 0};
    PyObject *pair = dl_device, *method = NULL;
    int failed, has_answered;
    Py_INCREF(pair);
    if (!PyTuple_Check(dl_device) && !PyList_Check(dl_device) &&
        fastdl_has_names_(Py_TYPE(dl_device)) == 0) /* a tensor is no device */
        method = fastdl_type_lookup_(Py_TYPE(dl_device), "__dlpack_device__");
    has_answered = method != NULL;
    if (has_answered) {
        Py_DECREF(method);
        Py_DECREF(pair);
        pair = PyObject_CallMethod(dl_device, "__dlpack_device__", NULL);
    }
    failed = pair == NULL || PyErr_Occurred() ||
             fastdl_read_pair_(pair, "expected dl_device as (type, id), got %R",
                               "expected ints in dl_device, got %R", numbers) < 0;
    Py_XDECREF(pair);
    if (failed)
        return -1;
    if (numbers[0] == kDLCPU && has_answered)
        numbers[1] = 0; /* whatever number its library uses */
    if (numbers[0] == kDLCPU && numbers[1] != 0) {
        PyErr_Format(PyExc_BufferError,
                     "cannot export to dl_device %R: expected the one CPU, (1, 0)", dl_device);
        return -1;
    }
    if (numbers[0] <= 0 || numbers[0] > INT32_MAX || numbers[1] < INT32_MIN ||
        numbers[1] > INT32_MAX) {
        PyErr_Format(PyExc_BufferError, "cannot export to dl_device %R: there is no such device",
                     dl_device);
        return -1;
    }
    target->device_type = (DLDeviceType)numbers[0];
    target->device_id = (int32_t)numbers[1];
    return 0;
}

static int fastdl_read_stream_(PyObject *value, int64_t *stream)
{
    int result = fastdl_read_int_(value, "expected a stream as an int or None, got %R", stream);
    if (result < 0 || (result == 0 && *stream >= -1))
        return result;
    PyErr_Format(PyExc_ValueError, "expected a stream handle from 0 to 2**63 - 1, or -1, got %R",
                 value);
    return -1;
}

static int fastdl_read_copy_(PyObject *value, int *copy)
{
    *copy = value == Py_True;
    if (PyBool_Check(value))
        return 0;
    PyErr_Format(PyExc_TypeError, "expected copy=None, True or False, got %R", value);
    return -1;
}

/* Reads the given arguments, in this order: the first wrong one is reported. */
static int fastdl_read_given_(PyObject *const *given, fastdl_request_ *request)
{
    if (given[FASTDL_AT_MAX_VERSION_] != NULL &&
        fastdl_read_max_version_(given[FASTDL_AT_MAX_VERSION_], request->max_version) < 0)
        return -1;
    if (given[FASTDL_AT_COPY_] != NULL &&
        fastdl_read_copy_(given[FASTDL_AT_COPY_], &request->copy) < 0)
        return -1;
    if (given[FASTDL_AT_DL_DEVICE_] != NULL &&
        fastdl_read_target_(given[FASTDL_AT_DL_DEVICE_], &request->device) < 0)
        return -1;
    request->has_stream = given[FASTDL_AT_STREAM_] != NULL;
    if (!request->has_stream)
        return 0;
    return fastdl_read_stream_(given[FASTDL_AT_STREAM_], &request->stream);
}

/* The index of a keyword of `__dlpack__`, or FASTDL_KEYWORDS_ for any other name. Callers in Python
 * intern their names; some in C (NumPy 2.2) do not. */
static int fastdl_keyword_of_(PyObject *name, const fastdl_names_ *names)
{
    int k = 0;
    while (k < FASTDL_KEYWORDS_ && name != names->keywords[k])
        k++;
    if (FASTDL_UNLIKELY_(k == FASTDL_KEYWORDS_))
        for (k = 0; k < FASTDL_KEYWORDS_; k++)
            if (PyUnicode_CompareWithASCIIString(name, fastdl_keywords()[k].name) == 0)
                break;
    return k;
}

/* Sets TypeError for a call with positional arguments or an unknown keyword: -1. */
static int fastdl_raise_wrong_call_(Py_ssize_t count, PyObject *name)
{
    if (count > 0)
        PyErr_Format(PyExc_TypeError, "__dlpack__() takes no positional arguments, got %zd", count);
    else
        PyErr_Format(PyExc_TypeError, "__dlpack__() got an unexpected keyword argument '%U'", name);
    return -1;
}

/* Reads and checks the arguments of `__dlpack__`, as a vectorcall passes them: 1 if they request a
 * versioned capsule and nothing else, 0, or -1 with an exception. *draft is the value of `version`,
 * borrowed, or NULL; with a NULL `draft` that keyword is unknown. */
FASTDL_SHARED_ int fastdl_read_request_(PyObject *const *values, Py_ssize_t count, PyObject *names,
                                        fastdl_request_ *request, PyObject **draft)
{
    const fastdl_names_ *known = (const fastdl_names_ *)fastdl_atomic_load_(&fastdl_state_.home);
    Py_ssize_t named = names == NULL ? 0 : FASTDL_SIZE_OF_(names);
    PyObject *given[FASTDL_KEYWORDS_] = {NULL}; /* what is not read yet */
    int is_read = 1;
    if (FASTDL_UNLIKELY_(known == NULL) && (known = fastdl_get_names_()) == NULL)
        return -1;
    if (FASTDL_UNLIKELY_(count > 0))
        return fastdl_raise_wrong_call_(count, NULL);
    request->max_version[0] = request->max_version[1] = -1;
    request->copy = -1;
    request->device.device_type = (DLDeviceType)0;
    request->has_stream = 0;
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = FASTDL_ITEM_OF_(names, i);
        int k = fastdl_keyword_of_(name, known);
        if (FASTDL_UNLIKELY_(k == FASTDL_KEYWORDS_ || (k == FASTDL_AT_VERSION_ && draft == NULL)))
            return fastdl_raise_wrong_call_(0, name);
        if (values[i] == Py_None ||
            (k == FASTDL_AT_MAX_VERSION_ &&
             fastdl_read_plain_pair_(values[i], known, request->max_version) &&
             (request->max_version[0] | request->max_version[1]) >= 0))
            continue;
        given[k] = values[i];
        is_read = 0;
    }
    if (draft != NULL)
        *draft = given[FASTDL_AT_VERSION_];
    return FASTDL_LIKELY_(is_read) ? request->max_version[0] >= FASTDL_DLPACK_MAJOR
                                   : fastdl_read_given_(given, request);
}
