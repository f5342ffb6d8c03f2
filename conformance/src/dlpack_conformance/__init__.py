"""A conformance suite for DLPack, for any array library: see docs/testing.md.

    fastdl.testing.inspect_capsule(x.__dlpack__())     shows a capsule
    fastdl.testing.inspect_exchange_api(type(x))       shows an exchange table
    pytest --dlpack=mylib.dlpack_adapter               the suite
    python -m fastdl.testing run numpy --report page.html

It calls no other part of fastdl, so that it can check fastdl like any other library; importing it
imports fastdl. `import fastdl` does not import it.
"""

from fastdl._testing.inspector import Inspection, inspect_capsule, inspect_exchange_api

__all__ = ["Inspection", "inspect_capsule", "inspect_exchange_api"]
