# SPDX-License-Identifier: Apache-2.0
"""Real engines, in the session `peers`. Elsewhere the tests run if the engine is there."""

import os
from importlib.util import find_spec

NEEDS = {
    "test_dask.py": "distributed",
    "test_example.py": "distributed",
    "test_files.py": "safetensors",
    "test_jax.py": "jax",
    "test_joblib.py": "joblib",
    "test_mpi.py": "mpi4py",
    "test_ray.py": "ray",
}

collect_ignore = [
    file
    for file, module in NEEDS.items()
    if find_spec(module) is None and not os.environ.get("FASTDL_REQUIRE_ENGINES")
]
