"""python -m fastdl demo: one memory in every library that is installed, checked as it is shown."""

import os
import subprocess
import sys
import tempfile
from array import array
from importlib import import_module
from pathlib import Path

import fastdl
from fastdl.cli.expression import evaluate
from fastdl.cli.libraries import BY_NAME, Library, installed
from fastdl.cli.probe import summary
from fastdl.cli.processes import describe_status, status_of, workers

SECONDS = 60  # that a library may say nothing
VALUES = [0, 1, 2, 3, 4, 5]


def add_arguments(parser) -> None:
    parser.add_argument(
        "--library", choices=BY_NAME, metavar="NAME", help="only this one, in this process"
    )


def run(options) -> int:
    if options.library is not None:
        return show(BY_NAME[options.library])
    try:
        import_module("numpy")
    except (Exception, SystemExit) as error:
        print(f"The demo needs NumPy: pip install numpy ({summary(error)})", file=sys.stderr)
        return 1
    print(f"fastdl {fastdl.__version__}: tensors of one library in another, without a copy")
    show_numpy()
    status = show_others([library for library in installed() if library.name != "numpy"])
    print("What it costs here: python -m fastdl bench")
    return status


def check(what: str, holds: bool) -> None:
    """Prints a claim that was just tried; a false one ends the demo."""
    print(f"  {'ok' if holds else 'FAILED':<7}{what}", flush=True)
    if not holds:
        raise SystemExit(f"fastdl demo: not true here: {what}")


def why_a_copy(x, like) -> str:
    """Why fastdl.convert has to copy `x`, in its own words; empty if it shares the memory."""
    try:
        fastdl.convert(x, like, copy=False)
    except fastdl.CopyRequiredError as error:
        return str(error).partition("copy=False: ")[2]
    return ""


# ---- NumPy, in this process -----------------------------------------------------------------


def show_numpy() -> None:
    import numpy as np

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = fastdl.from_dlpack(x)
    back = fastdl.convert(tensor, np.ndarray)
    print(f"numpy {np.__version__}\n  {tensor!r}")
    check(
        f"NumPy -> fastdl -> NumPy: one address, {tensor.data_ptr:#x}",
        x.ctypes.data == tensor.data_ptr == back.ctypes.data,
    )
    back[0, 0] = 42
    check("a write to the result is seen in the array it came from", x[0, 0] == 42)
    check(
        "tensor[:, ::-1] is a view, which begins 8 bytes after the tensor",
        tensor[:, ::-1].data_ptr == tensor.data_ptr + 8,
    )
    numbers = array("f", VALUES)
    check(
        "fastdl.convert(array.array, np.ndarray): one address",
        fastdl.convert(numbers, np.ndarray).ctypes.data == numbers.buffer_info()[0],
    )
    x.flags.writeable = False
    check(
        "what is read-only in NumPy is read-only in fastdl, and in NumPy again",
        fastdl.from_dlpack(x).readonly
        and not fastdl.convert(fastdl.from_dlpack(x), np.ndarray).flags.writeable,
    )
    masked = np.ma.masked_equal(VALUES, 3)
    try:
        fastdl.from_dlpack(masked)
    except BufferError:
        refused = True
    else:
        refused = False
    loses = "drops the mask" if np.from_dlpack(masked)[3] == 3 else "keeps the mask"
    check(f"np.from_dlpack of a masked array {loses}; fastdl raises a BufferError", refused)


# ---- the others, each in its own process: some abort when loaded with others ----------------


def show_others(libraries: list[Library]) -> int:
    status = 0
    with workers(os.cpu_count()) as pool:
        for text, failed in pool.map(show_in_child, libraries):
            print(text, flush=True)
            status |= failed
    return status


