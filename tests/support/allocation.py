# SPDX-License-Identifier: Apache-2.0
"""Operations to run while an allocation fails, at every point where one can.

Runs in a process of its own: `sweep(name, injector)`. Two injectors exist because neither reaches
everything: Python's hooks see Python's allocators, the preloaded malloc what C code asks for.
"""

import contextlib
import ctypes
import gc
import itertools
import sys
from operator import itemgetter, methodcaller

import fastdl
from fastdl._protocol import consumer as _consumer
from tests.support import c_producers
from tests.support.headers import ALONE
from tests.support.producers import Given, OldProducer, Producer, Tabled, new

HEADER = ALONE["alone"]
QUIET = 15  # calls without a failure that end a sweep: some failures are swallowed on the way


class PythonHooks:
    """Fails the k-th allocation through PyMem_* and PyObject_*, raw ones included."""

    def arm(self, k):
        import _testcapi

        self.remove = _testcapi.remove_mem_hooks
        _testcapi.set_nomemory(k - 1, k)

    def disarm(self):
        self.remove()
        return False  # they do not tell


class Malloc:
    """Fails the k-th malloc of the process; needs failmalloc preloaded."""

    def __init__(self):
        library = ctypes.CDLL(None)
        self.arm = library.fail_malloc_arm
        self.arm.argtypes, self.arm.restype = [ctypes.c_long], None
        self.disarm = library.fail_malloc_disarm


# CPython 3.11 loses the arguments of a call whose closure cells it cannot allocate.
PYTHON_MAY_LEAK = {"repr"}
# Closing a generator can fail for want of memory, which Python reports as unraisable.
PYTHON_MAY_REPORT = {"repr", "producer, old"}

INJECTORS = {"python": PythonHooks, "malloc": Malloc}


def _tensor():
    given = Given()
    return given, fastdl.from_dlpack(given.capsule())


def _capsule(**fields):
    def prepare():
        given = Given(**fields)
        return given, given.capsule()

    return prepare


def _producer(kind, of_type=lambda kind: kind):
    def prepare():
        given = Given()
        return given, of_type(kind)(given)

    return prepare


def _of_type(*dtype, size=1):
    def prepare():
        given = Given(memory=bytearray(4096), shape=(size,), dtype=dtype)
        return given, fastdl.from_dlpack(given.capsule())

    return prepare


_wide, _lanes = _of_type(0, 128, 1), _of_type(2, 32, 4)
_counter = itertools.count(2)


def _new_lanes():
    """A type that no tensor had before."""
    return _of_type(99, 8, next(_counter))()


def _array():
    import numpy as np

    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    return array, array


def _buffer():
    buffer = bytearray(24)
    return buffer, buffer


