"""The exception that fastdl adds, and how messages name a type."""


class CopyRequiredError(BufferError, ValueError):
    """A copy was forbidden (`copy=False`) and is needed.

    Both a BufferError, as `__dlpack__` must raise, and a ValueError, as the array API standard
    asks of `from_dlpack`: the standard names both for the same case.
    """


def type_name(x) -> str:
    """The name of the type of `x` with its module, as a traceback shows it; builtins without."""
    cls = type(x)
    module = getattr(cls, "__module__", None)
    if not isinstance(module, str) or module == "builtins":
        return cls.__qualname__
    return f"{module}.{cls.__qualname__}"
