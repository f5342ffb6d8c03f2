/* SPDX-License-Identifier: Apache-2.0 */

/* scale(x, by): multiplies a CUDA tensor of any framework by a number, in place, by a kernel that
 * another file launches. */
#define FASTDL_IMPLEMENTATION
#include <cuda_runtime_api.h>
#include <fastdl/fastdl.h>

// [scale]
cudaError_t launch_scale(float *x, int64_t n, float by, cudaStream_t stream); /* in a .cu file */

static PyObject *scale(PyObject *module, PyObject *arguments)
{
    static const uint32_t types[] = {FASTDL_FLOAT32};
    const fastdl_spec spec = {.dtypes = types,
                              .dtype_count = 1,
                              .layout = FASTDL_C,
                              .rules = FASTDL_WRITABLE,
                              .device = kDLCUDA};
    PyObject *x_object;
    fastdl_view x;
    void *stream;
    float by;
    int before;
    cudaError_t error = cudaSuccess;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Of:scale", &x_object, &by) ||
        fastdl_borrow_as(x_object, "x", &spec, &x) < 0)
        return NULL;
    cudaGetDevice(&before);
    cudaSetDevice(x.dl.device.device_id);
    if (fastdl_work_stream(&x, &stream) == 0) /* where the library of x works now */
        error = launch_scale(x.dl.data, fastdl_size(&x.dl), by, stream);
    cudaSetDevice(before);
    fastdl_release(&x);
    if (error != cudaSuccess)
        PyErr_SetString(PyExc_RuntimeError, cudaGetErrorString(error));
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
// [/scale]

static PyMethodDef methods[] = {
    {"scale", scale, METH_VARARGS, "scale(x, by): multiplies x by a number, in place."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "device",
                                        .m_methods = methods};

PyMODINIT_FUNC PyInit_device(void)
{
    if (fastdl_import() < 0)
        return NULL;
    return PyModule_Create(&definition);
}