class _Arrow:
    """Has its elements by Arrow's interface alone."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __arrow_c_array__(self):
        return self.tensor.__arrow_c_array__()


def _arrow():
    given, tensor = _of_type(2, 32, 1, size=6)()
    return given, _Arrow(tensor)


def _c_producer():
    array, _ = _array()
    return array, c_producers.given(c_producers.ALONE.Exporting, array)


def _memory():
    memory = (ctypes.c_float * 6)()
    return memory, (memory, ctypes.addressof(memory))


def _point(given):
    memory, address = given
    return fastdl.from_pointer(address, (2, 3), "float32", owner=memory, deleter=memory.__len__)


# name -> (prepare() -> (what must be released, argument), operate(argument))
OPERATIONS = {
    "capsule": (_capsule(), fastdl.from_dlpack),
    "capsule, legacy": (_capsule(versioned=False), fastdl.from_dlpack),
    "capsule, python": (_capsule(), _consumer.from_dlpack),
    "capsule, refused": (_capsule(shape=(-1,)), fastdl.from_dlpack),
    "capsule, no deleter": (_capsule(deleter=False), fastdl.from_dlpack),
    "capsule, copied": (_capsule(), lambda x: fastdl.from_dlpack(x, copy=True)),
    "producer": (_producer(Producer), fastdl.from_dlpack),
    "producer, python": (_producer(Producer), _consumer.from_dlpack),
    "producer, new": (_producer(Producer, new), fastdl.from_dlpack),
    "producer, old": (_producer(OldProducer, new), fastdl.from_dlpack),
    "table": (_producer(Tabled), fastdl.from_dlpack),
    "table, new": (_producer(Tabled, new), fastdl.from_dlpack),
    "array": (_array, fastdl.from_dlpack),
    "array, python": (_array, _consumer.from_dlpack),
    "tensor": (_tensor, fastdl.from_dlpack),
    "export": (_tensor, lambda t: t.__dlpack__(max_version=(1, 3))),
    "export, legacy": (_tensor, lambda t: t.__dlpack__()),
    "export, copied": (_tensor, lambda t: t.__dlpack__(max_version=(1, 3), copy=True)),
    "index": (_tensor, lambda t: t[1:, ..., None]),
    "index, many": (_tensor, itemgetter((..., *[None] * 20))),
    "reshape": (_tensor, methodcaller("reshape", [3, -1])),
    "reshape, refused": (_tensor, lambda t: t.T.reshape(6)),
    "permute": (_tensor, lambda t: t.permute(1, 0).squeeze(())),
    "mT": (_tensor, lambda t: t.unsqueeze(0).mT.squeeze(0).as_readonly()),
    "flatten": (_tensor, lambda t: t.flatten()),
    "flatten, refused": (_tensor, lambda t: t.T.flatten()),
    "expand": (_tensor, lambda t: t.T.expand((4, -1, 2))),
    "view": (_tensor, lambda t: t.view("uint8").view("int32")),
    "view, refused": (_tensor, lambda t: t.T.view("uint8")),
    "iterate": (_tensor, list),
    "properties": (_tensor, lambda t: (t.shape, t.strides, t.nbytes, t.dtype, t.device)),
    "buffer": (_tensor, memoryview),
    "numpy": (_tensor, lambda t: t.numpy()),
    "tolist": (_tensor, lambda t: t.tolist()),
    "tolist, 128 bits": (_wide, lambda t: t.tolist()),
    "item": (_tensor, lambda t: t[1, 1].item()),
    "item, lanes": (_lanes, lambda t: t.item()),
    "contains": (_tensor, lambda t: 9.5 in t),
    "on cpu": (_tensor, lambda t: fastdl.from_dlpack(t.to("cpu"), device="cpu")),
    "array on cpu": (_array, lambda a: fastdl.from_dlpack(a, device="cpu")),
    "new dtype": (_new_lanes, lambda t: t.dtype),
    "empty": (_array, lambda a: fastdl.empty(a.shape, "float32")),
    "repr": (_tensor, repr),
    "copy": (_tensor, lambda t: t.copy()),
    "contiguous": (_tensor, lambda t: t.T.contiguous()),
    "from_pointer": (_memory, _point),
    "asarray": (_array, lambda a: fastdl.asarray(memoryview(a))),
    "buffer, described": (_buffer, lambda b: fastdl._unpickle(b, (2, 32, 1), (2, 3), "C", False)),
    "pickle": (_tensor, lambda t: t.__reduce_ex__(5)),
    "arrow, export": (_tensor, lambda t: t.flatten().__arrow_c_array__()),
    "arrow, export of bools": (_of_type(6, 8, 1, size=9), lambda t: t.__arrow_c_array__()),
    "arrow, import": (_arrow, fastdl.asarray),
    "header": (_producer(Producer), HEADER.own),
    "header, new": (_producer(Producer, new), HEADER.own),
    "header, legacy": (_producer(OldProducer), HEADER.own),
    "C producer": (_c_producer, lambda x: x.__dlpack__(max_version=(1, 3))),
    "C producer, legacy": (_c_producer, lambda x: x.__dlpack__()),
    "C producer, copied": (_c_producer, lambda x: x.__dlpack__(copy=True)),
}


def sweep(name, injector):
    """Fails each allocation of an operation in turn; prints how many were.

    The outcome is a result or MemoryError, whatever was handed over is given back once, and no
    reference is kept.
    """
    prepare, operate = OPERATIONS[name]
    inject = INJECTORS[injector]()
    hoard = []  # keeps blocks and objects that fastdl would reuse in the place of an allocation
    reached = quiet = k = 0
    unraisable = []
    sys.unraisablehook = lambda args: unraisable.append(args.exc_type)
    with contextlib.suppress(BufferError):
        operate(prepare()[1])  # imports and caches
    while quiet < QUIET:
        k += 1
        hoard += [fastdl.from_dlpack(Given().capsule()) for _ in range(70 if k == 1 else 4)]
        owner, argument = prepare()
        references = sys.getrefcount(owner)
        result = error = None
        inject.arm(k)
        try:
            result = operate(argument)
        except BaseException as caught:
            error = caught
        try:
            told = inject.disarm()
        except MemoryError:  # the k-th allocation was that of this very call
            told = inject.disarm()
        reached += told
        if type(error) is TypeError and not error.args and sys.version_info < (3, 11):
            error = MemoryError()  # Python 3.10 forgets why it could not word a TypeError
        if type(error) is MemoryError:
            reached += injector == "python"
            quiet = 0
        elif error is None or ("refused" in name and isinstance(error, BufferError)):
            quiet += 1
        else:
            raise error
        del result, error
        if isinstance(owner, Given):
            argument = None
            gc.collect()
            if name in PYTHON_MAY_LEAK:
                assert owner.deleted <= 1, k
            elif name == "capsule, no deleter":
                assert owner.deleted == owner.destroyed, k
            else:
                assert owner.deleted == min(owner.handed, 1), k
                assert (owner.owner() is None) == (owner.deleted == 1), k
        else:
            gc.collect()
            assert sys.getrefcount(owner) == references, k
            del argument
    assert set(unraisable) <= ({MemoryError} if name in PYTHON_MAY_REPORT else set()), unraisable
    print(reached)
