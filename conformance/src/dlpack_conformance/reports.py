# SPDX-License-Identifier: Apache-2.0
"""Renders reports: lines for a terminal, JSON, a comment in Markdown, a page in HTML."""

import argparse
import html
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from dlpack_conformance.outcomes import (
    BAD,
    DEVIATES,
    INVALID,
    OUTCOMES,
    PASSED,
    SECTIONS,
    SEVERITIES,
    SKIPPED,
)
from dlpack_conformance.runner import failures

Report = dict[str, Any]


def title(report: Report) -> str:
    library = report["library"]
    return f"{library.get('title', library['name'])} {library.get('version', '')}".strip()


def counts(report: Report) -> Counter[str]:
    """The outcomes; what is found with invalid input is counted by itself."""
    return Counter(outcome(result) for result in report["results"])


def outcome(result: dict[str, Any]) -> str:
    is_invalid = result["severity"] == INVALID and result["outcome"] == DEVIATES
    return INVALID if is_invalid else result["outcome"]


def numbers(found: Counter[str]) -> str:
    return ", ".join(f"{found[one]} {one}" for one in reversed(OUTCOMES) if found[one])


def verdict(report: Report) -> str:
    """The outcomes in a phrase: 201 passed, 3 failed, ..."""
    found = counts(report)
    words = {one: f"{found[one]} {one}" for one in (PASSED, *reversed(BAD))}
    words[DEVIATES] = f"{found[DEVIATES]} deviation{'s' * (found[DEVIATES] != 1)}"
    words[INVALID] = f"{found[INVALID]} of {INVALID}"
    words[SKIPPED] = f"{found[SKIPPED]} not applicable"
    ended = ["interrupted"] if report["interrupted"] else []
    said = ", ".join([*(text for one, text in words.items() if found[one]), *ended])
    return said or "nothing ran"


def of_severity(report: Report) -> Counter[str]:
    """How many checks failed, by severity."""
    return Counter(result["severity"] for result in failures(report["results"]))


def findings(report: Report, which: str) -> list[dict[str, Any]]:
    """Those that are no failures: DEVIATES, or INVALID."""
    return [result for result in report["results"] if outcome(result) == which]


def doubts(report: Report) -> list[str]:
    """What is probably a mistake in the adapter."""
    return report["library"].get("doubts", [])


def summary(report: Report) -> Iterator[str]:
    """Lines: the sections, the failures, the deviations, the verdict."""
    for name, words in SECTIONS.items():
        found = Counter(r["outcome"] for r in report["results"] if r["section"] == name)
        if found:
            yield f"{name:<10} {words}: {numbers(found)}"
    for result in failures(report["results"]):
        yield f"\n{result['severity']}: {result['id']} {result['outcome']}"
        yield from (f"  {line}" for line in explained(result))
    for heading, which in (("deviations", DEVIATES), (INVALID, INVALID)):
        if found := findings(report, which):
            yield f"\n{heading}:"
            yield from (f"  {result['id']}: {result['note']}" for result in found)
    for doubt in doubts(report):
        yield f"\nwarning: {doubt}"
    yield f"\n{verdict(report)}"


def explained(result: dict[str, Any]) -> Iterator[str]:
    """What is due, and what happened."""
    yield f"rule:  {result['sentence']}"
    yield f"found: {result['note']}"
    yield f"from:  {result['clause']}"


# ---- files ------------------------------------------------------------------------------------


def place(*suffixes: str) -> Callable[[str], Path]:
    """A function for argparse: the path of a file to be written, if that will be possible."""

    def checked(text: str) -> Path:
        path = Path(text)
        if path.suffix not in suffixes:
            raise argparse.ArgumentTypeError(
                f"expected a file that ends in {' or '.join(suffixes)}, not {text!r}"
            )
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise argparse.ArgumentTypeError(f"{text} cannot be written")
        return path

    return checked


def write(made: list[Report], path: Path) -> None:
    """Writes reports in the format given by the file's suffix, one of FORMATS."""
    path.write_text(FORMATS[path.suffix](made), "utf-8")


def as_json(made: list[Report]) -> str:
    return json.dumps(made[0] if len(made) == 1 else made, indent=1) + "\n"


