"""Beliefs about drivers are kept in one table, and each is asked."""

import pytest

from tests.simulated import beliefs, conformance
from tests.simulated.beliefs import ANSWERED, BELIEFS, CONFIRMED, REFUTED, UNASKED, verdicts


def test_each_belief_is_asked_and_each_check_has_a_belief():
    assert {belief for _, _, belief in conformance.checks()} == {b.name for b in BELIEFS}


def test_names_are_names():
    assert len(beliefs.BY_NAME) == len(BELIEFS)
    found = list(conformance.checks())
    assert len({(group, name) for group, name, _ in found}) == len(found)


def test_every_check_belongs_to_a_group():
    """All methods that look like one, of every module of checks."""
    kinds = set(conformance.GROUPS.values())
    inherited = {c for kind in kinds for c in kind.__mro__[1:]}
    for kind in inherited - {object}:
        assert not [name for name in vars(kind) if name.startswith("check_")], kind


@pytest.mark.parametrize("belief", BELIEFS, ids=lambda belief: belief.name)
def test_a_belief_has_a_source_and_a_simulation(belief):
    assert belief.text and belief.source and belief.simulated
    for text in (belief.text, belief.source, belief.simulated, belief.needs):
        assert "|" not in text and "\n" not in text


def row(kind, ok=True):
    return {"belief": "stack", "kind": kind, "ok": ok}


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([], UNASKED),
        ([row("assumed")], UNASKED),
        ([row("lost")], UNASKED),
        ([row("noted"), row("assumed")], ANSWERED),
        ([row("noted"), row("checked"), row("lost")], CONFIRMED),
        ([row("checked"), row("checked", ok=False), row("noted")], REFUTED),
    ],
)
def test_verdicts(rows, verdict):
    found = verdicts(rows)
    assert found.pop("stack") == verdict
    assert set(found.values()) == {UNASKED}


def test_the_table_tells_what_hardware_said(tmp_path, monkeypatch):
    report = tmp_path / "gpu.json"
    monkeypatch.setattr(beliefs, "reported", dict)
    text = "\n".join(beliefs.as_markdown())
    assert "Nothing on this page has been confirmed on hardware yet" in text
    assert text.count(f"| {UNASKED} |") + text.count("| needs ") == len(BELIEFS)
    assert "| needs an AMD GPU |" in text
    report.write_text(
        '{"facts": {"GPU": "A card", "driver": "1.2"}, "beliefs": {"stack": "refuted"}}'
    )
    monkeypatch.undo()
    assert beliefs.reported(report)["beliefs"] == {"stack": "refuted"}
    monkeypatch.setattr(beliefs, "reported", lambda path=report, read=beliefs.reported: read(path))
    text = "\n".join(beliefs.as_markdown())
    assert "A card with driver 1.2" in text and text.count("| refuted |") == 1


def test_a_dry_run_says_nothing_about_hardware(tmp_path):
    report = tmp_path / "gpu.json"
    report.write_text('{"dry run": true, "facts": {}, "beliefs": {"stack": "confirmed"}}')
    assert beliefs.reported(report) == {} == beliefs.reported(tmp_path / "none.json")
