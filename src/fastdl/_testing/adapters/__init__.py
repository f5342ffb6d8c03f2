"""Adapters of released libraries: everything that the suite knows about each."""
