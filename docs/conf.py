# SPDX-License-Identifier: Apache-2.0
"""How Sphinx makes a site of this folder: `nox -s docs`, or

    sphinx-build -W -E docs docs/_build/html

with fastdl and its extras `docs` and `test` installed. The pages are plain Markdown, which a forge
shows as well; a few things are added here. What is long and generated is put into its page (see
quote.py), the lists of links in index.md are also the navigation of the site, the notebook is read
as a page, the headings of the Python reference are entries of the inventory, and blocks of code can
be copied.
"""

import json
import re
import sys
from pathlib import Path

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from docs import quote  # noqa: E402

VERSION = DOCS.parent / "src" / "fastdl" / "_version.py"

project = "fastdl"
author = "the authors of fastdl"
copyright = author  # noqa: A001 - Sphinx calls it so
release = re.search(r'__version__ = "(.*)"', VERSION.read_text())[1]
version = release

extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown", ".ipynb": "notebook"}
myst_heading_anchors = 4  # as a forge has them, so that links lead to sections on both
nitpicky = True

# A copied session is what was typed, without prompts and output.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"fastdl {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Where the sources are: a link on every page.
SOURCE = re.search(r'(?m)^Source = "(.*)"', (DOCS.parent / "pyproject.toml").read_text())
html_theme_options = {
    "source_repository": SOURCE[1],
    "source_branch": "main",
    "source_directory": "docs/",
}
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

SECTION = re.compile(r"(?m)^## (.+)\n((?:.*\n)*?)(?=^## |\Z)")
LINK = re.compile(r"(?m)^- \[[^\]]+\]\(([\w-]+)\.(?:md|ipynb)\)")


def navigation(index: str) -> str:
    """A hidden toctree for each section of the index that is a list of pages."""
    trees = []
    for title, body in SECTION.findall(index):
        if pages := LINK.findall(body):
            trees += ["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""]
    return "\n".join(trees)


def complete(app, docname: str, source: list[str]) -> None:
    source[0] = quote.complete(source[0], DOCS)


def add_navigation(app, docname: str, source: list[str]) -> None:
    if docname == app.config.root_doc:
        source[0] += "\n" + navigation(source[0])


def add_objects(app, doctree) -> None:
    """Tells Sphinx what the reference describes of Python: for the search, and for the links of
    other projects (objects.inv)."""
    if app.env.docname != "reference":
        return
    for section in doctree.findall(nodes.section):
        title = section[0]
        if not isinstance(title[0], nodes.literal):
            continue
        name = title.astext()
        if name.lower().startswith("fastdl_"):
            continue  # of C
        kind = "attribute" if "." in name else "class" if name[0].isupper() else "function"
        app.env.get_domain("py").note_object(f"fastdl.{name}", kind, section["ids"][0])


class Notebook(MystParser):
    """The cells of a notebook as Markdown. They are not run here: a test runs them."""

    supported = ("notebook",)

    def parse(self, inputstring, document) -> None:
        super().parse("\n\n".join(map(as_markdown, json.loads(inputstring)["cells"])), document)


def as_markdown(cell: dict) -> str:
    text = "".join(cell["source"])
    return text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"


def setup(app) -> dict:
    app.add_source_parser(Notebook)
    app.connect("source-read", complete)
    app.connect("source-read", add_navigation)
    app.connect("doctree-read", add_objects)
    return {"parallel_read_safe": True}
