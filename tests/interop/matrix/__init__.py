# SPDX-License-Identifier: Apache-2.0
"""The matrix: what becomes of every library's arrays in fastdl, and of fastdl's tensors there.

nox -s matrix                            all environments; fails if a cell is worse than it was
nox -s matrix -- --write                 what is measured takes the place of results.json
python -m tests.interop.matrix main      one environment, in one that is installed
python docs/quote.py                     then renews what pages quote of it

requirements/  the environments: libraries in exact versions, beside those that bridges name
cells.py       what is measured: outcomes, which of two is worse, and the file of results
sources.py     the tensors that are tried
measure.py     one cell
rows.py        the cells of one library, in a process of its own
particular.py  rows that are no table of arrays: kernels, Rust, shared memory
grid.py        every producer with every consumer
__main__.py    starts the processes, writes results.json or compares with it
report.py      what docs/interop.md shows of the results; picture.py draws them
"""
