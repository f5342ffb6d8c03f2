/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers of Python as tensors.
 */
#ifndef FASTDL_CORE_BUFFER_H_
#define FASTDL_CORE_BUFFER_H_

#include <Python.h>

#include <fastdl/dlpack.h>

/* Describes a buffer with a format and strides in *tensor: 0, or -1 with BufferError. `dims`, which
 * receives its shape and strides, has room for 2 * FASTDL_MAX_NDIM numbers. */
int fdl_read_buffer(const Py_buffer *buffer, DLTensor *tensor, int64_t *dims);

#endif
