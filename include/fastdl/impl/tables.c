/* SPDX-License-Identifier: Apache-2.0 */

/* ---- the header's own tables, for use without the package ---- */

static int fastdl_protocol_own_(void *obj, DLManagedTensorVersioned **out)
{
    PyTypeObject *type = Py_TYPE((PyObject *)obj);
    const fastdl_record *record = fastdl_known_(type);
    DLManagedTensorVersioned *managed = NULL;
    PyObject *capsule;
    int32_t announced[2];
    int result;
    if (record == NULL)
        return -1;
    result = fastdl_request_capsule_((PyObject *)obj, record, 0, announced, &capsule);
    if (result == 0)
        fastdl_raise_no_tensor((PyObject *)obj);
    if (result <= 0)
        return -1;
    if ((record->facts & FASTDL_TYPE_UNORDERED &&
         fastdl_refuse_unordered_((PyObject *)obj, announced[0]) < 0) ||
        fastdl_take_((PyObject *)obj, capsule, record->facts, &managed) < 0) {
        fastdl_release_object_(capsule); /* its destructor may clear the exception */
        return -1;
    }
    Py_DECREF(capsule);
    if (!fastdl_is_as_announced_(announced, managed->dl_tensor.device)) {
        fastdl_raise_(PyExc_BufferError,
                      "a tensor was announced on device (%d, %d) and delivered on (%d, %d), where "
                      "work is ordered differently. Its producer is at fault",
                      announced[0], announced[1], (int)managed->dl_tensor.device.device_type,
                      managed->dl_tensor.device.device_id);
        fastdl_discard_(managed, NULL);
        return -1;
    }
    *out = managed;
    return 0;
}

static int fastdl_protocol_allocate_(DLTensor *prototype, DLManagedTensorVersioned **out,
                                     void *context,
                                     void (*SetError)(void *, const char *, const char *))
{
    (void)prototype;
    (void)out;
    SetError(
        context, "TypeError",
        "expected a type with an exchange table that can allocate, got one without: install or "
        "upgrade fastdlpack, and call fastdl_import() to allocate for it");
    return -1;
}

static int fastdl_protocol_wrap_(DLManagedTensorVersioned *managed, void **out)
{
    (void)managed;
    (void)out;
    PyErr_SetString(PyExc_TypeError,
                    "this type has no exchange table that could make objects: install or "
                    "upgrade fastdlpack, and call fastdl_import() to get a fastdl.Tensor");
    return -1;
}

static const DLPackExchangeAPI fastdl_protocol_table_ = {
    {{FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR}, NULL},
    fastdl_protocol_allocate_,
    fastdl_protocol_own_,
    fastdl_protocol_wrap_,
    NULL,
    fastdl_default_stream, /* with which `__dlpack__` is called */
};

/* The table that calls `__dlpack__`: the package's, if there is one. */
static const DLPackExchangeAPI *fastdl_protocol_(void)
{
    const fastdl_runtime *package = fastdl_package_();
    return package != NULL ? package->protocol : &fastdl_protocol_table_;
}

/* ---- the table for tracers: every entry raises ---- */

static const char *const fastdl_traced_words_ =
    "expected a tensor with memory, got a tracer (torch FakeTensor, JAX Tracer): call this outside "
    "of torch.compile, jax.jit and their like, or make it a custom operator there "
    "(torch.library.custom_op, jax.pure_callback)";

static int fastdl_traced_allocate_(DLTensor *prototype, DLManagedTensorVersioned **out,
                                   void *context,
                                   void (*SetError)(void *, const char *, const char *))
{
    (void)prototype;
    (void)out;
    SetError(context, "BufferError", fastdl_traced_words_);
    return -1;
}

static int fastdl_traced_own_(void *obj, DLManagedTensorVersioned **out)
{
    (void)obj;
    (void)out;
    fastdl_raise_(PyExc_BufferError, fastdl_traced_words_);
    return -1;
}

static int fastdl_traced_wrap_(DLManagedTensorVersioned *managed, void **out)
{
    (void)managed;
    (void)out;
    fastdl_raise_(PyExc_BufferError, fastdl_traced_words_);
    return -1;
}

static int fastdl_traced_stream_(DLDeviceType type, int32_t id, void **out)
{
    (void)type;
    (void)id;
    (void)out;
    fastdl_raise_(PyExc_BufferError, fastdl_traced_words_);
    return -1;
}

static const DLPackExchangeAPI fastdl_traced_table_ = {
    {{FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR}, NULL},
    fastdl_traced_allocate_,
    fastdl_traced_own_,
    fastdl_traced_wrap_,
    NULL,
    fastdl_traced_stream_,
};
