/* SPDX-License-Identifier: Apache-2.0 */

/* Slow path of fastdl_known_, for types that are not in way 0 of the cache. */
static const fastdl_record *fastdl_look_up_(PyTypeObject *type)
{
    const fastdl_record *record;
    const fastdl_runtime *package;
    if (fastdl_get_names_() == NULL)
        return NULL;
    package = (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime);
    record = fastdl_find_record(package != NULL ? package->types : &fastdl_own_types_, type,
                                fastdl_tag_(type));
    if (record != NULL)
        return record;
    return package != NULL ? package->describe(type)
                           : fastdl_discover(&fastdl_own_types_, type, fastdl_fill_record_alone_);
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
