"""Figures about the tests, counted in their sources: see docs/quote.py.

Those that grow with every change are rounded down, so that the page need not change as often.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"


def over(number: int, step: int) -> str:
    """A number that is not exceeded, in round figures."""
    return f"over {(number - 1) // step * step:,}"


def functions() -> int:
    trees = (ast.parse(path.read_text()) for path in TESTS.rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return sum(isinstance(n, ast.FunctionDef) and n.name.startswith("test_") for n in nodes)


def measured() -> tuple[int, int]:
    """The rows of the matrix, and its cells."""
    rows = json.loads((TESTS / "interop/matrix/results.json").read_text())
    cells = sum(len(row.keys() - {"version"}) for row in rows.values())
    return len(rows.keys() - {"grid"}), cells


def marks(page: str, kind: str) -> int:
    return len(re.findall(rf"(?m)^<!-- {kind}: ", (ROOT / "docs" / page).read_text()))


def figures() -> Iterator[str]:
    from tests.mutants.table import MUTANTS
    from tests.simulated.beliefs import BELIEFS
    from tests.support.allocation import OPERATIONS

    rows, cells = measured()
    table = (
        ("test functions, many of which run over tables of cases", over(functions(), 500)),
        ("mutants, each of which a test must see", over(len(MUTANTS), 100)),
        ("operations of which every allocation is made to fail in turn", str(len(OPERATIONS))),
        ("libraries and types in the [matrix](interop.md)", str(rows)),
        ("cells of the matrix, measured with the real libraries", f"{cells:,}"),
        ("[defects of other libraries](upstream.md), each with a program that shows it",
         str(marks("upstream.md", "defect"))),
        ("[hazards](hazards.md), each shown by a test", str(marks("hazards.md", "hazard"))),
        ("[beliefs about drivers](streams.md#what-has-been-confirmed-and-what-has-not), "
         "each with a question to ask one", str(len(BELIEFS))),
    )  # fmt: skip
    yield from ("| what | how many |", "|---|---|")
    for what, number in table:
        yield f"| {what} | {number} |"


def sessions() -> Iterator[str]:
    """What noxfile.py can run, by the first paragraphs of the docstrings there."""
    yield from ("| command | what it does |", "|---|---|")
    for node in ast.parse((ROOT / "noxfile.py").read_text()).body:
        calls = getattr(node, "decorator_list", [])
        if not any(ast.unparse(call).startswith("nox.session") for call in calls):
            continue
        given = [word for call in calls if isinstance(call, ast.Call) for word in call.keywords]
        name = next((ast.literal_eval(w.value) for w in given if w.arg == "name"), node.name)
        text = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
        yield f"| `nox -s {name}` | {text} |"
