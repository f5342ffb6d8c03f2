# SPDX-License-Identifier: Apache-2.0
"""fastdl.convert_tree: containers, what is in them, and errors that name a place."""

import gc
import os
import sys
import time
import weakref
from collections import Counter, OrderedDict, defaultdict, namedtuple
from typing import NamedTuple

import numpy as np
import pytest

import fastdl
from tests.support.isolate import in_fresh_process, run_isolated

Point = namedtuple("Point", ["x", "y"])


class Checked(NamedTuple("Checked", [("x", object)])):
    """A named tuple that accepts arrays only."""

    @classmethod
    def _make(cls, values):
        (value,) = values
        if not isinstance(value, np.ndarray):
            raise ValueError(f"expected an array, got {value!r}")
        return cls(value)


class Batch(dict):
    pass


def tensor(*values):
    return fastdl.from_dlpack(np.array(values))


def test_containers_and_leaves():
    image, point = tensor(1, 2), tensor(3)
    array = np.arange(2)
    kept = ["text", b"bytes", None, 1, 2.5, True, 3j, np.float32(4), np.datetime64("2026-01-01"),
            object(), {1, 2}, bytearray(2), range(3), fastdl.Tensor, array, Ellipsis]  # fmt: skip
    tree = {"image": [image, kept], 1: Point(point, "label"), None: (tensor(4), {})}
    made = fastdl.convert_tree(tree, np.ndarray)
    assert list(made) == list(tree)
    assert made["image"][0].tolist() == [1, 2]
    assert type(made["image"][0]) is np.ndarray
    assert made["image"][1] is not kept
    assert all(a is b for a, b in zip(made["image"][1], kept, strict=True))
    assert type(made[1]) is Point
    assert made[1].x.tolist() == [3]
    assert made[1].y == "label"
    assert type(made[None]) is tuple
    assert made[None][0].tolist() == [4]
    assert tree["image"][0] is image
    assert tree[1].x is point


@pytest.mark.parametrize("like", ["numpy", "numpy.ndarray", np, np.ndarray, np.empty(0)])
def test_every_form_of_a_target(like):
    assert type(fastdl.convert_tree([tensor(1)], like)[0]) is np.ndarray


def test_named_tuples_of_c():
    when = time.gmtime(0)
    assert fastdl.convert_tree([when], np.ndarray)[0] is when  # has fields that are no items
    limits = os.terminal_size((tensor(1), tensor(2)))
    made = fastdl.convert_tree(limits, np.ndarray)
    assert type(made) is os.terminal_size
    assert (made.columns.tolist(), made.lines.tolist()) == ([1], [2])


def test_keywords_are_checked_without_tensors():
    for keywords in ({"device": "nonsense"}, {"copy": "yes"}):
        with pytest.raises((TypeError, ValueError)):
            fastdl.convert_tree([], np, **keywords)


def test_a_root_that_is_no_container():
    assert fastdl.convert_tree(tensor(1), np.ndarray).tolist() == [1]
    assert fastdl.convert_tree("text", np.ndarray) == "text"


@pytest.mark.parametrize("many", [1, 30])
def test_a_tensor_that_occurs_twice_stays_one(many):
    tensors = [tensor(i) for i in range(many)]
    made = fastdl.convert_tree({"a": tensors, "b": (tensors[::-1], tensors[0])}, np.ndarray)
    assert [a.tolist() for a in made["a"]] == [[i] for i in range(many)]
    assert all(a is b for a, b in zip(made["a"], made["b"][0][::-1], strict=True))
    assert made["b"][1] is made["a"][0]


def test_keywords_apply_to_each_tensor():
    array = np.arange(3.0)
    copied = fastdl.convert_tree([array, array], np, copy=True, device="cpu")
    assert copied[0] is copied[1]
    assert not np.shares_memory(copied[0], array)
    with pytest.raises(fastdl.CopyRequiredError, match=r"^tree\[0\]: .*copy=False"):
        fastdl.convert_tree([np.arange(3.0, dtype=">f8")], fastdl.Tensor, copy=False)


def test_no_tensor_and_a_wrong_target():
    for like in (int, 5, "nunpy", object()):
        with pytest.raises((TypeError, ValueError), match="expected"):
            fastdl.convert_tree([], like)


# ---- subclasses of dict ---------------------------------------------------------------------


def test_subclasses_that_can_be_made_of_pairs():
    ordered = OrderedDict([("a", tensor(1)), ("b", 2)])
    ordered.move_to_end("a")
    made = fastdl.convert_tree([ordered, Batch(x=tensor(3))], np.ndarray)
    assert list(made[0]) == ["b", "a"]
    assert type(made[0]) is OrderedDict
    assert made[0]["a"].tolist() == [1]
    assert type(made[1]) is Batch
    assert made[1]["x"].tolist() == [3]


@pytest.mark.parametrize(
    "kind", [defaultdict(list, x=1), Counter(x=1), sys.version_info, Point(1, 2)], ids=repr
)
def test_subclasses_without_tensors_stay(kind):
    assert fastdl.convert_tree([kind], np.ndarray)[0] is kind


@pytest.mark.parametrize("kind", [defaultdict(list, x=tensor(1)), Counter(x=tensor(1))], ids=type)
def test_subclasses_that_cannot(kind):
    with pytest.raises(TypeError, match=r'^tree\["batch"\]: .*list of pairs.*pass dict\(x\)'):
        fastdl.convert_tree({"batch": kind}, np.ndarray)


# ---- errors ---------------------------------------------------------------------------------

