/* SPDX-License-Identifier: Apache-2.0 */
#include "lifetime.h"

/* ---- a thread state for as long as an owner needs one ---- */

typedef struct {
    int attached; /* by us */
    PyGILState_STATE gil;
    PyObject *type, *value, *traceback; /* the exception that was pending, if type is set */
} python_state;

static int interpreter_is_leaving(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

/* PyErr_Fetch serves every version; 3.12 deprecates it in the documentation only. */
static void set_error_aside(python_state *state)
{
    state->type = NULL;
    if (PyErr_Occurred())
        PyErr_Fetch(&state->type, &state->value, &state->traceback);
}

/* Reports what the owner raised, which nobody is there to catch, and restores the exception that
 * was pending before. */
static void restore_error(python_state *state)
{
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL);
    if (state->type != NULL)
        PyErr_Restore(state->type, state->value, state->traceback);
}

/* 0 when there is no interpreter to attach to. A thread that asks while another one starts to
 * finalise can pass the check and then be stopped inside PyGILState_Ensure: Python offers no
 * way to close that gap before 3.15. */
static int enter_python(python_state *state, int attached)
{
    state->attached = 0;
    if (!attached) {
        if (!Py_IsInitialized() || (interpreter_is_leaving() && !PyGILState_Check()))
            return 0;
        state->gil = PyGILState_Ensure();
        state->attached = 1;
    }
    set_error_aside(state);
    return 1;
}

static void leave_python(python_state *state)
{
    restore_error(state);
    if (state->attached)
        PyGILState_Release(state->gil);
}

/* ---- owners ---- */

static void drop_versioned(fdl_block *block, int attached)
{
    DLManagedTensorVersioned *managed = block->owner;
    python_state state;
    if (enter_python(&state, attached)) {
        managed->deleter(managed);
        leave_python(&state);
    }
}

static void drop_legacy(fdl_block *block, int attached)
{
    DLManagedTensor *managed = block->owner;
    python_state state;
    if (enter_python(&state, attached)) {
        managed->deleter(managed);
        leave_python(&state);
    }
}

static void drop_object(fdl_block *block, int attached)
{
    python_state state;
    if (attached) { /* nothing to set aside: deallocation keeps a pending exception */
        Py_DECREF((PyObject *)block->owner);
    } else if (enter_python(&state, 0)) {
        Py_DECREF((PyObject *)block->owner);
        leave_python(&state);
    }
}

static void drop_buffer(fdl_block *block, int attached)
{
    python_state state;
    if (enter_python(&state, attached)) {
        PyBuffer_Release(block->owner);
        PyMem_RawFree(block->owner);
        leave_python(&state);
    }
}

static void own(fdl_block *block, void *owner, void (*drop)(fdl_block *, int))
{
    block->owner = owner;
    block->drop = drop;
}

void fdl_own_versioned(fdl_block *block, DLManagedTensorVersioned *managed)
{
    own(block, managed, drop_versioned);
}

void fdl_own_legacy(fdl_block *block, DLManagedTensor *managed)
{
    own(block, managed, drop_legacy);
}

void fdl_own_object(fdl_block *block, PyObject *object)
{
    own(block, object, drop_object);
}

void fdl_own_buffer(fdl_block *block, Py_buffer *buffer)
{
    own(block, buffer, drop_buffer);
}

/* An owner, and an object that outlives it. */
typedef struct {
    void *owner;
    void (*drop)(fdl_block *block, int attached);
    PyObject *object;
} owner_pair;

static void drop_pair(fdl_block *block, int attached)
{
    owner_pair *pair = block->owner;
    python_state state;
    if (!enter_python(&state, attached))
        return;
    block->owner = pair->owner;
    if (pair->drop != NULL)
        pair->drop(block, 1);
    Py_DECREF(pair->object);
    PyMem_RawFree(pair);
    leave_python(&state);
}

int fdl_keep_also(fdl_block *block, PyObject *object)
{
    owner_pair *pair = PyMem_RawMalloc(sizeof(owner_pair));
    if (pair == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    pair->owner = block->owner;
    pair->drop = block->drop;
    pair->object = Py_NewRef(object);
    own(block, pair, drop_pair);
    return 0;
}

void fdl_disown(fdl_block *block)
{
    own(block, NULL, NULL);
}

PyObject *fdl_object_behind(const fdl_block *block)
{
    if (block->drop == drop_object)
        return block->owner;
    if (block->drop == drop_buffer)
        return ((Py_buffer *)block->owner)->obj;
    return NULL;
}

PyObject *fdl_sole_object(fdl_block *block)
{
    return fdl_count_get(&block->refs) == 1 ? fdl_object_behind(block) : NULL;
}

void fdl_discard_versioned(DLManagedTensorVersioned *managed)
{
    python_state state;
    if (managed->deleter != NULL && enter_python(&state, 1)) {
        managed->deleter(managed);
        leave_python(&state);
    }
}

void fdl_discard_legacy(DLManagedTensor *managed)
{
    python_state state;
    if (managed->deleter != NULL && enter_python(&state, 1)) {
        managed->deleter(managed);
        leave_python(&state);
    }
}
