/* SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include <math.h>
#include <string.h>

#include "_memory/dtypes.h"

/* ---- one lane ---- */

static double decode(uint32_t pattern, const fdl_float_form *form)
{
    uint32_t sign_bit, magnitude, fraction;
    int exponent;
    double value;
    if (form->special == FDL_SCALE)
        return pattern == 255 ? Py_NAN : ldexp(1.0, (int)pattern - form->bias);
    sign_bit = UINT32_C(1) << (form->exponent + form->mantissa);
    magnitude = pattern & (sign_bit - 1);
    exponent = (int)(magnitude >> form->mantissa);
    fraction = magnitude & ((UINT32_C(1) << form->mantissa) - 1);
    if ((form->special == FDL_FN && magnitude == sign_bit - 1) ||
        (form->special == FDL_FNUZ && pattern == sign_bit))
        return Py_NAN;
    if (form->special == FDL_IEEE && exponent == (1 << form->exponent) - 1)
        value = fraction != 0 ? Py_NAN : Py_HUGE_VAL;
    else if (exponent == 0)
        value = ldexp((double)fraction, 1 - form->bias - form->mantissa);
    else
        value = ldexp((double)(fraction | UINT32_C(1) << form->mantissa),
                      exponent - form->bias - form->mantissa);
    return pattern & sign_bit ? -value : value;
}

/* One lane at a byte, or at a bit of it: `at` need not be aligned. */
typedef struct reader reader;
typedef PyObject *(*read_lane)(const reader *type, const unsigned char *at, unsigned bit);

struct reader {
    read_lane read;
    const fdl_float_form *form;
    unsigned bits, lanes;
};

/* The pattern of up to 16 bits. Only bytes that hold some of those bits are read. */
static uint32_t pattern_at(const unsigned char *at, unsigned bit, unsigned bits)
{
    uint32_t pattern = at[0];
    if (bit + bits > 8)
        pattern |= (uint32_t)at[1] << 8;
    return (pattern >> bit) & ((UINT32_C(1) << bits) - 1);
}

static PyObject *read_narrow_float(const reader *type, const unsigned char *at, unsigned bit)
{
    return PyFloat_FromDouble(decode(pattern_at(at, bit, type->bits), type->form));
}

static PyObject *read_narrow_int(const reader *type, const unsigned char *at, unsigned bit)
{
    int32_t sign = INT32_C(1) << (type->bits - 1);
    return PyLong_FromLong(((int32_t)pattern_at(at, bit, type->bits) ^ sign) - sign);
}

static PyObject *read_narrow_uint(const reader *type, const unsigned char *at, unsigned bit)
{
    return PyLong_FromLong((long)pattern_at(at, bit, type->bits));
}

static PyObject *read_bool(const reader *type, const unsigned char *at, unsigned bit)
{
    (void)type;
    (void)bit;
    return PyBool_FromLong(*at != 0);
}

#define DEFINE_READ(name, ctype, make)                                                             \
    static PyObject *read_##name(const reader *type, const unsigned char *at, unsigned bit)        \
    {                                                                                              \
        ctype value;                                                                               \
        (void)type;                                                                                \
        (void)bit;                                                                                 \
        memcpy(&value, at, sizeof(value));                                                         \
        return make;                                                                               \
    }

DEFINE_READ(int8, int8_t, PyLong_FromLong(value))
DEFINE_READ(int16, int16_t, PyLong_FromLong(value))
DEFINE_READ(int32, int32_t, PyLong_FromLong(value))
DEFINE_READ(int64, int64_t, PyLong_FromLongLong(value))
DEFINE_READ(uint8, uint8_t, PyLong_FromLong(value))
DEFINE_READ(uint16, uint16_t, PyLong_FromLong(value))
DEFINE_READ(uint32, uint32_t, PyLong_FromUnsignedLong(value))
DEFINE_READ(uint64, uint64_t, PyLong_FromUnsignedLongLong(value))
DEFINE_READ(float32, float, PyFloat_FromDouble((double)value))
DEFINE_READ(float64, double, PyFloat_FromDouble(value))

typedef struct {
    float real, imaginary;
} float_pair;

typedef struct {
    double real, imaginary;
} double_pair;

