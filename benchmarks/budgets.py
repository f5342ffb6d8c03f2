# SPDX-License-Identifier: Apache-2.0
"""The budgets: what was measured against what was allowed."""

from dataclasses import dataclass

from benchmarks.exchanges import DIMENSIONS
from benchmarks.limits import BUDGETS
from benchmarks.rows import Row
from benchmarks.timing import Samples, middle, ratio, slope, spread


@dataclass(frozen=True)
class Comparison:
    """An exchange compared with a peer that does the same."""

    group: str
    what: str
    peer: str
    floor: str  # in the C loop; in Python it is an empty call
    limit: float | None
    ours: str = "fastdl"
    views: tuple[str, ...] = ("c", "python")

    def key(self, prefix: str) -> str:
        key = f"{prefix}/{self.group}/{self.peer}"
        return key if self.ours == "fastdl" else f"{key}/{self.ours}"


def budgeted(group: str, what: str, peer: str, floor: str, **options) -> Comparison:
    """With its budget of limits.py."""
    return Comparison(group, what, peer, floor, BUDGETS.get(f"{group}/{peer}"), **options)


COMPARISONS = (
    budgeted("from_torch", "from_dlpack(torch tensor)", "tvm_ffi", "torch's table"),
    budgeted("from_numpy", "from_dlpack(ndarray)", "numpy", "an empty call"),
    budgeted("from_numpy", "from_dlpack(ndarray)", "tvm_ffi", "the bridge's table"),
    budgeted("export", "Tensor.__dlpack__, dropped", "numpy", "an empty capsule"),
    budgeted("export", "Tensor.__dlpack__, dropped", "tvm_ffi", "an empty capsule"),
    budgeted("into_numpy", "np.from_dlpack(Tensor)", "numpy", "an empty call"),
)

METHODS = tuple(
    budgeted(group, what, peer, floor, views=("python",))
    for group, what, peer, floor in (
        ("numpy", "Tensor.numpy()", "np.from_dlpack", "an empty call"),
        ("copy", "Tensor.copy(), 64 bytes", "numpy", "an empty call"),
        ("empty", 'empty((4, 4), "float32")', "numpy", "an empty call"),
        ("empty_of_dtype", "empty((4, 4), a DType)", "numpy", "an empty call"),
        ("item", "Tensor.item()", "numpy", "an empty call"),
        ("tolist", "Tensor.tolist(), 16 elements", "numpy", "an empty call"),
        ("tolist_matrix", "Tensor.tolist(), (100, 100)", "numpy", "an empty call"),
        ("pickled", "pickle out of band", "numpy", ""),
        ("unpickled", "unpickle out of band", "numpy", ""),
        ("dtype", "Tensor.dtype", "shape", ""),
        ("device", "Tensor.device", "shape", ""),
        ("array_on_cpu", 'from_dlpack(ndarray, device="cpu")', "from_dlpack(x)", "an empty call"),
        ("tensor_on_cpu", 'from_dlpack(Tensor, device="cpu")', "from_dlpack(x)", "an empty call"),
        ("to_cpu", 'Tensor.to("cpu")', "from_dlpack(x)", "an empty call"),
    )
)

CONVERSIONS = (
    budgeted("torch_to_numpy", "convert(torch tensor, np.ndarray)", "own", "torch's table"),
    budgeted("numpy_to_torch", "convert(ndarray, torch.Tensor)", "own", "both tables"),
    budgeted("tensor_to_torch", "convert(Tensor, torch.Tensor)", "own", "both tables"),
    budgeted("jax_to_torch", "convert(jax.Array, torch.Tensor)", "own", "an empty call"),
    budgeted("jax_to_numpy", "convert(jax.Array, np.ndarray)", "own", "its buffer"),
    budgeted("by_module", "convert(ndarray, a module)", "type", "", views=("python",)),
    budgeted("by_device", "convert(x, like, device='cpu')", "type", "", views=("python",)),
    *(
        budgeted(f"tree_to_{name}", what, peer, "", views=("python",))
        for name, what, peer in (
            ("torch", "convert_tree(4 ndarrays, torch)", "four calls"),
            ("torch", "convert_tree(4 ndarrays, torch)", "gymnasium"),
            ("numpy", "convert_tree(4 torch, ndarray)", "four calls"),
        )
    ),
    budgeted("from_jax", "from_dlpack(jax.Array)", "own", ""),
    budgeted("from_mlx", "from_dlpack(MLX array)", "own", ""),
    budgeted("from_tvm_ffi", "from_dlpack(tvm-ffi tensor)", "numpy", ""),
    budgeted("from_tvm_ffi", "from_dlpack(tvm-ffi tensor)", "own", ""),
)

#: Those of exchanges.data_size: with many elements, and with few.
SIZES = tuple(
    Comparison("data_size", f"{what}, 64 MiB", f"{name}, 64 bytes", "", 1.05, ours, ("c",))
    for name, what in (
        ("ndarray", "from_dlpack(ndarray)"),
        ("torch", "from_dlpack(torch tensor)"),
        ("export", "Tensor.__dlpack__, dropped"),
    )
    for ours in [f"{name}, 64 MiB"]
)

