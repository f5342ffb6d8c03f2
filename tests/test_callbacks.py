"""What fastdl does while the driver runs a callback.

The driver may hold a lock of its own meanwhile: the simulation does so with `locked_callbacks`. A
callback that waits for the GIL then waits for each thread that holds it in a call of the driver.
"""

import pytest

from tests.support.isolate import run_isolated

TIMEOUT = 60  # of a process that would wait for ever

HELD = """
    import ctypes, sys
    import fastdl
    from fastdl._devices import driver
    from tests.support.frameworks import *
    from tests.support.memory import Machine

    FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def during_callback(sim, function):
        '''Calls `function` while a callback waits for the GIL, which this thread has kept since
        before the callback began.'''
        ran = []
        callback = FUNCTION(ran.append)
        launch = "cuLaunchHostFunc" if sim.kind == "cuda" else "hipLaunchHostFunc"
        with sim.device(0):
            sim.ok(launch, default(sim), ctypes.cast(callback, ctypes.c_void_p), None)
        sys.setswitchinterval(10_000)
        with sim.in_callback():
            assert not ran
            function()
        sys.setswitchinterval(0.005)
        assert ran
"""


@pytest.fixture(params=["cuda", "hip"])
def kind(request):
    return request.param


def test_no_call_waits_for_a_callback_that_waits_for_the_gil(kind):
    """Each function that asks the driver, with a callback of its own."""
    run_isolated(
        HELD
        + f"""
    with simulated({kind!r}, locked_callbacks=1) as sim:
        type, here = TYPES[sim.kind], Machine(sim).device
        arrays = [Array(sim) for _ in range(4)]
        with sim.device(0):
            streams = [sim.stream(False) for _ in range(3)]
        imported = [fastdl.from_dlpack(Plain(arrays[0]))]
        memory = [fastdl.empty(3, device=here), fastdl.empty(3, device=here, stream=streams[0])]
        def scope():
            with fastdl.use_stream(here, streams[1]):
                fastdl.from_dlpack(Table(arrays[3]))
        for function in (
            lambda: imported.append(fastdl.from_dlpack(Plain(arrays[1]), stream=streams[0])),
            lambda: imported.append(fastdl.from_dlpack(Table(arrays[2]))),
            scope,
            lambda: imported[0].record(streams[0]),
            lambda: export(imported[0], streams[1]),
            lambda: imported[0].release(streams[2]),
            lambda: driver.wait(imported[0]),
            lambda: driver.find_pointer(type, arrays[0].pointer),
            lambda: driver.call_on(type, 1, streams[0], dict, {{}}),
            lambda: memory.append(fastdl.empty(3, device=here)),
            lambda: memory.append(imported[0].to(f"{{here}}:1")),
            lambda: memory.append(imported[0].to("cpu")),
            memory.clear,
            lambda: driver.forget_events(type),
        ):
            during_callback(sim, function)
        imported.clear()
    """,
        timeout=TIMEOUT,
    )
