# SPDX-License-Identifier: Apache-2.0
"""Small tensor libraries that know streams, for where the real ones are not.

`Library` is made as CuPy is: `__dlpack__` makes the stream that it is given wait for the stream
that is current. `TabledLibrary` is made as torch is: it has an exchange table, which orders nothing
and names the current stream. `InterfaceLibrary` is made as Numba is: `__cuda_array_interface__` and
no DLPack, and the host waits for what it takes. `DefinedLibrary` is made as JAX is: its arrays are
written once, on a stream that nobody else knows. All are honest; none copies or checks anything.
"""

from contextlib import contextmanager

import fastdl
from tests.gpu.backends import SIZE
from tests.support import consumer
from tests.support.ctypes_dlpack import READ_ONLY, Versioned, address_in
from tests.support.producers import Given, Tabled, hostile

UINT8 = (1, 8, 1)

_kept = []  # every managed tensor ever made: tests are short


class Chunk:
    """Memory of a library's pool, which has it again when the last reference goes."""

    def __init__(self, pool, pointer):
        self.pool, self.pointer = pool, pointer

    def __del__(self):
        self.pool.append(self.pointer)


class Array:
    """SIZE bytes at `pointer`, owned by `owner` or by somebody who outlives them."""

    flags = 0

    def __init__(self, library, pointer, owner=None):
        self.library, self.pointer, self.owner = library, pointer, owner
        self.made = []  # every managed tensor that was given away

    def deleted(self):
        return [managed.deleted for managed in self.made]

    @property
    def managed(self):
        """Another for each export."""
        fields = {"data": self.pointer, "device": self.library.gpu.device, "flags": self.flags}
        made = Given(shape=(SIZE,), dtype=UINT8, owner=self, **fields)
        self.made.append(made)
        _kept.append(made)
        return made

    def __dlpack_device__(self):
        return self.library.gpu.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream is None:
            stream = self.library.default
        if stream != -1:
            self._make_wait(stream)
        return self.managed.capsule()

    def _make_wait(self, stream):
        if stream != self.library.current:
            self.library.gpu.driver.order(self.library.current, stream)


class TabledArray(Array):
    """The same with an exchange table, which gives what is `managed`."""

    __dlpack_c_exchange_api__ = Tabled.__dlpack_c_exchange_api__
    mode = "give"


class InterfacedArray:
    """SIZE bytes for those who ask for `__cuda_array_interface__`. `stream`: where they are used,
    None if the interface is not to tell."""

    def __init__(self, pointer, stream=None, owner=None):
        self.pointer, self.stream, self.owner = pointer, stream, owner

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": (SIZE,),
            "typestr": "|u1",
            "data": (self.pointer, False),
            "version": 3,
            "stream": self.stream,
        }


class DefinedArray(Array):
    """Whoever gets it waits for `defined`, an event, wherever the library works meanwhile. None: it
    was there before the test."""

    flags = READ_ONLY
    defined = None

    def _make_wait(self, stream):
        if self.defined is not None:
            self.library.gpu.driver.ok("cuStreamWaitEvent", stream, self.defined, 0)


class Exchange:
    """How a library's arrays are written and handed to fastdl, unless it has ways of its own."""

    asked_at_export = False  # whether fastdl asks for its current stream when it hands data on
    waits_on_host = False  # whether `take` does
    cuda_alone = False

    def write(self, array, stream, value):
        """Queues it after what is on `stream`. Returns the array that will have the bytes, in the
        memory of `array`, which is not used any more."""
        self.gpu.fill(stream, self.pointer(array), value)
        return array

    def give(self, array, stream):
        """The Tensor of an array that was written on `stream`, ready there."""
        with self.using(stream):
            return fastdl.from_dlpack(array, stream=stream)

    def give_unordered(self, array, stream):
        """The control: nobody who gets the Tensor waits."""
        with self.using(stream):
            return fastdl.from_dlpack(array, stream=-1)


class Library(Exchange):
    """A library on a backend. Outside of `using` its current stream is the default one."""

    array = Array
    name = "plain"

    def __init__(self, gpu):
        self.gpu = gpu
        self.current = self.default = gpu.default_stream
        self.pool = []

    def make(self, value):
        return self.array(self, self.gpu.memory(value))

    def allocate(self, stream):
        """An array to be written on `stream`, out of the pool if that has something: the last that
        came back."""
        pointer = self.pool.pop() if self.pool else self.gpu.driver.allocate(SIZE)
        return self.array(self, pointer, Chunk(self.pool, pointer))

    def pointer(self, array):
        return array.pointer

    def in_use(self):
        """How many of its arrays somebody else holds."""
        return sum(made.deleted == 0 for made in _kept)

    @contextmanager
    def using(self, stream):
        before = self.current
        self.switch(stream)
        try:
            yield
        finally:
            self.switch(before)

    def switch(self, stream):
        self.current = stream

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
        self.switch(self.current)

    def switch(self, stream):
        """The table tells it, one for all libraries."""
        super().switch(stream)
        hostile.set_stream(0, 0 if stream == self.gpu.default_stream else stream, False)

    def take(self, tensor):
        """By fastdl's own table: the order is that of fastdl's work stream."""
        with fastdl.use_stream(self.gpu.device, self.current):
            came = consumer.taken(tensor)
        taken = self.array(self, consumer.fields(came)["data"])
        taken.came = came
        return taken


class InterfaceLibrary(Library):
    name = "interface"
    waits_on_host = True
    cuda_alone = True

    def make(self, value):
        return InterfacedArray(self.gpu.memory(value))

    def give(self, array, stream):
        bound = InterfacedArray(array.pointer, stream, array)
        with fastdl.use_stream(self.gpu.device, stream):
            return fastdl.asarray(bound)

    def give_unordered(self, array, stream):
        return fastdl.asarray(array)

    def take(self, tensor):
        interface = tensor.__cuda_array_interface__
        if interface["stream"] is not None:
            self.gpu.finish(interface["stream"])
        return InterfacedArray(interface["data"][0], owner=tensor)


class DefinedLibrary(Library):
    array = DefinedArray
    name = "defined"

    def __init__(self, gpu):
        super().__init__(gpu)
        self.own = gpu.stream()

    def write(self, array, stream, value):
        """Of what it took from `stream`, where its own has to wait."""
        self.gpu.driver.order(stream, self.own)
        self.gpu.fill(self.own, array.pointer, value)
        written = self.array(self, array.pointer, array)
        written.defined = self.gpu.driver.event()
        self.gpu.driver.ok("cuEventRecord", written.defined, self.own)
        return written

    def give_unordered(self, array, stream):
        return by_capsule(array, self.gpu.setup)


def by_capsule(array, stream):
    """The Tensor of a capsule that was made ready on a stream where nobody will use it: capsules do
    not name their stream, so that the order is the caller's."""
    return fastdl.from_dlpack(array.__dlpack__(stream=stream))
