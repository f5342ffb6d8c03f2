# SPDX-License-Identifier: Apache-2.0
"""One fuzzer in a process: an input is the bytes that its random numbers are made of, which
libFuzzer changes in such a way that they reach code that no input before them did.

    python -m tests.fuzz.worker NAME [OPTION OF LIBFUZZER...] [FOLDER OF INPUTS...]

For a fastdl that was built as __main__.py does it, which runs this."""

import gc
import random
import sys

import atheris

with atheris.instrument_imports(include=["fastdl"]):
    import fastdl  # noqa: F401
    from tests.fuzz.targets import FUZZERS

PATTERN = bytes(i * 37 % 256 for i in range(256))


class Guided(random.Random):
    """Draws the bytes of an input, as few as do, and zeros when they are used up."""

    def __new__(cls, data: bytes):
        return super().__new__(cls)

    def __init__(self, data: bytes):
        self.left = iter(data)

    def _randbelow(self, n: int) -> int:
        size = ((n - 1).bit_length() + 7) // 8
        return int.from_bytes(bytes(next(self.left, 0) for _ in range(size)), "little") % n

    def random(self) -> float:
        return self._randbelow(256) / 256

    def getrandbits(self, k: int) -> int:
        return self._randbelow(1 << k)

    def randbytes(self, n: int) -> bytes:
        return (PATTERN * (n // 256 + 1))[:n]  # elements, whose values change nothing


def main(name: str, *options: str) -> None:
    unraisable = []
    sys.unraisablehook = unraisable.append

    def one(data: bytes) -> None:
        FUZZERS[name](Guided(data))
        assert not unraisable, unraisable

    gc.collect()
    gc.freeze()  # what was imported, so that collecting an input takes no longer than it
    atheris.Setup([name, *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
