"""What fastdl believes of CUDA's driver (beliefs.py), asked of a simulated one or a real one.

    python -m tests.simulated.conformance [LIBRARY] [--json FILE] [--group NAME ...]

LIBRARY is libcuda.so.1 unless told otherwise. Prints a table, and ends with 1 if an answer is not
the expected one. What a driver does where it promises nothing is noted; what could not be asked
here (for want of a second device, of a library, or of a symbol) is marked as assumed.

Nothing here is undefined on a real driver but the calls in callbacks, which cuda.h forbids, and
numbers in place of handles that are given to libraries: `python -m tests.gpu` asks those in
processes of their own. Nothing needs more than the driver and Python.
"""

import argparse
import ctypes
import json
import sys
from pathlib import Path

from tests.simulated.conformance_callbacks import Beside, Callbacks
from tests.simulated.conformance_capture import Capture
from tests.simulated.conformance_driver import Driver
from tests.simulated.conformance_elsewhere import Elsewhere
from tests.simulated.conformance_green import Green, Reset
from tests.simulated.conformance_libraries import LIBRARIES
from tests.simulated.conformance_objects import Memory, Objects, Start
from tests.simulated.conformance_order import Order

# In the order in which they are asked. The first needs a driver that nobody used, and the last
# takes the context away.
GROUPS = {
    "start": Start,
    "objects": Objects,
    "memory": Memory,
    "order": Order,
    "capture": Capture,
    "green": Green,
    "elsewhere": Elsewhere,
    "beside-callbacks": Beside,
    "callbacks": Callbacks,
    **{f"library-{name}": kind for name, kind in LIBRARIES.items()},
    "reset": Reset,
}


def checks():
    """(group, name, belief) of all checks."""
    for group, kind in GROUPS.items():
        for name, (belief, _) in kind.checks().items():
            yield group, name, belief


def table(rows):
    marks = {"noted": "", "assumed": "assumed"}
    lines = [("", "topic", "check", "expected", "got")]
    for row in rows:
        mark = marks.get(row["kind"], "ok" if row["ok"] else "WRONG")
        expected = str(row["expected"]) if row["kind"] == "checked" else ""
        lines.append((mark, row["topic"], row["name"], expected, str(row["got"])))
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    return "\n".join(
        " | ".join([*map(str.ljust, line[:4], widths), line[4]]).rstrip() for line in lines
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="?", default="libcuda.so.1")
    parser.add_argument("--json", type=Path, help="where the answers go as JSON")
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=list(GROUPS))
    options = parser.parse_args()
    driver = Driver(options.library)
    rows = [row for name in GROUPS if name in options.group for row in GROUPS[name](driver).run()]
    name = ctypes.create_string_buffer(256)
    driver.ok("cuDeviceGetName", name, len(name), 0)
    version = driver.made("cuDriverGetVersion", kind=ctypes.c_int)
    wrong = sum(not row["ok"] or row["kind"] == "lost" for row in rows)
    print(table(rows))
    print(f"\n{name.value.decode()}, driver {version}: {len(rows)} answers, {wrong} unexpected")
    if options.json is not None:
        report = {"device": name.value.decode(), "driver": version, "checks": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
