"""The sessions in the pages of the documentation: `>>>` in a block of Python."""

import ast
import doctest
import re

import numpy as np

from tests.support.build import ROOT

DOCS = ROOT / "docs"

#: What other tests run: with a module that is compiled first, and as docstrings.
ELSEWHERE = {"c-guide", "python-reference"}

#: What the `test` extra has no reason to install.
HEAVY = {"jax", "mlx", "torch", "pyarrow", "pandas", "polars"}

SESSION = re.compile(r"(?sm)^```python\n(>>> .*?)^```$")


def session(page):
    """The blocks of a page, which share their names, as one example; None if it has none."""
    text = (DOCS / f"{page}.md").read_text()
    blocks = SESSION.findall(text)
    if not blocks:
        return None
    return doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, f"docs/{page}.md", 0)


def imports(test):
    """The packages that the code of a session imports."""
    trees = [ast.parse(example.source) for example in test.examples]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import)]
    return {alias.name.partition(".")[0] for node in nodes for alias in node.names}


PAGES = {
    path.stem: imports(test)
    for path in sorted(DOCS.glob("*.md"))
    if path.stem not in ELSEWHERE and (test := session(path.stem))
}
LIGHT = [page for page, names in PAGES.items() if not names & HEAVY]
WITH_PEERS = {page: names for page, names in PAGES.items() if names & HEAVY}


def failures(page):
    """How many examples of a page did not print what it says; prints which."""
    with np.printoptions(legacy=False):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        return runner.run(session(page)).failed
