"""Two statements compared: timed in turns, so that what slows the machine slows both."""

import ast
import statistics
import timeit
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

ROUNDS = 51
SAMPLE = 5e-4  # seconds that a sample lasts at least

Samples = list[tuple[float, float]]  # seconds that each of the two took, in each round


def names_in(statement: str) -> set[str]:
    tree = ast.walk(ast.parse(statement))
    return {node.id for node in tree if isinstance(node, ast.Name)}


class LookUp(ast.NodeTransformer):
    """Replaces what a statement looks up in modules by names, and collects them."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id not in self.names:
            self.names[node.id] = import_module(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        owner = node.value = self.visit(node.value)
        if isinstance(owner, ast.Name) and isinstance(self.names[owner.id], ModuleType):
            name = f"{owner.id}_{node.attr}"
            self.names[name] = getattr(self.names[owner.id], node.attr)
            return ast.Name(name, ast.Load())
        return node


def subject(statement: str, names: dict[str, Any]) -> Callable[[int], float]:
    """A function that runs a statement n times and returns the seconds that took. All names are
    local variables of its loop, and functions of modules are looked up before it."""
    names = dict(names)
    tree = LookUp(names).visit(ast.parse(statement, mode="eval"))
    used = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)})
    setup = "; ".join(f"{name} = __{name}" for name in used)
    values = {f"__{name}": names[name] for name in used}
    return timeit.Timer(ast.unparse(tree), setup, globals=values).timeit


def interleave(ours: Callable, peer: Callable) -> Samples:
    """Seconds per call of both, in each of ROUNDS rounds."""
    loops = {function: calibrated(function) for function in (ours, peer)}
    samples = []
    for number in range(ROUNDS):
        # There and back: who goes first must not matter.
        order = (ours, peer) if number % 2 else (peer, ours)
        took = {function: function(loops[function]) / loops[function] for function in order}
        samples.append((took[ours], took[peer]))
    return samples


def calibrated(function: Callable[[int], float]) -> int:
    """How many calls fill a sample; finding out warms them up."""
    loops = 1
    while function(loops) < SAMPLE:
        loops *= 2
    return loops


def compared(samples: Samples) -> dict[str, Any]:
    """The median costs in nanoseconds; the median and the quartiles of the ratios of a round."""
    low, ratio, high = statistics.quantiles([ours / peer for ours, peer in samples], n=4)
    ns, peer_ns = (statistics.median(seconds) * 1e9 for seconds in zip(*samples, strict=True))
    return {"ns": ns, "peer_ns": peer_ns, "ratio": ratio, "quartiles": [low, high]}
