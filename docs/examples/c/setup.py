# SPDX-License-Identifier: Apache-2.0
# Build: python setup.py build_ext --inplace
from setuptools import Extension, setup

import fastdl

setup(
    name="axpy",
    ext_modules=[Extension("axpy", ["axpy.c"], include_dirs=[fastdl.get_include()])],
)
