# SPDX-License-Identifier: Apache-2.0
"""fastdl's own exception, names of types in messages, and a cache of results."""

from fastdl._core.foreign import module_of, package_of


class CopyRequiredError(BufferError, ValueError):
    """A copy is needed but forbidden, by `copy=False` or by a method that never copies.

    Both a BufferError, as `__dlpack__` must raise, and a ValueError, as the array API standard
    requires of `from_dlpack`: the standard names both for the same case.

    >>> try:
    ...     fastdl.empty(3).__dlpack__(dl_device=(2, 0), copy=False)
    ... except fastdl.CopyRequiredError as error:
    ...     print(error)
    a float32 tensor of shape (3,) on cpu:0 needs a copy to be on cuda:0, and copy=False
    """


def refusal(kind, text):
    """An exception about one object, marked as fastdl's own: C functions put the name of the
    argument before its message (fastdl_name_argument_). A producer's exception only gains a
    note."""
    error = kind(text)
    error._fastdl = True
    return error


def values_missing(x, found: int):
    """The exception for an object with that many missing values."""
    return refusal(
        BufferError,
        f"{type_name(x)!r} has missing values ({found} in all), which a tensor cannot express: "
        f"fill or drop them first",
    )


def is_own(error) -> bool:
    """Whether fastdl raised an exception, that is, whether its innermost frame is in fastdl."""
    modules = [str(frame.f_globals.get("__name__")) for frame in frames(error)]
    kinds = (BufferError, TypeError, ValueError)
    return package_of("".join(modules[-1:])) == "fastdl" and type(error) in kinds


def frames(error) -> list:
    """The Python frames of an exception's traceback, the innermost last."""
    found, traceback = [], error.__traceback__
    while traceback is not None:
        found.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return found


def type_name(x) -> str:
    """The name of the type of `x` with its module, as a traceback shows it; builtins without."""
    return name_of(type(x))


def name_of(cls: type) -> str:
    """The name of a type with its module, as a traceback shows it; builtins without."""
    module = module_of(cls)
    return cls.__qualname__ if module in ("", "builtins") else f"{module}.{cls.__qualname__}"


def nearest(text: str, names, elsewhere) -> str:
    """The end of a message about `text`, which is not among `names`: the names that may be meant.

    `elsewhere`: names in other libraries, and the names that each may stand for.
    """
    from difflib import get_close_matches  # not needed by `import fastdl`

    lower = text.strip().lower()
    found = elsewhere.get(lower) or get_close_matches(lower, list(names), n=1)
    return f": did you mean {' or '.join(map(repr, found))}?" if found else ""


def cached(function):
    """Like functools.lru_cache, which `import fastdl` need not load: keeps up to 256 results, but
    not None. Concurrent calls with equal arguments return the same object."""
    results: dict[tuple[object, ...], object] = {}

    def call(*arguments):
        found = results.get(arguments)
        if found is None:
            found = function(*arguments)
            if found is not None:
                if len(results) >= 256:
                    results.clear()
                found = results.setdefault(arguments, found)
        return found

    return call
