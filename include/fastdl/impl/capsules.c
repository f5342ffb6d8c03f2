/* SPDX-License-Identifier: Apache-2.0 */

/* ---- owning a tensor by `__dlpack__` ---- */

/* A managed tensor around one that has no deleter, is of the legacy form, or has NULL strides. */
typedef struct {
    DLManagedTensorVersioned managed;
    DLManagedTensorVersioned *versioned; /* one of these two, or neither */
    DLManagedTensor *legacy;
    PyObject *keep;  /* the producer, if there is no deleter; or NULL */
    int64_t dims[1]; /* room for the strides, and for a copy of the shape */
} fastdl_wrapper_;

/* Releases an object, with the pending exception set aside. */
FASTDL_SHARED_ void fastdl_release_object_(PyObject *object)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Py_DECREF(object);
    PyErr_Restore(type, value, traceback);
}

/* A deleter, so it is called on any thread, with or without a thread state. Away from the home the
 * kept object is leaked. */
static void fastdl_delete_wrapper_(DLManagedTensorVersioned *self)
{
    fastdl_wrapper_ *wrapper = (fastdl_wrapper_ *)self;
    if (wrapper->versioned != NULL && wrapper->versioned->deleter != NULL)
        wrapper->versioned->deleter(wrapper->versioned);
    if (wrapper->legacy != NULL && wrapper->legacy->deleter != NULL)
        wrapper->legacy->deleter(wrapper->legacy);
    if (wrapper->keep != NULL) {
        PyGILState_STATE state;
        int entered = fastdl_enter_home_(&state);
        if (entered >= 0)
            fastdl_release_object_(wrapper->keep);
        if (entered > 0)
            PyGILState_Release(state);
    }
    free(wrapper);
}

/* Fills in a managed tensor, which is its own context. */
static void fastdl_start_managed_(DLManagedTensorVersioned *managed,
                                  void (*deleter)(DLManagedTensorVersioned *),
                                  const DLTensor *tensor, uint64_t flags)
{
    managed->version.major = FASTDL_DLPACK_MAJOR;
    managed->version.minor = FASTDL_DLPACK_MINOR;
    managed->manager_ctx = managed;
    managed->deleter = deleter;
    managed->flags = flags;
    managed->dl_tensor = *tensor;
}

/* A new wrapper, which does not own anything yet: see fastdl_adopt_. NULL with MemoryError. */
static fastdl_wrapper_ *fastdl_new_wrapper_(const DLTensor *tensor, uint64_t flags)
{
    size_t dims = (size_t)tensor->ndim; /* 0 to 64: checked */
    fastdl_wrapper_ *wrapper =
        (fastdl_wrapper_ *)malloc(sizeof(fastdl_wrapper_) + 2 * dims * sizeof(int64_t));
    if (wrapper == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memset(wrapper, 0, sizeof(fastdl_wrapper_));
    fastdl_start_managed_(&wrapper->managed, fastdl_delete_wrapper_, tensor, flags);
    if (tensor->strides == NULL) {
        fastdl_compact_strides(tensor->ndim, tensor->shape, wrapper->dims);
        wrapper->managed.dl_tensor.strides = wrapper->dims;
    }
    return wrapper;
}

/* A managed tensor of a checked description. NULL with MemoryError. */
static DLManagedTensorVersioned *fastdl_export_(const fastdl_description *description)
{
    fastdl_wrapper_ *wrapper = fastdl_new_wrapper_(&description->dl, description->flags);
    DLTensor *dl = wrapper == NULL ? NULL : &wrapper->managed.dl_tensor;
    size_t dims = (size_t)description->dl.ndim;
    if (wrapper == NULL)
        return NULL;
    if (dl->strides != wrapper->dims)
        memcpy(wrapper->dims, dl->strides, dims * sizeof(int64_t));
    dl->strides = wrapper->dims;
    if (dims > 0)
        memcpy(wrapper->dims + dims, dl->shape, dims * sizeof(int64_t));
    dl->shape = wrapper->dims + dims;
    Py_XINCREF(description->owner);
    wrapper->keep = description->owner;
    return &wrapper->managed;
}

/* Runs a deleter, if there is one, with the pending exception set aside. Needs a thread state, so
 * the object that a wrapper keeps alive is released here. */
FASTDL_SHARED_ void fastdl_discard_(DLManagedTensorVersioned *versioned, DLManagedTensor *legacy)
{
    PyObject *type, *value, *traceback, *keep = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    if (versioned != NULL && versioned->deleter == fastdl_delete_wrapper_) {
        keep = ((fastdl_wrapper_ *)versioned)->keep;
        ((fastdl_wrapper_ *)versioned)->keep = NULL;
    }
    if (versioned != NULL && versioned->deleter != NULL)
        versioned->deleter(versioned);
    if (legacy != NULL && legacy->deleter != NULL)
        legacy->deleter(legacy);
    Py_XDECREF(keep);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL); /* nothing can catch it */
    PyErr_Restore(type, value, traceback);
}

