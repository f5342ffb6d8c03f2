"""Conversions between a Tensor and what is no DLPack: buffers, and Python's own numbers."""
