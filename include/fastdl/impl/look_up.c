/* SPDX-License-Identifier: Apache-2.0 */

/* Slow path of fastdl_known_, for types that are not in way 0 of the cache. */
static const fastdl_record *fastdl_look_up_(PyTypeObject *type)
{
    const fastdl_record *record = NULL;
    const fastdl_runtime *package = NULL;
    int is_home = fastdl_is_bound_here_();
    if (!is_home && fastdl_atomic_load_(&fastdl_state_.home) == NULL) {
        is_home = fastdl_bind_to_interpreter_(NULL) == 0;
        if (!fastdl_clear_if_(PyExc_Exception))
            return NULL;
    }
    if (is_home) {
        package = (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime);
        record = fastdl_find_record(package != NULL ? package->types : &fastdl_own_types_, type,
                                    fastdl_tag_(type));
    }
    if (record != NULL)
        return record;
    return package != NULL
               ? package->describe(type)
               : fastdl_discover(&fastdl_own_types_, type, fastdl_fill_record_alone_, is_home);
}

/* The cached names are freed with the home, by its capsule. */
static const fastdl_names_ *fastdl_keep_names_(fastdl_names_ *made)
{
    fastdl_names_ *kept;
    if (fastdl_make_names_(made) < 0)
        return NULL;
    if (fastdl_atomic_load_(&fastdl_state_.home) == NULL && fastdl_bind_to_interpreter_(NULL) < 0 &&
        !fastdl_clear_if_(PyExc_Exception)) {
        fastdl_drop_names_(made);
        return NULL;
    }
    kept = fastdl_is_bound_here_() ? (fastdl_names_ *)malloc(sizeof(fastdl_names_)) : NULL;
    if (kept == NULL)
        return made;
    *kept = *made;
    if (fastdl_atomic_compare_exchange_(&fastdl_kept_names_, NULL, kept))
        return kept;
    free(kept);
    return made;
}

static const fastdl_names_ *fastdl_get_names_(fastdl_names_ *made)
{
    const fastdl_names_ *kept = (const fastdl_names_ *)fastdl_atomic_load_(&fastdl_kept_names_);
    /* Only the home reads the cached names: its end could free them while another interpreter
     * reads. */
    if (FASTDL_LIKELY_(kept != NULL && fastdl_is_bound_here_() &&
                       kept->interpreter == (void *)PyInterpreterState_Get()))
        return kept;
    return fastdl_keep_names_(made);
}

static int fastdl_import_(const fastdl_runtime *runtime)
{
    const uint32_t major = FASTDL_ABI_MAJOR, minor = FASTDL_ABI_MINOR;
    if (runtime == NULL) {
        /* What PyCapsule_Import raises differs from release to release. */
        if (fastdl_clear_if_(PyExc_Exception))
            PyErr_SetString(PyExc_ImportError,
                            "the installed fastdl offers no interface for C: upgrade fastdlpack");
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
    if (!fastdl_is_bound_here_() &&
        fastdl_bind_to_interpreter_(fastdl_atomic_load_(&fastdl_state_.home)) < 0)
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

static const DLPackExchangeAPI *fastdl_exchange_api_(PyTypeObject *type)
{
    const fastdl_record *record = fastdl_known_(type);
    if (record == NULL)
        return NULL;
    if (!fastdl_is_tensor_type(record)) {
        fastdl_raise_about_(PyExc_TypeError,
                            "expected the type of a tensor, got '%U', which has neither a DLPack "
                            "exchange table nor __dlpack__",
                            type);
        return NULL;
    }
    return record->api;
}