/* Whether a refused tensor is the legacy struct in a capsule with the versioned name, so that its
 * `deleter` field is not a function: a DLManagedTensor has ndim and dtype there, and the low half
 * of a function address is never a number up to 64. */
FASTDL_SHARED_ int fastdl_is_really_legacy(const DLManagedTensorVersioned *managed)
{
    return (uint32_t)(uintptr_t)managed->deleter <= FASTDL_MAX_NDIM && managed->deleter != NULL;
}

/* Whether a refused tensor is the versioned struct in a capsule with the legacy name. The version
 * field overlaps `data` of a DLManagedTensor (and, on 32 bits, the device type). `data` by itself
 * does not decide: without elements it may be any number, such as the alignment in an empty Rust
 * vector. But the flags field then overlaps the address of `shape`, or on 32 bits a dtype; and
 * without dimensions, when `shape` is NULL, the deleter field is a dtype above 32 zero bits. */
FASTDL_SHARED_ int fastdl_is_really_versioned(const DLManagedTensor *managed)
{
    DLManagedTensorVersioned other;
    memcpy(&other, managed, offsetof(DLManagedTensorVersioned, dl_tensor));
    if (other.version.major < 1 || other.version.major > 9 || other.version.minor > 255 ||
        other.flags >= 4096)
        return 0;
    return other.deleter == NULL || (uint32_t)(uintptr_t)other.deleter != 0;
}

/* Refuses a tensor of another major version, where only the deleter may be used: 0, or -1 with
 * BufferError. */
FASTDL_SHARED_ int fastdl_check_version(const DLManagedTensorVersioned *managed)
{
    if (managed->version.major == FASTDL_DLPACK_MAJOR)
        return 0;
    fastdl_raise_(PyExc_BufferError,
                  "expected DLPack %d.x, got a tensor of version %u.%u: request "
                  "max_version=(%d, %d) from its producer",
                  FASTDL_DLPACK_MAJOR, (unsigned)managed->version.major,
                  (unsigned)managed->version.minor, FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR);
    return -1;
}

/* How work on memory of a device is ordered: a fastdl_stream_kind. Pinned memory is host memory,
 * which a consumer need not order. */
static int fastdl_ordering_(int32_t device_type)
{
    const fastdl_device_fact *fact = fastdl_find_device(device_type);
    return fact->host ? (int)FASTDL_STREAM_NONE : (int)fact->stream;
}

/* Whether a consumer of memory of that device passes a stream. */
static int fastdl_is_ordered_(int32_t device_type)
{
    int ordering = fastdl_ordering_(device_type);
    return ordering == FASTDL_STREAM_CUDA || ordering == FASTDL_STREAM_ROCM;
}

/* Refuses data on a device with streams if the library of `obj` does not order its work. */
static int fastdl_refuse_unordered_(PyObject *obj, int32_t device_type)
{
    if (!fastdl_is_ordered_(device_type))
        return 0;
    fastdl_raise_about_(PyExc_BufferError,
                        "'%U' ignores `stream`, so its pending work is not ordered: synchronize "
                        "first, then pass fastdl.from_dlpack(x, stream=-1)",
                        Py_TYPE(obj));
    return -1;
}

/* Turns a managed tensor that was just received into one with the guarantees of fastdl_own. Steals
 * `versioned` or `legacy` (the other is NULL), even on failure. `facts` are those of the type of
 * `obj`, which may be NULL for a tensor that was allocated. */
static int fastdl_adopt_(PyObject *obj, DLManagedTensorVersioned *versioned,
                         DLManagedTensor *legacy, uint32_t facts, DLManagedTensorVersioned **out)
{
    const DLTensor *tensor = versioned != NULL ? &versioned->dl_tensor : &legacy->dl_tensor;
    int endless = versioned != NULL ? versioned->deleter == NULL : legacy->deleter == NULL;
    uint64_t flags;
    fastdl_wrapper_ *wrapper = NULL;
    PyObject *keeper = NULL;
    fastdl_layout layout;
    fastdl_fault fault;
    if (!fastdl_has_succeeded_() || (versioned != NULL && fastdl_check_version(versioned) < 0))
        goto failed;
    flags = versioned != NULL                 ? versioned->flags
            : (facts & FASTDL_TYPE_READ_ONLY) ? DLPACK_FLAG_BITMASK_READ_ONLY
                                              : 0;
    fault = fastdl_check(tensor, flags, &layout);
    if (fault != FASTDL_OK) {
        fastdl_raise_fault(fault, tensor);
        goto failed;
    }
    if (facts & FASTDL_TYPE_NO_STREAM &&
        fastdl_refuse_unordered_(obj, (int32_t)tensor->device.device_type) < 0)
        goto failed;
    if (versioned == NULL || endless || facts & FASTDL_TYPE_KEEP ||
        (tensor->strides == NULL && tensor->ndim > 0)) {
        wrapper = fastdl_new_wrapper_(tensor, flags);
        if (wrapper == NULL)
            goto failed;
        tensor = &wrapper->managed.dl_tensor; /* which has strides */
        if (obj != NULL && (endless || facts & FASTDL_TYPE_KEEP)) {
            keeper = fastdl_keeper_(obj, facts);
            if (keeper == NULL)
                goto failed;
        }
    }
    if (facts & FASTDL_TYPE_ASK_BITS && fastdl_check_values_(obj, tensor, facts) < 0)
        goto failed;
    if (wrapper == NULL) {
        *out = versioned;
        return 0;
    }
    wrapper->versioned = versioned;
    wrapper->legacy = legacy;
    wrapper->keep = keeper;
    *out = &wrapper->managed;
    return 0;

failed:
    free(wrapper);
    if (keeper != NULL)
        fastdl_release_object_(keeper);
    if (versioned != NULL ? !fastdl_is_really_legacy(versioned)
                          : !fastdl_is_really_versioned(legacy))
        fastdl_discard_(versioned, legacy);
    return -1;
}

