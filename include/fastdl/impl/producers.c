/* SPDX-License-Identifier: Apache-2.0 */

/* ---- producers ---- */

/* Ensures that an exception is set after a producer's function has failed: -1. */
static int fastdl_describe_failed_(PyObject *self)
{
    if (!PyErr_Occurred())
        fastdl_raise_about_(PyExc_BufferError,
                            "the function that describes '%U' failed without setting an "
                            "exception",
                            Py_TYPE(self));
    return -1;
}

/* Calls a producer's function that may be nested in calls of others: RecursionError before the
 * stack overflows. Each call counts as 8, since CPython 3.12 and 3.13 assume that calls need little
 * stack. */
static int fastdl_describe_deep_(PyObject *self, fastdl_describer describe,
                                 fastdl_description *description)
{
    int count = 0, result = -1;
    while (count < 8 && Py_EnterRecursiveCall(" while describing a tensor") == 0)
        count++;
    if (count == 8)
        result = describe(self, description);
    while (count-- > 0)
        Py_LeaveRecursiveCall();
    return result;
}

/* Calls a producer's function for the tensor of an object, and checks the result: 0, or -1 with an
 * exception. */
static int fastdl_describe_(PyObject *self, fastdl_describer describe,
                            fastdl_description *description)
{
    fastdl_layout layout;
    fastdl_fault fault;
    if (fastdl_get_names_() == NULL)
        return -1;
    if (fastdl_call_describer_(self, describe, description) < 0)
        return fastdl_describe_failed_(self);
    description->flags &=
        DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
    fault = fastdl_check(&description->dl, description->flags, &layout);
    if (fault != FASTDL_OK) {
        fastdl_raise_fault(fault, &description->dl);
        return -1;
    }
    fastdl_normalise_(&description->dl);
    return 0;
}

static int fastdl_produce_(PyObject *self, fastdl_describer describe,
                           DLManagedTensorVersioned **out)
{
    fastdl_description description;
    if (fastdl_describe_(self, describe, &description) < 0)
        return -1;
    *out = fastdl_export_(&description);
    return *out == NULL ? -1 : 0;
}

/* Sets the exception for a tensor that is not lent: -1. */
static int fastdl_refuse_to_lend_(PyObject *self, fastdl_description *description, int failed)
{
    fastdl_layout layout;
    fastdl_fault fault;
    if (failed)
        return fastdl_describe_failed_(self);
    fault = fastdl_check(&description->dl, description->flags, &layout);
    if (fault != FASTDL_OK)
        fastdl_raise_fault(fault, &description->dl);
    else if (description->flags != 0)
        fastdl_raise_about_(PyExc_BufferError,
                            "a tensor of '%U' is read-only or padded, which a borrowed DLTensor "
                            "cannot express: call __dlpack__(max_version=(1, 0))",
                            Py_TYPE(self));
    else
        fastdl_raise_about_(PyExc_BufferError,
                            "'%U' stores no shape and strides that could be lent: its author has "
                            "to store them, or to publish it without FASTDL_LENDS",
                            Py_TYPE(self));
    return -1;
}

/* For the table of a producer in a module that has not imported the package. */
static const char *const fastdl_produced_words_ =
    "results of a producer's type are fastdl.Tensors, which its module can make only after "
    "fastdl_import(): install or upgrade fastdlpack, and call fastdl_import() in that module";

/* The allocator in the table of a producer: that of fastdl.Tensor. Needs no thread state. */
static int fastdl_allocate_produced_(DLTensor *prototype, DLManagedTensorVersioned **out,
                                     void *context,
                                     void (*SetError)(void *, const char *, const char *))
{
    const fastdl_runtime *package =
        (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime);
    if (package != NULL)
        return package->tensor->managed_tensor_allocator(prototype, out, context, SetError);
    SetError(context, "TypeError", fastdl_produced_words_);
    return -1;
}

