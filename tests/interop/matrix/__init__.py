"""The matrix: what becomes of every library's arrays in fastdl, and of fastdl's tensors there.

nox -s matrix                            all environments; fails if a cell is worse than it was
nox -s matrix -- --write                 what is measured takes the place of results.json
python -m tests.interop.matrix main      one environment, in one that is installed
python -m tests.interop.matrix.report    writes docs/interop.md and its picture

requirements/  the environments: libraries in exact versions
cells.py       what is measured: outcomes, and which of two is worse
sources.py     the tensors that are tried
measure.py     one cell
rows.py        the cells of one library, in a process of its own
particular.py  rows that are no table of arrays: MPI ranks, kernels, Rust, shared memory
grid.py        every producer with every consumer
__main__.py    starts the processes, writes results.json or compares with it
report.py      the page for people
"""
