/* SPDX-License-Identifier: Apache-2.0 */

/* ---- results ---- */

/* Turns an allocator's error report into a Python exception. */
static void fastdl_set_error_(void *context, const char *kind, const char *message)
{
    PyObject *builtins, *exception;
    (void)context;
    if (!fastdl_clear_if_(PyExc_Exception))
        return;
    builtins = PyImport_ImportModule("builtins");
    exception = builtins == NULL || kind == NULL ? NULL : fastdl_attribute_(builtins, kind);
    if (fastdl_clear_if_(PyExc_Exception))
        PyErr_SetString(exception != NULL && PyExceptionClass_Check(exception) ? exception
                                                                               : PyExc_RuntimeError,
                        message != NULL ? message : "the allocator failed without a message");
    Py_XDECREF(exception);
    Py_XDECREF(builtins);
}

/* The table that makes results of the type `like`, and whether it is a library's own; NULL with an
 * exception. A type that is not a tensor's is treated like one with only `__dlpack__`:
 * FASTDL_ASARRAY accepts its objects, and so does fastdl_borrow if an instance has the method. */
static const DLPackExchangeAPI *fastdl_target_(PyTypeObject *like, int *native)
{
    const fastdl_runtime *package;
    const fastdl_record *record;
    *native = 0;
    if (fastdl_get_names_() == NULL)
        return NULL;
    package = (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime);
    if (like == NULL) {
        if (package == NULL)
            PyErr_SetString(PyExc_TypeError, "expected a type for the result: a fastdl.Tensor can "
                                             "be made only after fastdl_import()");
        return package == NULL ? NULL : package->tensor;
    }
    record = fastdl_known_(like);
    if (record == NULL)
        return NULL;
    *native = (record->facts & FASTDL_TYPE_NATIVE) != 0 &&
              !(package != NULL && record->api == package->tensor);
    return record->api;
}

static int fastdl_empty_(const DLTensor *prototype, PyTypeObject *like,
                         DLManagedTensorVersioned **out)
{
    DLTensor copy = *prototype;
    DLManagedTensorVersioned *managed = NULL;
    int failed, native;
    const fastdl_runtime *package;
    const DLPackExchangeAPI *api = fastdl_target_(like, &native);
    *out = NULL;
    if (api == NULL)
        return -1;
    package = (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime); /* at home */
    if (package != NULL && api == package->protocol &&
        !fastdl_find_device((int32_t)prototype->device.device_type)->host)
        return package->empty(prototype, like, out);
    failed = api->managed_tensor_allocator(&copy, &managed, NULL, fastdl_set_error_);
    if (FASTDL_UNLIKELY_(failed || managed == NULL)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_BufferError, "the allocator of the exchange table failed without "
                                               "setting an exception");
        return -1;
    }
    if (native && fastdl_adopt_(NULL, managed, NULL, 0, &managed) < 0)
        return -1;
    fastdl_fold_offset_(&managed->dl_tensor);
    *out = managed;
    return 0;
}

static int fastdl_zeros_(const DLTensor *prototype, PyTypeObject *like,
                         DLManagedTensorVersioned **out)
{
    fastdl_layout layout;
    const DLTensor *dl;
    *out = NULL;
    if (!fastdl_find_device((int32_t)prototype->device.device_type)->host) {
        PyErr_Format(PyExc_BufferError,
                     "expected host memory to fill with zeros, got device (%d, %d): call "
                     "fastdl_empty, and clear the memory on the stream on which it will be used",
                     (int)prototype->device.device_type, (int)prototype->device.device_id);
        return -1;
    }
    if (fastdl_empty(prototype, like, out) < 0)
        return -1;
    dl = &(*out)->dl_tensor;
    fastdl_check(dl, (*out)->flags, &layout);
    if (layout.size > 0)
        memset((char *)dl->data + dl->byte_offset + layout.low, 0,
               (size_t)(layout.high - layout.low));
    return 0;
}

/* Whether a tensor has a negative stride, even in a dimension of size 1. */
static int fastdl_has_negative_stride_(const DLTensor *dl)
{
    for (int32_t i = 0; dl->strides != NULL && i < dl->ndim; i++)
        if (dl->strides[i] < 0)
            return 1;
    return 0;
}

