/* SPDX-License-Identifier: Apache-2.0 */

/* ---- owning ---- */

/* Whether to try `__dlpack__` of an object that its native table refused. If so the exception is
 * cleared, otherwise one is set. Not after a RecursionError: two tries at each depth would take
 * exponential time. */
FASTDL_SHARED_ int fastdl_should_try_protocol_(PyObject *obj, uint32_t facts)
{
    PyObject *error = PyErr_Occurred();
    if (facts & FASTDL_TYPE_NATIVE && facts & FASTDL_TYPE_HAS_DLPACK &&
        !(error != NULL && PyErr_ExceptionMatches(PyExc_RecursionError)) &&
        fastdl_clear_if_(PyExc_Exception))
        return 1;
    if (error == NULL)
        fastdl_raise_about_(PyExc_BufferError,
                            "the exchange table of '%U' failed without setting an exception",
                            Py_TYPE(obj));
    return 0;
}

/* Whether a torch tensor may lack memory and the package can name the tensors that have it; its
 * table then counts as having refused. */
static int fastdl_may_explain_(const DLTensor *tensor, uint32_t facts)
{
    return facts & FASTDL_TYPE_ASK_BITS && fastdl_may_lack_memory_(tensor) &&
           fastdl_package_() != NULL;
}

/* As fastdl_own; `record` is of the type of `obj`. *api is the table that made the tensor, and
 * names the stream on which it is ready. */
static int fastdl_own_(PyObject *obj, const fastdl_record *record, DLManagedTensorVersioned **out,
                       const DLPackExchangeAPI **api)
{
    DLManagedTensorVersioned *managed = NULL;
    int failed = record->api->managed_tensor_from_py_object_no_sync(obj, &managed);
    *api = record->api;
    if (FASTDL_LIKELY_(!failed && managed != NULL)) {
        int may_explain;
        if (!(record->facts & FASTDL_TYPE_NATIVE)) {
            *out = managed; /* from a table of fastdl's, which has checked it */
            return 0;
        }
        may_explain = fastdl_may_explain_(&managed->dl_tensor, record->facts);
        failed = fastdl_adopt_(obj, managed, NULL, record->facts, out);
        if (!failed || !may_explain)
            return failed;
    }
    if (!fastdl_should_try_protocol_(obj, record->facts))
        return -1;
    *api = fastdl_protocol_();
    return (*api)->managed_tensor_from_py_object_no_sync(obj, out);
}

static int fastdl_own_any_(PyObject *obj, DLManagedTensorVersioned **out)
{
    const fastdl_record *record = fastdl_known_(Py_TYPE(obj));
    const DLPackExchangeAPI *unused;
    *out = NULL;
    if (record == NULL)
        return -1;
    return fastdl_own_(obj, record, out, &unused);
}

/* ---- borrowing ---- */

/* Checks a view that a table filled in, and brings it into the form that fastdl_borrow promises. */
static int fastdl_check_view_(fastdl_view *view)
{
    fastdl_layout layout;
    fastdl_fault fault;
    DLTensor *dl = &view->dl;
    if (!fastdl_has_succeeded_())
        return -1;
    if (dl->strides == NULL && (uint32_t)dl->ndim <= FASTDL_MAX_NDIM && dl->shape != NULL) {
        fastdl_compact_strides(dl->ndim, dl->shape, view->room_);
        dl->strides = view->room_;
    }
    fault = fastdl_check(dl, view->flags, &layout);
    if (fault != FASTDL_OK) {
        fastdl_raise_fault(fault, dl);
        return -1;
    }
    fastdl_normalise_(dl);
    return 0;
}

/* Fills a view with an owned tensor from a table that cannot lend. */
static int fastdl_borrow_owned_(PyObject *obj, fastdl_view *view, const fastdl_record *record)
{
    DLManagedTensorVersioned *managed = NULL;
    if (fastdl_own_(obj, record, &managed, &view->api_) < 0)
        return -1;
    view->own_ = managed;
    view->flags = managed->flags;
    view->dl = managed->dl_tensor;
    if (fastdl_check_view_(view) == 0)
        return 0;
    fastdl_release(view);
    return -1;
}

/* Fills a view by `__dlpack__` after a borrowing slot has refused. */
static int fastdl_borrow_refused_(PyObject *obj, fastdl_view *view, uint32_t facts)
{
    fastdl_record protocol;
    if (!fastdl_should_try_protocol_(obj, facts))
        return -1;
    memset(&protocol, 0, sizeof(protocol));
    protocol.api = fastdl_protocol_();
    return fastdl_borrow_owned_(obj, view, &protocol);
}

/* Slow path of fastdl_complete_view_. */
static int fastdl_complete_slow_path_(PyObject *obj, fastdl_view *view, uint32_t facts)
{
    const DLTensor *dl = &view->dl;
    if (((!(facts & FASTDL_TYPE_CHECKED) || (uint32_t)dl->ndim > FASTDL_MAX_NDIM ||
          dl->strides == NULL || dl->data == NULL || dl->byte_offset != 0) &&
         fastdl_check_view_(view) < 0) ||
        (facts & FASTDL_TYPE_ASK_BITS && fastdl_check_offset_(obj, dl) < 0))
        return fastdl_may_explain_(dl, facts) ? fastdl_borrow_refused_(obj, view, facts) : -1;
    if (facts & FASTDL_TYPE_NO_STREAM &&
        fastdl_refuse_unordered_(obj, (int32_t)dl->device.device_type) < 0)
        return -1;
    return facts & FASTDL_TYPE_ASK_BITS ? fastdl_check_bits(obj, dl) : 0;
}