TEXT = np.array(["text"])


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        (TEXT, "tree"),
        ({"image": [TEXT]}, 'tree["image"][0]'),
        ([1, Point(0, {2: TEXT})], "tree[1].y[2]"),
        ({(1, "a"): TEXT}, "tree[(1, 'a')]"),
        ({'"': TEXT}, "tree['\"']"),
        (Batch(x=(TEXT,)), 'tree["x"][0]'),
    ],
)
def test_errors_name_the_place(tree, place):
    with pytest.raises(BufferError) as caught:
        fastdl.convert_tree(tree, fastdl.Tensor)
    assert str(caught.value).startswith(f"{place}: ")
    with pytest.raises(BufferError) as plain:
        fastdl.convert(TEXT, fastdl.Tensor)
    assert str(caught.value) == f"{place}: {plain.value}"


def test_a_named_tuple_that_refuses_the_result():
    with pytest.raises(ValueError, match="expected an array, got"):
        fastdl.convert_tree(Checked(np.arange(2)), fastdl.Tensor)


def test_a_key_that_cannot_be_shown():
    class Key:
        def __repr__(self):
            raise RuntimeError("no repr")

    with pytest.raises(BufferError, match=r"^tree\[a .*Key\]: "):
        fastdl.convert_tree({Key(): TEXT}, fastdl.Tensor)


def test_a_type_that_becomes_one_of_tensors():
    class Later:
        pass

    assert type(fastdl.convert_tree([Later()], np.ndarray)[0]) is Later
    Later.__dlpack__ = lambda self, **keywords: tensor(5).__dlpack__(**keywords)
    Later.__dlpack_device__ = lambda self: (1, 0)
    assert fastdl.convert_tree([Later()], np.ndarray)[0].tolist() == [5]
    reference = weakref.ref(Later)
    del Later
    gc.collect()
    assert reference() is None


def test_a_long_walk_can_be_interrupted():
    printed = run_isolated("""
        import fastdl, signal
        x = []
        for _ in range(60):
            x = [x, x]  # 2**60 of them
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            fastdl.convert_tree(x, fastdl.Tensor)
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert printed == "interrupted\n"


def test_an_interrupt_passes():
    class Interrupting:
        def __dlpack__(self, **keywords):
            raise KeyboardInterrupt

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(KeyboardInterrupt):
        fastdl.convert_tree([tensor(1), Interrupting()], np.ndarray)


def cycles():
    of_list, of_dict = [tensor(1)], {}
    of_list.append(of_list)
    of_dict["x"] = (of_dict,)
    return [(of_list, "tree[1]"), ([of_dict], 'tree[0]["x"][0]')]


@pytest.mark.parametrize(("tree", "place"), cycles(), ids=["list", "dict"])
def test_cycles(tree, place):
    with pytest.raises(ValueError, match="contains itself") as caught:
        fastdl.convert_tree(tree, np.ndarray)
    assert str(caught.value).startswith(f"{place}: ")


def test_a_container_that_occurs_twice_is_no_cycle():
    shared = [tensor(1)]
    made = fastdl.convert_tree([shared, shared], np.ndarray)
    assert made[0][0] is made[1][0]


@in_fresh_process
def test_depth():
    """Python's own limit stays what it was, and a raised one does not end the process."""

    def deeper(n):
        return deeper(n - 1) if n else 0

    limit = sys.getrecursionlimit()
    for wrap in (lambda x: [x], lambda x: (x,), lambda x: {"a": x}, lambda x: Batch(a=x)):
        for leaf in (tensor(1), None):
            tree = leaf
            for depth in range(100_000):
                tree = wrap(tree)
                if depth in (2, 900, 3_000, 10_000):
                    try:
                        made = fastdl.convert_tree(tree, np.ndarray)
                    except RecursionError:
                        assert depth > 900
                    else:
                        while type(made) in (list, tuple, dict, Batch):
                            (made,) = made.values() if isinstance(made, dict) else made
                        assert made is None if leaf is None else made.tolist() == [1]
            sys.setrecursionlimit(1_000_000)
            with pytest.raises(RecursionError, match="nested containers"):
                fastdl.convert_tree(tree, np.ndarray)
            sys.setrecursionlimit(limit)
            with pytest.raises(RecursionError):
                deeper(limit + 10)


def test_converting_may_change_the_containers():
    class Mutating:
        def __init__(self, change):
            self.change = change

        def __dlpack__(self, **keywords):
            self.change()
            return tensor(1).__dlpack__(**keywords)

        def __dlpack_device__(self):
            return 1, 0

    for tree in ([], {}):
        mutating = Mutating(tree.clear)
        if isinstance(tree, dict):
            tree.update({i: Mutating(tree.clear) for i in range(20)})
            made = list(fastdl.convert_tree(tree, np.ndarray).values())
        else:
            tree.extend([mutating] * 20)
            made = fastdl.convert_tree(tree, np.ndarray)
        assert [a.tolist() for a in made] == [[1]] * 20
        assert not tree


def test_what_was_converted_is_released():
    arrays = [np.arange(3) for _ in range(20)]
    before = [sys.getrefcount(array) for array in arrays]
    tree = [arrays, {"x": tuple(arrays)}]
    for _ in range(3):
        fastdl.convert_tree(tree, fastdl.Tensor)
        with pytest.raises(BufferError):
            fastdl.convert_tree([*tree, TEXT], fastdl.Tensor)
    del tree
    assert [sys.getrefcount(array) for array in arrays] == before