static int fastdl_wrap_produced_(DLManagedTensorVersioned *managed, void **out)
{
    const fastdl_runtime *package = fastdl_package_();
    if (package != NULL)
        return package->tensor->managed_tensor_to_py_object_no_sync(managed, out);
    PyErr_SetString(PyExc_TypeError, fastdl_produced_words_);
    return -1;
}

/* Checks that a stream is one that the device has: 0, or -1 with ValueError or BufferError. */
FASTDL_SHARED_ int fastdl_check_stream_(DLDevice device, int64_t stream)
{
    const fastdl_device_fact *fact = fastdl_find_device((int32_t)device.device_type);
    fastdl_text_ name;
    if (stream == -1)
        return 0;
    name.length = 0;
    fastdl_put_device_(&name, device);
    if (fact->stream == FASTDL_STREAM_NONE)
        PyErr_Format(PyExc_ValueError, "%s has no streams: expected stream=None or -1, got %lld",
                     name.text, (long long)stream);
    else if (fact->stream == FASTDL_STREAM_OPAQUE)
        PyErr_Format(PyExc_BufferError, "DLPack has no stream numbers for %s: pass stream=None",
                     name.text);
    else if (fact->stream == FASTDL_STREAM_CUDA && stream == 0)
        PyErr_SetString(PyExc_ValueError,
                        "stream 0 is ambiguous on CUDA: pass 1 for the legacy default stream or 2 "
                        "for the per-thread default stream");
    else if (fact->stream == FASTDL_STREAM_ROCM && (stream == 1 || stream == 2))
        PyErr_Format(PyExc_ValueError, "ROCm has no stream %d: pass 0 for the default stream",
                     (int)stream);
    else
        return 0;
    return -1;
}

/* Whether the memory is ready on the consumer's stream already: 1, 0, or -1 with an exception. */
static int fastdl_is_ready_(const fastdl_request_ *request, DLDevice device,
                            DLPackCurrentWorkStream current)
{
    int64_t stream = request->has_stream ? request->stream : 0;
    void *handle = NULL;
    uint64_t own;
    if (!fastdl_is_ordered_((int32_t)device.device_type) || stream == -1)
        return 1;
    if (current(device.device_type, device.device_id, &handle) != 0 || PyErr_Occurred()) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_BufferError, "the producer does not report its stream");
        return -1;
    }
    own = (uintptr_t)handle; /* CUDA's legacy default stream is both NULL and 1 */
    if (fastdl_find_device((int32_t)device.device_type)->stream == FASTDL_STREAM_CUDA) {
        own = own == 1 ? 0 : own;
        stream = stream == 1 ? 0 : stream;
    }
    return own == (uint64_t)stream;
}

/* Exports through the package, if it is imported: a fastdl.Tensor of the object orders streams and
 * copies. NULL with an exception; without one if the package is not imported. */
static PyObject *fastdl_delegate_(PyObject *self, PyObject *const *values, PyObject *names)
{
    PyObject *package = fastdl_loaded_("fastdl");
    PyObject *import = package == NULL ? NULL : fastdl_optional_attribute_(package, "from_dlpack");
    PyObject *tensor = NULL, *capsule = NULL;
    fastdl_method_ method = {NULL, NULL};
    if (import != NULL)
        tensor = PyObject_CallFunctionObjArgs(import, self, NULL);
    if (tensor != NULL)
        method.callable = fastdl_attribute_(tensor, "__dlpack__");
    if (method.callable != NULL)
        capsule = fastdl_call_(&method, names, values, names == NULL ? 0 : PyTuple_Size(names));
    Py_XDECREF(method.callable);
    Py_XDECREF(tensor);
    Py_XDECREF(import);
    Py_XDECREF(package);
    return capsule;
}

static int fastdl_is_same_device_(DLDevice a, DLDevice b)
{
    return a.device_type == b.device_type && a.device_id == b.device_id;
}

