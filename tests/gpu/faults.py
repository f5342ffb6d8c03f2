"""Faults for a dry run, to see that the report survives them. FASTDL_GPU_FAULTS: JSON, {item: how},
where how is "crash", "hang" or "break": as if a kernel had touched what it must not, after which a
device answers every call with an error."""

import ctypes
import json
import os
import time

VARIABLE = "FASTDL_GPU_FAULTS"
ILLEGAL_ADDRESS = 700


def inject(item):
    how = json.loads(os.environ.get(VARIABLE, "{}")).get(item)
    if how == "crash":
        os.abort()
    if how == "hang":
        time.sleep(3600)
    if how == "break":
        simulation = ctypes.CDLL("libcuda.so.1")  # the one that is loaded
        assert simulation.fk_break(ILLEGAL_ADDRESS) == 0
