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
