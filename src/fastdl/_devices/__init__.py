"""Memory on devices: the order of work on it, drivers, allocation and copies."""

from fastdl._library import load

load("fastdl._devices.driver")
