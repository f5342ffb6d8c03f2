# SPDX-License-Identifier: Apache-2.0
"""Subclasses of torch.Tensor: they share its table unless they say otherwise."""

import pytest
import torch

from .common import both_entries

ENTRIES = pytest.mark.parametrize("from_dlpack", both_entries(), ids=("compiled", "python"))


class Plain(torch.Tensor):
    pass


class Counting(torch.Tensor):
    """Exports something else than its memory, so that it shows who was asked."""

    calls = 0

    def __dlpack__(self, **keywords):
        type(self).calls += 1
        return torch.full((2,), 9.0).__dlpack__(**keywords)


class BelowCounting(Counting):
    pass


class WithoutTable(torch.Tensor):
    __dlpack_c_exchange_api__ = None


class Replacing(torch.Tensor):
    """Gives its memory up as soon as it is asked for anything."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            answer = function(*args, **(kwargs or {}))
            if function is torch.Tensor.untyped_storage:
                args[0].data = torch.ones(1)
                kept.append([torch.ones(1, 1, 1, 1, 1, 1, 7) for _ in range(50)])
        return answer


kept = []


class WithFunction(torch.Tensor):
    """Sees the calls of torch's functions, exports among them."""

    seen = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, args, kwargs or {})


def of(cls):
    return torch.ones(2).as_subclass(cls)


@ENTRIES
@pytest.mark.parametrize("cls", [Plain, WithoutTable, WithFunction, torch.nn.Parameter])
def test_memory_is_shared(from_dlpack, cls):
    array = of(cls)
    for _ in range(2):  # the second time the type is known
        tensor = from_dlpack(array)
        assert tensor.data_ptr == array.data_ptr()
        assert tensor.tolist() == [1.0, 1.0]


@ENTRIES
@pytest.mark.parametrize("cls", [Counting, BelowCounting])
def test_an_overriding_export_is_honoured(from_dlpack, cls):
    before = cls.calls
    for n in range(1, 4):
        assert from_dlpack(of(cls)).tolist() == [9.0, 9.0]
        assert cls.calls == before + n


@ENTRIES
def test_lazy_views_of_subclasses_are_refused(from_dlpack):
    array = torch.tensor([1 + 2j, 3j]).as_subclass(Plain)
    with pytest.raises(BufferError, match="resolve_conj"):
        from_dlpack(array.conj())
    with pytest.raises(BufferError, match="resolve_neg"):
        from_dlpack(array.conj().imag)


@ENTRIES
def test_a_description_is_copied_before_code_of_python_runs(from_dlpack):
    """What was lent is then that of another tensor, or freed."""
    even = torch.ones(4).as_strided((1, 1, 1, 1, 1, 2), (2,) * 6)
    tensor = from_dlpack(even.as_subclass(Replacing))
    assert (tensor.shape, tensor.strides) == ((1, 1, 1, 1, 1, 2), (2,) * 6)


@ENTRIES
def test_a_tensor_is_asked_for_each_fact_once(from_dlpack):
    calls = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            calls.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.ones(1).as_subclass(Asked)
    calls.clear()
    from_dlpack(x)
    assert calls == ["untyped_storage", "is_neg"]
