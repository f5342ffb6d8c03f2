/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"

#include "interface.h"
#include "lifetime.h"
#include "object.h"

int fdl_never_changes(PyObject *exporter)
{
    while (exporter != NULL && PyMemoryView_Check(exporter))
        exporter = PyMemoryView_GET_BUFFER(exporter)->obj;
    if (exporter == NULL)
        return 0;
    return PyBytes_CheckExact(exporter) ||
           (fdl_is_tensor(exporter) && fdl_description_in(exporter)->block->immutable);
}

void fdl_unlock_buffer(Py_buffer *buffer)
{
    PyBuffer_Release(buffer);
    PyMem_RawFree(buffer);
}

PyObject *fdl_take_buffer(Py_buffer *buffer, uint64_t flags)
{
    int64_t dims[2 * FASTDL_MAX_NDIM];
    fdl_description *description = NULL;
    DLTensor tensor;
    if (fastdl_read_buffer_(buffer, &tensor, dims) == 0) {
        description = fdl_block_new(tensor.ndim);
        if (description == NULL)
            PyErr_NoMemory();
    }
    if (description == NULL) {
        fdl_unlock_buffer(buffer);
        return NULL;
    }
    if (buffer->readonly)
        flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    fdl_description_fill(description, &tensor, flags);
    description->block->immutable = buffer->readonly && fdl_never_changes(buffer->obj);
    fdl_own_buffer(description->block, buffer);
    return fdl_tensor_wrap(description);
}

PyObject *fdl_try_buffer(PyObject *object, uint64_t flags)
{
    PyObject *tensor = NULL;
    Py_buffer *buffer = PyMem_RawMalloc(sizeof(Py_buffer));
    if (buffer == NULL)
        return PyErr_NoMemory();
    if (PyObject_GetBuffer(object, buffer, PyBUF_RECORDS_RO) == 0)
        tensor = fdl_take_buffer(buffer, flags);
    else
        PyMem_RawFree(buffer);
    if (tensor == NULL && !PyErr_ExceptionMatches(PyExc_MemoryError))
        (void)fastdl_clear_if_(PyExc_Exception);
    return tensor;
}
