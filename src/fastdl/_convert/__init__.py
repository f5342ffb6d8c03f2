"""Conversions between a Tensor and what is no DLPack: buffers, NumPy, Python numbers."""
