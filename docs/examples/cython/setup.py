# SPDX-License-Identifier: Apache-2.0
# Build: python setup.py build_ext --inplace
from Cython.Build import cythonize
from setuptools import Extension, setup

import fastdl

setup(
    name="axpy",
    ext_modules=cythonize([Extension("axpy", ["axpy.pyx"], include_dirs=[fastdl.get_include()])]),
)
