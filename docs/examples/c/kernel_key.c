/* SPDX-License-Identifier: Apache-2.0 */

/* Which compiled kernel serves a call: key(x, y, ...) is bytes, to look it up in a dict.
 *
 * Build:

cc -O2 -fPIC -shared $(python -m fastdl --cflags) \
    -I$(python -c "from sysconfig import *; print(get_path('include'))") kernel_key.c \
    -o kernel_key$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

// [key]
#define MOST 4 /* tensors in a call */

/* What a kernel is compiled for. There is no gap between the members: their bytes are compared. */
typedef struct {
    DLDevice device;
    DLDataType dtype;
    int32_t ndim;
    uint32_t flags;      /* read-only, or narrow elements, each padded to a byte */
    uint32_t contiguous; /* row-major */
    uint32_t aligned;    /* to 16 bytes */
} kind;

static PyObject *key(PyObject *module, PyObject *const *tensors, Py_ssize_t count)
{
    static const fastdl_spec any = {.device = FASTDL_ANY_DEVICE};
    static const fastdl_parameter parameters[MOST] = {
        {"argument 1", &any}, {"argument 2", &any}, {"argument 3", &any}, {"argument 4", &any}};
    const uint64_t flags =
        DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
    fastdl_view views[MOST];
    kind kinds[MOST];
    (void)module;
    if (count > MOST)
        return PyErr_Format(PyExc_TypeError, "expected at most %d tensors, got %zd", MOST, count);
    if (fastdl_borrow_all(tensors, parameters, (size_t)count, views) < 0)
        return NULL; /* nothing is borrowed */
    for (Py_ssize_t i = 0; i < count; i++) {
        const DLTensor *x = &views[i].dl;
        kinds[i].device = x->device;
        kinds[i].dtype = x->dtype;
        kinds[i].ndim = x->ndim;
        kinds[i].flags = (uint32_t)(views[i].flags & flags);
        kinds[i].contiguous = (uint32_t)fastdl_is_contiguous(x, 'C');
        kinds[i].aligned = ((uintptr_t)x->data + x->byte_offset) % 16 == 0;
    }
    fastdl_release_all(views, (size_t)count); /* before what may fail: the key keeps nothing */
    return PyBytes_FromStringAndSize((const char *)kinds, count * (Py_ssize_t)sizeof(kind));
}
// [/key]

static PyMethodDef methods[] = {
    {"key", (PyCFunction)(void (*)(void))key, METH_FASTCALL, "The key of up to four tensors."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "kernel_key",
                                        .m_methods = methods};

PyMODINIT_FUNC PyInit_kernel_key(void)
{
    if (fastdl_import() < 0) {
        if (!PyErr_ExceptionMatches(PyExc_ImportError))
            return NULL;
        PyErr_Clear();
    }
    return PyModule_Create(&definition);
}
