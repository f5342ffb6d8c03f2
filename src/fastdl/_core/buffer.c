/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"

#include <fastdl/fastdl.h>

#include "lifetime.h"
#include "object.h"

/* The code of an element type by its PEP 3118 letter, or -1. The size decides about the bits. */
static int code_of(char letter)
{
    switch (letter) {
    case '?':
        return kDLBool;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
        return kDLInt;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
        return kDLUInt;
    case 'e':
    case 'f':
    case 'd':
        return kDLFloat;
    default:
        return -1;
    }
}

/* 1 if `format` is of one native number; else 0. */
static int parse(const char *format, Py_ssize_t itemsize, DLDataType *dtype)
{
    int is_complex, code;
    if (format == NULL || itemsize <= 0 || itemsize > 16)
        return 0;
    if (*format == '=' || *format == '@' || *format == '<')
        format++;
    is_complex = *format == 'Z';
    format += is_complex;
    code = code_of(*format);
    if (code < 0 || format[1] != '\0' || (is_complex && code != kDLFloat))
        return 0;
    dtype->code = (uint8_t)(is_complex ? kDLComplex : code);
    dtype->bits = (uint8_t)(8 * itemsize);
    dtype->lanes = 1;
    return 1;
}

/* A description of `buffer`, or NULL as fdl_take_buffer. */
static fdl_description *describe(const Py_buffer *buffer, uint64_t flags)
{
    DLTensor tensor;
    int64_t dims[2 * FASTDL_MAX_NDIM];
    fastdl_layout layout;
    fdl_description *description;
    if (!parse(buffer->format, buffer->itemsize, &tensor.dtype) || buffer->ndim < 0 ||
        buffer->ndim > FASTDL_MAX_NDIM ||
        (buffer->ndim > 0 && (buffer->shape == NULL || buffer->strides == NULL)) ||
        buffer->suboffsets != NULL)
        return NULL;
    tensor.data = buffer->buf;
    tensor.device.device_type = kDLCPU;
    tensor.device.device_id = 0;
    tensor.ndim = buffer->ndim;
    tensor.byte_offset = 0;
    tensor.shape = dims;
    tensor.strides = dims + FASTDL_MAX_NDIM;
    for (int i = 0; i < buffer->ndim; i++) {
        tensor.shape[i] = buffer->shape[i];
        tensor.strides[i] = buffer->strides[i] / buffer->itemsize;
        if (buffer->strides[i] % buffer->itemsize != 0 && buffer->shape[i] > 1)
            return NULL;
    }
    if (fastdl_check(&tensor, flags, &layout) != FASTDL_OK)
        return NULL; /* `__dlpack__` says what is wrong */
    description = fdl_block_new(tensor.ndim);
    if (description == NULL)
        PyErr_NoMemory();
    else
        fdl_description_fill(description, &tensor, flags);
    return description;
}

int fdl_never_changes(PyObject *exporter)
{
    while (exporter != NULL && PyMemoryView_Check(exporter))
        exporter = PyMemoryView_GET_BUFFER(exporter)->obj;
    if (exporter == NULL)
        return 0;
    return PyBytes_CheckExact(exporter) ||
           (fdl_is_tensor(exporter) && fdl_description_in(exporter)->block->immutable);
}

PyObject *fdl_take_buffer(PyObject *object, uint64_t flags)
{
    fdl_description *description;
    Py_buffer *buffer = PyMem_RawMalloc(sizeof(Py_buffer));
    if (buffer == NULL)
        return PyErr_NoMemory();
    if (PyObject_GetBuffer(object, buffer, PyBUF_RECORDS_RO) < 0) {
        PyMem_RawFree(buffer);
        (void)fastdl_clear_if_(PyExc_Exception);
        return NULL;
    }
    description = describe(buffer, flags);
    if (description == NULL) {
        PyBuffer_Release(buffer);
        PyMem_RawFree(buffer);
        return NULL;
    }
    fdl_own_buffer(description->block, buffer);
    return fdl_tensor_wrap(description);
}