/* BufferError for an export that needs the package. */
static void fastdl_raise_needs_package_(DLDevice here, DLDevice target)
{
    fastdl_text_ from, to;
    from.length = to.length = 0;
    fastdl_put_device_(&from, here);
    fastdl_put_device_(&to, target);
    PyErr_Format(PyExc_BufferError,
                 fastdl_is_same_device_(here, target)
                     ? "a tensor on %s is ready only on its producer's stream, and only the fastdl "
                       "package can order streams and copy there: import fastdl first (pip install "
                       "fastdlpack), or pass stream=-1 and order the work yourself"
                     : "a tensor on %s cannot be copied to %s by its producer: import fastdl "
                       "first (pip install fastdlpack), or request the data on its own device",
                 from.text, to.text);
}

static void fastdl_destroy_versioned_(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) /* else consumed */
        fastdl_discard_(
            (DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned"), NULL);
}

static void fastdl_destroy_legacy_(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        fastdl_discard_(NULL, (DLManagedTensor *)PyCapsule_GetPointer(capsule, "dltensor"));
}

/* A legacy managed tensor (before 1.0) around a versioned one. */
typedef struct {
    DLManagedTensor managed;
    DLManagedTensorVersioned *inner;
} fastdl_legacy_;

/* A deleter, so it is called on any thread, with or without a thread state. */
static void fastdl_delete_legacy_(DLManagedTensor *self)
{
    fastdl_legacy_ *legacy = (fastdl_legacy_ *)self;
    legacy->inner->deleter(legacy->inner);
    free(legacy);
}

/* A legacy capsule. Steals `managed`, also on failure. NULL with an exception. */
static PyObject *fastdl_legacy_capsule_(DLManagedTensorVersioned *managed)
{
    DLDataType dtype = managed->dl_tensor.dtype;
    int read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    fastdl_legacy_ *legacy = NULL;
    PyObject *capsule;
    if (read_only || fastdl_is_packed(dtype, 0) != fastdl_is_packed(dtype, managed->flags)) {
        fastdl_text_ text;
        text.length = 0;
        fastdl_put_tensor_(&text, &managed->dl_tensor, 0);
        PyErr_Format(PyExc_BufferError,
                     "%s %s, which a legacy DLPack capsule cannot express: pass "
                     "max_version=(1, 0) or newer%s",
                     text.text, read_only ? "is read-only" : "has padded elements",
                     read_only ? ", or export a copy" : "");
    } else {
        legacy = (fastdl_legacy_ *)malloc(sizeof(fastdl_legacy_));
        if (legacy == NULL)
            PyErr_NoMemory();
    }
    if (legacy == NULL) {
        fastdl_discard_(managed, NULL);
        return NULL;
    }
    legacy->managed.dl_tensor = managed->dl_tensor;
    legacy->managed.manager_ctx = legacy;
    legacy->managed.deleter = fastdl_delete_legacy_;
    legacy->inner = managed;
    capsule = PyCapsule_New(legacy, "dltensor", fastdl_destroy_legacy_);
    if (capsule == NULL)
        fastdl_discard_(NULL, &legacy->managed);
    return capsule;
}

static PyObject *fastdl_capsule_(DLManagedTensorVersioned *managed, int versioned)
{
    PyObject *capsule;
    if (managed == NULL)
        return NULL;
    if (!versioned)
        return fastdl_legacy_capsule_(managed);
    capsule = PyCapsule_New(managed, "dltensor_versioned", fastdl_destroy_versioned_);
    if (capsule == NULL)
        fastdl_discard_(managed, NULL);
    return capsule;
}

/* Whether memory of a device satisfies a consumer that requested another. */
static int fastdl_satisfies_(DLDevice here, DLDevice target)
{
    return fastdl_is_same_device_(here, target) ||
           (target.device_type == kDLCPU && fastdl_find_device((int32_t)here.device_type)->host);
}

/* A capsule, if no driver is needed. NULL with an exception; NULL without one if a driver is
 * needed. */
static PyObject *fastdl_answer_(const fastdl_description *description,
                                const fastdl_request_ *request, DLPackCurrentWorkStream current,
                                int versioned)
{
    DLDevice here = description->dl.device;
    int is_ready;
    if (!fastdl_satisfies_(here, request->device) ||
        (request->has_stream && fastdl_check_stream_(here, request->stream) < 0))
        return NULL;
    if (request->copy > 0)
        return here.device_type == kDLCPU ? fastdl_capsule_(fastdl_copy_of_(description), versioned)
                                          : NULL;
    is_ready = fastdl_is_ready_(request, here, current);
    return is_ready > 0 ? fastdl_capsule_(fastdl_export_(description), versioned) : NULL;
}

/* A capsule if a driver is needed but the package is not imported: of a copy of host memory, or
 * NULL with BufferError. */
static PyObject *fastdl_copy_to_host_(const fastdl_description *description, DLDevice target,
                                      int versioned)
{
    const DLTensor *dl = &description->dl;
    if (fastdl_satisfies_(dl->device, target) &&
        fastdl_find_device((int32_t)dl->device.device_type)->host) /* not pinned: that is allowed */
        return fastdl_capsule_(fastdl_copy_of_(description), versioned);
    fastdl_raise_needs_package_(dl->device, target);
    return NULL;
}

/* `__dlpack__` of a producer, by the rules of _protocol/producer.py. */
static PyObject *fastdl_dlpack_(PyObject *self, fastdl_describer describe,
                                DLPackCurrentWorkStream current, PyObject *const *values,
                                Py_ssize_t count, PyObject *names)
{
    fastdl_description description;
    fastdl_request_ request;
    int versioned;
    PyObject *capsule;
    if (fastdl_read_request_(values, count, names, &request, NULL) < 0 ||
        fastdl_describe_(self, describe, &description) < 0)
        return NULL;
    versioned = request.max_version[0] >= FASTDL_DLPACK_MAJOR;
    if (request.device.device_type == 0)
        request.device = description.dl.device;
    Py_XINCREF(description.owner); /* streams, messages and the package may run anything */
    capsule = fastdl_answer_(&description, &request, current, versioned);
    if (capsule == NULL && !PyErr_Occurred())
        capsule = fastdl_delegate_(self, values, names);
    if (capsule == NULL && !PyErr_Occurred())
        capsule = fastdl_copy_to_host_(&description, request.device, versioned);
    Py_XDECREF(description.owner);
    return capsule;
}

static PyObject *fastdl_dlpack_device_(PyObject *self, fastdl_describer describe)
{
    fastdl_description description;
    if (fastdl_describe_(self, describe, &description) < 0)
        return NULL;
    return Py_BuildValue("(ii)", (int)description.dl.device.device_type,
                         (int)description.dl.device.device_id);
}

/* Adds an attribute to a type, or removes it if `value` is NULL: 0, or -1 with an exception. */
static int fastdl_set_in_type_(PyTypeObject *type, const char *name, PyObject *value)
{
#ifndef Py_LIMITED_API
    /* A type that is immutable to Python is mutable to its author. */
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ||
        PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE))
        return value != NULL ? PyDict_SetItemString(type->tp_dict, name, value)
                             : PyDict_DelItemString(type->tp_dict, name);
