/* SPDX-License-Identifier: Apache-2.0 */

/* ---- objects that are not tensors ---- */

/* Makes a view that owns the tensor of `obj`: 0, or -1 with an exception. */
static int fastdl_view_owned_(PyObject *obj, fastdl_view *view)
{
    const fastdl_record *record = fastdl_known_(Py_TYPE(obj));
    fastdl_init(view);
    return record == NULL ? -1 : fastdl_borrow_owned_(obj, view, record);
}

/* Makes a view that owns the tensor fastdl.asarray(obj): 1; 0 if the package is missing; -1 with an
 * exception. */
static int fastdl_view_array_(PyObject *obj, fastdl_view *view)
{
    PyObject *tensor, *package = PyImport_ImportModule("fastdl");
    int result;
    if (package == NULL)
        return fastdl_clear_if_(PyExc_Exception) ? 0 : -1;
    tensor = PyObject_CallMethod(package, "asarray", "(O)", obj);
    Py_DECREF(package);
    result = tensor == NULL || fastdl_view_owned_(tensor, view) < 0 ? -1 : 1;
    Py_XDECREF(tensor); /* the view owns an export of it */
    return result;
}

/* Whether an object has `__dlpack__`, or -1 with an exception. */
static int fastdl_has_dlpack_(PyObject *obj)
{
    const fastdl_names_ *names = fastdl_get_names_();
    fastdl_method_ method;
    int result = names == NULL ? -1 : fastdl_find_method_(obj, names->dlpack, &method);
    if (result > 0)
        Py_DECREF(method.callable);
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

/* The rest of fastdl_borrow_as: 1, or -1 with an exception. If the tensor does not fit and `meant`
 * is 0: 0, without an exception. */
static int fastdl_settle_argument_(PyObject *obj, const char *name, const fastdl_spec *spec,
                                   int meant, int borrowed, fastdl_view *view)
{
    int result = -1;
    if (!borrowed && fastdl_argument_failed_(obj, name, spec->rules, view) < 0)
        return -1;
    if (!meant && fastdl_compare_(view, name, spec) != FASTDL_MATCHES_)
        result = 0;
    else if (fastdl_check_spec_(obj, name, spec, view) == 0)
        return 1;
    fastdl_release(view);
    return result;
}
