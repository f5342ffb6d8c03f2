# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: pytest --dlpack=numpy, or in the configuration dlpack = mylib.dlpack_adapter.
It imports what it needs when it is used, since pytest imports it at every start.

A check is the test dlpack::ADAPTER::CHECK, which can be named on the command line.
"""

import argparse

import pytest

START = "dlpack::"  # of the names of these tests


def pytest_addoption(parser):
    group = parser.getgroup("dlpack", "conformance to DLPack")
    group.addoption(
        "--dlpack",
        action="append",
        default=[],
        metavar="ADAPTER",
        help="check a library: an included adapter (numpy, torch, ...), or a module or "
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
    group.addoption(
        "--dlpack-limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="for how long a check may give no answer; default: 120",
    )
    parser.addini("dlpack", "adapters of libraries to check: see --dlpack", "args", [])


def pytest_configure(config):
    chosen = getattr(config, "workerinput", {}).get("dlpack") or chosen_by(config)
    if chosen["adapters"]:
        config.pluginmanager.register(Suite(config, chosen), "dlpack-suite")


def chosen_by(config):
    """What the command line and the configuration ask for. "named": tests, which are then the only
    ones of their libraries. "alone": whether no other tests are to be run."""
    asked, named = config.getoption("dlpack"), [a for a in config.args if a.startswith(START)]
    given = config.args_source is pytest.Config.ArgsSource.ARGS
    adapters = [name.split("::")[1] for name in named] or asked
    if not adapters and not given:
        adapters = config.getini("dlpack")
    alone = bool(asked) and not given
    return {"adapters": list(dict.fromkeys(adapters)), "named": named, "alone": alone}


class Suite:
    """The checks as tests, and their reports."""

    def __init__(self, config, chosen):
        from dlpack_conformance.reports import report_path

        self.config, self.chosen = config, chosen
        self.adapters, self.named = chosen["adapters"], chosen["named"]
        self.results = {}  # adapter -> (facts, results)
        try:
            self.paths = [report_path(path) for path in config.getoption("dlpack_report")]
        except argparse.ArgumentTypeError as error:
            raise pytest.UsageError(f"--dlpack-report: {error}") from None

    # ---- collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session):
        args = [name for name in self.config.args if name not in self.named]
        self.config.args = [] if self.chosen["alone"] else args

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        """A process of pytest-xdist asks for the same."""
        node.workerinput["dlpack"] = self.chosen

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session, items):
        for name in self.adapters:
            library = Checked.from_parent(session, name=name, nodeid=f"{START}{name}")
            items += session.genitems(library)
        if self.named:
            self.select(items)

    def select(self, items):
        """Leaves of our tests only those that are named, or whose library is."""
        named = {name: [one for one in items if is_of(one, name)] for name in self.named}
        for name, found in named.items():
            if not found:
                raise pytest.UsageError(f"not found: {name}")
        wanted = {one for found in named.values() for one in found}
        others = [one for one in items if is_of(one, "dlpack") and one not in wanted]
        items[:] = [one for one in items if one not in others]
        self.config.hook.pytest_deselected(items=others)

    # ---- reports

    @pytest.hookimpl(hookwrapper=True)  # the older form: of every pluggy
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        if isinstance(item, CheckItem) and call.when == "call":
            outcome.get_result().dlpack = item.found

    def pytest_runtest_logreport(self, report):
        for adapter, facts, result in getattr(report, "dlpack", ()):
            self.results.setdefault(adapter, (facts, []))[1].append(result)

    def pytest_terminal_summary(self, terminalreporter, exitstatus):
        from dlpack_conformance import reports
        from dlpack_conformance.runner import as_report

        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        made = [
            as_report(name, facts, results, interrupted)
            for name, (facts, results) in self.results.items()
        ]
        for report in made:
            terminalreporter.section(f"DLPack: {reports.title(report)}")
            for line in reports.summary(report):
                terminalreporter.write_line(line)
        for path in self.paths if made else ():
            reports.write(made, path)
            terminalreporter.write_line(f"wrote {path}")


def is_of(item, name):
    return f"{item.nodeid}::".startswith(f"{name}::")


class Checked(pytest.Collector):
    """A library."""

    def collect(self):
        from dlpack_conformance.runner import CannotStart, Runner, chosen

        runner = Runner(self.name, limit=self.config.getoption("dlpack_limit"))
        self.config.add_cleanup(runner.close)
        try:
            runner.start()
        except CannotStart as error:
            raise self.CollectError(str(error)) from None
        return [CheckItem.from_parent(self, name=name, runner=runner) for name in chosen()]


class CheckItem(pytest.Item):
    """A check."""

    def __init__(self, *, runner, **more):
        super().__init__(**more)
        self.runner = runner
        self.found = []  # for the report of this test, which may travel to another process

    def runtest(self):
        from dlpack_conformance.reports import explained
        from dlpack_conformance.runner import CannotStart, describe

        runner = self.runner
        try:
            result = describe(self.name, runner.run(self.name))
        except CannotStart as error:
            pytest.fail(str(error), pytrace=False)
        self.found = [(runner.adapter, runner.facts, result)]
        self.user_properties += [
            (name, result[name]) for name in ("outcome", "severity", "clause", "note")
        ]
        outcome, note = result["outcome"], result["note"]
        if outcome == "n/a":
            pytest.skip(note)
        if outcome == "deviates" and not self.config.getoption("dlpack_strict"):
            pytest.xfail(note)
        if outcome != "passed":
            lines = [f"{outcome}; severity: {result['severity']}", *explained(result)]
            pytest.fail("\n  ".join(lines), pytrace=False)

    def reportinfo(self):
        return "dlpack_conformance", None, f"{self.runner.adapter}: {self.name}"
