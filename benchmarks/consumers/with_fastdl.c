/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl's C API as an extension module uses it: in loops, and in functions of one, three and
 * eight tensors. native.py compiles this file to three modules:
 *
 *     with_fastdl           after fastdl_import()
 *     with_fastdl_alone     without: a cache of its own, and no bridges (HEADER_ALONE)
 *     with_fastdl_limited   after fastdl_import(), under Py_LIMITED_API of 3.10
 */
#include <Python.h>

#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

static const uint32_t types[] = {FASTDL_FLOAT32};
static const fastdl_spec vector = {.dtypes = types, .dtype_count = 1, .ndim = 1}; /* host */

/* ---- loops: `n` times the same, without a clock ---- */

static int arguments(PyObject *const *args, Py_ssize_t count, Py_ssize_t *n)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "expected n and an object");
        return -1;
    }
    *n = PyLong_AsSsize_t(args[0]);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *borrow(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t n;
    (void)module;
    if (arguments(args, count, &n) < 0)
        return NULL;
    while (n-- > 0) {
        fastdl_view view;
        if (fastdl_borrow(args[1], &view) < 0)
            return NULL;
        fastdl_release(&view);
    }
    Py_RETURN_NONE;
}

static PyObject *borrow_expect(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t n;
    (void)module;
    if (arguments(args, count, &n) < 0)
        return NULL;
    while (n-- > 0) {
        fastdl_view view;
        if (fastdl_borrow(args[1], &view) < 0 || fastdl_expect(&view, "x", &vector) < 0) {
            fastdl_release(&view);
            return NULL;
        }
        fastdl_release(&view);
    }
    Py_RETURN_NONE;
}

/* As functions do whose arguments share a size: the dimension has a name, so it is made anew. */
static PyObject *borrow_expect_name(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t n;
    (void)module;
    if (arguments(args, count, &n) < 0)
        return NULL;
    while (n-- > 0) {
        fastdl_dim size = FASTDL_DIM("n");
        fastdl_dim *const shape[] = {&size};
        const fastdl_spec spec = {.dtypes = types, .dtype_count = 1, .ndim = 1, .shape = shape};
        fastdl_view view;
        if (fastdl_borrow(args[1], &view) < 0 || fastdl_expect(&view, "x", &spec) < 0) {
            fastdl_release(&view);
            return NULL;
        }
        fastdl_release(&view);
    }
    Py_RETURN_NONE;
}

static PyObject *borrow_by(const fastdl_spec *spec, PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t n;
    if (arguments(args, count, &n) < 0)
        return NULL;
    while (n-- > 0) {
        fastdl_view view;
        if (fastdl_borrow_as(args[1], "x", spec, &view) < 0)
            return NULL;
        fastdl_release(&view);
    }
    Py_RETURN_NONE;
}

/* A row-major copy of an argument of another layout. */
static PyObject *copied(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    static const fastdl_spec spec = {.layout = FASTDL_C, .rules = FASTDL_COPY};
    (void)module;
    return borrow_by(&spec, args, count);
}

/* The same in another element type, float32. */
static PyObject *converted(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    static const fastdl_spec spec = {
        .dtypes = types, .dtype_count = 1, .layout = FASTDL_C, .rules = FASTDL_CONVERT};
    (void)module;
    return borrow_by(&spec, args, count);
}

/* result(n, type): a result like the type's objects, for the caller to fill: made and dropped */
static PyObject *result(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t shape[] = {4, 4};
    DLTensor prototype = {.device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}};
    Py_ssize_t n;
    (void)module;
    prototype.shape = shape;
    if (arguments(args, count, &n) < 0)
        return NULL;
    while (n-- > 0) {
        DLManagedTensorVersioned *managed;
        PyObject *made;
        if (fastdl_empty(&prototype, (PyTypeObject *)args[1], &managed) < 0 ||
            fastdl_wrap(managed, (PyTypeObject *)args[1], &made) < 0)
            return NULL;
        Py_DECREF(made);
    }
    Py_RETURN_NONE;
}

/* ---- functions ---- */

#define MOST 8

static volatile float sink; /* so that each tensor is read */

static inline PyObject *take(PyObject *const *args, Py_ssize_t given, Py_ssize_t wanted)
{
    fastdl_view views[MOST];
    Py_ssize_t i, taken;
    if (given != wanted) {
        PyErr_Format(PyExc_TypeError, "expected %zd tensors, got %zd", wanted, given);
        return NULL;
    }
    for (taken = 0; taken < wanted; taken++)
        if (fastdl_borrow(args[taken], &views[taken]) < 0 ||
            fastdl_expect(&views[taken], "an argument", &vector) < 0) {
            fastdl_release(&views[taken]);
            break;
        }
    for (i = 0; i < taken; i++) {
        sink = *(const float *)views[i].dl.data;
        fastdl_release(&views[i]);
    }
    if (taken < wanted)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *one(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return take(args, count, 1);
}

static PyObject *three(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return take(args, count, 3);
}

static PyObject *eight(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return take(args, count, 8);
}

/* ---- the module ---- */

#define FAST(function) #function, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL

static PyMethodDef methods[] = {
    {FAST(borrow)},        {FAST(borrow_expect)}, {FAST(borrow_expect_name)},
    {FAST(result)},        {FAST(copied)},        {FAST(converted)},
    {FAST(one)},           {FAST(three)},         {FAST(eight)},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "with_fastdl", NULL, 0, methods, NULL, NULL, NULL, NULL};

static PyObject *create(void)
{
#ifndef HEADER_ALONE
    if (fastdl_import() < 0)
        return NULL;
#endif
    return PyModule_Create(&definition);
}

/* clang-format off */
#if defined(HEADER_ALONE)
PyMODINIT_FUNC PyInit_with_fastdl_alone(void) { return create(); }
#elif defined(Py_LIMITED_API)
PyMODINIT_FUNC PyInit_with_fastdl_limited(void) { return create(); }
#else
PyMODINIT_FUNC PyInit_with_fastdl(void) { return create(); }
#endif
/* clang-format on */
