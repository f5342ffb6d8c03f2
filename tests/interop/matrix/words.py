"""What fastdl says in words, by a scanner of its sources: a message is put together from literals
in too many ways to search for them."""

import ast
import re
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[3] / "src" / "fastdl"
HEADERS = SOURCES.parents[1] / "include"

_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_EITHER = rf"(?:{_QUOTED}|'(?:[^'\\\n]|\\.)*')"
PYTHON = re.compile(
    rf'(?P<skip>#[^\n]*|r?"""(?s:.*?)"""|\b(?:r|rf|fr){_EITHER})'  # raw: a regular expression
    rf"|(?:\b[fbc])?(?P<text>{_EITHER})|(?P<code>\S)"
)
C = re.compile(
    r"(?P<skip>//[^\n]*|/\*(?s:.*?)\*/|'(?:[^'\\\n]|\\.)+'|\\\n"
    r"|(?m:^\s*#\s*(?:include|error)[^\n]*)|\bstatic_assert\((?s:.*?)\);)"  # the compiler's words
    rf"|(?P<text>{_QUOTED})|(?P<code>\S)"
)
_FIELDS = {
    PYTHON: re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"),
    C: re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:ll|[lhzt])?[a-zA-Z]"),
}


def texts_in(source: str, scanner: re.Pattern) -> list[str]:
    """Its text literals, of which neighbours are one, with "…" for each field."""
    texts = [""]
    for match in scanner.finditer(source):
        if match["text"]:
            quote = match["text"][0]
            pieces = _FIELDS[scanner].split(match["text"][1:-1])
            texts[-1] += "…".join(ast.literal_eval(quote + piece + quote) for piece in pieces)
        elif match["code"] and texts[-1]:
            texts.append("")
    return [text for text in texts if text]


@cache
def words_of_fastdl() -> list[re.Pattern]:
    """What only fastdl says: texts of four words or more. The commands print."""
    texts = []
    for path in sorted([*HEADERS.rglob("*"), *SOURCES.rglob("*")]):
        scanner = {".c": C, ".h": C, ".py": PYTHON, ".pyx": PYTHON, ".pxd": PYTHON}.get(path.suffix)
        if scanner and "_cli" not in path.parts:
            texts += texts_in(path.read_text(), scanner)
    long = [text for text in texts if " " in text and len(re.findall(r"\w{2,}", text)) >= 4]
    return [re.compile(".*?".join(map(re.escape, text.split("…"))), re.DOTALL) for text in long]
