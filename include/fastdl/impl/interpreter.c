/* SPDX-License-Identifier: Apache-2.0 */

/* ---- the home: the one interpreter in which the module exchanges tensors ---- */

/* If finalisation starts right after this check, the thread can be stopped inside
 * PyGILState_Ensure, a race that Python closes in 3.15. The limited API before 3.13 can only check
 * whether finalisation is over. */
static int fastdl_interpreter_is_gone_(void)
{
#if PY_VERSION_HEX >= 0x030D0000 && (!defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030D0000)
    if (Py_IsFinalizing())
        return 1;
#elif !defined(Py_LIMITED_API)
    if (_Py_IsFinalizing())
        return 1;
#endif
    return !Py_IsInitialized();
}

static const fastdl_keyword_fact fastdl_keyword_facts_[FASTDL_KEYWORDS_ + 1] = {
    {FASTDL_KEYWORD_COPY, "copy"},
    {FASTDL_KEYWORD_DL_DEVICE, "dl_device"},
    {FASTDL_KEYWORD_MAX_VERSION, "max_version"},
    {FASTDL_KEYWORD_VERSION, "version"},
    {FASTDL_KEYWORD_STREAM, "stream"},
    {0, NULL},
};

/* All keywords, in the order in which they are dropped if a producer does not name the one it
 * rejects; then a row with a NULL name. Needs no thread state. */
FASTDL_SHARED_ const fastdl_keyword_fact *fastdl_keywords(void)
{
    return fastdl_keyword_facts_;
}

