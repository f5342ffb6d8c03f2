/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with Python in it, for what only such programs do. Its arguments are pairs:
 *
 *     NAME CODE    runs CODE in the interpreter NAME, which is made if there is none yet: "main",
 *                  "own..." with a GIL of its own (CPython 3.12 or newer), or any other name for
 *                  one that shares the GIL
 *     end NAME     ends that interpreter; for "main", finalizes Python, which the next CODE for
 *                  "main" initializes again
 *
 * Ends with 0 if nothing was raised.
 */
#include <Python.h>

#include <stdio.h>
#include <string.h>

#define MOST 16

static struct {
    const char *name;
    PyThreadState *state;
} interpreters[MOST];
static int count;

static PyThreadState *make(const char *name)
{
    PyThreadState *state = NULL;
    if (strcmp(name, "main") == 0) {
        Py_InitializeEx(0);
        return PyThreadState_Get();
    }
#if PY_VERSION_HEX >= 0x030C0000
    if (strncmp(name, "own", 3) == 0) {
        PyInterpreterConfig config = {
            .check_multi_interp_extensions = 1,
            .allow_threads = 1,
            .gil = PyInterpreterConfig_OWN_GIL,
        };
        PyStatus status = Py_NewInterpreterFromConfig(&state, &config);
        return PyStatus_Exception(status) ? NULL : state;
    }
#endif
    state = Py_NewInterpreter();
    return state;
}

/* The number of an interpreter, whose thread state is current then; -1 on failure. */
static int enter(const char *name)
{
    int i = 0;
    if (count == 0 && strcmp(name, "main") != 0 && enter("main") < 0)
        return -1;
    while (i < count && strcmp(interpreters[i].name, name) != 0)
        i++;
    if (i == MOST)
        return -1;
    if (i < count && interpreters[i].state != NULL) {
        PyThreadState_Swap(interpreters[i].state);
        return i;
    }
    if (count > 0 && interpreters[0].state != NULL)
        PyThreadState_Swap(interpreters[0].state);
    interpreters[i].name = name;
    interpreters[i].state = make(name);
    count += i == count;
    return interpreters[i].state == NULL ? -1 : i;
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        int is_end = strcmp(argv[i], "end") == 0;
        int which = enter(is_end ? argv[i + 1] : argv[i]);
        if (which < 0) {
            fprintf(stderr, "no interpreter %s\n", argv[i]);
            return 2;
        }
        if (!is_end) {
            if (PyRun_SimpleString(argv[i + 1]) != 0)
                return 1;
            continue;
        }
        if (which == 0) {
            if (Py_FinalizeEx() < 0)
                return 3;
            count = 0;
        } else {
            Py_EndInterpreter(interpreters[which].state);
            PyThreadState_Swap(interpreters[0].state);
        }
        interpreters[which].state = NULL;
    }
    if (count > 0) {
        for (int i = 1; i < count; i++)
            if (interpreters[i].state != NULL) {
                PyThreadState_Swap(interpreters[i].state);
                Py_EndInterpreter(interpreters[i].state);
            }
        PyThreadState_Swap(interpreters[0].state);
        return Py_FinalizeEx() < 0 ? 3 : 0;
    }
    return 0;
}
