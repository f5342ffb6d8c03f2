"""One group of `python -m tests.gpu`, in the process that this is.

python -m tests.gpu.child GROUP LIMIT JOURNAL LIBRARY DONE [ARGUMENTS OF PYTEST]

LIMIT: seconds for an item, after which the caller will kill this. LIBRARY: the driver's. DONE: the
names of items to leave out, as JSON. Ends with 0 if the group is over, whatever came of it.
"""

import contextlib
import ctypes
import importlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path

from tests.gpu.groups import GROUPS, LOADED, MEASURED
from tests.gpu.journal import Journal
from tests.simulated import conformance
from tests.simulated.conformance_driver import Driver

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NO_GPU, BROKEN = 2, 3  # codes that this may end with

LIBRARIES = (
    *("pytest", "numpy", "torch", "cupy-cuda12x", "cupy-cuda13x", "jax", "jaxlib", "numba-cuda"),
    *("cuda-core", "apache-tvm-ffi"),
)


class Child:
    def __init__(self, group, journal, library, done, arguments):
        self.group, self.library, self.done = group, library, done
        self.arguments = arguments
        self.simulated = os.environ.get("FASTDL_GPU_DRY_RUN") == "1"
        self.journal = Journal(Path(journal), group)
        self.item = None  # that has begun

    def tell(self, event, **facts):
        if event == "begin":
            self.item = facts["name"]
        self.journal.tell(event, **facts)
        if event == "outcome":
            self.item = None
            self.look_after(facts["name"])

    def look_after(self, name):
        """A device on which a kernel failed answers nothing else to this process any more."""
        code = unusable(self.library)
        if code:
            self.journal.tell("broken", name=name, code=code)
            os._exit(BROKEN)

    def run(self):
        kinds = {
            "machine": self.machine,
            "ask": self.ask,
            "test": self.test,
            "measure": self.measure,
        }
        for module in LOADED.get(self.group.name, ()):
            # What fails is told by the tests that need it.
            with contextlib.suppress(Exception):
                importlib.import_module(module)
        try:
            code = kinds[self.group.kind]()
        except Exception as error:
            traceback.print_exc(file=self.journal.log)
            text = f"{type(error).__name__}: {error}"
            if self.item is not None:
                self.journal.tell("outcome", name=self.item, outcome="failed", text=text)
            self.journal.tell("failure", text=text)
            return 1
        if not code:
            self.journal.tell("done")
        return code or 0

    # ---- what groups do

    def ask(self):
        kind = conformance.GROUPS[self.group.name.removeprefix("ask-")]
        self.tell("plan", names=list(kind.checks()))
        kind(Driver(self.library), self.tell).run(self.done)

    def test(self):
        import pytest

        from tests.gpu.plugin import Plugin

        plugin = Plugin(self)
        arguments = ["-W", "default", "-p", "no:cacheprovider", *self.arguments]
        code = pytest.main([str(HERE / "test_hardware.py"), *arguments], plugins=[plugin])
        over = (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        )
        return 0 if code in over else int(code)

    def measure(self):
        from tests.gpu import backends, measure

        title = MEASURED[self.group.name.removeprefix("measure-")]
        self.tell("plan", names=[title])
        if title in self.done:
            return
        self.tell("begin", name=title)
        gpu = backends.first()
        for row in measure.rows_of(title, gpu):
            self.tell("measured", title=title, row=measured(row))
        gpu.close()
        self.tell("outcome", name=title, outcome="passed", text="")

    def machine(self):
        try:
            driver = Driver(self.library)
        except OSError as error:
            return no_gpu(f"no NVIDIA driver: {error}")
        if driver.has("fk_reset") and not self.simulated:
            return no_gpu("the driver is a simulated one: --dry-run uses it")
        count, code = ctypes.c_int(), driver.call("cuInit", 0)
        code = code or driver.call("cuDeviceGetCount", count)
        if code != 0 or count.value == 0:
            return no_gpu(f"no NVIDIA GPU: the driver answers {code}, with {count.value} devices")
        for key, value in facts(driver, count.value).items():
            self.tell("fact", key=key, value=value)
        return 0


def measured(row):
    """A row of measure.py as the report has it."""
    return {**asdict(row), "held": row.held}


def no_gpu(reason):
    print(f"nothing to run: {reason}")
    return NO_GPU


def unusable(path):
    """The error that the driver gives whatever it is asked, or 0."""
    try:
        driver = Driver(path)
    except OSError:
        return 0
    active, context, stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    code = driver.call("cuInit", 0)
    code = code or driver.call("cuDevicePrimaryCtxGetState", 0, ctypes.c_uint(), active)
    if code or not active.value:
        return code
    code = driver.call("cuDevicePrimaryCtxRetain", context, 0)
    code = code or driver.call("cuCtxPushCurrent_v2", context)
    if code:
        return code
    with driver.relaxed():
        code = driver.call("cuStreamCreate", stream, 1)
        code = code or driver.call("cuStreamSynchronize", stream)
        code = code or driver.call("cuStreamDestroy_v2", stream)
    driver.call("cuCtxPopCurrent_v2", context)
    driver.call("cuDevicePrimaryCtxRelease_v2", 0)
    return code


# ---- the machine ----------------------------------------------------------------------------


def facts(driver, count):
    """The machine, as far as it bears on the results."""
    name = ctypes.create_string_buffer(256)
    driver.ok("cuDeviceGetName", name, len(name), 0)
    version = driver.made("cuDriverGetVersion", kind=ctypes.c_int)
    answer = {
        "GPU": name.value.decode(),
        "devices": count,
        "compute capability": f"{driver.attribute(75)}.{driver.attribute(76)}",
        "driver": kernel_driver(),
        "CUDA of the driver": f"{version // 1000}.{version % 1000 // 10}",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "Python": sys.version.split()[0],
        "system": platform.platform(),
        "fastdl": ours(),
    }
    pins = pinned()
    for library in LIBRARIES:
        answer[library] = peer(library, pins.get(library))
    return answer


def kernel_driver():
    """Its version, such as 580.65.06."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return done.stdout.strip() or "unknown"
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"


def ours():
    try:
        import fastdl
    except ImportError as error:
        return f"missing, so no test can run: {error}"
    return f"{fastdl.__version__}, from {Path(fastdl.__file__).parent}"


def pinned():
    """{library: version} of the extra `peers`: those that fastdl is tested with elsewhere."""
    text = (ROOT / "pyproject.toml").read_text()
    return dict(re.findall(r'"([\w-]+)(?:\[\w+\])?==([\w.]+)', text))


def peer(library, pin):
    try:
        version = importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
    if pin is None or version.partition("+")[0] == pin:
        return version
    return f"{version} (the tests without a GPU use {pin})"


# ---- the process ----------------------------------------------------------------------------


def end_with(parent):
    """Ends this process when the one that made it is gone."""

    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main():
    group, limit, journal, library, done, *arguments = sys.argv[1:]
    group = replace(GROUPS[group], limit=float(limit))
    if hasattr(os, "getppid"):
        end_with(os.getppid())
    return Child(group, journal, library, json.loads(done), arguments).run()


if __name__ == "__main__":
    sys.exit(main())