static void fastdl_drop_names_(fastdl_names_ *names)
{
    PyObject *others[] = {names->dlpack,  names->dlpack_device, names->dtype, names->max_version,
                          names->version, names->zero,          names->one};
    for (int k = 0; k < FASTDL_KEYWORDS_; k++)
        Py_XDECREF(names->keywords[k]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        Py_XDECREF(others[i]);
    free(names);
}

static fastdl_names_ *fastdl_make_names_(void)
{
    fastdl_names_ *names = (fastdl_names_ *)malloc(sizeof(fastdl_names_));
    int failed = 0;
    if (names == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (int k = 0; k < FASTDL_KEYWORDS_; k++) {
        names->keywords[k] = PyUnicode_InternFromString(fastdl_keywords()[k].name);
        failed |= names->keywords[k] == NULL;
    }
    names->interpreter = PyInterpreterState_Get();
    names->is_main = PyInterpreterState_GetID(PyInterpreterState_Get()) == 0;
    names->dlpack = PyUnicode_InternFromString("__dlpack__");
    names->dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
    names->dtype = PyUnicode_InternFromString("dtype");
    names->max_version = failed ? NULL : PyTuple_Pack(1, names->keywords[FASTDL_AT_MAX_VERSION_]);
    names->zero = PyLong_FromLong(0);
    names->one = PyLong_FromLong(1);
    names->version = Py_BuildValue("(ii)", FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR);
    if (names->dlpack != NULL && names->dlpack_device != NULL && names->dtype != NULL &&
        names->max_version != NULL && names->version != NULL && names->zero != NULL &&
        names->one != NULL)
        return names;
    fastdl_drop_names_(names);
    return NULL;
}

/* The destructor of the capsule that holds an interpreter's names, called when the interpreter
 * ends. If that is the home, no other becomes it: CPython numbers types anew. */
static void fastdl_leave_home_(PyObject *capsule)
{
    fastdl_names_ *names = (fastdl_names_ *)PyCapsule_GetPointer(capsule, "fastdl.h");
    if (fastdl_atomic_load_(&fastdl_state_.home) != (const void *)names) {
        fastdl_drop_names_(names); /* another thread has made a home before */
        return;
    }
    fastdl_atomic_store_(&fastdl_state_.hits, fastdl_no_types_);
    fastdl_atomic_store_(&names->interpreter, NULL);
}

/* Makes the calling interpreter the home, if there is none yet: 0, or -1 with an exception. */
static int fastdl_make_home_(void)
{
    fastdl_names_ *names = fastdl_make_names_();
    PyObject *kept, *key, *capsule;
    int result = -1;
    if (names == NULL)
        return -1;
    capsule = PyCapsule_New(names, "fastdl.h", fastdl_leave_home_);
    if (capsule == NULL) {
        fastdl_drop_names_(names);
        return -1;
    }
    kept = PyInterpreterState_GetDict(PyInterpreterState_Get());
    key = PyUnicode_FromFormat("fastdl.h %p", (void *)names);
    if (kept == NULL && key != NULL)
        PyErr_NoMemory();
    else if (key != NULL)
        result = PyDict_SetItem(kept, key, capsule);
    if (result == 0)
        (void)fastdl_atomic_compare_exchange_(&fastdl_state_.home, NULL, names);
    Py_XDECREF(key);
    Py_DECREF(capsule);
    return result;
}

static int fastdl_is_home_(void)
{
    const fastdl_names_ *names = (const fastdl_names_ *)fastdl_atomic_load_(&fastdl_state_.home);
    return FASTDL_LIKELY_(names != NULL) &&
           fastdl_atomic_load_(&names->interpreter) == (const void *)PyInterpreterState_Get();
}

/* Attaches the thread of a deleter to the home, whose object it releases: 0 if it was attached; 1
 * if this call has done so, and PyGILState_Release must follow; -1 if that is impossible and the
 * object must be leaked: the home has ended, or PyGILState_Ensure would attach another interpreter,
 * or deadlock because one is attached.
 *
 * Before 3.12 the current state is that of whichever thread runs, and where there has ever been a
 * subinterpreter, PyGILState_Check does not compare it: a detached thread then gets -1 while
 * another runs. The limited API does not expose the current state, so there a thread may
 * deadlock. */
static int fastdl_enter_home_(PyGILState_STATE *state)
{
    const fastdl_names_ *names = (const fastdl_names_ *)fastdl_atomic_load_(&fastdl_state_.home);
    const void *home = names == NULL ? NULL : fastdl_atomic_load_(&names->interpreter);
    PyThreadState *own, *current = NULL;
    if (home == NULL || !Py_IsInitialized())
        return -1;
    own = PyGILState_GetThisThreadState();
#if defined(Py_LIMITED_API)
#elif PY_VERSION_HEX >= 0x030D0000
    current = PyThreadState_GetUnchecked();
#elif PY_VERSION_HEX >= 0x030C0000
    current = _PyThreadState_UncheckedGet();
#else
    current = _PyThreadState_UncheckedGet();
    if (current != own) {
        if (current != NULL && own != NULL && PyGILState_Check())
            return -1;
        current = NULL;
    }
#endif
    if (current != NULL)
        return PyThreadState_GetInterpreter(current) == home ? 0 : -1;
    if (fastdl_interpreter_is_gone_() ||
        (own != NULL ? PyThreadState_GetInterpreter(own) != home : !names->is_main))
        return -1;
    *state = PyGILState_Ensure();
    return 1;
}

/* The names of the home, which the first calling interpreter becomes; NULL with ImportError in any
 * other, where nothing is exchanged. */
static const fastdl_names_ *fastdl_get_names_(void)
{
    if (FASTDL_UNLIKELY_(fastdl_atomic_load_(&fastdl_state_.home) == NULL) &&
        !fastdl_interpreter_is_gone_() && fastdl_make_home_() < 0)
        return NULL;
    if (FASTDL_LIKELY_(fastdl_is_home_()))
        return (const fastdl_names_ *)fastdl_atomic_load_(&fastdl_state_.home);
    fastdl_atomic_store_(&fastdl_state_.hits, fastdl_no_types_);
    PyErr_SetString(PyExc_ImportError,
                    "this module exchanges tensors only in the interpreter that used it first, and "
                    "not while that shuts down: use the module in one interpreter, or in another "
                    "process");
    return NULL;
}

/* The package's functions; NULL before fastdl_import(), and in interpreters other than the home. */
static const fastdl_runtime *fastdl_package_(void)
{
    return fastdl_is_home_() ? (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime)
                             : NULL;
}

static int fastdl_import_(const fastdl_runtime *runtime)
{
    const uint32_t major = FASTDL_ABI_MAJOR, minor = FASTDL_ABI_MINOR;
    if (runtime == NULL) {
        /* What PyCapsule_Import raises differs from release to release. */
        if (fastdl_clear_if_(PyExc_Exception))
            PyErr_SetString(PyExc_ImportError,
                            "the installed fastdl has no C interface: upgrade fastdlpack");
        return -1;
    }
    if (runtime->major != major || runtime->minor < minor) {
        int is_newer = runtime->major > major;
        PyErr_Format(PyExc_ImportError,
                     "this module was compiled with fastdl.h of interface %u.%u, and the installed "
                     "fastdl has interface %u.%u, which is %s: %s",
                     (unsigned)major, (unsigned)minor, (unsigned)runtime->major,
                     (unsigned)runtime->minor, is_newer ? "newer" : "older",
                     is_newer ? "upgrade the module, or compile it with the header of the "
                                "installed fastdl"
                              : "upgrade fastdlpack");
        return -1;
    }
    if (fastdl_get_names_() == NULL)
        return -1;
#ifdef Py_LIMITED_API
    fastdl_state_.tag_offset = (size_t)runtime->tag_offset;
#endif
    fastdl_atomic_store_(&fastdl_state_.runtime, runtime);
    fastdl_atomic_store_(&fastdl_state_.hits, runtime->types->tables[0]);
    return 0;
}

static int fastdl_import_package_(void)
{
    PyObject *package = PyImport_ImportModule("fastdl"); /* its own error is more specific */
    Py_XDECREF(package);
    return package == NULL
               ? -1
               : fastdl_import_((const fastdl_runtime *)PyCapsule_Import(FASTDL_RUNTIME, 0));
}
