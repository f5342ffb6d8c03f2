"""Adapters of released libraries: each is all that the suite has to know of one."""
