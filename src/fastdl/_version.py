# SPDX-License-Identifier: Apache-2.0
"""The version of the package. The version of DLPack is a different number, in dlpack.h."""

__version__ = "0.1.0"
