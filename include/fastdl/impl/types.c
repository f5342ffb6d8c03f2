/* SPDX-License-Identifier: Apache-2.0 */

/* ---- the cache of types ---- */

static void fastdl_fill_(fastdl_slot *slot, const void *type, uint32_t tag, const void *record,
                         PyObject *watch)
{
    fastdl_atomic_store_tag_(&slot->tag, 0);
    fastdl_atomic_store_tag_(&slot->writes, slot->writes + 1);
    fastdl_atomic_store_(&slot->type, type);
    fastdl_atomic_store_(&slot->record, record);
    slot->watch = watch;
    fastdl_atomic_store_tag_(&slot->tag, tag);
}

/* Puts a type into way 0 of its set, replacing the one in `way`, whose watch is returned. */
static PyObject *fastdl_put_in_front_(fastdl_slot (*places)[FASTDL_SETS], uint32_t way,
                                      const void *type, uint32_t tag, const void *record,
                                      PyObject *watch)
{
    uint32_t set = tag & (FASTDL_SETS - 1);
    PyObject *out = places[way][set].watch;
    for (; way > 0; way--) {
        const fastdl_slot *before = &places[way - 1][set];
        fastdl_fill_(&places[way][set], before->type, before->tag, before->record, before->watch);
    }
    fastdl_fill_(&places[0][set], type, tag, record, watch);
    return out;
}

/* The record of the type with that tag in these slots, or NULL; moves it to way 0. */
static const fastdl_record *fastdl_find_in_(fastdl_cache *cache, fastdl_slot (*places)[FASTDL_SETS],
                                            const PyTypeObject *type, uint32_t tag)
{
    const fastdl_record *record;
    for (uint32_t way = 0; way < FASTDL_WAYS; way++) {
        const fastdl_slot *slot = &places[way][tag & (FASTDL_SETS - 1)];
        if (!fastdl_match_(slot, type, tag, &record))
            continue;
        if (way > 0 && fastdl_atomic_compare_exchange_(&cache->writer, NULL, cache)) {
            if (fastdl_match_(slot, type, tag, &record))
                (void)fastdl_put_in_front_(places, way, type, tag, record, slot->watch);
            fastdl_atomic_store_(&cache->writer, NULL);
        }
        return record;
    }
    return NULL;
}

/* The record of the type with that tag in a cache, or NULL. */
FASTDL_SHARED_ const fastdl_record *fastdl_find_record(fastdl_cache *cache,
                                                       const PyTypeObject *type, uint32_t tag)
{
    const fastdl_record *record;
    if (tag == 0)
        return NULL;
    record = fastdl_find_in_(cache, cache->tables, type, tag);
    return record != NULL ? record : fastdl_find_in_(cache, cache->others, type, tag);
}

/* Adds a type to a cache, or replaces its entry; steals `watch`. Does nothing if another thread is
 * writing: the cache is not needed for correctness. */
static void fastdl_add_type_(fastdl_cache *cache, const PyTypeObject *type, uint32_t tag,
                             const fastdl_record *record, PyObject *watch)
{
    fastdl_slot(*places)[FASTDL_SETS] =
        record->facts & FASTDL_TYPE_PROTOCOL ? cache->others : cache->tables;
    uint32_t way = 0;
    if (fastdl_atomic_compare_exchange_(&cache->writer, NULL, cache)) {
        while (way < FASTDL_WAYS - 1 &&
               places[way][tag & (FASTDL_SETS - 1)].type != (const void *)type)
            way++;
        watch = fastdl_put_in_front_(places, way, type, tag, record, watch);
        fastdl_atomic_store_(&cache->writer, NULL);
    }
    Py_XDECREF(watch);
}