def show_in_child(library: Library) -> tuple[str, bool]:
    """What `show` printed, and whether it failed."""
    command = [sys.executable, "-m", "fastdl", "demo", "--library", library.name]
    with tempfile.TemporaryDirectory(prefix="fastdl-") as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        with output.open("wb") as out, errors.open("wb") as err:
            status = status_of(command, SECONDS, output, "", out, err)
        said, complaint = (file.read_text("utf-8", "replace") for file in (output, errors))
    if status == 0:
        return said.rstrip(), False
    why = f"no answer in {SECONDS} seconds"
    if status is not None:
        why = f"ended with {describe_status(status, complaint)}"
    return f"{said}{library.name}: {why}", True


def show(library: Library) -> int:
    """Status 0 also for a library that cannot be used here: that is no fault of fastdl's."""
    try:
        version = library.version
        x = evaluate(library.sample)
    except (Exception, SystemExit) as error:
        print(f"{library.name}: cannot be used here: {summary(error)}")
        return 0
    print(f"{library.name} {version}".rstrip())
    show_import(x)
    show_export(x, import_module(library.module))
    for hazard in HAZARDS.get(library.name, ()):
        hazard()
    return 0


def show_import(x) -> None:
    tensor, again = fastdl.asarray(x), fastdl.asarray(x)
    shared = tensor.data_ptr == again.data_ptr and not tensor.is_copied
    words = ("the same memory" if shared else "a copy") + ", read-only" * tensor.readonly
    check(f"to fastdl: {words}", not tensor.device.is_host or tensor.tolist() == VALUES)


def show_export(x, like) -> None:
    """A tensor to the library and back: one address, or a copy for which convert has a reason."""
    tensor = fastdl.asarray(x).copy()  # writable and aligned, as some libraries want it
    try:
        why = why_a_copy(tensor, like)
        back = fastdl.asarray(fastdl.convert(tensor, like))
    except TypeError:
        return  # it makes no arrays from DLPack
    except BufferError as error:
        print(f"  {'--':<7}from fastdl: {summary(error)}")
        return
    one = back.data_ptr == tensor.data_ptr
    words = f"a copy: {why}" if why else f"one address, {tensor.data_ptr:#x}"
    same = not back.device.is_host or back.tolist() == VALUES
    check(f"from fastdl, and back: {words}", same and one is not bool(why))


# ---- hazards --------------------------------------------------------------------------------


def torch_writes_to_read_only_memory() -> None:
    import numpy as np
    import torch

    frozen, twin = np.zeros(3), np.zeros(3)
    frozen.flags.writeable = twin.flags.writeable = False
    torch.from_dlpack(fastdl.from_dlpack(frozen))[0] = 42
    changed = "changes" if frozen[0] == 42 else "does not change"
    fastdl.convert(twin, torch.Tensor)[0] = 42
    check(
        f"a write to torch.from_dlpack(tensor) {changed} read-only memory;"
        f"{AND}fastdl.convert copies: {why_a_copy(twin, torch.Tensor)}",
        twin[0] == 0,
    )


def torch_aborts_at_negative_strides() -> None:
    import torch

    backwards = fastdl.asarray(bytearray(b"abc"))[::-1]
    status = subprocess.run([sys.executable, "-c", BACKWARDS], capture_output=True).returncode
    ended = f"ends the process with {describe_status(status)}"
    outcome = {0: "works", 1: "raises an exception"}.get(status, ended)
    check(
        f"torch.from_dlpack(tensor[::-1]) {outcome};"
        f"{AND}fastdl.convert copies: {why_a_copy(backwards, torch.Tensor)}",
        fastdl.convert(backwards, torch.Tensor).tolist() == [*b"cba"],
    )


AND = "\n" + 9 * " "
BACKWARDS = """
import sys
if sys.platform != "win32":
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # an abort leaves no file behind
import fastdl, torch
torch.from_dlpack(fastdl.asarray(bytearray(b"abc"))[::-1])
"""
HAZARDS = {"torch": (torch_writes_to_read_only_memory, torch_aborts_at_negative_strides)}
