/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"

#include "interface.h"

/* The element type for the format of a buffer; lanes 0 if there is none. The item size decides
 * where the size of a letter depends on the platform (long) or on the byte-order prefix. */
static DLDataType dtype_of_format(const char *format, Py_ssize_t itemsize)
{
    static const struct {
        char letter;
        uint8_t code, bytes; /* 0 bytes: 4 or 8 */
    } numbers[] = {
        {'?', kDLBool, 1},  {'b', kDLInt, 1},   {'h', kDLInt, 2},   {'i', kDLInt, 4},
        {'q', kDLInt, 8},   {'l', kDLInt, 0},   {'n', kDLInt, 0},   {'B', kDLUInt, 1},
        {'H', kDLUInt, 2},  {'I', kDLUInt, 4},  {'Q', kDLUInt, 8},  {'L', kDLUInt, 0},
        {'N', kDLUInt, 0},  {'e', kDLFloat, 2}, {'f', kDLFloat, 4}, {'d', kDLFloat, 8},
        {'g', kDLFloat, 8}, /* a long double that is a double, as on Windows */
    };
    DLDataType result = {0, 0, 0};
    int is_complex;
    format += *format == '@' || *format == '=' || *format == (PY_BIG_ENDIAN ? '>' : '<');
    is_complex = *format == 'Z';
    format += is_complex;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        Py_ssize_t bytes = is_complex ? itemsize / 2 : itemsize;
        if (format[0] != numbers[i].letter || format[1] != '\0' ||
            (is_complex && (numbers[i].code != kDLFloat || numbers[i].bytes < 4)) ||
            (numbers[i].bytes != 0 ? bytes != numbers[i].bytes : bytes != 4 && bytes != 8))
            continue;
        result.code = is_complex ? (uint8_t)kDLComplex : numbers[i].code;
        result.bits = (uint8_t)(itemsize * 8);
        result.lanes = 1;
    }
    return result;
}

static int has_suboffsets(const Py_buffer *buffer)
{
    for (int i = 0; i < buffer->ndim && buffer->suboffsets != NULL; i++)
        if (buffer->suboffsets[i] >= 0)
            return 1;
    return 0;
}

/* The code that reads the values of a buffer with other elements. */
static const char *remedy_of_format(const char *format, int ndim)
{
    if (strcmp(format + (*format == '<'), "z") == 0)
        return "fastdl.asarray(x.value) has the bytes that it points to";
    switch (*format) {
    case '&':
        return "fastdl.from_pointer(ctypes.addressof(x.contents), shape, dtype, owner=x) has the "
               "memory that x points to";
    case '>':
    case '!':
        return "fastdl.asarray(numpy.asarray(x)) has a copy in the byte order of this machine";
    case 'O':
        return "numpy.array(numpy.asarray(x).tolist()) has a type that fits the objects";
    case 'T':
        return "numpy.asarray(x)[name] has one of its fields";
    }
    return strchr(format, 'P') != NULL && ndim == 0
               ? "fastdl.from_pointer(x.value, shape, dtype, owner=x) has the memory that x points "
                 "to"
               : "numpy.frombuffer(memoryview(x).tobytes(), 'u1') has its bytes";
}

int fdl_read_buffer(const Py_buffer *buffer, DLTensor *tensor, int64_t *dims)
{
    const char *format = buffer->format == NULL ? "B" : buffer->format;
    fastdl_layout layout;
    fastdl_fault fault;
    int has_elements = 1;
    if (buffer->ndim > FASTDL_MAX_NDIM || (buffer->ndim > 0 && buffer->shape == NULL)) {
        fastdl_raise_(PyExc_BufferError, "expected a shape of at most %d sizes, got %d",
                      FASTDL_MAX_NDIM, buffer->ndim);
        return -1;
    }
    if (has_suboffsets(buffer)) {
        fastdl_raise_(PyExc_BufferError,
                      "expected a buffer of elements, got one of pointers to them (with "
                      "suboffsets), which DLPack cannot describe: copy the data first");
        return -1;
    }
    memset(tensor, 0, sizeof(*tensor));
    tensor->dtype = dtype_of_format(format, buffer->itemsize);
    if (tensor->dtype.lanes == 0) {
        PyObject *text = PyUnicode_DecodeLatin1(format, (Py_ssize_t)strlen(format), NULL);
        if (text != NULL)
            fastdl_raise_(PyExc_BufferError,
                          "expected a buffer of native numbers or bools, got format %R with "
                          "itemsize %zd, which DLPack cannot describe: %s",
                          text, buffer->itemsize, remedy_of_format(format, buffer->ndim));
        Py_XDECREF(text);
        return -1;
    }
    tensor->data = buffer->buf;
    tensor->device.device_type = kDLCPU;
    tensor->ndim = buffer->ndim;
    tensor->shape = dims;
    for (int i = 0; i < buffer->ndim; i++) {
        dims[i] = buffer->shape[i];
        has_elements &= dims[i] != 0;
    }
    /* Exporters without strides, such as ctypes, are compact. Without elements, strides mean
     * nothing. */
    if (buffer->strides != NULL && has_elements)
        tensor->strides = dims + FASTDL_MAX_NDIM;
    for (int i = 0; tensor->strides != NULL && i < buffer->ndim; i++) {
        tensor->strides[i] = buffer->strides[i] / buffer->itemsize;
        if (dims[i] > 1 && buffer->strides[i] % buffer->itemsize != 0) {
            fastdl_raise_(PyExc_BufferError,
                          "expected strides in multiples of %zd bytes, one element, got %zd in "
                          "dimension %d: copy the array first",
                          buffer->itemsize, buffer->strides[i], i);
            return -1;
        }
    }
    fault = fastdl_check(tensor, 0, &layout);
    if (fault == FASTDL_OK)
        return 0;
    fastdl_raise_fault(fault, tensor);
    return -1;
}
