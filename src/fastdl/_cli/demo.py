# SPDX-License-Identifier: Apache-2.0
"""python -m fastdl demo: sample exchanges, each claim checked as it is printed."""

import os
import platform
import sys
import tempfile
from array import array
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import fastdl
from fastdl._cli.expression import evaluate
from fastdl._cli.libraries import BY_NAME, Library, installed
from fastdl._cli.probe import summary
from fastdl._cli.processes import describe_status, status_of, workers
from fastdl._cli.screen import terminal_width, wrapped

SECONDS = 60  # without output, after which a library's process is killed
VALUES = [0, 1, 2, 3, 4, 5]


def add_arguments(parser) -> None:
    parser.add_argument(
        "--library",
        choices=BY_NAME,
        metavar="NAME",
        help="show only this library, without a subprocess",
    )


def run(options) -> int:
    if options.library is not None:
        return show(BY_NAME[options.library])
    say(f"fastdl {fastdl.__version__}: passing tensors between libraries without a copy")
    show_python()
    libraries = installed()
    status = show_others(libraries)
    if not libraries:
        say("No tensor library is installed here. To see more: pip install numpy")
    return status


def say(text: str) -> None:
    """Prints lines, each wrapped to the width of the terminal."""
    for line in text.splitlines():
        indent = 9 if line.startswith(" ") else 2
        print("\n".join(wrapped(line, terminal_width(), "", " " * indent)), flush=True)


def check(claim: str, holds: bool) -> None:
    """Prints a claim that was just tested; the demo ends at a false one."""
    say(f"  {'ok' if holds else 'FAILED':<7}{claim}")
    if not holds:
        raise SystemExit(f"fastdl demo: not true here: {claim}")


def why_a_copy(x, like) -> str:
    """The reason why fastdl.convert has to copy `x`; empty if it shares the memory."""
    try:
        fastdl.convert(x, like, copy=False)
    except fastdl.CopyRequiredError as error:
        return str(error).partition("copy=False: ")[2]
    return ""


# ---- Python's own buffers, in this process --------------------------------------------------


def show_python() -> None:
    numbers = array("f", VALUES)
    tensor = fastdl.asarray(numbers).reshape(2, 3)
    say(f"python {platform.python_version()}")
    check(
        f"array.array to fastdl: the same memory, at {tensor.data_ptr:#x}",
        tensor.data_ptr == numbers.buffer_info()[0] and tensor.tolist() == [[0, 1, 2], [3, 4, 5]],
    )
    memoryview(tensor)[0, 0] = 42
    check("a write to memoryview(tensor) changes the array", numbers[0] == 42)
    check(
        "tensor[:, ::-1] is a view into the same memory, at an offset of 8 bytes",
        tensor[:, ::-1].data_ptr == tensor.data_ptr + 8,
    )
    check("bytes are read-only, and so is their tensor", fastdl.asarray(bytes(6)).readonly)


# ---- libraries, each in its own process: some abort when loaded with others ------------------


def show_others(libraries: list[Library]) -> int:
    status = 0
    with workers(os.cpu_count()) as pool:
        for text, failed in pool.map(show_in_child, libraries):
            say(text)
            status |= failed
    return status


def show_in_child(library: Library) -> tuple[str, bool]:
    """The output of `show`, and whether it failed."""
    command = [sys.executable, "-m", "fastdl", "demo", "--library", library.name]
    with tempfile.TemporaryDirectory(prefix="fastdl-") as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        with output.open("wb") as out, errors.open("wb") as err:
            status = status_of(command, SECONDS, output, "", out, err)
        shown, errors_shown = (file.read_text("utf-8", "replace") for file in (output, errors))
    if status == 0:
        return shown.rstrip(), False
    why = f"no answer in {SECONDS} seconds"
    if status is not None:
        why = f"ended with {describe_status(status, errors_shown)}"
    return f"{shown}{library.name}: {why}", True


def show(library: Library) -> int:
    """Status 0 also for a library that cannot be used here: that is not a failure of fastdl."""
    try:
        with redirect_stdout(sys.stderr):  # what a library prints when it is imported
            version = library.version
            x = evaluate(library.sample)
    except (Exception, SystemExit) as error:
        say(f"{library.name}: cannot be used here: {summary(error)}")
        return 0
    say(f"{library.name} {version}".rstrip())
    show_import(x)
    show_export(x, import_module(library.module))
    return 0


def show_import(x) -> None:
    tensor, again = fastdl.asarray(x), fastdl.asarray(x)
    shared = tensor.data_ptr == again.data_ptr and not tensor.is_copied
    words = ("the same memory" if shared else "a copy") + ", read-only" * tensor.readonly
    check(f"to fastdl: {words}", not tensor.device.is_host or tensor.tolist() == VALUES)


def show_export(x, like) -> None:
    """A tensor to the library and back: the same address, or a copy and the reason for it."""
    tensor = fastdl.asarray(x).copy()  # writable and aligned, as some libraries require
    try:
        why = why_a_copy(tensor, like)
        back = fastdl.asarray(fastdl.convert(tensor, like))
    except TypeError:
        return  # the library has no import from DLPack
    except BufferError as error:
        say(f"  {'--':<7}from fastdl: {summary(error)}")
        return
    shared = back.data_ptr == tensor.data_ptr
    words = f"a copy: {why}" if why else "the same memory"
    same = not back.device.is_host or back.tolist() == VALUES
    check(f"from fastdl, and back: {words}", same and shared is not bool(why))
