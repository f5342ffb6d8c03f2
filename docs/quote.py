# SPDX-License-Identifier: Apache-2.0
"""Keeps what the Markdown files quote equal to the files that they quote.

    python docs/quote.py              rewrites the quotes in docs/ and README.md
    python docs/quote.py --check      changes nothing; shows what is stale and fails

Marks, each on a line of its own, say where text comes from. Paths begin at the folder of the
Markdown file. Two of them are for text that the file contains, and a forge shows:

<!-- quote: examples/c/axpy.c -->, before a fenced block: the block is that file. With #axpy after
the path it is the part of the file between the comments [axpy] and [/axpy], without indentation.
Such comments are lines of their own, and never quoted; nor is the line with the licence of a file.

<!-- generated: benchmarks.summary:exchanges -->, up to <!-- end generated -->: the lines that this
function of this module yields.

Two are for text that only the site contains, in their place: see conf.py.

<!-- site: tests.interop.matrix.picture:grid -->: the lines that this function of this module
yields. With #torch after its name, "torch" is its argument.

<!-- reference: ../include/fastdl/fastdl.h -->: what the section "The interface" of the header
declares, each with its comment as prose. With #Devices after the path it is the section whose title
begins so.

<!-- forge -->, up to <!-- end forge -->: text that the site leaves out.
"""

import argparse
import difflib
import importlib
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

QUOTE = re.compile(r"<!-- quote: (?P<path>[^#\s]+)(?:#(?P<part>[\w-]+))? -->")
SITE = re.compile(r"<!-- site: (?P<module>[\w.]+):(?P<function>\w+)(?:#(?P<argument>\w+))? -->")
FORGE = re.compile(r"(?s)<!-- forge -->.*?<!-- end forge -->\n?")
REFERENCE = re.compile(r"<!-- reference: (?P<path>[^#\s]+)(?:#(?P<section>[\w ]+))? -->")
GENERATED = re.compile(r"<!-- generated: (?P<module>[\w.]+):(?P<function>\w+) -->")
END = "<!-- end generated -->"
ANY_MARK = re.compile(r"<!--\s*(end generated|(quote|generated|site|reference)\b)")
FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})")

#: A comment that marks the beginning or the end of a part, in the languages of the examples.
PART = re.compile(r"\s*(?://|#|/\*|<!--)\s*\[(?P<end>/?)(?P<name>[\w-]+)\]\s*(?:\*/|-->)?\s*")

#: The line with the licence of a file, where it is all of a comment.
LICENCE = re.compile(r"(?:#|//|/\*) SPDX-" r"License-Identifier: [\w.-]+(?: \*/)?")


class QuoteError(Exception):
    """Something that cannot be quoted as asked."""


# ---- quotes ---------------------------------------------------------------------------------


def quoted(source: Path, part: str | None) -> list[str]:
    """The lines of a file, or of a part of it."""
    try:
        lines = source.read_text().splitlines()
    except FileNotFoundError:
        raise QuoteError(f"there is no file {source}") from None
    if part is not None:
        lines = lines[slice(*borders(lines, source, part))]
    lines = [line for line in lines if not (PART.fullmatch(line) or LICENCE.fullmatch(line))]
    text = textwrap.dedent("\n".join(lines))
    return text.strip("\n").splitlines()


def borders(lines: list[str], source: Path, part: str) -> tuple[int, int]:
    marks = [(number, PART.fullmatch(line)) for number, line in enumerate(lines)]
    own = [(number, mark["end"]) for number, mark in marks if mark and mark["name"] == part]
    if [end for _, end in own] != ["", "/"]:
        raise QuoteError(
            f"expected the comments [{part}] and [/{part}] in {source}, once and in this order, "
            f"got {len(own)} of them"
        )
    return own[0][0], own[1][0]


def closing(lines: list[str], start: int) -> int:
    """The line that closes the block which the fence in line `start` opens."""
    fence = FENCE.match(lines[start])["fence"]
    for number in range(start + 1, len(lines)):
        if re.fullmatch(rf"{fence[0]}{{{len(fence)},}}\s*", lines[number]):
            return number
    raise QuoteError(f"the block that begins in line {start + 1} has no end")


