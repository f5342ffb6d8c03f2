"""The one exception that fastdl adds."""


class CopyRequiredError(BufferError, ValueError):
    """A copy was forbidden (`copy=False`) and is needed.

    Both a BufferError, as `__dlpack__` must raise, and a ValueError, as the array API standard
    asks of `from_dlpack`: the standard names both for the same case.
    """
