# SPDX-License-Identifier: Apache-2.0
"""StridedMemoryView of cuda.core: its exchange table knows no stream."""

from cuda.core import utils

import fastdl
from fastdl._bridges import cuda as bridge
from fastdl._core import exchange
from tests.support import consumer
from tests.support.frameworks import Plain
from tests.support.memory import machine
from tests.support.producers import CUDA


def test_the_real_table_has_no_stream():
    api = fastdl.exchange_api(utils.StridedMemoryView)
    assert consumer.work_stream(api, *CUDA) == 0
    assert exchange.facts_of(utils.StridedMemoryView) & 512  # FASTDL_TYPE_NO_STREAM


def test_such_a_view_of_a_tensor_is_ready_on_the_default_stream():
    with machine("cuda") as here:
        array = here.array(stream=here.sim.side())
        array.write()
        tensor = fastdl.from_dlpack(Plain(array), stream=array.stream)
        view = bridge.make(tensor, None)
        assert view.ptr == array.pointer
        array.read(here.default)
        del view, tensor