def row(library: dict[str, Any], found: Counter[str], bad: Counter[str]) -> tuple[str, ...]:
    """Of a library: name, version, outcomes, failures by severity."""
    return (
        library.get("title", library["name"]),
        library.get("version", ""),
        str(found[PASSED]),
        *(str(bad[severity] or "-") for severity in SEVERITIES[:3]),
        *(str(found[one] or "-") for one in (DEVIATES, INVALID, SKIPPED)),
    )


def table_of(made: list[Report]) -> Iterator[tuple[str, ...]]:
    return (row(report["library"], counts(report), of_severity(report)) for report in made)


HEADS = ("library", "version", "passed", *SEVERITIES[:3], "deviations", INVALID, "not applicable")


def in_rows(rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(HEADS)} |"
    yield f"|{'---|' * len(HEADS)}"
    yield from (f"| {' | '.join(map(in_line, cells))} |" for cells in rows)


def as_markdown(made: list[Report]) -> str:
    """A comment for a pull request: a table, and the findings folded."""
    lines = ["## DLPack conformance", "", *in_rows(table_of(made))]
    for report in made:
        for text in doubts(report):
            lines += ["", f"Warning: {in_line(text)}"]
        bad = failures(report["results"])
        other = [*findings(report, DEVIATES), *findings(report, INVALID)]
        if not bad and not other:
            continue
        heading = f"{in_line(title(report))}: {verdict(report)}"
        lines += ["", f"<details><summary>{heading}</summary>", ""]
        lines += [
            f"- **{r['severity']}** `{r['id']}` {r['outcome']}. Rule: {in_line(r['sentence'])} "
            f"Found: {in_line(r['note'])} (from {in_line(r['clause'])})"
            for r in bad
        ]
        lines += [f"- {outcome(r)} `{r['id']}`: {in_line(r['note'])}" for r in other]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def in_line(text: str) -> str:
    """Text, escaped for Markdown."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .6rem;
border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere }
td:first-child { width: 5rem } code { font-size: .9em }
.passed { color: #2f9e63 } .failed, .crashed, .timed-out { color: #d64545; font-weight: 600 }
.deviates { color: #b7791f } .na { opacity: .6 } summary { cursor: pointer; padding: .4rem 0 }
small { opacity: .75 }
"""


def as_html(made: list[Report]) -> str:
    """One self-contained page: no script, no address is loaded."""
    escape = html.escape
    names = ", ".join(map(title, made))
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>DLPack conformance: {escape(names)}</title><style>{STYLE}</style>",
        "<h1>DLPack conformance</h1>",
        html_table(table_of(made)),
    ]
    for report in made:
        library = report["library"]
        facts = f"Python {library.get('python', '')}, {library['platform']}"
        parts += [f"<h2>{escape(title(report))}</h2><p>{verdict(report)}. {escape(facts)}</p>"]
        parts += [f"<p>warning: {escape(text)}</p>" for text in doubts(report)]
        if bad := failures(report["results"]):
            parts += ["<table>", *map(html_row, bad), "</table>"]
        for name, words in SECTIONS.items():
            if results := [r for r in report["results"] if r["section"] == name]:
                found = numbers(Counter(r["outcome"] for r in results))
                parts += [f"<details><summary><b>{name}</b>: {escape(words)}"]
                parts += [f"<small>({found})</small></summary><table>"]
                parts += [*map(html_row, results), "</table></details>"]
    return "\n".join(parts) + "</html>\n"


def html_row(r: dict[str, Any]) -> str:
    """Two columns, which a narrow screen has room for."""
    kind = r["outcome"].replace("/", "").replace(" ", "-")
    severity = f" ({r['severity']})" if r["outcome"] in (*BAD, DEVIATES) else ""
    note = f"<br>found: {html.escape(r['note'])}" if r["note"] else ""
    return (
        f"<tr><td class={kind}>{r['outcome']}<td><code>{r['id']}</code>{severity}<br>"
        f"rule: {html.escape(r['sentence'])}{note}<br><small>{html.escape(r['clause'])}</small>"
    )


def html_table(rows: Iterable[Iterable[str]]) -> str:
    """A column for each library."""
    lines = zip(HEADS, *rows, strict=True)
    cells = ((html.escape(one) for one in line) for line in lines)
    return "".join(["<table>", *(f"<tr><th>{'<td>'.join(line)}" for line in cells), "</table>"])


FORMATS = {".html": as_html, ".json": as_json, ".md": as_markdown}

#: For options that name a report.
report_path = place(*FORMATS)
