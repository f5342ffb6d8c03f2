"""Two small tensor libraries that know streams, for where the real ones are not.

`Plain` is made as CuPy is: `__dlpack__` makes the stream that it is given wait for the stream that
is current. `Tabled` is made as torch is: it has an exchange table, which orders nothing and names
the current stream. Both are honest; neither copies or checks anything.
"""

import ctypes
from contextlib import contextmanager

import fastdl
from tests.gpu.backends import SIZE
from tests.support.ctypes_dlpack import Managed, Table, Versioned, address_in, capsule

UINT8 = (1, 8, 1)

_from_object = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
_stream = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)
_unused = ctypes.PYFUNCTYPE(ctypes.c_int)
_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_kept = []  # every managed tensor ever made: tests are short


class Taken:
    """A managed tensor out of fastdl's own table, ordered for fastdl's work stream. Deleted with
    this object, unless it is given away."""

    def __init__(self, tensor):
        table = Table.from_address(address_in(fastdl.exchange_api(fastdl.Tensor)))
        out = ctypes.c_void_p()
        _from_object(table.from_object)(tensor, out)
        self.address = out.value

    @property
    def struct(self):
        return Versioned.from_address(self.address)

    def give(self):
        """(deleter, argument), for somebody else to call."""
        given = self.struct.deleter, self.address
        self.address = None
        return given

    def __del__(self):
        if self.address is not None:
            deleter, address = self.give()
            _deleter(deleter)(address)


class Array:
    """SIZE bytes at `pointer`, owned by somebody who outlives them."""

    def __init__(self, library, pointer):
        self.library, self.pointer = library, pointer
        self.made = []  # every managed tensor that was given away

    def deleted(self):
        return [managed.deleted for managed in self.made]

    def _managed(self):
        made = Managed((SIZE,), UINT8, data=self.pointer, device=self.library.gpu.device)
        made.keep = self
        self.made.append(made)
        _kept.append(made)
        return made

    def __dlpack_device__(self):
        return self.library.gpu.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        gpu, current = self.library.gpu, self.library.current
        if stream is None:
            stream = self.library.default
        if stream not in (-1, current):
            gpu.driver.order(current, stream)
        return self._managed().capsule()


class TabledArray(Array):
    """The same with an exchange table."""


class Library:
    """A library on a backend. Outside of `using` its current stream is the default one."""

    array = Array
    name = "plain"
    asked_at_export = False  # whether fastdl asks for its current stream when it hands data on

    def __init__(self, gpu):
        self.gpu = gpu
        self.current = self.default = gpu.default_stream

    def make(self, value):
        return self.array(self, self.gpu.memory(value))

    def pointer(self, array):
        return array.pointer

    def in_use(self):
        """How many of its arrays somebody else holds."""
        return sum(made.deleted == 0 for made in _kept)

    @contextmanager
    def using(self, stream):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def take(self, tensor):
        """As a consumer: an array on the memory of a producer, ready on the current stream."""
        exported = tensor.__dlpack__(stream=self.current, max_version=(1, 3))
        struct = Versioned.from_address(address_in(exported))
        taken = self.array(self, struct.tensor.data)
        taken.capsule = exported  # not consumed, so it lives as long as the array
        return taken


class TabledLibrary(Library):
    array = TabledArray
    name = "table"
    asked_at_export = True

    def __init__(self, gpu):
        super().__init__(gpu)
        self.default = -1  # as torch: without a stream there is no order
        _current["library"] = self

    def take(self, tensor):
        """By fastdl's own table: the order is that of fastdl's work stream."""
        with fastdl.use_stream(self.gpu.device, self.current):
            came = Taken(tensor)
        taken = self.array(self, came.struct.tensor.data)
        taken.came = came
        return taken


_current = {}  # "library": the last one made, which the table speaks for


@_from_object
def _give(array, out):
    out[0] = array._managed().address
    return 0


@_stream
def _work_stream(kind, number, out):
    library = _current["library"]
    out[0] = None if library.current == library.gpu.default_stream else library.current
    return 0


@_unused
def _refuse():
    return -1


def _table():
    table = Table()
    table.version.major, table.version.minor = 1, 3
    for slot in ("allocator", "to_object"):
        setattr(table, slot, ctypes.cast(_refuse, ctypes.c_void_p))
    table.from_object = ctypes.cast(_give, ctypes.c_void_p)
    table.current_work_stream = ctypes.cast(_work_stream, ctypes.c_void_p)
    return table


_TABLE = _table()
TabledArray.__dlpack_c_exchange_api__ = capsule(ctypes.addressof(_TABLE), b"dlpack_exchange_api")