#endif
    return PyObject_SetAttrString((PyObject *)type, name, value);
}

/* Whether a type may be given attributes: 0, or -1 with TypeError. */
static int fastdl_check_own_type_(PyTypeObject *type)
{
    PyObject *module;
    int is_foreign;
#ifdef Py_LIMITED_API
    int is_immutable = (PyType_GetFlags(type) & (1UL << 9 | 1UL << 8)) != 1UL << 9;
    if (is_immutable) { /* a static type, or Py_TPFLAGS_IMMUTABLETYPE */
        fastdl_raise_about_(PyExc_TypeError,
                            "'%U' is immutable, and the limited API cannot add __dlpack__ to such "
                            "a type: make it without Py_TPFLAGS_IMMUTABLETYPE, or compile fastdl.c "
                            "without Py_LIMITED_API",
                            type);
        return -1;
    }
#else
    if (PyType_Ready(type) < 0)
        return -1;
#endif
    module = fastdl_of_type_(type, "__module__");
    if (module == NULL && !fastdl_clear_if_(PyExc_Exception))
        return -1;
    is_foreign = module != NULL && PyUnicode_Check(module) &&
                 PyUnicode_CompareWithASCIIString(module, "builtins") == 0 &&
                 !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
#ifndef Py_LIMITED_API
    is_foreign |= type->tp_dict == NULL;
#endif
    Py_XDECREF(module);
    if (!is_foreign)
        return 0;
    fastdl_raise_about_(PyExc_TypeError,
                        "expected a type of your own to publish, got '%U', a built-in type", type);
    return -1;
}

