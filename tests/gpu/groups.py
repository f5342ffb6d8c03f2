"""The groups of `python -m tests.gpu`: what runs in one process, in the order of its worth."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.simulated import conformance

LIBRARIES = ("jax", "numba", "cupy", "torch")  # a test with two of them is of the first

TESTS = {
    "stand-ins": "the scenarios, with small libraries of our own",
    "torch": "the scenarios, with torch",
    "cupy": "the scenarios, with CuPy",
    "jax": "the scenarios, with JAX",
    "numba": "the scenarios, with Numba",
    "streams": "stream objects of libraries",
    "exit": "the end of a process, and forks",
}
MEASURED = {
    "handshake": "The handshake",
    "events": "Events",
    "from-c": "From C",
    "copies": "Copies",
}


# Which are loaded before the first item, whose limit that would strain.
LOADED = {
    "test-torch": ("torch", "cupy", "numba.cuda"),
    "test-cupy": ("torch", "cupy", "numba.cuda"),
    "test-numba": ("torch", "cupy", "numba.cuda"),
    "test-jax": ("torch", "cupy", "numba.cuda", "jax"),
    "test-streams": ("torch", "cupy", "numba.cuda"),
    "measure-handshake": ("torch",),
    "measure-events": ("cupy",),
    "measure-from-c": ("torch",),
    "measure-copies": ("cupy",),
}


@dataclass(frozen=True)
class Group:
    name: str
    what: str
    kind: str  # machine, ask, test or measure
    limit: float = 30  # seconds, for each of its items
    whole: float = 120  # seconds


def _all():
    yield Group("machine", "the GPU, its driver, the libraries", "machine")
    for name in conformance.GROUPS:
        if name.startswith("library-"):  # which is loaded by the first question
            yield Group(f"ask-{name}", "what fastdl believes of libraries", "ask", 60, 90)
        elif name != "reset":
            limit = 6 if name == "callbacks" else 20  # each answers at once, or never
            yield Group(f"ask-{name}", "what fastdl believes of drivers", "ask", limit, 90)
    for name in ("stand-ins", "torch", "cupy", "jax", "numba"):
        yield Group(f"test-{name}", TESTS[name], "test")
    for name, what in MEASURED.items():
        yield Group(f"measure-{name}", f"measured: {what}", "measure", 90)
    for name in ("streams", "exit"):
        yield Group(f"test-{name}", TESTS[name], "test", 60)
    # Last: nobody knows what the next process finds.
    yield Group("ask-reset", "what fastdl believes of drivers", "ask", 20, 60)


GROUPS = {group.name: group for group in _all()}


def chosen(patterns):
    """The groups with these names or patterns such as `ask-*`, and always the first. ValueError if
    a pattern has none."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in GROUPS):
            raise ValueError(f"no group {pattern!r}; there are: {', '.join(GROUPS)}")
    return [
        group
        for name, group in GROUPS.items()
        if group.kind == "machine" or any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


def of_test(name):
    """The group of a test of test_hardware.py, by the name that pytest gives it."""
    if name.startswith("test_stream_object"):
        return "streams"
    if name.startswith(("test_exit", "test_fork")):
        return "exit"
    return next((library for library in LIBRARIES if library in name), "stand-ins")
