"""Renders reports: lines for a terminal, JSON, a comment in Markdown, a page in HTML."""

import html
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fastdl._testing import json_rows
from fastdl._testing.runner import failures
from fastdl._testing.suite import (
    CRASHED,
    DEVIATES,
    FAILED,
    OUTCOMES,
    PASSED,
    SECTIONS,
    SEVERITIES,
    SKIPPED,
)

Report = dict[str, Any]


def title(report: Report) -> str:
    library = report["library"]
    return f"{library.get('title', library['name'])} {library.get('version', '')}".strip()


def counts(report: Report) -> Counter[str]:
    return Counter(result["outcome"] for result in report["results"])


def numbers(found: Counter[str]) -> str:
    return ", ".join(f"{found[one]} {one}" for one in reversed(OUTCOMES) if found[one])


def verdict(report: Report) -> str:
    """The outcomes in a phrase: 201 passed, 3 failed, ..."""
    found = counts(report)
    order = (PASSED, FAILED, CRASHED, DEVIATES, SKIPPED)
    words = {DEVIATES: "deviations", SKIPPED: "not applicable"}
    return ", ".join(f"{found[one]} {words.get(one, one)}" for one in order if found[one])


def of_severity(report: Report) -> Counter[str]:
    """How many checks failed, by severity."""
    return Counter(result["severity"] for result in failures(report["results"]))


def deviations(report: Report) -> list[dict[str, Any]]:
    return [result for result in report["results"] if result["outcome"] == DEVIATES]


def summary(report: Report) -> Iterator[str]:
    """Lines: the sections, the failures, the deviations, the verdict."""
    for name, words in SECTIONS.items():
        found = Counter(r["outcome"] for r in report["results"] if r["section"] == name)
        if found:
            yield f"{name:<10} {words}: {numbers(found)}"
    for result in failures(report["results"]):
        yield ""
        yield f"{result['severity']}: {result['id']} {result['outcome']}"
        yield f"  {result['sentence']}"
        yield f"  {result['note']}"
        yield f"  from: {result['clause']}"
    found = deviations(report)
    if found:
        yield ""
        yield "deviations:"
        yield from (f"  {result['id']}: {result['note']}" for result in found)
    yield ""
    yield verdict(report)


# ---- files ------------------------------------------------------------------------------------


def write(made: list[Report], path: Path) -> None:
    """Writes reports in the format given by the file's suffix: .json, .md or .html. ValueError for
    another suffix."""
    render = {".json": as_json, ".md": as_markdown, ".html": as_html}.get(path.suffix)
    if render is None:
        raise ValueError(f"expected a report that ends in .html, .json or .md, not {path}")
    path.write_text(render(made), "utf-8")


def as_json(made: list[Report]) -> str:
    return json_rows.dumps(made[0] if len(made) == 1 else made) + "\n"


def row(library: dict[str, Any], found: Counter[str], bad: Counter[str]) -> tuple[str, ...]:
    """Of a library: name, version, outcomes, failures by severity."""
    return (
        library.get("title", library["name"]),
        library.get("version", ""),
        str(found[PASSED]),
        *(str(bad[severity] or "-") for severity in SEVERITIES[:3]),
        str(found[DEVIATES] or "-"),
        str(found[SKIPPED] or "-"),
    )


def table_of(made: list[Report]) -> Iterator[tuple[str, ...]]:
    return (row(report["library"], counts(report), of_severity(report)) for report in made)


HEADS = ("library", "version", "passed", *SEVERITIES[:3], "deviations", "not applicable")


def in_rows(rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(HEADS)} |"
    yield f"|{'---|' * len(HEADS)}"
    yield from (f"| {' | '.join(cells)} |" for cells in rows)


def as_markdown(made: list[Report]) -> str:
    """A comment for a pull request: a table, and the findings folded."""
    lines = ["## DLPack conformance", "", *in_rows(table_of(made))]
    for report in made:
        bad, other = failures(report["results"]), deviations(report)
        if not bad and not other:
            continue
        lines += ["", f"<details><summary>{title(report)}: {verdict(report)}</summary>", ""]
        lines += [
            f"- **{r['severity']}** `{r['id']}` {r['outcome']}: {in_line(r['sentence'])} "
            f"{in_line(r['note'])} ({in_line(r['clause'])})"
            for r in bad
        ]
        lines += [f"- deviation `{r['id']}`: {in_line(r['note'])}" for r in other]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def in_line(text: str) -> str:
    """Text, escaped for Markdown."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .6rem;
border-bottom: 1px solid var(--line); vertical-align: top } code { font-size: .9em }
.passed { color: #2f9e63 } .failed, .crashed { color: #d64545; font-weight: 600 }
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
        for name, words in SECTIONS.items():
            results = [r for r in report["results"] if r["section"] == name]
            if not results:
                continue
            bad = any(r["outcome"] in (CRASHED, FAILED) for r in results)
            found = Counter(r["outcome"] for r in results)
            parts.append(f"<details{' open' if bad else ''}><summary><b>{name}</b>: ")
            parts.append(f"{escape(words)} <small>({numbers(found)})</small></summary><table>")
            for r in results:
                kind = "na" if r["outcome"] == SKIPPED else r["outcome"]
                parts.append(
                    f"<tr id='{escape(library['name'])}-{r['id']}'><td><code>{r['id']}</code>"
                    f"<td class={kind}>{r['outcome']}<td>{escape(r['sentence'])}"
                    f"<br><small>{escape(r['note'])}</small><td><small>{r['severity']}<br>"
                    f"{escape(r['clause'])}</small>"
                )
            parts.append("</table></details>")
    return "\n".join(parts) + "</html>\n"


def html_table(rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{html.escape(one)}" for one in HEADS)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(one)}" for one in row) for row in rows)
    return f"<table><tr>{head}{body}</table>"


# ---- the scoreboard ---------------------------------------------------------------------------


def compact(report: Report) -> Report:
    """A report without passed checks, and without the facts about each check: for the
    documentation."""
    kept = (DEVIATES, FAILED, CRASHED)
    return {
        "library": report["library"],
        "counts": dict(counts(report)),
        "severities": dict(of_severity(report)),
        "findings": [
            {name: r[name] for name in ("id", "severity", "outcome", "note")}
            for r in report["results"]
            if r["outcome"] in kept
        ],
    }
