"""How many values are missing in data of pandas, polars and Arrow, which their `__array__` shows as
NaN. The libraries are not imported for that."""

from fastdl._core.foreign import module_of, package_of


def count(x) -> int:
    """How many values of `x` are missing; 0 for data of other libraries."""
    counter = _COUNTERS.get(package_of(module_of(type(x))))
    return 0 if counter is None else counter(x)


def _of_pandas(x) -> int:
    if hasattr(x, "items") and hasattr(x, "columns"):  # a DataFrame
        return sum(_of_pandas(column) for _, column in x.items())
    if package_of(module_of(type(x.dtype))) == "numpy":  # where NaN is a number
        return 0
    return int(x.isna().sum())


def _of_polars(x) -> int:
    nulls = x.null_count()
    return int(sum(nulls.row(0))) if hasattr(nulls, "row") else int(nulls)  # a DataFrame


def _of_arrow(x) -> int:
    if hasattr(x, "columns"):  # a Table
        return sum(column.null_count for column in x.columns)
    return getattr(x, "null_count", 0)  # a Tensor has none


_COUNTERS = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}
