# SPDX-License-Identifier: Apache-2.0
"""producer: a class of Python as a producer, by an attribute that is a tensor."""

from fastdl._convert.asarray import asarray
from fastdl._core.errors import name_of
from fastdl._core.exchange import MAX_VERSION, exchange_api

_NAMES = ("__dlpack__", "__dlpack_device__", "__dlpack_info__", "__dlpack_c_exchange_api__")


def producer(attribute):
    """See fastdl.producer."""
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

    def decorate(cls):
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