def rewritten(text: str, folder: Path) -> str:
    """The text of a Markdown file in `folder` with all quotes as they should be."""
    lines, result, at = text.splitlines(), [], 0
    while at < len(lines):
        line = lines[at]
        if FENCE.match(line):  # marks in a block are text
            end = closing(lines, at) + 1
            result += lines[at:end]
            at = end
            continue
        result.append(line)
        at += 1
        if mark := QUOTE.fullmatch(line):
            if at == len(lines) or not FENCE.match(lines[at]):
                raise QuoteError(f"expected a fenced block after {line}")
            end, body = closing(lines, at), quoted(folder / mark["path"], mark["part"])
            if any(FENCE.match(row) and row.startswith(lines[end].strip()) for row in body):
                raise QuoteError(f"the text that {line} names would end its block: longer fences")
            result += [lines[at], *body, lines[end]]
            at = end + 1
        elif mark := GENERATED.fullmatch(line):
            if END not in lines[at:]:
                raise QuoteError(f"expected {END} somewhere after {line}")
            at = lines.index(END, at) + 1
            result += ["", *generated(mark["module"], mark["function"]), "", END]
        elif ANY_MARK.match(line) and not (SITE.fullmatch(line) or REFERENCE.fullmatch(line)):
            raise QuoteError(f"expected a mark as the manual of docs/quote.py has it, got {line}")
    return "\n".join(result) + "\n"


def complete(text: str, folder: Path) -> str:
    """The text of a Markdown file in `folder` with what only the site contains."""

    def section(mark: re.Match) -> str:
        return "\n".join(reference(folder / mark["path"], mark["section"] or "The interface"))

    def lines(mark: re.Match) -> str:
        arguments = [mark["argument"]] if mark["argument"] else []
        return "\n".join(generated(mark["module"], mark["function"], *arguments))

    return SITE.sub(lines, REFERENCE.sub(section, FORGE.sub("", text)))