#define FASTDL_PUBLISHED_ 4 /* attributes */

/* Whether a type already publishes this producer: 1; 0 if it has none of the attributes; -1 with
 * TypeError if it has those of another producer. */
static int fastdl_is_published_(PyTypeObject *type, const fastdl_producer *producer,
                                const char *const *names)
{
    PyObject *attributes = fastdl_of_type_(type, "__dict__");
    const char *taken = NULL;
    int is_same = 0, failed = attributes == NULL;
    for (int i = 0; i < FASTDL_PUBLISHED_ && !failed && taken == NULL; i++) {
        PyObject *value = fastdl_class_item_(attributes, names[i]);
        failed = value == NULL && PyErr_Occurred();
        if (value == NULL)
            continue;
        taken = names[i];
        is_same =
            PyCapsule_IsValid(value, "dlpack_exchange_api") &&
            PyCapsule_GetPointer(value, "dlpack_exchange_api") == (const void *)&producer->api;
        Py_DECREF(value);
    }
    Py_XDECREF(attributes);
    if (taken != NULL && !is_same) {
        PyObject *name = fastdl_type_name_(type);
        if (name != NULL)
            PyErr_Format(PyExc_TypeError,
                         "'%U' already has %s: publish one producer per type, and do not define "
                         "methods of the protocol in it yourself",
                         name, taken);
        Py_XDECREF(name);
        failed = 1;
    }
    return failed ? -1 : is_same;
}

static int fastdl_publish_(PyTypeObject *type, fastdl_producer *producer)
{
    static const char *const names[FASTDL_PUBLISHED_] = {"__dlpack_c_exchange_api__",
                                                         "__c_dlpack_exchange_api__", "__dlpack__",
                                                         "__dlpack_device__"};
    PyObject *values[FASTDL_PUBLISHED_];
    int done = 0, result;
    if (fastdl_get_names_() == NULL || fastdl_check_own_type_(type) < 0)
        return -1;
    result = fastdl_is_published_(type, producer, names);
    if (result != 0)
        return result < 0 ? -1 : 0;
    values[0] = PyCapsule_New(&producer->api, "dlpack_exchange_api", NULL);
    if (values[0] != NULL)
        (void)PyCapsule_SetContext(values[0], FASTDL_MARK_(&producer->api));
    values[1] = PyErr_Occurred() ? NULL : PyLong_FromVoidPtr(&producer->api);
    for (int i = 0; i < 2; i++)
        values[2 + i] = PyErr_Occurred() ? NULL : PyDescr_NewMethod(type, &producer->methods[i]);
    if (!PyErr_Occurred())
        while (done < FASTDL_PUBLISHED_ &&
               fastdl_set_in_type_(type, names[done], values[done]) == 0)
            done++;
    if (done < FASTDL_PUBLISHED_) {
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
        while (done-- > 0)
            if (fastdl_set_in_type_(type, names[done], NULL) < 0)
                PyErr_WriteUnraisable((PyObject *)type);
        fastdl_restore_(kind, value, traceback);
        result = -1;
    }
    for (int i = 0; i < FASTDL_PUBLISHED_; i++)
        Py_XDECREF(values[i]);
    PyType_Modified(type);
    return result;
}
