/* SPDX-License-Identifier: Apache-2.0 */
#include "lifetime.h"

#include <fastdl/fastdl.h>

/* ---- a thread state while an owner needs one ---- */

typedef struct {
    int entered;   /* 1: attached by us */
    int temporary; /* the thread had no state before */
    PyGILState_STATE gil;
    PyObject *type, *value, *traceback; /* the exception that was pending, if type is set */
} python_state;

/* PyErr_Fetch works in every version; 3.12 deprecates it only in the documentation. */
static void set_error_aside(python_state *state)
{
    state->type = NULL;
    if (PyErr_Occurred())
        PyErr_Fetch(&state->type, &state->value, &state->traceback);
}

/* Reports an exception of the owner, which no caller can catch, and restores the exception that was
 * pending before. */
static void restore_error(python_state *state)
{
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL);
    if (state->type != NULL)
        PyErr_Restore(state->type, state->value, state->traceback);
}

FDL_THREAD_LOCAL int fdl_state_is_temporary;

/* Attaches the thread: 1; 0 if it cannot use the interpreter. */
static int enter_python(python_state *state, int attached)
{
    state->temporary = !attached && Py_IsInitialized() && PyGILState_GetThisThreadState() == NULL;
    state->entered = attached ? 0 : fastdl_state_.cold->enter_home(&state->gil);
    if (state->entered < 0)
        return 0;
    state->temporary &= state->entered;
    fdl_state_is_temporary += state->temporary;
    set_error_aside(state);
    return 1;
}

static void leave_python(python_state *state)
{
    restore_error(state);
    if (state->entered)
        PyGILState_Release(state->gil);
    fdl_state_is_temporary -= state->temporary;
}

/* ---- releasing ---- */

/* An owner may be a tensor that holds another block, and so on: a chain of exchanges would be
 * released in as many nested calls. At a depth of MAX_NESTED a block is queued instead, and the
 * first returning call that is at most DRAIN_NESTED deep releases all queued blocks. The outermost
 * call does not do this, since it may be a deleter that runs for a long time, or for ever, as in a
 * child process forked inside it. Each thread has its own depth and queue, since a deleter may let
 * other threads run. */
#define MAX_NESTED 32
#define DRAIN_NESTED 16

static FDL_THREAD_LOCAL struct {
    int nested;
    fdl_block *waiting;
} chain;

static void release_object(void *owner)
{
    Py_DECREF((PyObject *)owner);
}

static void release_owner(fdl_block *block)
{
    chain.nested++;
    block->release(block->owner);
    while (chain.waiting != NULL && chain.nested <= DRAIN_NESTED) {
        fdl_block *next = chain.waiting;
        chain.waiting = next->next;
        if (next->drop(next, 1))
            fdl_block_free(next, 1);
    }
    chain.nested--;
}

static int drop_owner(fdl_block *block, int attached)
{
    python_state state;
    if (attached && block->release == release_object && Py_REFCNT(block->owner) > 1) {
        /* One of several references: no code runs, nothing nests. (Without a GIL it may turn out to
         * be the last; then the calls nest one level deeper.) */
        Py_DECREF((PyObject *)block->owner);
        return 1;
    }
    if (attached && chain.nested < MAX_NESTED && !PyErr_Occurred()) { /* nothing to set aside */
        release_owner(block);
        if (PyErr_Occurred())
            PyErr_WriteUnraisable(NULL);
        return 1;
    }
    if (!enter_python(&state, attached))
        return 1; /* leaks the owner */
    if (chain.nested < MAX_NESTED) {
        release_owner(block);
    } else {
        block->next = chain.waiting;
        chain.waiting = block;
        block = NULL;
    }
    leave_python(&state);
    return block != NULL;
}

/* ---- owners ---- */

static void release_versioned(void *owner)
{
    DLManagedTensorVersioned *managed = owner;
    managed->deleter(managed);
}

