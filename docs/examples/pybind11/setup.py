# SPDX-License-Identifier: Apache-2.0
# Build: python setup.py build_ext --inplace
from pybind11.setup_helpers import Pybind11Extension
from setuptools import setup

import fastdl

setup(
    name="axpy",
    ext_modules=[
        Pybind11Extension("axpy", ["axpy.cpp"], include_dirs=[fastdl.get_include()], cxx_std=20)
    ],
)
