/* SPDX-License-Identifier: Apache-2.0 */

/* ---- the cache of types ---- */

static void fastdl_fill_(fastdl_slot *slot, const void *type, uint32_t tag, const void *record,
                         PyObject *watch)
{
    fastdl_atomic_store_tag_(&slot->tag, 0);
    fastdl_atomic_store_(&slot->type, type);
    fastdl_atomic_store_(&slot->record, record);
    slot->watch = watch;
    fastdl_atomic_store_tag_(&slot->tag, tag);
}

/* Puts a type into way 0 of its set, replacing the one in `way`, and returns the watch of that. */
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

static const fastdl_keyword_fact fastdl_keyword_facts_[] = {
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