/* A permanent copy of a record. NULL with MemoryError. */
static const fastdl_record *fastdl_keep_record_(fastdl_cache *cache, const fastdl_record *record)
{
    const void *latest = fastdl_atomic_load_(&cache->records);
    fastdl_record *copy;
    for (const void *next = latest; next != NULL;) {
        const fastdl_record *kept = (const fastdl_record *)next;
        if (kept->api == record->api && kept->lend == record->lend &&
            kept->borrow == record->borrow && kept->facts == record->facts &&
            kept->refused == record->refused)
            return kept;
        next = kept->next;
    }
    copy = (fastdl_record *)malloc(sizeof(fastdl_record));
    if (copy == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *copy = *record;
    do {
        copy->next = fastdl_atomic_load_(&cache->records);
    } while (!fastdl_atomic_compare_exchange_(&cache->records, copy->next, copy));
    return copy;
}

/* ---- the facts about a type ---- */

/* Determines the facts about a type from its name, `__dlpack__`, and the table that it publishes
 * (NULL if none). */
FASTDL_SHARED_ int fastdl_fill_record_(PyTypeObject *type, fastdl_record *record)
{
    PyObject *method;
    int named = fastdl_has_names_(type), is_checked;
    memset(record, 0, sizeof(*record));
    if (named <= 0 || fastdl_add_facts_(type, &record->facts) < 0)
        return named == 0 ? 0 : -1;
    if (record->facts & FASTDL_TYPE_TRACED) {
        record->api = &fastdl_traced_table_;
        return 0;
    }
    if (fastdl_published_table_(type, &record->api, &is_checked) < 0)
        return -1;
    if (record->api != NULL) {
        record->facts |= FASTDL_TYPE_NATIVE;
        record->lend = record->api->dltensor_from_py_object_no_sync;
        if (is_checked)
            record->facts |= FASTDL_TYPE_CHECKED;
    }
    method = fastdl_type_lookup_(type, "__dlpack__");
    if (method != NULL && method != Py_None) { /* None: opted out */
        record->facts |= FASTDL_TYPE_HAS_DLPACK;
        if (fastdl_read_signature_(method, &record->refused) < 0) {
            Py_DECREF(method);
            return -1;
        }
    }
    Py_XDECREF(method);
    return PyErr_Occurred() ? -1 : fastdl_add_meaning_(type, &record->facts);
}

/* fastdl_fill_record_ without the package: types without a table get the header's own. */
static int fastdl_fill_record_alone_(PyTypeObject *type, fastdl_record *record)
{
    if (fastdl_fill_record_(type, record) < 0)
        return -1;
    if (record->api == NULL) {
        record->facts |= FASTDL_TYPE_PROTOCOL;
        record->api = fastdl_protocol_();
    }
    return 0;
}

/* Makes CPython assign the type a version tag, if it has none. */
static uint32_t fastdl_make_tag_(PyTypeObject *type)
{
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030C0000
    (void)PyUnstable_Type_AssignVersionTag(type);
#elif !defined(Py_LIMITED_API)
    Py_XDECREF(fastdl_type_lookup_(type, "__dlpack__"));
#endif
    return fastdl_tag_(type);
}

#ifdef Py_LIMITED_API

/* Empties the slots of a type in the module's own cache. */
static void fastdl_forget_(const void *type)
{
    fastdl_cache *cache = &fastdl_own_types_;
    for (uint32_t i = 0; i < 2 * FASTDL_WAYS * FASTDL_SETS; i++) {
        uint32_t way = i / FASTDL_SETS % FASTDL_WAYS, set = i % FASTDL_SETS;
        fastdl_slot *slot =
            i < FASTDL_WAYS * FASTDL_SETS ? &cache->tables[way][set] : &cache->others[way][set];
        if (slot->type == type) {
            PyObject *watch = slot->watch;
            fastdl_fill_(slot, NULL, 0, NULL, NULL);
            Py_XDECREF(watch);
        }
    }
}

/* The callback of a weak reference to a type; `self` is its address. */
static PyObject *fastdl_has_died_(PyObject *self, PyObject *unused)
{
    const void *type = PyLong_AsVoidPtr(self);
    (void)unused;
    if (type != NULL)
        fastdl_forget_(type);
    Py_INCREF(Py_None);
    return Py_None;
}

static int fastdl_watch_(PyTypeObject *type, PyObject **watch)
{
    static PyMethodDef definition = {"has_died", fastdl_has_died_, METH_O, NULL};
    PyObject *address, *callback;
    if (fastdl_state_.tag_offset != 0)
        return 0;
    address = PyLong_FromVoidPtr(type);
    callback = address == NULL ? NULL : PyCFunction_NewEx(&definition, address, NULL);
    *watch = callback == NULL ? NULL : PyWeakref_NewRef((PyObject *)type, callback);
    Py_XDECREF(callback);
    Py_XDECREF(address);
    (void)fastdl_clear_if_(PyExc_Exception);
    return *watch == NULL ? -1 : 0;
}

#else

static int fastdl_watch_(PyTypeObject *type, PyObject **watch)
{
    (void)type;
    (void)watch;
    return 0;
}

#endif

/* Gets the facts of a type from `describe`, and caches them in `cache`. Describing runs code of the
 * type's descriptors, so the tag is compared afterwards. NULL with an exception. */
FASTDL_SHARED_ const fastdl_record *fastdl_discover(fastdl_cache *cache, PyTypeObject *type,
                                                    int (*describe)(PyTypeObject *,
                                                                    fastdl_record *))
{
    const fastdl_record *kept;
    fastdl_record found;
    uint32_t tag;
    int tries = 0;
    do {
        tag = fastdl_make_tag_(type);
        if (describe(type, &found) < 0)
            return NULL;
    } while (tag != fastdl_tag_(type) && ++tries < 4);
    kept = fastdl_keep_record_(cache, &found);
    if (kept != NULL && tries < 4 && tag != 0 && fastdl_is_tensor_type(kept)) {
        PyObject *watch = NULL;
        if (fastdl_watch_(type, &watch) == 0)
            fastdl_add_type_(cache, type, tag, kept, watch);
    }
    return kept;
}

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
