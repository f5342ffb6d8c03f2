"""The pytest plugin of fastdl.testing: pytest --dlpack=numpy, or in the configuration
dlpack = mylib.dlpack_adapter. It is a separate module because pytest imports it at every start;
inside the package it would import fastdl too.
"""

from pathlib import Path

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("dlpack", "conformance to DLPack (fastdl.testing)")
    group.addoption(
        "--dlpack",
        action="append",
        default=[],
        metavar="ADAPTER",
        help="check a library: an adapter of fastdl.testing (numpy, torch, ...), or a module or "
        "module:object with make, from_dlpack and values; can be repeated",
    )
    group.addoption(
        "--dlpack-report",
        action="append",
        default=[],
        metavar="FILE",
        help="write a report: FILE.html, .json or .md (a comment for a pull request); can be "
        "repeated",
    )
    group.addoption(
        "--dlpack-strict", action="store_true", help="deviations fail, like other failures"
    )
    parser.addini("dlpack", "adapters of libraries to check: see --dlpack", "args", [])


def pytest_configure(config):
    if config.getoption("dlpack") or config.getini("dlpack"):
        config.pluginmanager.register(Suite(config), "fastdl-suite")


class Suite:
    """The checks as tests, and their reports."""

    def __init__(self, config):
        self.config = config
        self.adapters = config.getoption("dlpack") or config.getini("dlpack")
        self.reports = {}  # adapter -> results
        self.facts = {}

    # ---- collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session):
        asked = self.config.getoption("dlpack")
        if asked and self.config.args_source is not pytest.Config.ArgsSource.ARGS:
            session.config.args = []  # without files on the command line: only the checks

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session, config, items):
        items += [item for name in self.adapters for item in Checked.of(session, name)]
        session.testscollected = len(items)

    # ---- reports

    def pytest_runtest_logreport(self, report):
        properties = dict(report.user_properties)
        if report.when == "call" and "dlpack" in properties:
            adapter, facts, result = properties["dlpack"]
            self.reports.setdefault(adapter, []).append(result)
            self.facts[adapter] = facts

    def pytest_terminal_summary(self, terminalreporter):
        from fastdl._testing import reports
        from fastdl._testing.runner import as_report

        made = [as_report(name, self.facts[name], self.reports[name]) for name in self.reports]
        for report in made:
            terminalreporter.section(f"DLPack: {reports.title(report)}")
            for line in reports.summary(report):
                terminalreporter.write_line(line)
        for path in self.config.getoption("dlpack_report"):
            if made:
                reports.write(made, Path(path))
                terminalreporter.write_line(f"wrote {path}")


class Checked(pytest.Collector):
    """A library."""

    @classmethod
    def of(cls, session, adapter):
        from fastdl._testing.runner import Runner, chosen

        library = cls.from_parent(session, name=adapter, nodeid=f"dlpack::{adapter}")
        runner = Runner(adapter)
        session.config.add_cleanup(runner.close)
        return [CheckItem.from_parent(library, name=name, runner=runner) for name in chosen()]

    def collect(self):
        return []


class CheckItem(pytest.Item):
    """A check."""

    def __init__(self, *, runner, **more):
        super().__init__(**more)
        self.runner = runner

    def runtest(self):
        from fastdl._testing.runner import CannotStart, describe

        runner = self.runner
        try:
            result = describe(self.name, runner.run(self.name))
        except CannotStart as error:
            pytest.fail(str(error), pytrace=False)
        self.user_properties.append(("dlpack", (runner.adapter, runner.facts, result)))
        outcome, note = result["outcome"], result["note"]
        if outcome == "n/a":
            pytest.skip(note)
        if outcome == "deviates" and not self.config.getoption("dlpack_strict"):
            pytest.xfail(note)
        if outcome != "passed":
            pytest.fail(
                f"{result['sentence']}\n  {outcome}: {note}\n  severity: {result['severity']}\n"
                f"  from: {result['clause']}",
                pytrace=False,
            )

    def reportinfo(self):
        return "fastdl.testing", None, f"{self.runner.adapter}: {self.name}"
