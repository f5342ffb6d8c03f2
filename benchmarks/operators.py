"""What it costs to call a C function as an operator of torch: python -m benchmarks.operators

The functions are those of docs/examples/c, the operators those of docs/examples/torch_compile, and
the vectors are short: what is timed is the call. No budget hangs on it. One run prints for each
function, in each form, its cost and the ratio to the plain call, taken within a round, and writes
docs/operators.json, from which docs/quote.py makes the table of the C guide.
"""

import argparse
import sys

from benchmarks import ROOT, machine, processes
from benchmarks.native import load
from benchmarks.timing import Samples, Subject, in_python, middle, ratio, spread
from fastdl._testing import json_rows

PLAIN = "the C function"


def groups() -> dict[str, list[Subject]]:
    """Function -> its forms. Compiles for inductor, which takes some seconds."""
    import torch

    sys.modules["axpy"] = kernels = load("axpy")
    sys.path.insert(0, str(ROOT / "docs/examples/torch_compile"))
    import axpy_library as library
    import axpy_torch as ours

    scaled = {
        PLAIN: kernels.scaled,
        "axpy_torch.scaled": ours.scaled,
        "torch.library.custom_op": ours.scaled_operator,
        "the same by torch.ops": torch.ops.axpy.scaled.default,
        "Library.define and impl": library.scaled,
        "torch.mul": lambda a, x: torch.mul(x, a),
        "axpy_torch.scaled, compiled": compiled(lambda a, x: ours.scaled(a, x)),
        "Library.define, compiled": compiled(lambda a, x: library.scaled(a, x)),
        "torch.mul, compiled": compiled(lambda a, x: torch.mul(x, a)),
    }
    axpy = {
        PLAIN: kernels.axpy,
        "axpy_torch.axpy": ours.axpy,
        "torch.library.custom_op": ours.axpy_operator,
        "the same by torch.ops": torch.ops.axpy.axpy.default,
        "Library.define and impl": library.axpy,
        "Tensor.add_": lambda a, x, y: y.add_(x, alpha=a),
        "axpy_torch.axpy, compiled": compiled(lambda a, x, y: ours.axpy(a, x, y)),
        "Library.define, compiled": compiled(lambda a, x, y: library.axpy(a, x, y)),
        "Tensor.add_, compiled": compiled(lambda a, x, y: y.add_(x, alpha=a)),
    }
    x, y = torch.ones(3), torch.zeros(3)
    return {
        "scaled": [in_python(name, "f(2.0, x)", f=f, x=x) for name, f in scaled.items()],
        "axpy": [in_python(name, "f(0.0, x, y)", f=f, x=x, y=y) for name, f in axpy.items()],
    }


def compiled(function):
    import torch

    return torch.compile(function, fullgraph=True)


def results(samples: Samples) -> dict[str, dict]:
    """Name of a form -> its cost in nanoseconds, and its ratio to the plain call."""
    return {
        name: {
            "ns": middle(samples, name),
            "ratio": ratio(samples, name, PLAIN),
            "spread": spread(samples, name, PLAIN),
        }
        for name in samples[0]
    }


def table(title: str, forms: dict[str, dict]) -> str:
    lines = [f"{title:30}  {'ns':>8}  ratio"]
    for name, form in forms.items():
        low, high = form["spread"]
        lines.append(f"{name:30}  {form['ns']:8.0f}  {form['ratio']:.1f} ({low:.1f} to {high:.1f})")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operators", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--workers", type=int, default=5, help="processes that measure (5)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds in each process (20)")
    options = parser.parse_args()
    facts, versions = machine.facts(), machine.versions()
    runs = [processes.run("operators", rounds=options.rounds) for _ in range(options.workers)]
    found = {title: results([run[title] for run in runs]) for title in runs[0]}
    print("\n\n".join(table(title, forms) for title, forms in found.items()))
    data = {"machine": facts, "versions": versions, "functions": found}
    (ROOT / "docs/operators.json").write_text(json_rows.dumps(data) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