static int fastdl_wrap_(DLManagedTensorVersioned *managed, PyTypeObject *like, PyObject **out)
{
    void *object = NULL;
    int failed, native;
    const fastdl_runtime *package;
    const DLPackExchangeAPI *api = fastdl_target_(like, &native);
    *out = NULL;
    if (api == NULL) {
        fastdl_discard_(managed, NULL);
        return -1;
    }
    package = (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime); /* at home */
    if (package != NULL && (native || api == package->protocol))
        return package->wrap(managed, like, out); /* it copies what the library does not accept */
    if (native && fastdl_has_negative_stride_(&managed->dl_tensor)) {
        fastdl_raise_about_(PyExc_BufferError,
                            "expected no negative strides for a result of type '%U', whose library "
                            "may abort the process: copy the data, or call fastdl_import(), after "
                            "which fastdl copies it",
                            like);
        fastdl_discard_(managed, NULL);
        return -1;
    }
    failed = api->managed_tensor_to_py_object_no_sync(managed, &object);
    if (FASTDL_UNLIKELY_(failed || object == NULL)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_BufferError, "the exchange table of the result's type failed "
                                               "without setting an exception");
        if (!native) /* fastdl's own tables have not consumed it */
            fastdl_discard_(managed, NULL);
        return -1;
    }
    if (!fastdl_has_succeeded_()) {
        Py_DECREF((PyObject *)object);
        return -1;
    }
    *out = (PyObject *)object;
    return 0;
}

static int fastdl_work_stream_(const fastdl_view *view, void **stream)
{
    DLDevice device = view->dl.device;
    *stream = NULL;
    if (fastdl_ordering_((int32_t)device.device_type) == FASTDL_STREAM_NONE)
        return 0;
    if (view->api_->current_work_stream(device.device_type, device.device_id, stream) == 0)
        return fastdl_has_succeeded_() ? 0 : -1;
    if (!PyErr_Occurred())
        PyErr_Format(
            PyExc_BufferError,
            "the exchange table of the tensor does not report its current stream on device "
            "(%d, %d)",
            (int)device.device_type, device.device_id);
    return -1;
}

/* Orders the caller's stream after the stream of the view or, if `back`, before it. */
static int fastdl_order_(const fastdl_view *view, void *stream, int back)
{
    const fastdl_runtime *package = fastdl_package_();
    void *own;
    if (fastdl_work_stream_(view, &own) < 0)
        return -1;
    if (own == stream ||
        fastdl_ordering_((int32_t)view->dl.device.device_type) == FASTDL_STREAM_NONE)
        return 0;
    if (package == NULL) {
        PyErr_SetString(PyExc_BufferError,
                        "expected the stream from fastdl_work_stream, got another one, which only "
                        "the package can order: call fastdl_import() first");
        return -1;
    }
    return package->order(view->dl.device, back ? stream : own, back ? own : stream);
}

/* fastdl_order_ for the memory of a result of type `like`. */
static int fastdl_order_result_(const DLManagedTensorVersioned *managed, PyTypeObject *like,
                                void *stream, int back)
{
    int native;
    fastdl_view view;
    if (fastdl_ordering_((int32_t)managed->dl_tensor.device.device_type) == FASTDL_STREAM_NONE)
        return 0; /* whatever `like` is: fastdl_wrap_ releases what it cannot wrap */
    view.api_ = fastdl_target_(like, &native);
    if (view.api_ == NULL)
        return -1;
    view.dl = managed->dl_tensor;
    return fastdl_order_(&view, stream, back);
}

static int fastdl_empty_on_(const DLTensor *prototype, PyTypeObject *like, void *stream,
                            DLManagedTensorVersioned **out)
{
    if (fastdl_empty_(prototype, like, out) < 0)
        return -1;
    if (fastdl_order_result_(*out, like, stream, 0) == 0)
        return 0;
    fastdl_discard_(*out, NULL);
    *out = NULL;
    return -1;
}

static int fastdl_wrap_on_(DLManagedTensorVersioned *managed, PyTypeObject *like, void *stream,
                           PyObject **out)
{
    *out = NULL;
    if (fastdl_order_result_(managed, like, stream, 1) < 0)
        return -1;
    return fastdl_wrap_(managed, like, out);
}
