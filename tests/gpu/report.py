"""The report of `python -m tests.gpu`: gpu.json, and gpu.md for people. It is written anew with
each event, so that it is complete whenever the run ends."""

import json
import os

from tests.simulated import conformance
from tests.simulated.beliefs import (
    ANSWERED,
    BELIEFS,
    BY_NAME,
    CONFIRMED,
    REFUTED,
    UNASKED,
    verdicts,
)

# What may become of an item. The last: it is not known.
OUTCOMES = ("passed", "failed", "crashed", "hung", "broke the device", "skipped", "not reached")
GOOD = ("passed", "skipped")
RUNNING = "The run is not over, or was killed."
COMPLETE = "Complete: all that was asked for has been reached."
PARTIAL = "Over, but not everything has been reached: see below."
TIME_UP = "The time was up: see below for what has not been reached."
INTERRUPTED = "Interrupted: see below for what has not been reached."
DRY = " A dry run: the simulated driver answered, which confirms nothing."
OVER = "over"
NO_TIME = "no time was left"


def place(event):
    return event["group"], event["name"]


class Report:
    """Of groups (see groups.py), in their order. `add` takes events (see journal.py)."""

    def __init__(self, groups, folder, dry=False):
        self.folder, self.state, self.dry = folder, RUNNING, dry
        self.facts, self.answers, self.measured = {}, [], {}
        # Each: what was planned, the outcomes by name, and how the process ended.
        self.groups = {
            group.name: {"what": group.what, "kind": group.kind, "planned": None, "items": {},
                         "end": "", "seconds": 0.0}
            for group in groups
        }  # fmt: skip

    def add(self, event):
        group = self.groups[event["group"]]
        kind = event["event"]
        if kind == "fact":
            self.facts[event["key"]] = event["value"]
        elif kind == "plan":
            group["planned"] = event["names"]
        elif kind == "answer":
            self.answers.append({k: v for k, v in event.items() if k != "event"})
        elif kind == "measured":
            self.measured.setdefault(event["title"], []).append(event["row"])
        elif kind == "outcome":
            group["items"][event["name"]] = {"outcome": event["outcome"], "text": event["text"]}
        elif kind == "broken":
            text = f"every call answers {event['code']} after this"
            group["items"][event["name"]] = {"outcome": "broke the device", "text": text}
            for row in self.answers:  # which came from a device that was broken already
                if (row["group"], row["topic"], row["ok"]) == (*place(event), False):
                    row.update(kind="lost", ok=True)
        elif kind == "failure":
            group["end"] = f"could not go on: {event['text']}"
        elif kind == "done":
            group["end"] = OVER

    def lost(self, group, name, outcome, text):
        """The item that the process of the group ended in."""
        self.groups[group]["items"][name] = {"outcome": outcome, "text": text}
        if self.groups[group]["kind"] == "ask":
            checks = conformance.GROUPS[group.removeprefix("ask-")].checks()
            row = {"group": group, "topic": name, "name": "the rest", "belief": checks[name][0]}
            self.answers.append(
                {**row, "kind": "lost", "expected": None, "got": f"{outcome}: {text}", "ok": True}
            )

    # ---- what it comes to

    def outcomes(self):
        """(group, item, outcome, text) of all that was planned or began."""
        for name, group in self.groups.items():
            for item in dict.fromkeys([*(group["planned"] or ()), *group["items"]]):
                found = group["items"].get(item, {"outcome": "not reached", "text": group["end"]})
                yield name, item, found["outcome"], found["text"]

    def not_begun(self):
        """The groups of which nothing is known: {name: why}."""
        return {
            name: group["end"] or "the run ended before"
            for name, group in self.groups.items()
            if group["planned"] is None and group["end"] != OVER
        }

    def finish(self):
        """All groups have had their turn."""
        ends = [group["end"] for group in self.groups.values()]
        missing = any(outcome == "not reached" for _, _, outcome, _ in self.outcomes())
        if NO_TIME in ends:
            self.state = TIME_UP
        else:
            self.state = PARTIAL if missing or self.not_begun() else COMPLETE

    def failed(self):
        wrong = any(not row["ok"] for row in self.answers)
        bad = any(outcome not in GOOD for _, _, outcome, _ in self.outcomes())
        unmeasured = any(row["failure"] for rows in self.measured.values() for row in rows)
        ends = any(group["end"] != OVER for group in self.groups.values())
        return wrong or bad or unmeasured or ends

    def as_json(self):
        found = verdicts(self.answers)
        return {
            "state": self.state + (DRY if self.dry else ""),
            "dry run": self.dry,
            "facts": self.facts,
            "beliefs": found,
            "answers": self.answers,
            "outcomes": [
                dict(zip(("group", "name", "outcome", "text"), row, strict=True))
                for row in self.outcomes()
            ],
            "measured": self.measured,
            "groups": {
                name: {key: group[key] for key in ("what", "end", "seconds")}
                for name, group in self.groups.items()
            },
            "not begun": self.not_begun(),
        }

    def write(self):
        """Whole or not at all, each of the two."""
        self.folder.mkdir(parents=True, exist_ok=True)
        report = self.as_json()
        for name, text in (
            ("gpu.json", json.dumps(report, indent=1, default=str) + "\n"),
            ("gpu.md", page(report)),
        ):
            partial = self.folder / f"{name}.partial"
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, self.folder / name)


