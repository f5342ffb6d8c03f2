# SPDX-License-Identifier: Apache-2.0
"""The checks are checked: each passes on the reference library, and fails on a broken one."""

import gc
import sys
from functools import cache, partial

import pytest

import mutants
from dlpack_conformance import _dlpack, outcomes, runner, suite, worker
from dlpack_conformance.elements import shape_of
from dlpack_conformance.producers import new_table
from reference import Reference

gc.freeze()  # as in a process of the suite: checks collect garbage often


def test_each_check_has_a_mutant_of_its_own():
    assert mutants.mistakes().keys() == suite.all_checks().keys()


@pytest.fixture(scope="module")
def answers():
    """A function that finds the outcomes of a check, with and without its mistake."""
    process = runner.Process([sys.executable, mutants.__file__])
    yield partial(process.ask, 300)
    process.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", suite.all_checks())
def test_a_check_sees_its_mutant(answers, name):
    found = answers(name)
    assert found["reference"] == outcomes.PASSED
    assert found["mutant"] in (*outcomes.BAD, outcomes.DEVIATES)


def found(check, **mistake):
    """What a check finds on the reference library with a mistake."""
    library = suite.Library(type("Mutant", (Reference,), mistake)(), "reference")
    return worker.run(suite.all_checks()[check], library)


def test_a_case_that_is_refused_does_not_end_the_check():
    """The views after it are still checked, and what is passed is said of it."""

    def managed(self, array, versioned, copied=False):
        if array.strides == (1, 4):  # transposed
            raise BufferError("no such strides")
        return Reference.managed(self, array, versioned, copied)

    one = found("producer.address", managed=managed)
    assert (
        one["outcome"] == outcomes.PASSED and "no such strides (the transposed view" in one["note"]
    )
    moved = mutants.fields(lambda a, v: a.strides == (4, 1), data=mutants.at(4))
    assert "the offset view" in found("producer.address", managed=managed, **moved)["note"]


class Images(Reference):
    """Has arrays of three dimensions only, of which the last is no longer than 4."""

    min_ndim = max_ndim = 3

    def make(self, values, dtype):
        shape = shape_of(values)
        if len(shape) != 3 or shape[2] > 4:
            raise ValueError(f"not an image: {shape}")
        return Reference.make(self, values, dtype)

    def refuse(self, view):
        shape = view["shape"] or ()
        return "not an image" if len(shape) != 3 or shape[2] > 4 else ""


def test_a_library_of_one_rank():
    library = suite.Library(Images(), "reference")
    found = {name: worker.run(check, library) for name, check in suite.all_checks().items()}
    wrong = {
        n: one for n, one in found.items() if one["outcome"] in (*outcomes.BAD, outcomes.DEVIATES)
    }
    assert not wrong
    passed = {name for name, one in found.items() if one["outcome"] == outcomes.PASSED}
    assert passed > {"producer.values", "consumer.values", "layout.transposed", "offset.offset"}


class WholeNumbers(Reference):
    """Has integers only."""

    dtypes = ("int64", "int32")

    def refuse(self, view):
        return "only integers" if view["dtype"] not in ((0, 32, 1), (0, 64, 1)) else ""


def test_a_library_without_floats_is_asked_for_what_it_has():
    library = suite.Library(WholeNumbers(), "reference")
    for name, check in suite.all_checks().items():
        if name.startswith(("consumer.", "layout.", "offset.", "copy.", "table.", "readonly.")):
            found = worker.run(check, library)
            views = name.startswith(("layout.export", "offset.export"))  # of Reference: of float32
            assert found["outcome"] in (outcomes.PASSED, outcomes.SKIPPED) or views, (name, found)
    library = suite.Library(type("Truth", (Reference,), {"dtypes": ("bool",)})(), "reference")
    found = worker.run(suite.all_checks()["consumer.values"], library)
    assert found["note"].startswith("has no element type of six values")


def test_a_refusal_is_a_wrong_error_whatever_is_checked():
    for check in ("consumer.values", "failure.used-capsule"):
        assert found(check, **mutants.refuse())["severity"] == outcomes.ERROR
    assert "severity" not in found("consumer.released-once", **mutants.LEAK)
    assert found("versions.takes-versioned", **mutants.refuse())["outcome"] == outcomes.DEVIATES


def test_a_typeerror_is_not_always_a_missing_keyword():
    broken = found("producer.values", **mutants.TYPEERROR_FOR_VERSIONS)
    assert (broken["outcome"], broken["severity"]) == (outcomes.FAILED, outcomes.ERROR)
    broken = found("copy.true-is-a-copy", **mutants.TYPEERROR_FOR_COPIES)
    assert broken["outcome"] == outcomes.FAILED
    for check in ("copy.true-is-a-copy", "copy.other-device"):
        assert found(check, dlpack=mutants.only_stream)["outcome"] == outcomes.SKIPPED


