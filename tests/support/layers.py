# SPDX-License-Identifier: Apache-2.0
"""The layers of the package, as docs/architecture.md names them, and the ways up."""

# From the bottom up. A file belongs to the first entry that its path begins with.
LAYERS = (
    (
        "the ABI and the public header",
        ("fastdl/dlpack.h", "fastdl/fastdl.", "__init__.pxd"),
    ),
    (
        "memory",
        ("_memory/",),
    ),
    ("the host core", ("_core/", "_library", "_native", "_version")),
    ("devices", ("_devices/",)),
    ("the protocol", ("_protocol/",)),
    ("bridges", ("_bridges/",)),
    ("conversions", ("_convert/",)),
    ("the package", ("_policy", "_build", "dask", "testing", "__init__.py")),
    ("the command line", ("__main__", "_cli/")),
)

#: (caller, callee, what it calls there, why that is not below). tests/package/test_layers.py
#: compares this with the calls.
WAYS_UP = (
    ("_memory/block.h", "_core/lifetime.c", "drop release", "owners are Python's objects"),
    ("_memory/block.h", "_devices/ordering.c", "fdl_work_end", "events end with the memory"),
    ("_memory/block.h", "_devices/put_off.c", "fdl_should_defer", "a driver's callback may run"),
    ("_core/devices.h", "_devices/exchanges.c", "fdl_device_calls", "imports and exports wait"),
    ("_core/tensor.pxd", "_bridges/_numpy.pyx", "array_maker", "NumPy is loaded at first use"),
    ("_core/tensor.pyx", "_bridges/numpy.py", "array numpy", "NumPy is loaded at first use"),
    ("_core/foreign.py", "_bridges/lookup.py", "load", "a library's file reads its objects"),
    ("_core/tensor.pyx", "_protocol/producer.py", "export", "exports with keywords"),
    ("_core/tensor.pyx", "_protocol/placement.py", "to_device", "copies are made by drivers"),
    ("_core/tensor.pyx", "_protocol/streams.py", "record release", "streams are objects, too"),
    ("_core/tensor.pyx", "_protocol/cuda_array.py", "export_cuda_array", "it orders a stream"),
    ("_core/tensor.pyx", "_convert/pickling.py", "reduce token", "pickles are read by conversions"),
    (
        "_core/tensor.pyx",
        "_convert/values.py",
        "contains index not_in_arrow number text",
        "operators",
    ),
    (
        "_core/exchange.pyx",
        "_protocol/consumer.py",
        "acquire_over_protocol from_dlpack place",
        "imports with keywords",
    ),
    ("_core/exchange.pyx", "_bridges/lookup.py", "stated table_of", "a file states facts"),
    ("_core/exchange.pyx", "_convert/convert.pyx", "ALLOCATOR WRAPPER", "results of C code"),
    ("_convert/convert.pyx", "_convert/complete.py", "complete copy", "calls with keywords"),
    ("_convert/convert.pyx", "_convert/targets.py", "bridge_for unknown_library", "unseen types"),
    (
        "_convert/convert.pyx",
        "_convert/refusals.py",
        "arguments explain forbid no_memory refuse unfit",
        "messages read the list of libraries",
    ),
    (
        "_convert/convert.pyx",
        "_convert/trees.py",
        "check cycle is_container is_tensor placed rebuilt target",
        "what is rare in trees",
    ),
)