# ---- the page -------------------------------------------------------------------------------


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(cell, line)) + " |\n" for line in lines) + "\n"


def cell(value):
    return str(value).replace("|", "\\|").replace("\n", " ")


def page(report):
    """gpu.md."""
    text = "# On a GPU\n\nWritten by `python -m tests.gpu`; all answers are in `gpu.json`.\n\n"
    text += f"**{report['state']}**\n\n" + table(["", ""], report["facts"].items())
    text += beliefs(report["beliefs"], report["answers"])
    text += tests(report["outcomes"]) + not_reached(report)
    text += measured(report["measured"])
    text += "## Groups\n\n"
    rows = [
        [name, group["what"], group["end"] or "not begun", f"{group['seconds']:.0f} s"]
        for name, group in report["groups"].items()
    ]
    return text + table(["group", "", "end", "time"], rows).rstrip("\n") + "\n"


def beliefs(found, answers):
    """What fastdl believes of drivers and libraries, by what became of it."""

    def those(verdict):
        return [belief for belief in BELIEFS if found[belief.name] == verdict]

    def rows_of(belief, *kinds):
        return [row for row in answers if row["belief"] == belief.name and row["kind"] in kinds]

    text = "## Beliefs\n\n"
    text += ", ".join(f"{len(those(v))} {v}" for v in (CONFIRMED, REFUTED, ANSWERED, UNASKED))
    text += ".\n\n### Refuted\n\n"
    wrong = [row for row in answers if not row["ok"]]
    head = ["belief", "check", "expected", "got"]
    rows = [[BY_NAME[r["belief"]].text, asked(r), r["expected"], r["got"]] for r in wrong]
    text += table(head, rows) if rows else "None.\n\n"
    text += "### Confirmed\n\n"
    rows = [[belief.text, len(rows_of(belief, "checked"))] for belief in those(CONFIRMED)]
    text += table(["belief", "answers"], rows) if rows else "None.\n\n"
    text += "### Not asked\n\n"
    rows = [[belief.text, why(belief, rows_of(belief, "assumed", "lost"))]
            for belief in those(UNASKED)]  # fmt: skip
    text += table(["belief", "why"], rows) if rows else "None.\n\n"
    text += "### Open questions\n\nWhat the driver and the libraries do where nothing is promised, "
    text += "and questions that ended their process.\n\n"
    rows = [[asked(row), row["got"]] for row in answers if row["kind"] in ("noted", "lost")]
    text += table(["check", "got"], rows) if rows else "None was reached.\n\n"
    partly = [row for row in answers if row["kind"] == "assumed"]
    text += "### Checks that could not be made\n\n"
    return text + (table(["check", "why"], [[asked(r), r["got"]] for r in partly]) or "None.\n\n")


def asked(row):
    group = row.get("group", "").removeprefix("ask-").removeprefix("library-")
    return f"{group}: {row['topic']}: {row['name']}"


def why(belief, rows):
    reasons = list(dict.fromkeys(str(row["got"]) for row in rows))
    needs = f"needs {belief.needs}" if belief.needs else "not reached"
    return "; ".join(reasons) or needs


def tests(outcomes):
    """Those of pytest; of the others what went wrong, since the beliefs tell the rest."""
    counts = {word: sum(row["outcome"] == word for row in outcomes) for word in OUTCOMES}
    text = "## Tests\n\n" + ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    text += ".\n\n" if outcomes else "None was reached.\n\n"
    bad = [row for row in outcomes if row["outcome"] not in (*GOOD, "not reached")]
    head = ["group", "test", "outcome", ""]
    if bad:
        text += table(head, [row.values() for row in bad])
    good = [r for r in outcomes if r["outcome"] in GOOD and r["group"].startswith("test-")]
    return text + (table(head, [row.values() for row in good]) if good else "")


def not_reached(report):
    rows = [[name, "all of it", why] for name, why in report["not begun"].items()]
    rows += [
        [row["group"], row["name"], row["text"]]
        for row in report["outcomes"]
        if row["outcome"] == "not reached"
    ]
    return "## Not reached\n\n" + (table(["group", "", "why"], rows) if rows else "Nothing.\n\n")


def measured(groups):
    """The rows of measure.py."""
    text = "## Measured\n\n" if groups else ""
    for group, rows in groups.items():
        head = ["", "fastdl", "compared with", "ratio", "budget"]
        text += f"### {group}\n\n" + table(head, map(measured_row, rows))
    return text


def measured_row(row):
    theirs = row["theirs"]
    peer = row["peer"] if theirs is None else f"{row['peer']} {number(theirs)} {row['unit']}"
    return [row["what"], value(row), peer, number(row["ratio"]), budget(row)]


def value(row):
    if row["failure"]:
        return f"failed: {row['failure']}"
    if row["missing"]:
        return f"skipped: {row['missing']}"
    return f"{number(row['ours'])} {row['unit']}"


def number(value):
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def budget(row):
    """The budget of a row, and whether it is kept."""
    if row["target"] is None:
        return ""
    limit = f"{'≤' if row['unit'] == 'ns' else '≥'} {row['target']:g}"
    return limit + {True: " held", False: " MISSED", None: ""}[row["held"]]
