"""A plugin of pytest: runs the tests of one group of groups.py, and tells what becomes of each."""

import pytest

from tests.gpu.groups import of_test


class Plugin:
    """child: of child.py."""

    def __init__(self, child):
        self.child = child

    @pytest.hookimpl(trylast=True)  # after what pytest's own arguments leave out
    def pytest_collection_modifyitems(self, config, items):
        child, wanted, others = self.child, [], []
        for item in items:
            own = f"test-{of_test(item.name)}" == child.group.name
            (wanted if own else others).append(item)
        child.tell("plan", names=[shown(item.name) for item in wanted])
        for item in wanted[:]:
            if shown(item.name) in child.done:
                wanted.remove(item)
                others.append(item)
            elif child.simulated and child.group.name != "test-stand-ins":
                reason = "the simulated device has no libraries"
                item.add_marker(pytest.mark.skip(reason=reason))
        config.hook.pytest_deselected(items=others)
        items[:] = wanted

    def pytest_runtest_logstart(self, nodeid):
        self.outcome, self.text = "passed", ""
        self.child.tell("begin", name=shown(nodeid))

    def pytest_runtest_logreport(self, report):
        if report.failed:
            lines = report.longreprtext.strip().splitlines()
            self.outcome, self.text = "failed", lines[-1] if lines else ""
            print(report.longreprtext, file=self.child.journal.log)
        elif report.skipped and self.outcome == "passed":
            self.outcome = "skipped"
            self.text = report.longrepr[2].removeprefix("Skipped: ")

    def pytest_runtest_logfinish(self, nodeid):
        name = shown(nodeid)
        self.child.tell("outcome", name=name, outcome=self.outcome, text=self.text)


def shown(name):
    return name.rpartition("::")[2].removeprefix("test_")
