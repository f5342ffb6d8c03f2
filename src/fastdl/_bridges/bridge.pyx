# SPDX-License-Identifier: Apache-2.0
"""Bridge: what is known of a library to whose objects convert converts."""
import cython

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from fastdl._core.native cimport (
    DLPackExchangeAPI, fastdl_atomic_load_, fastdl_atomic_store_, kDLFloat4_e2m1fn,
)
from fastdl._core.dtype import DType
from fastdl._core.foreign import loaded_version, release

ANY, POSITIVE, DENSE, COMPACT = ANY_, POSITIVE_, DENSE_, COMPACT_
KEPT, IMMUTABLE, COPIED = KEPT_, IMMUTABLE_, COPIED_

#: The facts that may depend on the version of a library.
BY_VERSION = (
    "make", "strides", "readonly", "alignment", "ndims", "dtypes", "copies", "devices",
)

#: The device of the data.
HOST, DEVICE, ANYWHERE = "host", "device", "anywhere"


@cython.final
cdef class Bridge:
    """A type that convert makes objects of: how it is recognised, and what its library accepts.

    name: the type as its users write it. title: the library's name in messages.
    classes: "package:qualified name" of classes that stand for this type, and whose objects need no
        conversion to it. Classes are found by these names, so nothing is imported.
    make: make(tensor, like) returns an object on the memory of a Tensor that fits. `like` is the
        type or the module that the caller passed. It imports the library. Not needed if `quick`
        returns a function.
    read: read(x) returns a Tensor on the memory of an object, if DLPack cannot, or describes it
        wrongly. A copy is marked as such.
    reads: the names of the element types, in DLPack's description, to which `read` applies: read(x,
        tensor) gets the tensor from DLPack; None: all.
    read_copy: read_copy(x) returns a Tensor on a copy of an object that cannot be read otherwise.
    move: move(x, device) returns a copy of an object of this type on a device of CUDA or ROCm; for
        a library of device memory alone, also of an ndarray.
    empty: empty(shape, dtype, device) returns a new object on a device, for results of C code;
        needed where the type has no exchange table that allocates.
    strides: ANY, POSITIVE, DENSE or COMPACT. readonly: KEPT, IMMUTABLE or COPIED.
    alignment: of the data, in bytes. ndims: the least and the greatest number of dimensions.
    dtypes: the names of the element types it accepts; None: it decides itself.
    copies: copies(tensor) returns whether `make` copies (None: it may), and its docstring names
        that data; or True: all.
    devices: HOST, DEVICE or ANYWHERE.
    quick: quick() returns a faster way to make objects: a capsule "fastdl_maker", an exchange table
        in a capsule, or a function of a Tensor; None: there is none. Called once, when the library
        is loaded.
    since: the first version whose objects are made; "": any.
    before: version -> the facts that hold before it: make, strides, readonly, alignment, ndims,
        dtypes, copies, devices.
    built: built() returns those that hold for the library as it was built. Called once, when the
        library is loaded.
    """

    def __init__(self, name, *, title, classes, make=None, read=None, reads=None, read_copy=None,
                 move=None, empty=None, strides=ANY, readonly=KEPT, alignment=1, ndims=(0, 64),
                 dtypes=None, copies=False, devices=HOST, quick=None, since="", before=None,
                 built=None):
        self.name, self.title, self.classes = name, title, tuple(classes)
        self.make, self.move, self.empty = make, move, empty
        self.read, self.read_copy = read, read_copy
        self.reads = None if reads is None else frozenset(reads)
        self.strides, self.readonly, self.alignment = strides, readonly, alignment
        self.ndims = self.least_ndim, self.most_ndim = ndims
        self.dtypes = None if dtypes is None else frozenset(dtypes)
        self.copies, self.devices = copies, devices
        self.host, self.device = devices != DEVICE, devices != HOST
        self.quick, self.since, self.before, self.built = quick, since, before or {}, built
        self.facts = {name: getattr(self, name) for name in BY_VERSION}
        for dtype in map(DType, self.dtypes or ()):
            if (dtype.code <= kDLFloat4_e2m1fn and dtype.lanes == 1
                    and dtype.bits & (dtype.bits - 1) == 0):
                self.sizes[dtype.code] |= <uint8_t>dtype.bits

    def __repr__(self):
        return f"<bridge to {self.name}>"

    def start(self):
        """Determines the loaded version of a library, and its fast paths. Does so only once."""
        cdef Bridge there
        if fastdl_atomic_load_(&self.started) is not NULL:
            return
        version = loaded_version(self.name)
        built = None if self.built is None else self.built()
        there = self.of(version, built) if self.before or built else self
        outdated = () < release(version) < release(self.since)
        path = self.quick() if self.quick is not None and not outdated else None
        with cython.critical_section(self):  # another thread's path may be in use already
            if fastdl_atomic_load_(&self.started) is NULL:
                if there is not self:
                    self.follow(there)
                self.outdated = version if outdated else None
                self.use(path)
                fastdl_atomic_store_(&self.started, <const void *>self)

    def of(self, version, built=None):
        """The bridge with the facts about a version of the library ("": the newest), and about how
        it was built: what `built()` returned."""
        facts = self.facts.copy()
        for limit in sorted(self.before, key=release, reverse=True):
            if () < release(version) < release(limit):
                facts.update(self.before[limit])
        facts.update(built or {})
        return Bridge(self.name, title=self.title, classes=self.classes, **facts)

    cdef void follow(self, Bridge other) noexcept:
        self.make, self.copies, self.dtypes = other.make, other.copies, other.dtypes
        self.strides, self.readonly, self.alignment = other.strides, other.readonly, other.alignment
        self.ndims, self.devices = other.ndims, other.devices
        self.least_ndim, self.most_ndim = other.least_ndim, other.most_ndim
        self.host, self.device = other.host, other.device
        memcpy(self.sizes, other.sizes, sizeof(self.sizes))

    cdef int use(self, path) except -1:
        """Makes objects by `path`, the result of `quick`, where possible."""
        if PyCapsule_IsValid(path, "fastdl_maker"):
            self.maker = <const fastdl_maker *>PyCapsule_GetPointer(path, "fastdl_maker")
        elif PyCapsule_IsValid(path, "dlpack_exchange_api"):
            self.table = <const DLPackExchangeAPI *>PyCapsule_GetPointer(
                path, "dlpack_exchange_api")
        else:
            self.importer = path
