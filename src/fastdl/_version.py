"""The version of the package. The DLPack version is dlpack.h's, and another number."""

__version__ = "0.1.0"