def generated(module: str, function: str, *arguments: str) -> Iterator[str]:
    """What a function of the repository yields."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    try:
        return getattr(importlib.import_module(module), function)(*arguments)
    except (ImportError, AttributeError) as error:
        raise QuoteError(f"cannot generate {module}:{function}: {error}") from error


# ---- the reference --------------------------------------------------------------------------

BANNER = re.compile(r"/\* =+\n \* (?P<title>[^\n]+)\n.*?=+ \*/\n", re.DOTALL)
SUBTITLE = re.compile(r"/\* ---- (?P<title>.+) ----(?P<rest>(?: \*/)?\n?.*)", re.DOTALL)
NAMES = (
    re.compile(r"#define (\w+)"),
    re.compile(r"\} (\w+);$"),  # the end of a typedef
    re.compile(r"^static const [^=]*?(\w+)\["),  # a table
    re.compile(r"^[^{]*?(\w+)\("),  # a function
)
#: Lines that declare nothing.
CONDITION = re.compile(r"#\s*(?:if|ifdef|ifndef|elif|else|endif|undef)\b|/\* clang-format o\w+ \*/")

PRIVATE = "    /* and private members */"


def reference(header: Path, section: str = "The interface") -> Iterator[str]:
    """Markdown for what a section of a header declares."""
    try:
        text = section_of(header.read_text(), section)
    except FileNotFoundError:
        raise QuoteError(f"there is no file {header}") from None
    if text is None:
        raise QuoteError(f'expected a section "{section}" in {header}')
    entries: list[tuple[str, str, list[str]]] = []  # a heading, a comment, declarations
    for comment, declaration in declarations(text, header):
        name = name_of(declaration)
        if title := SUBTITLE.match(comment):
            name = title["title"]
            entries.append((f"### {name[0].upper()}{name[1:]}", title["rest"], []))
        elif name.endswith("_"):
            continue
        elif name and not comment and entries:
            entries[-1][2].append(declaration)  # goes with what is before it
        else:
            heading = f"#### {f'`{name}`' if name else 'Constants'}"
            entries.append((heading, comment, [declaration]))
    for heading, comment, declared in entries:
        text = list(prose(comment))
        code = "\n\n".join(map(signature_of, declared)).splitlines()
        block = ["", "```c", *compact(code), "```"] if code else []
        yield from ("", heading, *([*text, *block] if heading[:4] == "### " else [*block, *text]))
    yield ""


def section_of(text: str, title: str) -> str | None:
    banners = list(BANNER.finditer(text))
    for number, banner in enumerate(banners):
        if banner["title"].partition(":")[0] == title:
            rest = banners[number + 1 :]
            section = text[banner.end() : rest[0].start() if rest else None]
            return section.partition("#ifdef __cplusplus")[0]  # the end of what C++ shares with C
    return None


def compact(code: list[str]) -> Iterator[str]:
    """Without the empty lines between macros of one line each."""
    for before, line, after in zip(["", *code], code, [*code[1:], ""], strict=False):
        if line or not (before.startswith("#define") and after.startswith("#define")):
            yield line


def declarations(section: str, header: Path) -> Iterator[tuple[str, str]]:
    """(comment, declaration), either of which may be empty."""
    lines = section.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or CONDITION.match(lines[at]):
            at += 1
            continue
        comment = ""
        if lines[at].startswith("/*"):
            end = next(n for n in range(at, len(lines)) if lines[n].rstrip().endswith("*/"))
            comment = "\n".join(lines[at : end + 1])
            at = end + 1
            if SUBTITLE.match(comment):
                yield comment, ""
                continue
            if at == len(lines) or not lines[at].strip() or CONDITION.match(lines[at]):
                continue  # a remark that belongs to nothing
        end = end_of(lines, at, header)
        yield comment, "\n".join(lines[at : end + 1])
        at = end + 1


def end_of(lines: list[str], at: int, header: Path) -> int:
    """The last line of the declaration that begins in line `at`."""
    depth = 0
    for number in range(at, len(lines)):
        line = lines[number]
        if lines[at].startswith("#define"):
            if not line.endswith("\\"):
                return number
            continue
        depth += line.count("{") - line.count("}")
        if depth == 0 and line.rstrip().endswith((";", "}")):
            return number
    raise QuoteError(f"expected a declaration in {header}, got {lines[at]!r}")


def name_of(declaration: str) -> str:
    """The name that is declared; empty for an enum without one, and for none."""
    found = (pattern.search(declaration) for pattern in NAMES)
    return next((match[1] for match in found if match), "")


def signature_of(declaration: str) -> str:
    """Without what no caller needs: linkage, bodies, and members that are private."""
    if declaration.startswith("#define"):
        return re.sub(r"(?s)^(#define \w+\([^)]*\))\s*\\\n.*", r"\1", declaration)
    linkage = re.match(r"(?:static inline |FASTDL_HOT_ )?", declaration)[0]
    if linkage:
        declaration = re.sub(r"(?s)\n\{.*", ";", declaration)
    # What follows the first line stays aligned to it.
    declaration = re.sub(rf"(?m)^(?:{linkage}| {{{len(linkage)}}}(?= ))", "", declaration)
    kept: list[str] = []
    for line in declaration.splitlines():
        if re.match(r"\s+[\w *]*?\w+_(?:\[.*\])?;", line):
            while kept[-1].lstrip().startswith("*"):
                kept.pop()  # the comment over it
            if kept[-1].lstrip().startswith("/*") and kept[-1] != PRIVATE:
                kept.pop()
            if PRIVATE not in kept:
                kept.append(PRIVATE)
        else:
            kept.append(line)
    return "\n".join(kept)


def prose(comment: str) -> Iterator[str]:
    """A block comment as Markdown: indented lines are blocks, names are set as code."""
    body = re.sub(r"\s*\*/\s*$", "", re.sub(r"^/\*+ ?", "", comment))
    rows = [re.sub(r"^ \* ?", "", row).rstrip() for row in body.splitlines()]
    block: list[str] = []
    text: list[str] = []

    def flush(lines: list[str], verbatim: bool) -> Iterator[str]:
        content = textwrap.dedent("\n".join(lines)).strip("\n")
        lines.clear()
        if content:
            yield from ("", *(["```text", content, "```"] if verbatim else [as_code(content)]))

    for row in rows:
        if row.startswith("  ") or (block and not row):
            yield from flush(text, False)
            block.append(row)
        elif row:
            yield from flush(block, True)
            text.append(row)
        else:
            yield from flush(text, False)
    yield from flush(text, False)
    yield from flush(block, True)


def as_code(text: str) -> str:
    """Sets the names of the interface and dereferenced pointers as code, where they are not."""
    parts = text.split("`")
    names = re.compile(r"\*+[A-Za-z]\w*|\b[A-Z_]+_\*|\b(?:fastdl|FASTDL)_\w+(?:\([\w, .]*\))?")
    parts[::2] = [names.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


# ---- the command ----------------------------------------------------------------------------


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python docs/quote.py", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if all is not well")
    parser.add_argument("files", nargs="*", type=Path, help="Markdown files (README.md and docs/)")
    options = parser.parse_args(arguments)
    failed = stale = False
    for path in options.files or documents():
        old = path.read_text()
        try:
            new = rewritten(old, path.parent)
        except QuoteError as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed = True
            continue
        if new == old:
            continue
        if options.check:
            failed = stale = True
            before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
            sys.stderr.writelines(difflib.unified_diff(before, after, str(path), "as it should be"))
        else:
            path.write_text(new)
            print(f"{path}: quotes renewed")
    if stale:
        print("to renew them: python docs/quote.py", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
