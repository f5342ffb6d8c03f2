"""What fastdl believes of CUDA's driver, asked of one: the simulated one or a real one.

    python tests/simulated/conformance.py [LIBRARY] [--json FILE]

LIBRARY is libcuda.so.1 unless told otherwise. Prints a table, and ends with 1 if an answer is not
the expected one. What a driver does where it promises nothing is noted; what could not be asked
here (for want of a second context, or of a symbol) is marked as assumed.

Nothing here is undefined on a real driver: no destroyed handles, no numbers in place of handles.
Nor does it need a kernel or a library beside the driver.
"""

import argparse
import ctypes
import json
import sys
from pathlib import Path

from conformance_capture import Capture
from conformance_driver import Driver
from conformance_objects import Memory, Objects
from conformance_order import Order


class Conformance(Objects, Memory, Order, Capture):
    """All checks."""


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
    options = parser.parse_args()
    driver = Driver(options.library)
    rows = Conformance(driver).run()
    name = ctypes.create_string_buffer(256)
    driver.ok("cuDeviceGetName", name, len(name), 0)
    version = driver.made("cuDriverGetVersion", kind=ctypes.c_int)
    wrong = sum(not row["ok"] for row in rows)
    print(table(rows))
    print(f"\n{name.value.decode()}, driver {version}: {len(rows)} answers, {wrong} unexpected")
    if options.json is not None:
        report = {"device": name.value.decode(), "driver": version, "checks": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
