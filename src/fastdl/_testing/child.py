"""Shared by the processes in which other libraries run: environment, and names of signals."""

import signal

#: Makes libraries print less, and not reserve the memory of a GPU. The user's settings win.
SURROUNDINGS = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "PYTHONWARNINGS": "ignore",
    "PYTHONIOENCODING": "utf-8",
}
PERTURBED = {**SURROUNDINGS, "MALLOC_PERTURB_": "165"}  # freed memory has other values


def signal_name(number: int) -> str:
    """SIGSEGV, say; some signals have only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
