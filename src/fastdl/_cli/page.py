"""The report of doctor as an HTML page: no scripts, no network, light and dark, any width."""

import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from fastdl._cli import report
from fastdl._cli.grid import OUTCOMES
from fastdl._cli.words import counted

STYLE = """\
:root { color-scheme: light dark; --text: #1c2024; --soft: #5b6470; --back: #fff; --card: #f5f6f8;
  --line: #d9dde3; --zero: #2e7d4f; --copy: #e5b53d; --refused: #8d7ab8; --bad: #c22f2f;
  --none: #e6e9ed; --on: #fff; --on-copy: #2b2100; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7eb; --soft: #9aa4b0; --back: #14171a;
  --card: #1d2126; --line: #343a42; --zero: #2f8f5b; --copy: #c99a2e; --refused: #7d6bb0;
  --bad: #d34444; --none: #262b31; --on: #fff; --on-copy: #1d1600; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1.5rem 1rem 4rem; color: var(--text);
  background: var(--back); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0; } .soft, small { color: var(--soft); } code { font-size: .9em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
.alert { border-left: .3rem solid var(--bad); background: var(--card); padding: .5rem .8rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .92rem; }
.list { width: 100%; } .list th, .list td { text-align: left; vertical-align: top;
  padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
.list thead th { color: var(--soft); font-weight: 500; } .list .number { text-align: right;
  white-space: nowrap; font-variant-numeric: tabular-nums; }
.grid th { font-weight: 500; } .grid thead th { writing-mode: vertical-rl; rotate: 180deg;
  text-align: left; padding: .3rem 0; white-space: nowrap; }
.grid tbody th { text-align: right; padding-right: .6rem; white-space: nowrap; position: sticky;
  left: 0; background: var(--back); }
.grid td { min-width: 2rem; height: 2rem; text-align: center; border: 2px solid var(--back);
  border-radius: .4rem; } .grid thead td { min-width: 0; }
.key { display: inline-block; min-width: 1.5rem; text-align: center; border-radius: .3rem;
  margin-right: .3rem; } .keys span { white-space: nowrap; margin-right: 1.2rem; }
.zero-copy { background: var(--zero); color: var(--on); }
.copy { background: var(--copy); color: var(--on-copy); }
.refused { background: var(--refused); color: var(--on); }
.wrong, .crashed { background: var(--bad); color: var(--on); font-weight: 700; }
.none { background: var(--none); color: var(--soft); } .broken { color: var(--bad); }
ul { padding-left: 1.2rem; margin: .6rem 0; } li { margin: .25rem 0; }
details { margin: .6rem 0; } summary { cursor: pointer; } pre { background: var(--card);
  padding: .8rem; overflow-x: auto; font-size: .8rem; }
@media (max-width: 40rem) { body { padding: 1rem .8rem 3rem; } .list thead { display: none; }
  .list, .list tbody { display: block; } .list tr { display: flex; flex-wrap: wrap; gap: 0 .8rem;
  border-bottom: 1px solid var(--line); padding: .45rem 0; } .list td:empty { display: none; }
  .list th, .list td { border: 0; padding: 0; } dl { display: block; }
  dd { margin-bottom: .3rem; } }
"""


def render(found: dict[str, Any]) -> str:
    """The page of a report: see doctor.examine."""
    return "\n".join(document(found)) + "\n"


def document(found: dict[str, Any]) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8"/>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
    yield f"<title>fastdl doctor</title><style>{STYLE}</style></head><body>"
    yield "<h1>fastdl doctor</h1>"
    yield from heading(found)
    if found["libraries"]:
        yield from libraries(found)
    if found["grid"] and found["grid"]["consumers"]:
        yield from grid(found["grid"])
    yield from defects(found["libraries"])
    yield "<h2>For a bug report</h2><details><summary>The report as JSON</summary>"
    yield f"<pre>{escape(json.dumps(found, indent=1))}</pre></details>"
    yield f'<p class="soft">Examined in {found["seconds"]:g} s.</p></body></html>'


