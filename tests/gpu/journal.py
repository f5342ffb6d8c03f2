"""How the processes of `python -m tests.gpu` tell what happens: lines of JSON in a file, written as
things happen, so that nothing is lost when a process is. Events:

    fact      key, value          about the machine
    plan      names               of the items of the group, before the first
    begin     name                an item begins
    answer    topic, name, ...    a row of tests/simulated/conformance.py
    measured  row                 a row of measure.py
    outcome   name, outcome, text an item is over: passed, failed or skipped
    broken    name, code          after this item the device answers every call with an error
    failure   text                the group could not go on
    done                          the group is over
"""

import faulthandler
import json
import os

from tests.gpu import faults


class Journal:
    """Where one group writes, and what `log` is for people: stderr, which pytest takes away."""

    def __init__(self, path, group):
        self.group, self.file = group, path.open("a", encoding="utf-8")
        self.log = os.fdopen(os.dup(2), "w", encoding="utf-8")
        faulthandler.enable(self.log)

    def tell(self, event, **facts):
        line = json.dumps({"event": event, "group": self.group.name, **facts}, default=str)
        self.file.write(line + "\n")
        self.file.flush()
        if event == "begin":
            print(f"--- {self.group.name}: {facts['name']}", file=self.log, flush=True)
            # Shortly before the process is killed, the log has where all threads are.
            faulthandler.dump_traceback_later(0.9 * self.group.limit, file=self.log)
            faults.inject(facts["name"])


class Reader:
    """The other end."""

    def __init__(self, path):
        path.touch()
        self.file, self.rest = path.open(encoding="utf-8"), ""

    def events(self):
        """Those that are new."""
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        return [json.loads(line) for line in lines]