def test_an_array_without_elements_may_be_anywhere():
    nowhere = mutants.borrowed(data=lambda array: array.data * all(array.shape))
    assert found("table.borrows", **nowhere)["outcome"] == outcomes.PASSED


def as_int(values):
    return [*map(as_int, values)] if isinstance(values, list) else int(values)


def test_a_table_behind_one_of_the_next_major():
    """The newest table whose layout is known is checked."""
    newer = mutants.with_table(cache(lambda self: new_table(major=2, prev=Reference.table(self))))
    for check in suite.all_checks():
        assert not check.startswith("table.") or found(check, **newer)["outcome"] == outcomes.PASSED
    alone = mutants.with_table(lambda self: new_table(major=2))
    assert found("table.functions", **alone)["outcome"] == outcomes.SKIPPED
    assert found("table.version", **alone)["outcome"] == outcomes.FAILED


@pytest.mark.parametrize("check", ["consumer.released-once", "dtype.import-lanes"])
def test_a_table_that_fails_without_an_exception(check):
    """Not taken for a refusal, which both checks leave to the library."""
    try:
        broken = found(check, **mutants.with_table(mutants.hostile_maker("fail")))
    finally:
        _dlpack.set_maker("raise")  # the default
    assert broken["outcome"] == outcomes.FAILED
    assert "without an exception" in broken["note"]


def test_second_mistakes_that_a_check_sees():
    """Beside that of its mutant."""
    mistakes = (
        ("consumer.renames-the-capsule", {"from_dlpack": mutants.reads_and_keeps}),
        ("copy.other-device", mutants.export(dl_device=(1, 0))),
        ("copy.import-own", {"from_dlpack": mutants.copies_always}),
        ("copy.import-of-another", {"from_dlpack": mutants.copies_of_others}),
        ("ownership.deleter-keeps-error", {"on_delete": mutants.raises}),
        ("versions.refuses-next-major", mutants.LOSE),
        ("streams.device-is-not-read", mutants.LOSE),
        ("failure.stream-only-producer", {"ask": mutants.keeps_refusals}),
        ("table.version", {"make": mutants.new_table}),
        ("table.version", mutants.with_table(mutants.endless)),
        ("table.allocator-tells-errors", mutants.allocates()),
        ("layout.transposed", mutants.LEAK),
        ("dtype.import-bool", mutants.LEAK),
        ("copy.false-shares", mutants.export(copy=None) | mutants.by_copy()),
        ("ownership.exports-are-apart", {"on_delete": mutants.overwrite}),
        ("producer.values", mutants.in_table(data=mutants.at(4))),
        ("hostile.ndim-huge", mutants.LOSE),
        ("copy.false-shares", mutants.by_copy(lambda a, v: a.shape == (2, 2))),
        ("readonly.write-is-seen", mutants.by_copy(lambda a, v: a.shape == (2, 2))),
        ("producer.description", mutants.fields(version=(1, 7))),
        ("producer.description", mutants.fields(device=(1, 3))),
        ("dtype.import-bool", {"values": lambda self, array: as_int(array.read())}),
        ("producer.values", mutants.fields(shape=lambda a: a.shape if all(a.shape) else (0,))),
        ("producer.values", mutants.fields(shape=lambda a: tuple(n or 1 for n in a.shape))),
        ("producer.device", {"device": lambda self, array: [1]}),
        ("producer.shares", mutants.fields(flags=2)),
        ("dtype.import-others", mutants.LOSE),
        ("dtype.import-others", mutants.LOSE | {"error": TypeError}),
        (
            "offset.offset",
            mutants.view(byte_offset=lambda v: v["byte_offset"] if v["shape"] else 0),
        ),
        ("consumer.equivalents", mutants.refuse(lambda v: v["strides"] and 77 in v["strides"])),
        ("copy.other-device", {"dlpack": mutants.value_error_of_legacy}),
        ("readonly.writable-has-no-flag", {"fields": mutants.read_only_ever_after}),
        ("versions.old-is-legacy", {"capsule": lambda self, managed: managed}),
        ("versions.old-is-legacy", {"versioned": lambda self, version: version is None}),
        ("ownership.export-keeps-memory", mutants.NO_OWNER),
        ("ownership.small-exports", {"owner": lambda self, x: self.kept.append(x) or x.keep}),
        ("ownership.small-exports", {"capsule": lambda self, m: m.capsule(destructor=0)}),
        ("consumer.write-is-seen", {"write": lambda self, array, value: None}),
        ("consumer.round-trip", mutants.LEAK),
        ("consumer.released-once", {"hold": mutants.needs_context}),
        ("consumer.small-imports", {"ask": mutants.keeps_producers}),
        ("versions.next-minor", mutants.refuse(lambda v: v["version"] and v["version"][1] > 3)),
        ("table.borrows", {"borrow": mutants.borrows_in_one_place}),
    )
    for check, mistake in mistakes:
        assert found(check)["outcome"] == outcomes.PASSED
        assert found(check, **mistake)["outcome"] in (outcomes.FAILED, outcomes.DEVIATES), check
