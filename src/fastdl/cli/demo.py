"""python -m fastdl demo: the main job, on real arrays, checked as it goes."""

import subprocess
import sys
import timeit
from collections import namedtuple
from importlib import import_module
from importlib.util import find_spec

import fastdl

# make: a float32 array 0 to 5 of the framework. take: such an array on the memory of a producer;
# None where the framework has no public function for that.
Framework = namedtuple("Framework", "module make take")
FRAMEWORKS = {
    "torch": Framework(
        "torch", lambda m: m.arange(6, dtype=m.float32), lambda m, t: m.from_dlpack(t)
    ),
    "jax": Framework(
        "jax.numpy", lambda m: m.arange(6, dtype="float32"), lambda m, t: m.from_dlpack(t)
    ),
    "tensorflow": Framework(
        "tensorflow",
        lambda m: m.range(6, dtype=m.float32),
        lambda m, t: m.experimental.dlpack.from_dlpack(t.__dlpack__()),
    ),
    "paddle": Framework(
        "paddle",
        lambda m: m.arange(6, dtype="float32"),
        lambda m, t: m.utils.dlpack.from_dlpack(t.__dlpack__()),
    ),
    "tvm_ffi": Framework(
        "tvm_ffi", lambda m: m.from_dlpack(_numpy_range()), lambda m, t: m.from_dlpack(t)
    ),
    "onnxruntime": Framework(
        "onnxruntime",
        lambda m: m.OrtValue.ortvalue_from_numpy(_numpy_range()),
        lambda m, t: m.OrtValue.from_dlpack(t),
    ),
    "mlx": Framework("mlx.core", lambda m: m.arange(6, dtype=m.float32), None),
    "pyarrow": Framework("pyarrow", lambda m: m.array(range(6), m.float32()), None),
    "drjit": Framework("drjit.scalar", lambda m: m.ArrayXf(range(6)), None),
    "array_api_strict": Framework(
        "array_api_strict",
        lambda m: m.arange(6, dtype=m.float32),
        lambda m, t: m.from_dlpack(t),
    ),
}


def add_arguments(parser) -> None:
    parser.add_argument("--framework", help="only this one, in this process")


def run(options) -> int:
    framework = options.framework
    if framework == "numpy" or framework is None:
        if find_spec("numpy") is None:
            print("The demo needs NumPy: pip install numpy", file=sys.stderr)
            return 1
        show_numpy()
    if framework is None:
        return show_others()
    if framework in FRAMEWORKS:
        show(framework)
    elif framework != "numpy":
        print(f"expected one of numpy, {', '.join(FRAMEWORKS)}; got {framework}", file=sys.stderr)
        return 2
    return 0


def _numpy_range():
    import numpy as np

    return np.arange(6, dtype=np.float32)


def check(what: str, holds: bool) -> None:
    """Prints a claim that was just tried; a false one ends the demo."""
    print(f"  {'ok' if holds else 'FAILED':<7}{what}")
    if not holds:
        raise SystemExit(f"fastdl demo: not true here: {what}")


def show_numpy() -> None:
    import numpy as np

    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = fastdl.from_dlpack(array)
    back = np.from_dlpack(tensor)
    print(f"fastdl {fastdl.__version__} with NumPy {np.__version__}")
    print(f"  {tensor!r}")
    check(
        f"NumPy -> fastdl -> NumPy, one address: {tensor.data_ptr:#x}",
        array.ctypes.data == tensor.data_ptr == back.ctypes.data,
    )
    back[0, 0] = 42
    check(
        "a write through the result is seen in the original and in between",
        array[0, 0] == tensor[0, 0].item() == 42,
    )
    array.flags.writeable = False
    frozen = fastdl.from_dlpack(array)
    check(
        "a read-only array stays read-only all the way",
        frozen.readonly and not np.from_dlpack(frozen).flags.writeable,
    )
    array.flags.writeable = True
    check(
        "a view costs no copy: tensor[:, ::-1] starts 8 bytes further",
        tensor[:, ::-1].data_ptr == tensor.data_ptr + 8,
    )
    pair = _time(fastdl.from_dlpack, array), _time(np.from_dlpack, array)
    print(f"  import: fastdl {pair[0]:.0f} ns, np.from_dlpack {pair[1]:.0f} ns")
    pair = _time(np.from_dlpack, tensor), _time(np.from_dlpack, array)
    print(f"  export to NumPy: from fastdl {pair[0]:.0f} ns, from NumPy {pair[1]:.0f} ns")


def show_others() -> int:
    """One line for each framework, each in its own process: some abort when loaded with others."""
    status = 0
    for name, framework in FRAMEWORKS.items():
        if find_spec(framework.module.partition(".")[0]) is None:
            continue
        command = [sys.executable, "-m", "fastdl", "demo", "--framework", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            print(f"{name}: no answer in two minutes")
            continue
        if done.returncode == 0:
            print(done.stdout, end="")
        else:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"{name}: {last}")
            status = 1
    return status


def show(name: str) -> None:
    framework = FRAMEWORKS[name]
    module = import_module(framework.module)
    array = framework.make(module)
    tensor = fastdl.from_dlpack(array)
    facts = [f"from_dlpack {_time(fastdl.from_dlpack, array):.0f} ns"]
    if tensor.tolist() != [0, 1, 2, 3, 4, 5]:
        raise SystemExit(f"wrong values: {tensor!r}")
    if tensor.readonly:
        facts.append("read-only")
    if framework.take is not None:
        result = fastdl.from_dlpack(framework.take(module, tensor.copy()))
        if result.tolist() != tensor.tolist():
            raise SystemExit(f"wrong values on the way back: {result!r}")
        facts.append("and back")
    version = getattr(import_module(name), "__version__", None)
    print(f"{f'{name} {version}' if version else name}: {', '.join(facts)}")


def _time(function, argument) -> float:
    """Nanoseconds a call, the best of a few short runs."""
    number = 2000
    best = min(timeit.repeat(lambda: function(argument), number=number, repeat=7))
    return best / number * 1e9
