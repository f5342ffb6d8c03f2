# SPDX-License-Identifier: Apache-2.0
"""Conversions between a Tensor and other data: buffers, libraries' objects, and Python's
numbers."""
