# SPDX-License-Identifier: Apache-2.0
"""The public C header, alone and with the package, on good and bad objects: see exchanges.py."""

import gc
import sys

from exchanges import ROUNDS, Answering, New, Old, failing, managed, refused

import fastdl
from tests.support.build import extension

COPY, CONVERT = 16, 32  # rules of a specification
INT32, FLOAT32 = 0x12000, 0x12002

ALONE = extension("header", "header_alone")
INSTALLED = extension("header", "header_installed")


WRONG = Answering(lambda **keywords: managed((2, -3)))
NO_CAPSULE = Answering(lambda **keywords: "capsule")
GOOD = (New(), Old(), Answering(fastdl.empty((2, 3)).__dlpack__), fastdl.empty((2, 3)))
BAD = (failing, WRONG, NO_CAPSULE, object(), None)


def borrows(api):
    for producer in GOOD:
        assert api.borrow(producer)["shape"] == (2, 3)
        refused(ArithmeticError, api.release_in_error, producer)
    for producer in BAD:
        refused((BufferError, TypeError), api.borrow, producer)


def owns(api):
    for producer in GOOD:
        api.own(producer)  # dropped as it is
        api.delete_unattached(api.leave(api.own(producer)))
        fastdl.from_dlpack(api.own(producer)).copy()
    for producer in BAD:
        refused((BufferError, TypeError), api.own, producer)


def results(api):
    like = fastdl.Tensor
    for producer in GOOD:
        assert api.wrap(api.own(producer), like).shape == (2, 3)
        api.wrap(api.empty(producer, like), like)
        refused(TypeError, api.exchange_api, int)
        if api is INSTALLED:  # a fastdl.Tensor, as for every type that is no tensor's
            api.wrap(api.own(producer), int)
            api.wrap(api.empty(producer, int), int)
        else:
            refused(TypeError, api.wrap, api.own(producer), int)
            refused(TypeError, api.empty, producer, int)
    if api is INSTALLED:  # to the other the table is foreign, and what it refuses is left alone
        refused(BufferError, api.wrap, managed((2, -3)), like)


def expectations(api):
    tensor = fastdl.empty((2, 3))
    api.expect([(tensor, "x", {"ndim": 2, "shape": ["n", 3]})])
    refused(ValueError, api.expect, [(tensor, "x", {"ndim": 2, "shape": ["n", "n"]})])
    refused(BufferError, api.expect, [(tensor[:, ::2], "x", {"layout": 1})])


def arguments(api):
    good = fastdl.empty((2, 3), "int32")
    for producer in GOOD:
        api.borrow_as(producer, "x", {"ndim": 2})
        api.borrow_all([(producer, "x", {}), (good, "y", {})])
        refused(ValueError, api.borrow_all, [(producer, "x", {}), (good, "y", {"ndim": 1})])
        refused(ValueError, api.own_as, producer, "x", {"ndim": 1})
        api.drop(api.own_as(producer, "x", {}))
    for producer in BAD:
        refused((BufferError, TypeError), api.borrow_as, producer, "x", {})
        refused((BufferError, TypeError), api.own_as, producer, "x", {})
        refused((BufferError, TypeError), api.borrow_all, [(good, "x", {}), (producer, "y", {})])
    for rules in (COPY, CONVERT):
        api.borrow_as(good[:, ::2], "x", {"layout": 1, "rules": rules, "dtypes": [INT32]})
        api.drop(api.own_as(good[:, ::2], "x", {"layout": 1, "rules": rules}))
    api.borrow_as(good, "x", {"rules": CONVERT, "dtypes": [FLOAT32]})
    refused(
        ValueError, api.borrow_as, good, "x", {"rules": CONVERT, "dtypes": [FLOAT32], "ndim": 1}
    )
    api.drop(api.zeros(good, fastdl.Tensor))


def main():
    INSTALLED.import_runtime()
    for exercise in (borrows, owns, results, expectations, arguments):
        for api in (ALONE, INSTALLED):
            for _ in range(ROUNDS):
                exercise(api)
        print(exercise.__name__, flush=True)
    assert "numpy" not in sys.modules, "NumPy leaks by itself: this process must not load it"
    gc.collect()


if __name__ == "__main__":
    main()
