/* SPDX-License-Identifier: Apache-2.0 */

/* ---- lazy views: conjugate and negative bits ---- */

/* Calls a method that answers yes or no: 1, 0, or -1 with an exception. */
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
    if (tensor->dtype.code == kDLComplex) {
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
                  "x.view(torch.int8) has its bits",
                  dtype);
}

/* torch.int8 and torch.uint8 (one object each), once they were seen. */
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

/* What keeps the memory of `obj` alive, a new reference: `obj` itself; the storage of a torch
 * tensor, which may be given another one (by `x.data = y` or module.to()), if it has one. NULL with
 * what was raised, if that is no Exception. */
FASTDL_SHARED_ PyObject *fastdl_keeper_(PyObject *obj, uint32_t facts)
{
    if (facts & FASTDL_TYPE_STORAGE) {
        const fastdl_names_ *names = fastdl_get_names_();
        PyObject *storage = NULL;
        fastdl_method_ method;
        if (names != NULL && fastdl_find_method_(obj, names->storage, &method) > 0) {
            storage = fastdl_call_(&method, NULL, NULL, 0);
            Py_DECREF(method.callable);
        }
        if (FASTDL_LIKELY_(storage != NULL) || !fastdl_clear_if_(PyExc_Exception))
            return storage;
    }
    Py_INCREF(obj);
    return obj;
}

/* Refuses tensors whose memory does not hold the values of `obj`: 0, or -1 with an exception. */
FASTDL_SHARED_ int fastdl_check_values_(PyObject *obj, const DLTensor *tensor, uint32_t facts)
{
    if (!(facts & FASTDL_TYPE_ASK_BITS))
        return 0;
    return fastdl_check_bits(obj, tensor) < 0 ? -1 : fastdl_check_width_(obj, tensor);
}