VIEWS = {"c": "C loop", "python": "Python loop"}


def compare(c: Comparison, prefix: str, groups: dict[str, Samples | str], slack: float) -> Row:
    row = Row(c.key(prefix), c.what, VIEWS[prefix], peer=c.peer)
    samples = groups[f"{prefix}/{c.group}"]
    if isinstance(samples, str):
        row.failure = samples
        return row
    row.floor = c.floor if prefix == "c" or not c.floor else "an empty call"
    row.ours, row.peers = middle(samples, c.ours), middle(samples, c.peer)
    row.floors = middle(samples, row.floor) if row.floor else None
    row.value = row.ratio = ratio(samples, c.ours, c.peer)
    row.spread = spread(samples, c.ours, c.peer)
    if c.limit is not None:
        row.limit = c.limit * slack
        row.budget = f"<= {row.limit:.3g}"
    return row


def exchange_rows(groups: dict[str, Samples | str], slack: float) -> list[Row]:
    return comparison_rows(COMPARISONS, groups, slack)


def method_rows(groups: dict[str, Samples | str], slack: float) -> list[Row]:
    return comparison_rows(METHODS, groups, slack)


def comparison_rows(
    comparisons: tuple[Comparison, ...], groups: dict[str, Samples | str], slack: float
) -> list[Row]:
    return [compare(c, prefix, groups, slack) for c in comparisons for prefix in c.views]


def conversion_rows(groups: dict[str, Samples | str], slack: float) -> list[Row]:
    """The peer "own" is the best way that the two libraries have themselves."""
    return comparison_rows(CONVERSIONS, groups, slack)


def growth_rows(groups: dict[str, Samples | str], check: bool) -> list[Row]:
    """What each dimension adds. As a check, where nanoseconds mean nothing: 8 against 1."""
    rows = []
    for group, what, peer, floor in (
        ("torch_dimensions", "from_dlpack(torch tensor)", "", "torch's table"),
        ("numpy_dimensions", "from_dlpack(ndarray)", "numpy", "the bridge's table"),
        ("export_dimensions", "Tensor.__dlpack__, dropped", "numpy", ""),
    ):
        row = Row(f"c/{group}", f"each dimension of {what}", VIEWS["c"], peer=peer, floor=floor)
        rows.append(row)
        samples = groups[f"c/{group}"]
        if isinstance(samples, str):
            row.failure = samples
            continue
        row.ours = slope(samples, [f"fastdl {ndim}" for ndim in DIMENSIONS])
        if peer:
            row.peers = slope(samples, [f"{peer} {ndim}" for ndim in DIMENSIONS])
        if floor:
            row.floors = slope(samples, [f"{floor} {ndim}" for ndim in DIMENSIONS])
        if check:
            first, last = f"fastdl {DIMENSIONS[0]}", f"fastdl {DIMENSIONS[-1]}"
            row.value, row.limit = ratio(samples, last, first), 2.0
            row.ratio, row.budget = row.value, "8 dimensions <= 2 x 1"
        else:
            row.value, row.limit, row.budget = row.ours, 2.0, "<= 2 ns"
    return rows


#: Kind of a group of copies -> what it is, where it is timed, and how often what NumPy needs it may
#: take.
COPIES = {
    "copy": ("copy into existing memory", "C loop", 1.0),
    "method": ("Tensor.copy()", "Python loop", None),
    "argument": ("a copy of an argument", "C loop", 1.2),
}


def copy_rows(groups: dict[str, Samples], slack: float) -> list[Row]:
    rows = []
    for group, samples in groups.items():
        kind, layout = group.split("/", 1)
        what, view, most = COPIES[kind]
        unit, scale = ("ns", 1.0) if layout.startswith("small") else ("us", 1e-3)
        # One memcpy is as fast as another, but for the noise of the memory bus. A small one is
        # mostly the check of the descriptor, so only np.copyto is its peer.
        limits = {"numpy": most}
        if "memcpy" in samples[0] and not layout.startswith("small"):
            limits["memcpy"] = 1.05
        for peer, limit in limits.items():
            row = Row(f"{group}/{peer}", f"{what}: {layout}", view, unit=unit, peer=peer)
            row.ours, row.peers = middle(samples, "fastdl") * scale, middle(samples, peer) * scale
            row.value = row.ratio = ratio(samples, "fastdl", peer)
            row.spread = spread(samples, "fastdl", peer)
            if most is not None:
                row.limit = limit * slack
                row.budget = f"<= {row.limit:.3g}"
            if "memcpy" in samples[0]:
                row.floor, row.floors = "memcpy", middle(samples, "memcpy") * scale
            rows.append(row)
    return rows


def import_rows(milliseconds: dict[str, float], slack: float) -> list[Row]:
    rows = []
    for peer in ("numpy", "tvm_ffi"):
        row = Row(f"import/{peer}", "import fastdl", "fresh process", unit="ms", peer=peer)
        row.ours, row.peers = milliseconds["fastdl"], milliseconds[peer]
        row.ratio = row.ours / row.peers
        row.value, row.limit = row.ratio, BUDGETS["import/numpy"] * slack
        row.budget = f"<= {row.limit:.3g}"
        rows.append(row)
    return rows
