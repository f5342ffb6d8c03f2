/* SPDX-License-Identifier: Apache-2.0 */
#include "gil.h"

#include <Python.h>

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
     * interpreter there is none; but while one is being finalized, its last thread has the GIL. */
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
