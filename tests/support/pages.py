# SPDX-License-Identifier: Apache-2.0
"""The sessions in the pages of the documentation: `>>>` in a block of Python."""

import ast
import doctest
import re
import sys

import numpy as np

from tests.support.build import ROOT

DOCS = ROOT / "docs"

#: What another test runs: with a module that is compiled first.
ELSEWHERE = {"c-guide"}

#: What the `test` extra has no reason to install.
HEAVY = {"PIL", "jax", "mlx", "msgspec", "torch", "pyarrow", "pandas", "polars", "zmq"}

SESSION = re.compile(r"(?sm)^```python\n(>>> .*?)^```$")


def session(page):
    """The blocks of a page, which share their names, as one example; None if it has none."""
    text = (DOCS / f"{page}.md").read_text()
    blocks = SESSION.findall(text)
    if not blocks:
        return None
    return doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, f"docs/{page}.md", 0)


def examples_of(page):
    """The folder of docs/examples whose modules a session imports, if there is one."""
    return DOCS / "examples" / page.replace("-", "_")


def imports(test):
    """The packages that the code of a session imports, unless it can do without (`try`)."""
    own = {path.stem for path in examples_of(test.name).glob("*.py")}
    nodes = [node for example in test.examples for node in ast.parse(example.source).body]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names} - own


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
        sys.path.insert(0, str(examples_of(page)))
        try:
            return runner.run(session(page)).failed
        finally:
            del sys.path[0]
