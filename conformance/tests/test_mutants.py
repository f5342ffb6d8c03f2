"""The checks are checked: each passes on the reference library, and fails on a broken one."""

import sys
from functools import partial

import pytest

import mutants
from dlpack_conformance import _dlpack, runner, suite, worker
from reference import Reference


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
    assert found["reference"] == suite.PASSED
    assert found["mutant"] in (*suite.BAD, suite.DEVIATES)


def found(check, **mistake):
    """What a check finds on the reference library with a mistake."""
    library = suite.Library(type("Mutant", (Reference,), mistake)(), "reference")
    return worker.run(suite.all_checks()[check], library)


@pytest.fixture
def _hostile_table():
    """Which the tests of a process share."""
    yield
    _dlpack.set_maker("raise")


@pytest.mark.usefixtures("_hostile_table")
def test_a_table_that_fails_without_an_exception_is_no_success():
    mistake = mutants.with_table(mutants.hostile_maker("fail"))
    mistake["make"] = lambda self, *values: failing(Reference.make(self, *values))

    def failing(array):
        array.managed, array.mode = None, "fail"
        return array

    assert found("table.sets-no-error", **mistake)["outcome"] == suite.FAILED


def test_a_consumer_that_keeps_what_was_refused():
    """The exception of the attempt before refers to its capsule."""

    def ask(self, x, copy):
        try:
            return x.__dlpack__(**self.keywords(copy))
        except TypeError as error:
            self.kept.append(error)
        return x.__dlpack__()

    assert found("failure.refused-attempts-are-released")["outcome"] == suite.PASSED
    assert found("failure.refused-attempts-are-released", ask=ask)["outcome"] == suite.FAILED


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
            assert found["outcome"] in (suite.PASSED, suite.SKIPPED) or views, (name, found)
    library = suite.Library(type("Truth", (Reference,), {"dtypes": ("bool",)})(), "reference")
    found = worker.run(suite.all_checks()["consumer.values"], library)
    assert found["note"] == "has no element type of six values"


def test_a_refusal_is_a_wrong_error_whatever_is_checked():
    for check in ("consumer.released-once", "consumer.values", "copy.unasked"):
        assert found(check, **mutants.refuse())["severity"] == suite.ERROR
    assert "severity" not in found("consumer.own-arrays")
    assert "severity" not in found("consumer.released-once", **mutants.LEAK)
    assert found("versions.takes-versioned", **mutants.refuse())["outcome"] == suite.DEVIATES


def test_a_typeerror_is_not_always_a_missing_keyword():
    broken = found("producer.versioned-values", **mutants.TYPEERROR_FOR_VERSIONS)
    assert (broken["outcome"], broken["severity"]) == (suite.FAILED, suite.ERROR)
    broken = found("copy.true-is-a-copy", **mutants.TYPEERROR_FOR_COPIES)
    assert broken["outcome"] == suite.FAILED
    for check in ("producer.versioned-values", "copy.true-is-a-copy", "copy.other-device"):
        assert found(check, dlpack=mutants.only_stream)["outcome"] == suite.SKIPPED


def test_second_mistakes_that_a_check_sees():
    """Beside that of its mutant."""
    mistakes = (
        ("consumer.renames-the-capsule", {"open": mutants.takes_without_a_name}),
        ("copy.other-device", mutants.export(dl_device=(1, 0))),
        ("copy.false-shares", mutants.export(copy=None) | mutants.by_copy()),
        ("ownership.exports-are-apart", {"on_delete": mutants.overwrite}),
    )
    for check, mistake in mistakes:
        assert found(check)["outcome"] == suite.PASSED
        assert found(check, **mistake)["outcome"] == suite.FAILED, check
