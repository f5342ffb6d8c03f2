# SPDX-License-Identifier: Apache-2.0
"""Bridge: the facts about a library whose objects convert makes."""

from fastdl._core.foreign import loaded_version, release

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from typing_extensions import CapsuleType

    from fastdl._core.device import Device
    from fastdl._core.dtype import DType
    from fastdl._core.tensor import Tensor

#: The strides that a library accepts: all; all but negative ones; those of elements without gaps,
#: with the dimensions in any order; those of row-major elements without gaps. Dimensions of size 1,
#: and tensors without elements, always fit.
ANY, POSITIVE, DENSE, COMPACT = range(4)

#: What becomes of read-only data in a library: it stays read-only; or all data there is read-only,
#: so immutable memory is shared; or all its arrays are writable, so a copy is needed.
KEPT, IMMUTABLE, COPIED = range(3)

#: The facts that may depend on the version of a library.
BY_VERSION = "make", "strides", "readonly", "alignment", "ndims", "dtypes", "copies", "devices"

#: The device of the data.
HOST, DEVICE, ANYWHERE = "host", "device", "anywhere"


class Bridge:
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
    read_otherwise: read_otherwise(x) returns a Tensor on an object, or a copy of it, where DLPack
        failed; None if it cannot be described.
    gradient: the attribute that is true for an object whose gradient the library records: convert
        does not convert it, since the gradient would be lost.
    move: move(x, device) returns a copy of an object of this type on a device of CUDA or ROCm; for
        a library with only device memory, also of an ndarray.
    empty: empty(shape, dtype, device) returns a new object on a device, for results of C code;
        needed where the type has no exchange table that allocates.
    strides: ANY, POSITIVE, DENSE or COMPACT. readonly: KEPT, IMMUTABLE or COPIED.
    alignment: of the data, in bytes. ndims: the least and the greatest number of dimensions.
    dtypes: the names of the element types it accepts; None: the library checks them itself.
    copies: copies(tensor) returns whether `make` copies (None: it may), and its docstring names
        that data; or True: all.
    devices: HOST, DEVICE or ANYWHERE.
    quick: quick() returns a faster way to make objects: a capsule "fastdl_maker", an exchange table
        in a capsule, or a function of a Tensor; None: there is none. Called once, when the library
        is loaded.
    since: the first version whose objects are made; "": any.
    before: version -> the facts that hold before it: make, strides, readonly, alignment, ndims,
        dtypes, copies, devices.
    built: built() returns the facts that depend on how the library was built. Called once, when the
        library is loaded.
    """

    library: "Any" = None  # the Library of convert.pyx

    def __init__(
        self,
        name: str,
        *,
        title: str,
        classes: "Iterable[str]",
        make: "Callable[[Tensor, Any], Any] | None" = None,
        read: "Callable[..., Tensor] | None" = None,
        reads: "Iterable[str] | None" = None,
        read_otherwise: "Callable[[Any], Tensor] | None" = None,
        gradient: "str | None" = None,
        move: "Callable[[Any, Device], Any] | None" = None,
        empty: "Callable[[tuple[int, ...], DType, Device], Any] | None" = None,
        strides: int = ANY,
        readonly: int = KEPT,
        alignment: int = 1,
        ndims: tuple[int, int] = (0, 64),
        dtypes: "Iterable[str] | None" = None,
        copies: "bool | Callable[[Tensor], bool | None]" = False,
        devices: str = HOST,
        quick: "Callable[[], CapsuleType | Callable[[Tensor], Any] | None] | None" = None,
        since: str = "",
        before: "Mapping[str, Mapping[str, Any]] | None" = None,
        built: "Callable[[], Mapping[str, Any]] | None" = None,
    ) -> None:
        self.name, self.title, self.classes = name, title, tuple(classes)
        self.make, self.move, self.empty = make, move, empty
        self.gradient = gradient
        self.read, self.read_otherwise = read, read_otherwise
        self.reads = None if reads is None else frozenset(reads)
        self.strides, self.readonly, self.alignment = strides, readonly, alignment
        self.ndims = ndims
        self.dtypes = None if dtypes is None else frozenset(dtypes)
        self.copies, self.devices = copies, devices
        self.quick, self.since, self.before, self.built = quick, since, before or {}, built
        self.facts = {name: getattr(self, name) for name in BY_VERSION}
        self.outdated: str | None = None  # the loaded version, if it is older than `since`

    def start(self) -> "Any":
        """Adapts the facts to the loaded version of the library, and returns the result of `quick`,
        or None."""
        version = loaded_version(self.name)
        if self.before or self.built:
            vars(self).update(self.of(version, self.built and self.built()).facts)
        if () < release(version) < release(self.since):
            self.outdated = version
        return None if self.quick is None or self.outdated else self.quick()

    def of(self, version: str, built: "Mapping[str, Any] | None" = None) -> "Bridge":
        """The bridge with the facts about a version of the library ("": the newest), and about how
        it was built: what `built()` returned."""
        facts = self.facts.copy()
        for limit in sorted(self.before, key=release, reverse=True):
            if () < release(version) < release(limit):
                facts.update(self.before[limit])
        facts.update(built or {})
        return Bridge(self.name, title=self.title, classes=self.classes, **facts)
