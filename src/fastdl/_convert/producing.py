"""producer: a class of Python as a producer, by an attribute that is a tensor."""

from fastdl._convert.asarray import asarray
from fastdl._core.errors import name_of
from fastdl._core.exchange import MAX_VERSION, exchange_api

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _Class = TypeVar("_Class", bound=type)

_NAMES = ("__dlpack__", "__dlpack_device__", "__dlpack_info__", "__dlpack_c_exchange_api__")


def producer(attribute: str) -> "Callable[[_Class], _Class]":
    """A class decorator: instances are tensors to every library, on the memory of an attribute.

    attribute: the name of an attribute or a property, which may be anything that fastdl.asarray
    takes: an array of any library, a buffer, a fastdl.Tensor. It is read at each export, and may be
    a different object each time.

    The class gets `__dlpack__` with all keywords of the three generations of the protocol,
    `__dlpack_device__`, `__dlpack_info__`, and an exchange table. An export keeps the memory of the
    attribute alive, not the instance. Subclasses inherit all that.

    TypeError: `attribute` is not a name, the decorated object is not a class, or the class has one
    of these methods itself. An export raises what reading the attribute and fastdl.asarray raise.

    >>> @fastdl.producer("pixels")
    ... class Image:
    ...     def __init__(self, height, width):
    ...         self.pixels = bytearray(height * width)
    >>> fastdl.from_dlpack(Image(1, 3)).tolist()
    [0, 0, 0]
    """
    if not isinstance(attribute, str):
        raise TypeError(
            f"expected the name of an attribute, as in @fastdl.producer('data'), got {attribute!r}"
        )

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None, version=None):
        return asarray(getattr(self, attribute)).__dlpack__(
            stream=stream,
            max_version=max_version,
            dl_device=dl_device,
            copy=copy,
            version=version,
        )

    def __dlpack_device__(self):
        return asarray(getattr(self, attribute)).__dlpack_device__()

    def __dlpack_info__(self):
        return MAX_VERSION[0] * 100 + MAX_VERSION[1] * 10

    def decorate(cls: "_Class") -> "_Class":
        if not isinstance(cls, type):
            raise TypeError(f"expected a class to make a producer, got {cls!r}")
        for name in _NAMES:
            if name in vars(cls):
                raise TypeError(
                    f"{name_of(cls)!r} has {name} already: remove it, or decorate a subclass"
                )
        for method in (__dlpack__, __dlpack_device__, __dlpack_info__):
            setattr(cls, method.__name__, method)
        setattr(cls, _NAMES[-1], exchange_api(cls))  # the general bridge
        return cls

    return decorate
