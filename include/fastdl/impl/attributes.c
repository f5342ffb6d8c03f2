/* SPDX-License-Identifier: Apache-2.0 */

/* ---- special attributes, found as Python finds them: on the type ---- */

/* The `__get__` slot of `attribute`, or NULL if it is not a descriptor. */
static descrgetfunc fastdl_getter_(PyObject *attribute)
{
    union {
        void *slot;
        descrgetfunc get;
    } found; /* ISO C has no conversion between the two */
    found.slot = PyType_GetSlot(Py_TYPE(attribute), Py_tp_descr_get);
    return found.get;
}

/* The attribute `name` ("__mro__", "__dict__", "__module__" or "__qualname__") of a class as `type`
 * itself defines it, a new reference; NULL with an exception. An override in the metaclass is
 * ignored, so it cannot run code that frees what was found. */
FASTDL_SHARED_ PyObject *fastdl_of_type_(PyTypeObject *type, const char *name)
{
    PyObject *attributes = fastdl_attribute_((PyObject *)&PyType_Type, "__dict__");
    PyObject *own = attributes == NULL ? NULL : PyMapping_GetItemString(attributes, name);
    descrgetfunc get = own == NULL ? NULL : fastdl_getter_(own);
    PyObject *value =
        get == NULL ? NULL : get(own, (PyObject *)type, (PyObject *)Py_TYPE((PyObject *)type));
    Py_XDECREF(own);
    Py_XDECREF(attributes);
    return value;
}

/* The MRO of a type, a new reference to a tuple of types; NULL with an exception. */
FASTDL_SHARED_ PyObject *fastdl_mro_(PyTypeObject *type)
{
    PyObject *mro = fastdl_of_type_(type, "__mro__");
    if (mro != NULL && !PyTuple_Check(mro)) { /* a class under construction */
        PyErr_SetString(PyExc_TypeError, "expected a type that has an MRO");
        Py_CLEAR(mro);
    }
    return mro;
}

/* An item of the dictionary of a class, a new reference; NULL without an exception if absent. */
FASTDL_SHARED_ PyObject *fastdl_class_item_(PyObject *attributes, const char *name)
{
    PyObject *value = PyMapping_GetItemString(attributes, name);
    if (value == NULL)
        (void)fastdl_clear_if_(PyExc_KeyError);
    return value;
}

#if defined(Py_LIMITED_API)

/* The item `name` of the first class in the MRO of `type` that has it (the provider), a new
 * reference; NULL without an exception if none does. */
static PyObject *fastdl_type_lookup_(PyTypeObject *type, const char *name)
{
    PyObject *found = NULL, *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    for (Py_ssize_t i = 0; i < count && found == NULL && !PyErr_Occurred(); i++) {
        PyObject *attributes = fastdl_of_type_((PyTypeObject *)PyTuple_GetItem(mro, i), "__dict__");
        if (attributes == NULL)
            break;
        found = fastdl_class_item_(attributes, name);
        Py_DECREF(attributes);
    }
    Py_XDECREF(mro);
    return found;
}

/* fastdl_type_lookup_ for an interned name. */
static PyObject *fastdl_find_special_(PyTypeObject *type, PyObject *name)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    return text == NULL ? NULL : fastdl_type_lookup_(type, text);
}

#else

static PyObject *fastdl_find_special_(PyTypeObject *type, PyObject *name)
{
#if PY_VERSION_HEX >= 0x030D0000
    return _PyType_LookupRef(type, name);
#else
    PyObject *found = _PyType_Lookup(type, name);
    Py_XINCREF(found);
    return found;
#endif
}

static PyObject *fastdl_type_lookup_(PyTypeObject *type, const char *name)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *found = interned == NULL ? NULL : fastdl_find_special_(type, interned);
    Py_XDECREF(interned);
    return found;
}

#endif

/* Whether a type has `__dlpack__` or an exchange table. Other types are rejected quickly, and take
 * no slot in the cache. -1 with an exception. */
static int fastdl_has_names_(PyTypeObject *type)
{
    static const char *const names[] = {"__dlpack__", "__dlpack_c_exchange_api__",
                                        "__c_dlpack_exchange_api__"};
    PyObject *found = NULL;
    for (int i = 0; i < 3 && found == NULL && !PyErr_Occurred(); i++)
        found = fastdl_type_lookup_(type, names[i]);
    Py_XDECREF(found);
    return found != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* Slow path of fastdl_find_method_: `callable` is NULL, None, or any descriptor. */
static int fastdl_bind_method_(PyObject *obj, PyObject *name, fastdl_method_ *method)
{
    if (method->callable != NULL && method->callable != Py_None) {
        descrgetfunc get = fastdl_getter_(method->callable);
        if (get != NULL) {
            PyObject *bound = get(method->callable, obj, (PyObject *)Py_TYPE(obj));
            Py_DECREF(method->callable);
            method->callable = bound;
        }
    } else if (method->callable == NULL && !PyErr_Occurred() && !PyType_Check(obj)) {
        method->callable = PyObject_GetAttr(obj, name);
        if (method->callable == NULL)
            (void)fastdl_clear_if_(PyExc_AttributeError);
    }
    if (method->callable == Py_None)
        Py_CLEAR(method->callable);
    return method->callable != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* Finds the special method with an interned name as Python does, on the type; then on the instance,
 * so that proxies work. 1; 0 if there is none, or it is None (opted out); -1 with an exception.
 * The result stays callable even if the type changes. */
static int fastdl_find_method_(PyObject *obj, PyObject *name, fastdl_method_ *method)
{
    method->self = NULL;
    method->callable = fastdl_find_special_(Py_TYPE(obj), name);
    if (FASTDL_UNLIKELY_(
            method->callable == NULL ||
            !PyType_HasFeature(Py_TYPE(method->callable), Py_TPFLAGS_METHOD_DESCRIPTOR)))
        return fastdl_bind_method_(obj, name, method);
    method->self = obj;
    return 1;
}

/* Calls a special method with `count` keyword arguments, named by the tuple `names`. */
static PyObject *fastdl_call_(const fastdl_method_ *method, PyObject *names,
                              PyObject *const *values, Py_ssize_t count)
{
#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030C0000
    PyObject *arguments[2 + FASTDL_MOST_KEYWORDS_]; /* the first is for the callee to write to */
    size_t positional = method->self != NULL;
    arguments[1] = method->self;
    for (Py_ssize_t i = 0; i < count; i++)
        arguments[1 + positional + (size_t)i] = values[i];
    return PyObject_Vectorcall(method->callable, arguments + 1,
                               positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               count == 0 ? NULL : names);
#else
    PyObject *result = NULL, *keywords = PyDict_New();
    PyObject *positional = method->self == NULL ? PyTuple_New(0) : PyTuple_Pack(1, method->self);
    int failed = keywords == NULL || positional == NULL;
    for (Py_ssize_t i = 0; i < count && !failed; i++)
        failed = PyDict_SetItem(keywords, PyTuple_GetItem(names, i), values[i]) < 0;
    if (!failed)
        result = PyObject_Call(method->callable, positional, keywords);
    Py_XDECREF(keywords);
    Py_XDECREF(positional);
    return result;
#endif
}
