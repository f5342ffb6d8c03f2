# SPDX-License-Identifier: Apache-2.0
"""A placeholder for the compiled module: see fastdl/_library.py."""

from fastdl._library import load

load(__name__)
