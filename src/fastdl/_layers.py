"""Gives lower layers the functions of higher layers that they call: no layer imports one above
it."""

from fastdl._convert import asarray, pickling, token, values
from fastdl._convert.convert import WRAPPER
from fastdl._core import device, dtype, exchange, tensor
from fastdl._protocol import array_interface, consumer, cuda_array, placement, producer, streams
from fastdl.bridges import convert, lookup, numpy


def connect() -> None:
    """Called once, on import."""
    asarray.install(read=convert.read)
    dtype.install(numpy=numpy.descriptor)
    tensor.install(
        Device=device.make_device,
        DType=dtype.make_dtype,
        dlpack=producer.export,
        cuda_array_interface=cuda_array.export_cuda_array,
        numpy=numpy.numpy,
        array=numpy.array,
        number=values.number,
        index=values.index,
        contains=values.contains,
        text=values.text,
        to=placement.to_device,
        empty=asarray.empty,
        parse_dtype=dtype.DType,
        reduce=pickling.reduce,
        array_interface=array_interface.export_array,
        token=token.token,
        record=streams.record,
        release=streams.release,
    )
    exchange.install(
        from_dlpack=consumer.from_dlpack,
        over_protocol=consumer.acquire_over_protocol,
        after_table=consumer.finish_table_import,
        delivery=consumer.check_delivery,
        bridge=lookup.find,
        wrapper=WRAPPER,
    )
    convert.connect()
