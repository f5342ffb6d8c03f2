"""Subclasses of torch.Tensor: they share its table unless they say otherwise."""

import numpy as np
import pytest
import torch

import fastdl

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


class Refusing(torch.Tensor):
    def __dlpack__(self, **keywords):
        raise RuntimeError("mine to keep")


class OptedOut(torch.Tensor):
    __dlpack__ = None


class BelowOptedOut(OptedOut):
    pass


class WithTable(OptedOut):
    """Opted out of `__dlpack__`, and in again by a table."""

    __dlpack_c_exchange_api__ = torch.Tensor.__dlpack_c_exchange_api__


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
def test_its_exception_passes(from_dlpack):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="mine to keep"):
            from_dlpack(of(Refusing))


@ENTRIES
@pytest.mark.parametrize("cls", [OptedOut, BelowOptedOut])
def test_opting_out_is_honoured(from_dlpack, cls):
    for _ in range(2):
        with pytest.raises(TypeError, match="expected a DLPack producer"):
            from_dlpack(of(cls))


@ENTRIES
def test_a_table_below_the_opting_out_counts(from_dlpack):
    array = of(WithTable)
    assert from_dlpack(array).data_ptr == array.data_ptr()


def test_tables_of_subclasses():
    theirs = repr(fastdl.exchange_api(torch.Tensor)).split(" at ")[0]
    assert theirs == '<capsule object "dlpack_exchange_api"'
    for cls in (OptedOut, BelowOptedOut):
        with pytest.raises(TypeError, match="neither"):
            fastdl.exchange_api(cls)


@ENTRIES
def test_lazy_views_of_subclasses_are_refused(from_dlpack):
    array = torch.tensor([1 + 2j, 3j]).as_subclass(Plain)
    with pytest.raises(BufferError, match="resolve_conj"):
        from_dlpack(array.conj())
    with pytest.raises(BufferError, match="resolve_neg"):
        from_dlpack(array.conj().imag)


def test_results_return_as_plain_tensors():
    back = torch.from_dlpack(fastdl.from_dlpack(of(Plain)))
    assert type(back) is torch.Tensor
    assert np.from_dlpack(fastdl.from_dlpack(of(Plain))).tolist() == [1.0, 1.0]
