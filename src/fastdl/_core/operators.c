/* SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"

static PyObject *refuse(const char *sign)
{
    return PyErr_Format(
        PyExc_TypeError,
        "a fastdl.Tensor has no operator '%s', since fastdl moves tensors and does "
        "not compute: use an array on the same memory, as numpy.from_dlpack(tensor) "
        "or fastdl.convert(tensor, ...) gives it",
        sign);
}

/* Whether no type but Tensor gives an operator with `operand` a meaning. Subclasses of numbers may,
 * such as numpy.float64. */
static int is_plain(PyObject *operand)
{
    return fdl_is_tensor(operand) || PyLong_CheckExact(operand) || PyFloat_CheckExact(operand) ||
           PyComplex_CheckExact(operand) || PyBool_Check(operand);
}

PyObject *fdl_operate(PyObject *left, PyObject *right, const char *sign)
{
    if (is_plain(left) && is_plain(right))
        return refuse(sign);
    return Py_NewRef(Py_NotImplemented);
}

#define BINARY(name, sign)                                                                         \
    static PyObject *name(PyObject *left, PyObject *right)                                         \
    {                                                                                              \
        return fdl_operate(left, right, sign);                                                     \
    }
#define UNARY(name, sign)                                                                          \
    static PyObject *name(PyObject *Py_UNUSED(operand))                                            \
    {                                                                                              \
        return refuse(sign);                                                                       \
    }

BINARY(add, "+")
BINARY(subtract, "-")
BINARY(multiply, "*")
BINARY(matrix_multiply, "@")
BINARY(true_divide, "/")
BINARY(floor_divide, "//")
BINARY(remainder_of, "%")
BINARY(divide_with_remainder, "divmod()")
BINARY(shift_left, "<<")
BINARY(shift_right, ">>")
BINARY(and_, "&")
BINARY(or_, "|")
BINARY(xor_, "^")
UNARY(negate, "-")
UNARY(plus, "+")
UNARY(invert, "~")
UNARY(absolute, "abs()")

static PyObject *power(PyObject *left, PyObject *right, PyObject *Py_UNUSED(modulus))
{
    return fdl_operate(left, right, "**");
}

/* `value` is NULL for `del tensor[key]`. */
static int assign(PyObject *Py_UNUSED(tensor), PyObject *Py_UNUSED(key), PyObject *value)
{
    PyErr_SetString(PyExc_TypeError,
                    value == NULL
                        ? "elements of a fastdl.Tensor cannot be deleted: index those to keep"
                        : "a fastdl.Tensor has no assignment: write through an array on the same "
                          "memory, as in tensor.numpy()[...] = x on the host");
    return -1;
}

static PyObject *call(PyObject *Py_UNUSED(type), PyObject *const *Py_UNUSED(arguments),
                      size_t Py_UNUSED(count), PyObject *Py_UNUSED(keywords))
{
    PyErr_SetString(PyExc_TypeError,
                    "a fastdl.Tensor is not made by calling its type: use fastdl.from_dlpack(x) "
                    "for an array of another library, fastdl.asarray(x) for a buffer too, "
                    "fastdl.asarray(numpy.array(x)) for numbers, fastdl.empty(shape) for memory");
    return NULL;
}

void fdl_install_refusals(PyTypeObject *type)
{
    PyNumberMethods *number = type->tp_as_number;
    number->nb_add = add;
    number->nb_subtract = subtract;
    number->nb_multiply = multiply;
    number->nb_matrix_multiply = matrix_multiply;
    number->nb_true_divide = true_divide;
    number->nb_floor_divide = floor_divide;
    number->nb_remainder = remainder_of;
    number->nb_divmod = divide_with_remainder;
    number->nb_lshift = shift_left;
    number->nb_rshift = shift_right;
    number->nb_and = and_;
    number->nb_or = or_;
    number->nb_xor = xor_;
    number->nb_power = power;
    number->nb_negative = negate;
    number->nb_positive = plus;
    number->nb_invert = invert;
    number->nb_absolute = absolute;
    type->tp_as_mapping->mp_ass_subscript = assign;
    type->tp_vectorcall = call;
}