static void release_legacy(void *owner)
{
    DLManagedTensor *managed = owner;
    managed->deleter(managed);
}

static void release_buffer(void *owner)
{
    PyBuffer_Release(owner);
    PyMem_RawFree(owner);
}

static void own(fdl_block *block, void *owner, void (*release)(void *owner))
{
    block->owner = owner;
    block->release = release;
    block->drop = drop_owner;
}

void fdl_own_versioned(fdl_block *block, DLManagedTensorVersioned *managed)
{
    own(block, managed, release_versioned);
}

void fdl_own_legacy(fdl_block *block, DLManagedTensor *managed)
{
    own(block, managed, release_legacy);
}

void fdl_own_object(fdl_block *block, PyObject *object)
{
    own(block, object, release_object);
}

void fdl_own_exporter(fdl_block *block, PyObject *exporter)
{
    own(block, exporter, release_object);
    block->hidden = 1;
}

void fdl_own_buffer(fdl_block *block, Py_buffer *buffer)
{
    own(block, buffer, release_buffer);
}

/* An owner, and an object that outlives it. */
typedef struct {
    void *owner;
    void (*release)(void *owner); /* NULL: only the object is released */
    PyObject *object;
} owner_pair;

static void release_pair(void *owner)
{
    owner_pair *pair = owner;
    if (pair->release != NULL)
        pair->release(pair->owner);
    Py_DECREF(pair->object);
    PyMem_RawFree(pair);
}

/* Steals all three on success; -1 with MemoryError on failure. */
static int own_pair(fdl_block *block, void *owner, void (*release)(void *), PyObject *object)
{
    owner_pair *pair = PyMem_RawMalloc(sizeof(owner_pair));
    if (pair == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    pair->owner = owner;
    pair->release = release;
    pair->object = object;
    own(block, pair, release_pair);
    return 0;
}

int fdl_keep_also(fdl_block *block, PyObject *object)
{
    if (block->drop != NULL && block->drop != drop_owner)
        return 0; /* a re-import of fastdl's own memory needs no other owner */
    if (fdl_count_get(&block->refs) != 1)
        return 0; /* nor does one of other memory; and other references may drop the block */
    if (own_pair(block, block->owner, block->release, object) < 0)
        return -1;
    Py_INCREF(object);
    return 0;
}

static void call_deleter(void *owner)
{
    PyObject *deleter = owner;
    PyObject *result = PyObject_CallNoArgs(deleter);
    if (result == NULL)
        PyErr_WriteUnraisable(deleter);
    Py_XDECREF(result);
    Py_DECREF(deleter);
}

int fdl_delete_with(fdl_block *block, PyObject *deleter)
{
    if (own_pair(block, deleter, deleter == NULL ? NULL : call_deleter, block->owner) < 0)
        return -1;
    Py_XINCREF(deleter);
    return 0;
}

void fdl_disown(fdl_block *block)
{
    block->owner = NULL;
    block->release = NULL;
    block->drop = NULL;
}

PyObject *fdl_object_behind(const fdl_block *block)
{
    return block->release == release_object && !block->hidden ? block->owner : NULL;
}

void fdl_unlock_buffer(Py_buffer *buffer)
{
    python_state state;
    set_error_aside(&state);
    release_buffer(buffer);
    restore_error(&state);
}

/* ---- waiting without the GIL ---- */

static PyThreadState *current_state(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

void *fdl_pause_python(void)
{
    /* Before 3.12 the current state is that of whichever thread runs, so it is compared. Without an
     * interpreter it is NULL; but during finalisation the last thread still has the GIL. */
    PyThreadState *state = current_state();
    if (state == NULL || state != PyGILState_GetThisThreadState())
        return NULL;
    return PyEval_SaveThread();
}

void fdl_resume_python(void *paused)
{
    if (paused != NULL)
        PyEval_RestoreThread((PyThreadState *)paused);
}
