"""Gives lower layers the functions of higher ones that they call: none imports what is above it."""

from fastdl._convert import values
from fastdl._core import device, dtype, exchange, tensor
from fastdl._protocol import consumer, cuda_array, placement, producer, streams
from fastdl.bridges import lookup, numpy


def connect() -> None:
    """To be called once, on import."""
    tensor.install(
        Device=device.make_device,
        DType=dtype.make_dtype,
        dlpack=producer.export,
        cuda_array_interface=cuda_array.export_cuda_array,
        numpy=numpy.numpy,
        array=numpy.array,
        tolist=values.tolist,
        item=values.item,
        number=values.number,
        index=values.index,
        contains=values.contains,
        text=values.text,
        to=placement.move,
        record=streams.record,
        release=streams.release,
    )
    exchange.install(
        from_dlpack=consumer.from_dlpack,
        ask=consumer.request,
        settled=consumer.settle,
        delivery=consumer.check_delivery,
        bridge=lookup.find,
    )
