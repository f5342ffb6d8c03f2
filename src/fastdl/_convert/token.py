"""What Dask knows a tensor by: its token, and its size."""

from fastdl._core import tensor as core


def token(tensor) -> tuple:
    """Tensor.__dask_tokenize__: equal for equal type, shape and bytes. Other devices' memory is not
    read: each call gives another token then, or Dask's own error if it wants none of that."""
    facts = ("fastdl.Tensor", str(tensor.dtype), tensor.shape)
    if not tensor.device.is_host:
        from dask.tokenize import normalize_token

        return (*facts, normalize_token(_Unread(tensor)))
    from hashlib import sha1  # which `import fastdl` can do without

    memory = core.as_bytes(tensor) if tensor.is_contiguous() else core.read_bytes(tensor)
    return (*facts, sha1(memory, usedforsecurity=False).hexdigest())


class _Unread:
    """For Dask, an object that cannot be hashed deterministically: it cannot be pickled."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __repr__(self):
        return core.describe(self.tensor)

    def __reduce__(self):
        raise TypeError(f"{self!r} has no values on the host")


def register_sizeof(sizeof):
    """The entry point of the group `dask.sizeof`, which Dask calls on import."""
    sizeof.register(core.Tensor, nbytes)


def nbytes(tensor) -> int:
    """The memory that a tensor keeps in use, whoever owns it; a broadcast dimension counts once."""
    if 0 in tensor.strides:
        tensor = tensor[tuple(slice(None) if n else slice(1) for n in tensor.strides)]
    return tensor.nbytes