/* Whether data delivered on a device is ordered as was negotiated for `announced`. The device in
 * the capsule is authoritative: torch announces pinned memory as such and delivers it as plain host
 * memory; and a CPU can read managed memory, so its producer need not copy it. */
FASTDL_SHARED_ int fastdl_is_as_announced_(const int32_t *announced, DLDevice delivered)
{
    int ordering = fastdl_ordering_(announced[0]);
    if (announced[0] == kDLCPU && delivered.device_type == kDLCUDAManaged)
        return 1;
    if (fastdl_ordering_((int32_t)delivered.device_type) != ordering)
        return 0;
    return (ordering != FASTDL_STREAM_CUDA && ordering != FASTDL_STREAM_ROCM) ||
           delivered.device_id == announced[1] || announced[0] == kDLCUDAManaged;
}

/* Slow path of fastdl_read_device_: the type may be an enum member, and the id may be None. */
static int fastdl_read_any_device_(PyObject *answer, int32_t *device)
{
    if (PySequence_Size(answer) != 2)
        return -1;
    for (int i = 0; i < 2; i++) {
        PyObject *number, *item = PySequence_GetItem(answer, i);
        long value = -1;
        if (item != NULL && i == 0 && !PyIndex_Check(item)) {
            PyObject *member = fastdl_attribute_(item, "value");
            Py_DECREF(item);
            item = member;
        }
        if (item == Py_None && i == 1) { /* some return it if there is only one device */
            Py_DECREF(item);
            item = PyLong_FromLong(0);
        }
        number = item == NULL || PyBool_Check(item) ? NULL : PyNumber_Index(item);
        Py_XDECREF(item);
        if (number != NULL)
            value = PyLong_AsLong(number);
        Py_XDECREF(number);
        if (number == NULL || PyErr_Occurred() || value < INT32_MIN || value > INT32_MAX)
            return -1;
        device[i] = (int32_t)value;
    }
    return 0;
}

/* Reads (device type, device id). -1, with or without an exception, if it is anything else. */
static int fastdl_read_device_(PyObject *answer, const fastdl_names_ *names, int32_t *device)
{
    int64_t numbers[2];
    if (FASTDL_UNLIKELY_(!fastdl_read_plain_pair_(answer, names, numbers)))
        return fastdl_read_any_device_(answer, device);
    device[0] = (int32_t)numbers[0];
    device[1] = (int32_t)numbers[1];
    return device[0] == numbers[0] && device[1] == numbers[1] ? 0 : -1;
}

/* The result of an object's `__dlpack_device__`. */
static int fastdl_request_device_(PyObject *obj, const fastdl_names_ *names, int32_t *device)
{
    fastdl_method_ method;
    PyObject *answer;
    int result = fastdl_find_method_(obj, names->dlpack_device, &method);
    if (FASTDL_UNLIKELY_(result <= 0)) {
        if (result == 0)
            fastdl_raise_about_(PyExc_TypeError,
                                "expected a DLPack producer, got '%U', which has __dlpack__ but "
                                "not __dlpack_device__",
                                Py_TYPE(obj));
        return -1;
    }
    answer = fastdl_call_(&method, NULL, NULL, 0);
    Py_DECREF(method.callable);
    if (answer == NULL)
        return -1;
    result = fastdl_read_device_(answer, names, device);
    if (FASTDL_UNLIKELY_(result < 0) && !PyErr_ExceptionMatches(PyExc_MemoryError) &&
        fastdl_clear_if_(PyExc_Exception))
        fastdl_raise_answer_(PyExc_TypeError,
                             "expected (device type, device id) from __dlpack_device__ of '%U', "
                             "got %R",
                             Py_TYPE(obj), answer);
    Py_DECREF(answer);
    return result;
}
