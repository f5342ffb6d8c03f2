"""The host core: tensors, their element types and devices, and exchange tables."""

from fastdl._library import load

load("fastdl._core.tensor")
load("fastdl._core.exchange")