def heading(found: dict[str, Any]) -> Iterator[str]:
    own, python, machine = found["fastdl"], found["python"], found["platform"]
    threads = " (free-threaded)" if python["free_threaded"] else ""
    facts = [
        ("fastdl", f"{own['version']}, DLPack {own['dlpack']}, {own['library']}"),
        ("folder", own["folder"]),
        ("Python", f"{python['implementation']} {python['version']}{threads}"),
        ("machine", " ".join(machine[key] for key in ("system", "release", "machine", "libc"))),
        *((device["title"], report.driver_summary(device)) for device in found["devices"]),
    ]
    yield "<dl>"
    for name, text in facts:
        yield f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
    yield "</dl>"
    for sentence in found["clashes"]:
        yield f'<p class="alert">Name clash: {escape(sentence)}</p>'
    for sentence in report.missing(found):
        yield f'<p class="alert">{escape(sentence)}</p>'


# ---- libraries ------------------------------------------------------------------------------


def libraries(found: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Libraries and their import paths</h2>"
    headers = ("library", "version", "import path", "import", "result")
    yield f'<table class="list"><thead><tr>{cells(headers, "th")}</tr></thead><tbody>'
    for library in found["libraries"]:
        path = library["import_path"]["text"] if library["import_path"] else ""
        cost = report.nanoseconds(library["import_ns"])
        broken = "" if library["outcome"] == "works" else ' class="broken"'
        yield (
            f'<tr><th scope="row">{escape(library["name"])}</th>'
            f"{cells((library['version'], path), 'td')}"
            f'<td class="number">{escape(cost)}</td>'
            f"<td{broken}>{escape(report.memory_summary(library))}</td></tr>"
        )
    yield "</tbody></table>"
    middle = report.yardstick(found["libraries"])
    if middle:
        yield (
            f'<p class="soft">For comparison: <code>np.from_dlpack(ndarray)</code> costs '
            f"{middle:.0f} ns here.</p>"
        )
    for line in report.protocol_lines(found["libraries"]):
        yield f'<p class="soft"><small>{escape(line)}</small></p>'


def cells(texts: Iterable[str], tag: str) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)


# ---- the grid -------------------------------------------------------------------------------


def grid(found: dict[str, Any]) -> Iterator[str]:
    yield "<h2>From each library to each other</h2>"
    yield "<p><code>fastdl.convert</code> from the library of the row to that of the column.</p>"
    seen = {cell["outcome"] for row in found["cells"].values() for cell in row.values()}
    yield '<p class="keys">'
    for outcome, meaning in OUTCOMES.items():
        if outcome in seen:
            letter = report.LETTERS[outcome]
            text = escape(f"{outcome}: {meaning}" if outcome != "none" else meaning)
            yield f'<span><b class="key {outcome}">{letter}</b>{text}</span> '
    yield "</p>"
    yield '<div class="wide"><table class="grid"><thead><tr><td></td>'
    yield f"{cells(found['consumers'], 'th')}</tr></thead><tbody>"
    for producer, row in found["cells"].items():
        yield f'<tr><th scope="row">{escape(producer)}</th>'
        for consumer in found["consumers"]:
            outcome, reason = row[consumer]["outcome"], row[consumer]["reason"]
            title = f"{producer} to {consumer}: {outcome}{', ' if reason else ''}{reason}"
            yield f'<td class="{outcome}" title="{escape(title)}">{report.LETTERS[outcome]}</td>'
        yield "</tr>"
    yield "</tbody></table></div>"
    texts = list(report.reasons(found))
    if texts:
        yield "<details open=''><summary>Reasons for copies and exceptions</summary><ul>"
        for text in texts:
            yield f"<li>{escape(text)}</li>"
        yield "</ul></details>"


# ---- defects --------------------------------------------------------------------------------


def defects(rows: list[dict[str, Any]]) -> Iterator[str]:
    rows = [library for library in rows if library["defects"]]
    if not rows:
        return
    yield "<h2>Known defects, and what fastdl does</h2>"
    for library in rows:
        count = counted(len(library["defects"]), "defect")
        named = escape(f"{library['name']} {library['version']}")
        yield f"<details open=''><summary>{named}: {count}</summary><ul>"
        for defect in library["defects"]:
            seen = "" if defect["certain"] else f" (seen in {defect['seen']})"
            title, remedy = escape(defect["title"] + seen), escape(defect["remedy"])
            yield f"<li><b>{title}.</b> {code(remedy)}</li>"
        yield "</ul></details>"


def code(text: str) -> str:
    """Words between backquotes as code."""
    parts = text.split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))
