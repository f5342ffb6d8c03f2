"""How many values are missing in data of pandas, polars and Arrow, which their `__array__` shows as
NaN. The libraries are not imported for that."""


def _package(x) -> str:
    return type(x).__module__.partition(".")[0]


def count(x) -> int:
    """How many values of `x` are missing; 0 for data of other libraries."""
    counter = _COUNTERS.get(_package(x))
    return 0 if counter is None else counter(x)


def _of_pandas(x) -> int:
    if hasattr(x, "items") and hasattr(x, "columns"):  # a DataFrame
        return sum(_of_pandas(column) for _, column in x.items())
    if _package(x.dtype) == "numpy":  # where NaN is a number
        return 0
    return int(x.isna().sum())


def _of_arrow(x) -> int:
    nulls = getattr(x, "null_count", 0)
    nulls = nulls() if callable(nulls) else nulls
    return int(sum(nulls.row(0))) if hasattr(nulls, "row") else int(nulls)  # a polars DataFrame


_COUNTERS = {"pandas": _of_pandas, "polars": _of_arrow, "pyarrow": _of_arrow}
