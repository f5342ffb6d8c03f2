# SPDX-License-Identifier: Apache-2.0
"""The jobs of doctor and inspect, each in its own process: python -m fastdl._cli.probe LOG.

A job is JSON on the standard input: the name of a function here, and its arguments. The log has
the start and the result of each step: see processes.py.
"""

import json
import os
import re
import sys
import timeit
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import fastdl
from fastdl._bridges import lookup
from fastdl._cli import capsules, libraries
from fastdl._cli.expression import evaluate
from fastdl._cli.import_paths import import_path_of, keywords_of, plan_of
from fastdl._convert import convert as front
from fastdl._convert.targets import bridge_for
from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.device import DeviceType
from fastdl._core.dtype import DType
from fastdl._core.errors import CopyRequiredError
from fastdl._devices import driver

VALUES = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


class Steps:
    """Writes the log."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - until the process ends
        self.failed: set[str] = set()

    def write(self, *line: Any) -> None:
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def do(
        self, name: str, function: Callable[[], Any], logged: Callable[[Any], Any] = lambda _: None
    ) -> Any:
        """The result of `function`, which `logged` converts for the log; None if it raised."""
        self.write("begin", name)
        try:
            result = function()
            self.write("result", name, logged(result))
        except (Exception, SystemExit) as error:
            self.failed.add(name)
            self.write("error", name, summary(error))
            return None
        return result

    def record(self, name: str, function: Callable[[], Any]) -> None:
        """Runs a step and logs its result unchanged."""
        self.do(name, function, lambda result: result)


def summary(error: BaseException) -> str:
    """The type and the first line of an exception."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}".rstrip(": ")


def nanoseconds(function: Callable[[Any], Any], argument: Any) -> float:
    """The cost of a call: the best of several short runs."""
    timer = timeit.Timer("function(argument)", globals=locals())
    number = 1
    while timer.timeit(number) < 1e-3 and number < 1_000_000:
        number *= 4
    return round(min(timer.repeat(9, number)) / number * 1e9, 1)


# ---- one library ----------------------------------------------------------------------------


def library(steps: Steps, name: str, sample: str) -> None:
    """How an array of one library is imported."""
    module = steps.do("import", lambda: import_module(name))
    if module is None:
        return
    steps.record("version", lambda: str(getattr(module, "__version__", "")))
    array = steps.do("sample", lambda: evaluate(sample))
    if array is None:
        return
    steps.record("import_path", lambda: {**import_path_of(array), "type": name_of(type(array))})
    steps.record("__dlpack__", lambda: keywords_of(array))
    tensor = steps.do("import of the array", lambda: fastdl.asarray(array))
    if tensor is None:
        return
    steps.record("tensor", lambda: facts_of(array, tensor))
    call = fastdl.from_dlpack if exchange.is_producer(array) else fastdl.asarray
    steps.record("cost", lambda: nanoseconds(call, array))
    steps.record("yardstick", yardstick)


def name_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def facts_of(array: Any, tensor: fastdl.Tensor) -> dict[str, Any]:
    shared = fastdl.asarray(array).data_ptr == tensor.data_ptr and not tensor.is_copied
    host = tensor.device.is_host
    return {
        "device": str(tensor.device),
        "dtype": str(tensor.dtype),
        "zero_copy": shared,
        "readonly": tensor.readonly,
        "immutable": core.is_immutable(tensor),
        "right": tensor.tolist() == VALUES if host else None,
    }


def yardstick() -> "float | None":
    """np.from_dlpack(ndarray), in nanoseconds; None without NumPy."""
    try:
        import numpy as np
    except ImportError:
        return None
    array = np.arange(6, dtype="float32")
    return nanoseconds(np.from_dlpack, array) if hasattr(np, "from_dlpack") else None


# ---- conversions ----------------------------------------------------------------------------


def load(steps: Steps, modules: dict[str, str]) -> dict[str, Any]:
    """The modules of libraries (name -> module), imported in an order in which the libraries work
    together; None for one that cannot be imported."""
    return {
        name: steps.do(f"import {name}", partial(import_module, modules[name]))
        for name in libraries.in_order(modules)
    }


def convert(array: Any, target: Any) -> dict[str, str]:
    """The outcome of a conversion: zero-copy, copy, refused or wrong, and the reason."""
    reason = ""
    try:
        result = fastdl.convert(array, target, copy=False)
    except CopyRequiredError as error:
        reason = short(error)
        try:
            result = fastdl.convert(array, target)
        except Exception as second:
            return {"outcome": "refused", "reason": short(second)}
    except Exception as error:
        return {"outcome": "refused", "reason": short(error)}
    if result is array:
        return {"outcome": "zero-copy", "reason": "the same object"}
    source, made = fastdl.asarray(array), fastdl.asarray(result)
    if made.device.is_host and source.device.is_host and made.tolist() != source.tolist():
        return {"outcome": "wrong", "reason": "the values differ"}
    shared = made.data_ptr == source.data_ptr
    if reason or not shared:
        return {"outcome": "copy", "reason": reason or unsaid(array, source)}
    return {"outcome": "zero-copy", "reason": ""}


def unsaid(array: Any, source: fastdl.Tensor) -> str:
    """The reason for a copy that fastdl did not make."""
    if fastdl.asarray(array).data_ptr != source.data_ptr:
        return "its own library exports a copy each time"
    return "the consumer made the copy itself"


