/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types and devices for Python: the rows of C's tables, and one object for each element
 * type and device, for Tensor.dtype and Tensor.device.
 *
 * The classes are written in Python, and their constructors return one object for equal facts.
 * These objects are cached here in tables of a fixed size, whose entries are set once and never
 * removed. If there is no free slot, the constructor is called each time. All functions need a
 * thread state.
 */
#ifndef FASTDL_CORE_FACTS_H_
#define FASTDL_CORE_FACTS_H_

#include <Python.h>

#include "_memory/layout.h"

/* Functions of fastdl._native: lists of rows, see _native.pyi. */
PyObject *fdl_device_facts(PyObject *module, PyObject *nothing);
PyObject *fdl_dtype_facts(PyObject *module, PyObject *nothing);

/* `dtype` is called with code, bits and lanes, and `device` with type and id. Call this once,
 * before the functions below. Takes new references. */
void fdl_set_dtype_and_device_factories(PyObject *dtype, PyObject *device);

/* A new reference, or NULL with the exception of the constructor. */
PyObject *fdl_dtype_object(DLDataType dtype);
PyObject *fdl_device_object(DLDevice device);

/* Sets *dtype and returns 1 if `named` is the name of a type of one lane, or an object from
 * fdl_dtype_object. 0, without an exception, for anything else: call the constructor. */
int fdl_dtype_of(PyObject *named, DLDataType *dtype);

/* Whether `named` is "cpu" or the host's object from fdl_device_object; other forms may mean the
 * host, too. */
int fdl_means_host(PyObject *named);

#endif