DEFINE_READ(complex64, float_pair,
            PyComplex_FromDoubles((double)value.real, (double)value.imaginary))
DEFINE_READ(complex128, double_pair, PyComplex_FromDoubles(value.real, value.imaginary))

static PyObject *read_narrow_complex(const reader *type, const unsigned char *at, unsigned bit)
{
    (void)bit;
    return PyComplex_FromDoubles(decode(pattern_at(at, 0, 16), type->form),
                                 decode(pattern_at(at + 2, 0, 16), type->form));
}

/* `high` * 2 ** 64 + `low`; takes both references, which may be NULL with an exception. */
static PyObject *join(PyObject *high, PyObject *low)
{
    PyObject *shift = PyLong_FromLong(64), *shifted = NULL, *value = NULL;
    if (high != NULL && low != NULL && shift != NULL)
        shifted = PyNumber_Lshift(high, shift);
    if (shifted != NULL)
        value = PyNumber_Or(shifted, low);
    Py_XDECREF(high);
    Py_XDECREF(low);
    Py_XDECREF(shift);
    Py_XDECREF(shifted);
    return value;
}

static PyObject *read_int128(const reader *type, const unsigned char *at, unsigned bit)
{
    PyObject *low = read_uint64(type, at, bit);
    return low == NULL ? NULL : join(read_int64(type, at + 8, bit), low);
}

static PyObject *read_uint128(const reader *type, const unsigned char *at, unsigned bit)
{
    PyObject *low = read_uint64(type, at, bit);
    return low == NULL ? NULL : join(read_uint64(type, at + 8, bit), low);
}

static const struct {
    uint8_t code, bits;
    read_lane read;
} readers[] = {
    {kDLFloat, 32, read_float32},
    {kDLFloat, 64, read_float64},
    {kDLInt, 64, read_int64},
    {kDLInt, 32, read_int32},
    {kDLInt, 16, read_int16},
    {kDLInt, 8, read_int8},
    {kDLInt, 128, read_int128},
    {kDLUInt, 64, read_uint64},
    {kDLUInt, 32, read_uint32},
    {kDLUInt, 16, read_uint16},
    {kDLUInt, 8, read_uint8},
    {kDLUInt, 128, read_uint128},
    {kDLBool, 8, read_bool},
    {kDLComplex, 64, read_complex64},
    {kDLComplex, 128, read_complex128},
};

/* The format of a narrow float, or of the parts of a narrow complex; NULL for other types. */
static const fdl_float_form *form_of(DLDataType dtype)
{
    const fdl_dtype_fact *row = fdl_dtype_find(dtype.code, dtype.bits);
    return row != NULL && row->form.exponent != 0 ? &row->form : NULL;
}

/* Fills in the reader of a type, which has passed fastdl_check; 0 if Python has no numbers for
 * it. */
static int find_reader(DLDataType dtype, reader *type)
{
    type->bits = dtype.bits;
    type->lanes = dtype.lanes;
    type->form = NULL;
    type->read = dtype.code == kDLInt    ? read_narrow_int
                 : dtype.code == kDLUInt ? read_narrow_uint
                                         : NULL;
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
        if (readers[i].code == dtype.code && readers[i].bits == dtype.bits)
            type->read = readers[i].read;
    if (type->read == NULL)
        type->form = form_of(dtype);
    if (type->form != NULL)
        type->read = dtype.bits > 16 ? read_narrow_complex : read_narrow_float;
    return type->read != NULL;
}

int fdl_has_numbers(DLDataType dtype)
{
    reader type;
    return find_reader(dtype, &type);
}

/* ---- one element ---- */

/* Reads the lanes of an element, which lie without gaps, low first. */
static PyObject *read_lanes(const reader *type, const unsigned char *at, unsigned bit)
{
    PyObject *lanes = PyTuple_New((Py_ssize_t)type->lanes);
    for (unsigned i = 0; lanes != NULL && i < type->lanes; i++) {
        size_t distance = bit + (size_t)i * type->bits;
        PyObject *lane = type->read(type, at + distance / 8, (unsigned)(distance % 8));
        if (lane == NULL)
            Py_CLEAR(lanes);
        else
            PyTuple_SET_ITEM(lanes, (Py_ssize_t)i, lane);
    }
    return lanes;
}

