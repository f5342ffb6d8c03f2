"""What the sources say in words and no user of fastdl meets as an exception, with the reason."""

REASONS: list[tuple[str, list[str]]] = [
    (
        "Memory is exhausted: a MemoryError, as those without words. See "
        "tests/test_faults_memory.py.",
        ["out of memory"],
    ),
    (
        "`import fastdl` failed half way, and fastdl.Tensor was taken from a private module.",
        ["`import fastdl` did not finish"],
    ),
    (
        "The words of CPython, Cython, pybind11 and nanobind about keywords, which fastdl "
        "recognises.",
        [
            "unexpected keyword argument '",
            "' is an invalid keyword argument",
            "unexpected keyword argument",
            "invalid keyword argument",
            "no keyword arguments",
            "keyword argument (",
            "keyword arguments (",
            "passed as keyword arguments",
            "incompatible function arguments",
        ],
    ),
    (
        "Not a message: a repr, a signature, names of fields, the title of a library, a key.",
        [
            "<bridge to …>",
            "shape=…, dtype=…, device=…",
            ", readonly",
            "typing.Annotated[typing.Any, dict(",
            "number name host addresses stream",
            "name code bits format",
            "table type borrow",
            "ONNX Runtime",
            "fastdl.h …",
            "s own table if it has one, otherwise a bridge of fastdl",
        ],
    ),
    (
        "A note on an exception of others, or one that fastdl catches, or the what() of an "
        "exception of C++ that stands for one of Python.",
        ["raised by argument …", "not a pair", "a Python exception is set"],
    ),
    (
        "Only if fastdl was built wrongly: an ImportError.",
        [
            "fastdl.Tensor has no method __dlpack__ to speed up",
            "fastdl was built with a Cython that lays classes out in another way: use one of the "
            "versions in pyproject.toml",
            "fastdl must be built with static Cython types",
        ],
    ),
    (
        "CPython keeps it from happening: types have a name and an MRO, and a buffer of more than "
        "64 dimensions cannot be looked at.",
        [
            "expected a type whose __qualname__ is a str",
            "expected a type that has an MRO",
            "expected a shape of at most … sizes, got …",
        ],
    ),
    (
        "Only in a pickle that fastdl did not write: a ValueError.",
        ["expected the order 'C' or 'F', got …", "expected ints from … to … as …, got …"],
    ),
    (
        "Why Dask cannot hash a tensor, in its own words.",
        ["… has no values on the host"],
    ),
    (
        "Not a message: the docstrings of methods that fastdl_publish adds.",
        [
            "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None,\n"
            "           version=None)\n--\n\n"
            "Exports the tensor as a DLPack capsule: the producer's side of the protocol.",
            "__dlpack_device__($self, /)\n--\n\n(device type, device id) as plain ints.",
            "__dlpack_info__($self, /)\n--\n\n"
            "The newest DLPack version supported here, in the numbering of the 2022 draft.",
        ],
    ),
    (
        "Another thread must change an array or a tensor, or end the interpreter, within a call.",
        [
            "the type of the array changed while it was read: import it again",
            "something else",
            "another argument",
            "expected an interpreter that is not about to end",
        ],
    ),
    (
        "Checked by the callers within fastdl, and checked again where memory depends on it.",
        [
            "no fault",
            "an unknown fault",
            "expected … strides, got …",
            "… has gaps between its elements",
            "fastdl speaks to the drivers of CUDA and ROCm, not of device …",
            "a call",
            "an error",
        ],
    ),
    (
        "convert quotes it as the reason of TensorFlow's refusal, which needs TensorFlow: "
        "tests/interop/cases/device_that_is_not_there.py.",
        ["it has no …: pass device='cpu' for a copy on the host"],
    ),
]
