/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot of the cache of types, read as without a GIL while another thread writes it. Each load
 * sees the slot as it was after some store. Any CPython compiles this.
 */
#include "module.h"

#ifndef Py_GIL_DISABLED
#define Py_GIL_DISABLED 1
#undef Py_BEGIN_CRITICAL_SECTION
#undef Py_END_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

static void before_load(void);
static void after_store(void);
#define __atomic_load_n(place, order) (before_load(), __atomic_load_n(place, order))
#define __atomic_store_n(place, value, order) (__atomic_store_n(place, value, order), after_store())

#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

static fastdl_slot slot, states[32];
static fastdl_record records[2];
static const char *moments;
static Py_ssize_t state_count, loads, moment_count;

static void before_load(void)
{
    if (loads < moment_count)
        slot = states[(int)moments[loads]];
    loads++;
}

static void after_store(void)
{
    states[state_count++] = slot;
}

/* write(): puts the first type into the slot, then the second, then the first again. The number of
 * states of the slot, and that of the first in which it is the first type's. */
static PyObject *write_slot(PyObject *self, PyObject *unused)
{
    Py_ssize_t first = 0;
    state_count = 0;
    for (uint32_t i = 0; i < 3; i++) {
        fastdl_fill_(&slot, &records[i % 2], i % 2 + 1, &records[i % 2], NULL);
        if (i == 0)
            first = state_count - 1;
    }
    return Py_BuildValue("nn", state_count, first);
}

/* read(moments): looks for the first type, with load i in the state moments[i]: how many loads
 * there were, and which record was found: 0, 1, or None. */
static PyObject *read_slot(PyObject *self, PyObject *argument)
{
    const fastdl_record *found;
    moments = PyBytes_AsString(argument);
    if (moments == NULL)
        return NULL;
    moment_count = PyBytes_Size(argument);
    loads = 0;
    if (!fastdl_match_(&slot, (const PyTypeObject *)(void *)&records[0], 1, &found))
        return Py_BuildValue("nO", loads, Py_None);
    return Py_BuildValue("nn", loads, (Py_ssize_t)(found - records));
}

static PyMethodDef functions[] = {
    {"write", write_slot, METH_NOARGS, NULL},
    {"read", read_slot, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

DEFINE_MODULE(slots, functions)