def short(error: BaseException) -> str:
    """The message of an error of convert, without the description of the data."""
    text = f"{type(error).__name__}: {error}"
    for before in ("copy=False: ", "cannot be converted to "):
        _, found, rest = text.partition(before)
        if found:
            text = rest if before.startswith("copy") else rest.partition(": ")[2] or rest
            break
    return re.sub(r" 0x[0-9a-f]+\b", "", text)  # which differs from run to run


# ---- one array ------------------------------------------------------------------------------


def array(steps: Steps, expression: str, consumers: list[str]) -> None:
    """Logs what the array of an expression exports, and what convert would do for each consumer."""
    x = steps.do("evaluate", partial(evaluate, expression), lambda x: name_of(type(x)))
    if "evaluate" in steps.failed:
        return
    steps.record("import_path", partial(import_path_of, x))
    steps.record("__dlpack__", partial(keywords_of, x))
    steps.record("plan", partial(plan_of, x))
    tensor = steps.do("import", partial(fastdl.asarray, x), partial(tensor_fields, x))
    if tensor is None:
        return
    steps.record("managed tensor", partial(managed_of, x, tensor))
    for name in consumers:
        steps.record(f"for {name}", partial(expected, x, name))


def tensor_fields(x: Any, tensor: fastdl.Tensor) -> dict[str, Any]:
    return {
        "text": core.describe(tensor),
        "dtype": str(tensor.dtype),
        "device": str(tensor.device),
        "shape": list(tensor.shape),
        "strides": list(tensor.strides),
        "itemsize": tensor.dtype.bits * tensor.dtype.lanes / 8,
        "readonly": tensor.readonly,
        "is_copied": tensor.is_copied,
        "immutable": core.is_immutable(tensor),
    }


def managed_of(x: Any, tensor: fastdl.Tensor) -> dict[str, Any]:
    """The managed tensor that the library exports, or fastdl's if it exports none."""
    kind, own = import_path_of(x)["kind"], True
    asked = keywords_of(x)
    if kind == "table":
        fields = capsules.describe_export(exchange.exchange_api(type(x)), x)
    elif asked is not None and not asked["raises"]:
        newest = {"max_version": exchange.MAX_VERSION} if "max_version" in asked["keywords"] else {}
        fields = capsules.describe_capsule(exchange.producer(x)(**newest))
    else:
        own = False
        fields = capsules.describe_export(exchange.exchange_api(fastdl.Tensor), tensor)
    names = {"device_name": str(tensor.device), "dtype_name": dtype_name(fields["dtype"])}
    return {**fields, **names, "by_library": own}


def dtype_name(dtype: dict[str, int]) -> str:
    try:
        return str(DType((dtype["code"], dtype["bits"], dtype["lanes"])))
    except (TypeError, ValueError, BufferError):
        return "unknown"


def expected(x: Any, name: str) -> dict[str, str]:
    """The outcome that a library's bridge predicts for convert; the library need not be
    installed."""
    bridge = lookup.bridge_of_module(ModuleType(libraries.BY_NAME[name].module))
    if bridge_for(type(x)) is bridge:
        return {"outcome": "zero-copy", "reason": "the same object"}
    try:
        tensor = fastdl.asarray(x)
        copied = tensor.is_copied
        front.fit(tensor, bridge, x, False)
    except CopyRequiredError as error:
        return {"outcome": "copy", "reason": short(error)}
    except Exception as error:
        return {"outcome": "refused", "reason": short(error)}
    if copied:
        return {"outcome": "copy", "reason": "fastdl.asarray copies it"}
    return {"outcome": "zero-copy", "reason": ""}


def attempt(steps: Steps, expression: str, consumer: str) -> None:
    """Converts the array of an expression to one library."""
    source = expression.partition(":")[0].strip().partition(".")[0]
    loaded = load(steps, {source: source, consumer: libraries.BY_NAME[consumer].module})
    if None in loaded.values():
        return
    x = steps.do("evaluate", partial(evaluate, expression))
    if "evaluate" not in steps.failed:
        steps.record("convert", partial(convert, x, loaded[consumer]))


# ---- devices --------------------------------------------------------------------------------


def devices(steps: Steps) -> None:
    """Logs the drivers through which fastdl orders work."""
    for title, kind in (("CUDA", DeviceType.CUDA), ("ROCm", DeviceType.ROCM)):
        steps.record(title, partial(driver_of, kind))


def driver_of(kind: DeviceType) -> dict[str, Any]:
    try:
        name, version, count = driver.driver_facts(kind)
    except BufferError as error:
        return {"found": False, "reason": str(error)}
    return {"found": True, "name": name, "version": version, "devices": count}


# ---- the process ----------------------------------------------------------------------------

JOBS: dict[str, Callable[..., None]] = {
    "library": library,
    "array": array,
    "attempt": attempt,
    "devices": devices,
}


def main() -> None:
    name, arguments = json.load(sys.stdin)
    steps = Steps(sys.argv[1])
    JOBS[name](steps, **arguments)
    steps.write("end")
    sys.stdout.flush()
    os._exit(0)  # some libraries crash at exit, which is unrelated to the exchange


if __name__ == "__main__":
    main()
