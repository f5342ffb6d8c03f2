# SPDX-License-Identifier: Apache-2.0
"""Interleaved timing, and the statistics over it.

pyperf measures one benchmark after another, each in processes of its own. For a ratio that is the
wrong way round: on a shared machine the clock rate and the neighbours change within seconds, and
the change lands in the ratio. So everything that is compared runs here in one process, in
rounds: each round times every subject once, and a ratio is the median over rounds of the
ratios within a round. What pyperf does right is kept: its clock, calibrated loop counts, warm-up,
and several fresh processes, because addresses and hash seeds differ from one to the next.
"""

import gc
import statistics
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from operator import truediv
from time import perf_counter
from types import ModuleType

#: One sample lasts at least this long, so that neither the clock nor the call that
#: starts the loop shows in it.
SAMPLE_SECONDS = 1e-3


@dataclass
class Subject:
    """One thing to time: `seconds(n)` does it n times and says how long that took."""

    name: str
    seconds: Callable[[int], float]
    loops: int = 1


def in_c(name: str, loop, *arguments) -> Subject:
    """A subject whose loop is a function of loops.c."""

    def seconds(n: int) -> float:
        start = perf_counter()
        loop(n, *arguments)
        return perf_counter() - start

    return Subject(name, seconds)


#: How often the statement stands in the body of a Python loop, as `pyperf timeit --duplicate`.
DUPLICATE = 10


def in_python(name: str, statement: str, **names) -> Subject:
    """A subject that is a statement in a Python loop. Each has code of its own, because the
    interpreter specialises code for the types that it sees. Modules are global names, and all else
    local ones, as in a function."""
    local = [key for key, value in names.items() if not isinstance(value, ModuleType)]
    timer = timeit.Timer(
        "; ".join([statement] * DUPLICATE),
        "; ".join(f"{key} = __{key}" for key in local),
        perf_counter,
        {f"__{key}" if key in local else key: value for key, value in names.items()},
    )
    return Subject(name, lambda n: timer.timeit(max(1, n // DUPLICATE)))


def calibrate(subject: Subject) -> None:
    """Finds the number of calls that fills a sample; by doing so, warms the subject up."""
    subject.loops = DUPLICATE
    subject.seconds(DUPLICATE)  # the first call may load modules
    while (took := subject.seconds(subject.loops)) < SAMPLE_SECONDS:
        growth = 1.2 * SAMPLE_SECONDS / took if took > SAMPLE_SECONDS / 20 else 10
        subject.loops = int(subject.loops * growth) // DUPLICATE * DUPLICATE + DUPLICATE


def interleave(subjects: list[Subject], rounds: int) -> dict[str, list[float]]:
    """Nanoseconds per call: for each subject one sample a round."""
    samples: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    gc.disable()
    for subject in subjects:
        calibrate(subject)
    for number in range(rounds):
        # There and back: who follows whom must not matter.
        for subject in subjects if number % 2 else reversed(subjects):
            nanoseconds = subject.seconds(subject.loops) / subject.loops * 1e9
            samples[subject.name].append(float(f"{nanoseconds:.4g}"))
    gc.enable()
    return samples


# ---- statistics over the samples of several workers -----------------------------------------

#: For each worker: subject -> samples, all of the same length.
Samples = list[dict[str, list[float]]]


def middle(samples: Samples, name: str) -> float:
    """The typical cost of a subject: the median over workers of their medians."""
    return statistics.median(statistics.median(worker[name]) for worker in samples)


def ratio(samples: Samples, ours: str, theirs: str) -> float:
    """The typical ratio within a round."""
    return statistics.median(
        statistics.median(map(truediv, worker[ours], worker[theirs])) for worker in samples
    )


def spread(samples: Samples, ours: str, theirs: str) -> tuple[float, float]:
    """The lowest and highest ratio that a single worker saw."""
    ratios = [ratio([worker], ours, theirs) for worker in samples]
    return min(ratios), max(ratios)


def slope(samples: Samples, names: list[str]) -> float:
    """Nanoseconds that each name adds to the one before: least squares over the lowest samples,
    since the differences are smaller than the noise, and noise only adds."""
    center = (len(names) - 1) / 2
    weights = [i - center for i in range(len(names))]
    scale = sum(weight * weight for weight in weights)
    return statistics.median(
        sum(w * min(worker[name]) for w, name in zip(weights, names, strict=True)) / scale
        for worker in samples
    )
