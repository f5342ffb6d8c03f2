"""Instructions per call, counted by callgrind: numbers that no noise touches.

Callgrind is slow, so it counts only inside the loops: they say when through its client requests
(loops.c), and each loop runs twice, with different counts, so that what surrounds it cancels.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import ROOT
from benchmarks.native import loops

GROUPS = (
    *("from_torch", "from_numpy", "export", "into_numpy"),
    *("borrow_torch", "borrow_torch_held", "borrow_numpy", "borrow_tensor"),
    *("call_torch_3", "call_numpy_3"),
    *("numpy", "copy", "empty", "item", "tolist"),
)
WARM_UP = 200
COUNTS = (1000, 3000)


def count() -> None:
    """In a process under callgrind: one dump for each subject and count."""
    from benchmarks import calls, conversions, exchanges, methods

    groups = {**exchanges.GROUPS, **conversions.GROUPS, **calls.GROUPS, **methods.GROUPS}
    for group in GROUPS:
        try:
            subjects, _ = groups[group]()
        except ImportError as error:
            print(f"{group}: not measured: {error}", file=sys.stderr)
            continue
        for subject in subjects:
            subject.seconds(WARM_UP)
            for n in COUNTS:
                loops.counting(None)
                subject.seconds(n)
                loops.counting(f"{group}|{subject.name}|{n}")


def read(directory: Path) -> dict[tuple[str, str], float]:
    """(group, subject) -> instructions per call, from the dumps."""
    totals: dict[tuple[str, str], dict[int, int]] = {}
    for dump in directory.iterdir():
        text = dump.read_text()
        label = re.search(r"^desc: Trigger: Client Request: (.*)\|(.*)\|(\d+)$", text, re.M)
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        if label and total:
            group, subject, n = label.groups()
            totals.setdefault((group, subject), {})[int(n)] = int(total[1])
    few, many = COUNTS
    return {key: (t[many] - t[few]) / (many - few) for key, t in totals.items()}


def main() -> int:
    """Prints the table. 1 if something that is needed is missing."""
    if shutil.which("valgrind") is None or not loops.counting(None):
        print("needs valgrind and, when loops.c is compiled, its header valgrind/callgrind.h")
        return 1
    with tempfile.TemporaryDirectory() as directory:
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet"]
        command += [f"--callgrind-out-file={directory}/dump"]
        command += [sys.executable, "-m", "benchmarks.instructions"]
        # The same dictionaries in each run: their collisions cost instructions too.
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        found = read(Path(directory))
    for group in GROUPS:
        for name, subject in sorted(found):
            if name == group:
                print(f"{group:17s} {subject:20s} {found[name, subject]:8.0f} instructions")
    return 0


if __name__ == "__main__":
    count()
