"""The token and the size of a tensor for Dask."""

from fastdl._core import tensor as core


def token(tensor) -> tuple:
    """Tensor.__dask_tokenize__: equal for equal type, shape and bytes. Memory of other devices is
    not read: each call then returns a new token, or raises Dask's error if tokens must be
    deterministic.
    """
    facts = ("fastdl.Tensor", str(tensor.dtype), tensor.shape)
    if not tensor.device.is_host:
        from dask.tokenize import normalize_token

        return (*facts, normalize_token(_Unread(tensor)))
    from hashlib import sha1  # not needed by `import fastdl`

    memory = core.as_bytes(tensor) if tensor.is_contiguous() else core.read_bytes(tensor)
    return (*facts, sha1(memory, usedforsecurity=False).hexdigest())


class _Unread:
    """An object that Dask cannot hash deterministically, since it cannot be pickled."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __repr__(self):
        return core.describe(self.tensor)

    def __reduce__(self):
        raise TypeError(f"{self!r} has no values on the host")


def nbytes(tensor) -> int:
    """The size of a tensor's memory, whatever its owner; a broadcast dimension counts once."""
    return once(tensor).nbytes


def once(tensor):
    """A view in which broadcast dimensions have one element."""
    parts = [
        slice(1) if size > 1 and stride == 0 else slice(None)
        for size, stride in zip(tensor.shape, tensor.strides, strict=True)
    ]
    return tensor[tuple(parts)] if slice(1) in parts and tensor.size else tensor
