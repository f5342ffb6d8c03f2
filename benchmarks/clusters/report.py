"""The tables of docs/processes.md, from docs/processes.json."""

import json
from collections.abc import Iterator

from benchmarks import ROOT
from benchmarks.clusters import LARGE

RESULTS = ROOT / "docs" / "processes.json"
OBJECTS = ("ndarray", "Tensor", "torch")
LOCAL = ("pool: argument", "pool: result", "queue")
DASK = ("Dask: scatter", "Dask: submit", "Dask: gather")


def load():
    return json.loads(RESULTS.read_text())


def ways() -> Iterator[str]:
    """Copies, peaks and times of each way and object."""
    results = load()
    yield f"| way | object | copies | peak | ms for {LARGE >> 20} MiB |"
    yield "|---|---|---|---|---|"
    for name, row in results["ways"].items():
        if name.startswith("pickle"):
            continue
        for kind in OBJECTS:
            facts = row[kind]
            copies = facts.get("copies", "")
            peak = max(0.0, facts["peak"]) if "peak" in facts else ""  # it is not below 0
            yield f"| {name} | {kind} | {copies} | {peak} | {1e3 * facts['seconds']:.3g} |"
    machine = results["machine"]
    yield ""
    yield (
        f"Measured on {machine['date']} with CPython {machine['Python'].split()[0]} on "
        f"{machine['cores']} cores, whose load was {machine['load before']}: times are the least "
        "of 9 runs (MPI: of 30), and for comparison only."
    )


def ratios(results, names, key):
    rows = results["ways"]
    return [rows[name]["Tensor"][key] / rows[name]["ndarray"][key] for name in names]


def over(results, names):
    """Copies that a Tensor costs and an ndarray does not."""
    rows = results["ways"]
    return max(rows[name]["Tensor"]["copies"] - rows[name]["ndarray"]["copies"] for name in names)


def rows(results) -> Iterator[tuple[str, float, float]]:
    """What, as it was measured, and what is promised at most."""
    own, found = results["measured"], results["ways"]
    pipe, share, kills = own["pipe"], own["share"], own["kills"]
    yield "shared 1 GB over a pipe / torch `file_descriptor`", pipe["large"] / pipe["torch"], 0.8
    yield "shared 1 GB over a pipe / 1 MB", pipe["large"] / pipe["small"], 1.3
    for what, name in (("", "torch, all threads"), (" on one thread", "torch")):
        yield f"`share` of 1 GB / torch `share_memory_`{what}", share["fastdl"] / share[name], 0.8
    yield "pool, queue: copies over an ndarray's", over(results, LOCAL), 1
    yield "pool, queue: peak / an ndarray's", max(ratios(results, LOCAL, "peak")), 1.1
    yield "pickle 5: bytes in band", found["pickle 5: bytes in band"]["Tensor"]["bytes"], 200
    yield "Dask: copies over an ndarray's", over(results, DASK), 0
    yield "Dask gather: peak / an ndarray's", *ratios(results, ["Dask: gather"], "peak"), 1.05
    yield "`dask.sizeof`: relative error", abs(own["sizes"]["ratio"] - 1), 0.01
    ray = found["Ray: put and get"]
    yield "Ray put and get / of torch", ray["Tensor"]["seconds"] / ray["torch"]["seconds"], 0.1
    yield "MPI `Send` / an ndarray's", found["MPI: Send"]["Tensor"]["over ndarray"], 1.1
    yield "MPI `pkl5` / an ndarray's", found["MPI: pkl5"]["Tensor"]["over ndarray"], 1.1
    times = int(kills["kills"]) // 2
    yield f"{times} receivers killed: descriptors left for each", kills["descriptors"], 1
    yield f"{times} senders killed, too: names left in /dev/shm", kills["left in /dev/shm"], 0
    missing = 100 - own["short_lives"]["arrived"]
    yield "`Pool(maxtasksperchild=1)`: of 100 shared results missing", missing, 0
    yield "`import dask` with fastdl installed: ms longer", own["imports"]["dask"], 15


def budgets() -> Iterator[str]:
    yield "| in one run | at most | measured | |"
    yield "|---|---|---|---|"
    for name, measured, limit in rows(load()):
        verdict = "held" if measured <= limit else "MISSED"
        yield f"| {name} | {limit:g} | {measured:.3g} | {verdict} |"


def model() -> Iterator[str]:
    """What a hundred machines would see, from the figures above."""
    found = load()["ways"]
    network = LARGE * 8 / 10e9  # seconds at 10 Gbit/s
    yield f"| of {LARGE >> 20} MiB | ndarray | Tensor | torch |"
    yield "|---|---|---|---|"
    for name in ("Dask: gather", "Ray: put and get", "MPI: pkl5"):
        costs = (found[name][kind]["seconds"] for kind in OBJECTS)
        yield f"| {name}, ms on one machine | " + " | ".join(f"{1e3 * s:.3g}" for s in costs) + " |"
    for what, machines in (("one receiver, from 100 machines", 100), ("neighbours, at once", 1)):
        wire = f"{1e3 * network * machines:.3g}"
        yield f"| network at 10 Gbit/s, ms: {what} | {wire} | {wire} | {wire} |"
