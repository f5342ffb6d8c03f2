/* SPDX-License-Identifier: Apache-2.0 */

/* The destructor of the capsule that an interpreter keeps for this module: the interpreter ends. */
static void fastdl_leave_home_(PyObject *capsule)
{
    fastdl_names_ *names = (fastdl_names_ *)fastdl_atomic_load_(&fastdl_kept_names_);
    const void *here = PyCapsule_GetContext(capsule);
    if (here == NULL)
        return; /* it was not kept */
    if (names != NULL && names->interpreter == here) {
        fastdl_atomic_store_(&fastdl_kept_names_, NULL);
        fastdl_drop_names_(names);
        free(names);
    }
    if (fastdl_atomic_load_(&fastdl_state_.home) != here)
        return; /* another interpreter has become the home since */
    fastdl_atomic_store_(&fastdl_state_.hits, fastdl_no_types_);
    fastdl_atomic_store_(&fastdl_state_.runtime, NULL);
    fastdl_forget_(&fastdl_own_types_, NULL);
#ifdef Py_LIMITED_API
    fastdl_state_.tag_offset = FASTDL_TAG_OFFSET_;
#endif
    fastdl_atomic_store_(&fastdl_state_.home, NULL);
}

/* Has the calling interpreter keep such a capsule: 0, or -1 with an exception. */
static int fastdl_await_end_(PyInterpreterState *here)
{
    PyObject *kept = PyInterpreterState_GetDict(here);
    PyObject *key = PyUnicode_FromFormat("fastdl.h %p", (void *)&fastdl_state_);
    PyObject *capsule = PyCapsule_New(&fastdl_state_, "fastdl.h", fastdl_leave_home_);
    int result = -1;
    if (kept != NULL && key != NULL && capsule != NULL) {
        /* An existing capsule stays: its destruction would be mistaken for the end of the
         * interpreter. */
#ifdef Py_GIL_DISABLED
        /* In one step, or a thread could replace that of another: CPython 3.13 suspends a critical
         * section in each operation on the same dictionary. */
        PyObject *found = NULL;
        result = PyDict_SetDefaultRef(kept, key, capsule, &found);
        Py_XDECREF(found);
#else
        result = PyDict_Contains(kept, key);
        if (result == 0)
            result = PyDict_SetItem(kept, key, capsule);
#endif
        if (result == 0)
            PyCapsule_SetContext(capsule, here);
    }
    Py_XDECREF(capsule);
    Py_XDECREF(key);
    return result < 0 ? -1 : 0;
}

/* Makes the calling interpreter the home instead of `former`, unless another thread has done so
 * meanwhile: 0, or -1 with an exception. */
static int fastdl_bind_to_interpreter_(const void *former)
{
    PyInterpreterState *here = PyInterpreterState_Get();
    if (!fastdl_interpreter_is_gone_()) {
        if (fastdl_await_end_(here) < 0)
            return -1;
        /* The slots of the package stay, if another thread has put them there. */
        if (fastdl_atomic_compare_exchange_(&fastdl_state_.home, former, here))
            (void)fastdl_atomic_compare_exchange_(&fastdl_state_.hits, fastdl_no_types_,
                                                  fastdl_own_types_.tables[0]);
        if (fastdl_atomic_load_(&fastdl_state_.home) == (const void *)here)
            return 0;
    }
    PyErr_SetString(PyExc_ImportError, "expected an interpreter that is not about to end");
    return -1;
}

/* Whether the state belongs to the calling interpreter. */
static int fastdl_is_bound_here_(void)
{
    const void *home = fastdl_atomic_load_(&fastdl_state_.home);
    if (home == (const void *)PyInterpreterState_Get())
        return 1;
    if (home != NULL)
        fastdl_atomic_store_(&fastdl_state_.hits, fastdl_no_types_);
    return 0;
}

/* What the package offers the calling interpreter; NULL before fastdl_import(), and if it is not
 * the home. */
static const fastdl_runtime *fastdl_package_(void)
{
    return fastdl_is_bound_here_()
               ? (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime)
               : NULL;
}

/* Whether the package has a member of fastdl_runtime that its first release did not have: the
 * struct of an older one ends before it, and may have padding there. */
#define FASTDL_OFFERS_(package, member)                                                            \
    ((package) != NULL &&                                                                          \
     (package)->size >= offsetof(fastdl_runtime, member) + sizeof((package)->member))

static const DLPackExchangeAPI *fastdl_protocol_(void)
{
    const fastdl_runtime *package = fastdl_package_();
    return package != NULL ? package->protocol : &fastdl_protocol_table_;
}
