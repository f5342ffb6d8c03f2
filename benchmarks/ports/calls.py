"""The calls that are timed: the same of the extension as it is, and with fastdl's bindings."""

from collections.abc import Callable

import numpy as np

import fastdl
from benchmarks import load_module
from benchmarks.ports import ARGUMENTS, FOLDER, FORMS, PORTS, Port
from benchmarks.timing import Subject, in_python


def load(port: Port, form: str):
    """The extension module. Both forms are in one process, under names of their own."""
    package, _, name = port.module.rpartition(".")
    (path,) = (FOLDER / port.name / form / package).glob(f"{name}.*so")
    return load_module(f"{form}_{package}.{name}", path)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape)


def histogram(module) -> tuple[Callable, np.ndarray]:
    return (lambda x: module._histogram1d(x, 10, 0.0, 1.0)), random(100)


def stream(module) -> tuple[Callable, np.ndarray]:
    made = module.CSoxr(48000.0, 44100.0, 1, module.SOXR_FLOAT32_I, module.QQ, False)
    return (lambda x: made.process_float32(x, False)), random(64, 1).astype("float32")


def query(module) -> tuple[Callable, np.ndarray]:
    return module.KDTree(random(1000, 3)).query, random(1, 3) / 2


MAKING = dict(zip((port.name for port in PORTS), (histogram, stream, query), strict=True))


def values(result) -> list:
    parts = result if isinstance(result, tuple) else (result,)
    return [fastdl.asarray(part).numpy() for part in parts]


def groups(names: list[str]) -> dict[str, list[Subject]]:
    """Port and kind of argument -> the forms that take it."""
    import torch

    found: dict[str, list[Subject]] = {}
    for port in PORTS:
        if port.name not in names:
            continue
        functions, x = {}, None
        for form in FORMS:
            functions[form], x = MAKING[port.name](load(port, form))
        for kind, argument in zip(ARGUMENTS, (x, torch.from_numpy(x)), strict=True):
            taking = {f: fn for f, fn in functions.items() if takes(fn, argument)}
            first, *others = (values(function(argument)) for function in taking.values())
            for other in others:
                for a, b in zip(first, other, strict=True):
                    np.testing.assert_allclose(a, b)
            found[f"{port.name}/{kind}"] = [
                in_python(form, "f(x)", f=function, x=argument) for form, function in taking.items()
            ]
    return found


def takes(function: Callable, x: object) -> bool:
    try:
        function(x)
    except TypeError:
        return False
    return True