static PyObject *read_element(const reader *type, const unsigned char *at, unsigned bit)
{
    return type->lanes == 1 ? type->read(type, at, bit) : read_lanes(type, at, bit);
}

/* ---- all elements ---- */

/* A walk over a tensor in row-major order. Packed elements lie without gaps in that order: the walk
 * counts the bits already passed. */
typedef struct {
    const DLTensor *tensor;
    reader type;
    uint64_t itemsize;
    uint64_t step, passed; /* in bits, of packed elements; step is 0 for others */
    const unsigned char *start;
} walk;

static void begin(walk *w, const DLTensor *tensor, uint64_t flags)
{
    DLDataType dtype = tensor->dtype;
    w->tensor = tensor;
    (void)find_reader(dtype, &w->type);
    w->itemsize = (uint64_t)fastdl_itemsize(dtype);
    w->step = fastdl_is_packed(dtype, flags) ? (uint64_t)dtype.bits * dtype.lanes : 0;
    w->passed = 0;
    /* As numbers: without elements, `data` may be NULL. */
    w->start = (const unsigned char *)((uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset);
}

/* The element at `at` or, if elements are packed, the next one. */
static PyObject *next_element(walk *w, const unsigned char *at)
{
    uint64_t bits = w->passed;
    if (w->step == 0)
        return read_element(&w->type, at, 0);
    w->passed += w->step;
    return read_element(&w->type, w->start + bits / 8, (unsigned)(bits % 8));
}

/* `at`, `count` steps further along a dimension. Where there are elements, the product fits. */
static const unsigned char *along(const walk *w, int32_t axis, const unsigned char *at,
                                  int64_t count)
{
    uint64_t bytes = (uint64_t)count * (uint64_t)w->tensor->strides[axis] * w->itemsize;
    return (const unsigned char *)((uintptr_t)at + (uintptr_t)bytes);
}

static PyObject *list_from(walk *w, int32_t axis, const unsigned char *at)
{
    int64_t n;
    int innermost = axis + 1 == w->tensor->ndim;
    PyObject *list;
    if (axis == w->tensor->ndim)
        return next_element(w, at);
    n = w->tensor->shape[axis];
    list = n <= PY_SSIZE_T_MAX ? PyList_New((Py_ssize_t)n) : PyErr_NoMemory();
    if (list != NULL)
        PyObject_GC_UnTrack(list); /* until no item is NULL: a collection may run Python code */
    for (int64_t i = 0; list != NULL && i < n; i++) {
        const unsigned char *next = along(w, axis, at, i);
        PyObject *part = innermost ? next_element(w, next) : list_from(w, axis + 1, next);
        if (part == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, part);
    }
    if (list != NULL)
        PyObject_GC_Track(list);
    return list;
}

PyObject *fdl_list_of(const DLTensor *tensor, uint64_t flags)
{
    walk w;
    begin(&w, tensor, flags);
    return list_from(&w, 0, w.start);
}

PyObject *fdl_first_of(const DLTensor *tensor, uint64_t flags)
{
    walk w;
    begin(&w, tensor, flags);
    return next_element(&w, w.start);
}

static int any_equals(walk *w, int32_t axis, const unsigned char *at, PyObject *number)
{
    int found = 0;
    if (axis == w->tensor->ndim) {
        PyObject *element = next_element(w, at);
        if (element == NULL)
            return -1;
        found = PyObject_RichCompareBool(element, number, Py_EQ);
        Py_DECREF(element);
        return found;
    }
    for (int64_t i = 0; found == 0 && i < w->tensor->shape[axis]; i++)
        found = any_equals(w, axis + 1, along(w, axis, at, i), number);
    return found;
}

int fdl_any_equals(const DLTensor *tensor, uint64_t flags, PyObject *number)
{
    fastdl_layout layout;
    walk w;
    (void)fastdl_check(tensor, flags, &layout);
    if (layout.size == 0)
        return 0; /* so that no rows are walked */
    begin(&w, tensor, flags);
    return any_equals(&w, 0, w.start, number);
}
