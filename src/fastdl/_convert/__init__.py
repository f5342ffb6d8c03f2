# SPDX-License-Identifier: Apache-2.0
"""Conversions between a Tensor and what is not DLPack: buffers, and Python's own numbers."""
