/* SPDX-License-Identifier: Apache-2.0 */

/* A type that is a tensor to others: numpy.from_dlpack(Image(480, 640)) is a view of its pixels.
 *
 * Build:

cc -O2 -fPIC -shared $(python -m fastdl --cflags) \
    -I$(python -c "from sysconfig import *; print(get_path('include'))") image.c \
    -o image$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
// [image]
#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

typedef struct {
    PyObject_HEAD
    uint8_t *pixels;
    int64_t shape[2];
} image;

/* The tensor of an image. Defaults apply to all other members: host memory, contiguous, writable,
 * and kept alive by the object itself. */
static int describe(PyObject *self, fastdl_description *out)
{
    image *own = (image *)self;
    out->dl.data = own->pixels;
    out->dl.ndim = 2;
    out->dl.shape = own->shape;
    out->dl.dtype = fastdl_data_type(FASTDL_UINT8);
    return 0;
}

FASTDL_PRODUCER(image_producer, describe, fastdl_default_stream, 0);
// [/image]

static PyObject *image_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"height", "width", NULL};
    unsigned int height, width;
    image *self;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "II:Image", names, &height, &width))
        return NULL;
    self = (image *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->shape[0] = height;
    self->shape[1] = width;
    self->pixels = (uint8_t *)calloc(height, width);
    if (self->pixels == NULL && height > 0 && width > 0) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void image_dealloc(PyObject *self)
{
    free(((image *)self)->pixels);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject image_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "image.Image",
    .tp_basicsize = sizeof(image),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Image(height, width): grey pixels, all 0.",
    .tp_new = image_new,
    .tp_dealloc = image_dealloc,
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "image"};

// [init]
PyMODINIT_FUNC PyInit_image(void)
{
    PyObject *module;
    if (PyType_Ready(&image_type) < 0 || fastdl_publish(&image_type, &image_producer) < 0)
        return NULL;
    module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddType(module, &image_type) < 0)
        Py_CLEAR(module);
    return module;
}
// [/init]
