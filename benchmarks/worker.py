"""What `processes.py` runs in a fresh process: `python -m benchmarks.worker JOB OPTIONS`."""

import json
import sys


def exchanges(rounds: int) -> dict:
    from benchmarks.exchanges import GROUPS

    return run_groups(GROUPS, rounds)


def conversions(rounds: int) -> dict:
    from benchmarks.conversions import GROUPS

    return run_groups(GROUPS, rounds)


def calls(rounds: int) -> dict:
    from benchmarks.calls import GROUPS

    return run_groups(GROUPS, rounds)


def methods(rounds: int) -> dict:
    from benchmarks.methods import GROUPS

    return run_groups(GROUPS, rounds)


def run_groups(making: dict, rounds: int) -> dict:
    """group -> subject -> samples, or group -> why it could not be measured."""
    from benchmarks.timing import interleave

    groups = {}
    for name, subjects in making.items():
        try:
            c, python = subjects()
        except ImportError as error:
            groups[f"c/{name}"] = groups[f"python/{name}"] = str(error)
            continue
        if c:
            groups[f"c/{name}"] = interleave(c, rounds)
        if python:
            groups[f"python/{name}"] = interleave(python, rounds)
    return groups


def copies(rounds: int) -> dict:
    from benchmarks.copies import argument, arguments, layouts, loops_only, method
    from benchmarks.timing import interleave

    groups = {}
    for name, array in layouts().items():
        groups[f"copy/{name}"] = interleave(loops_only(array), rounds)
        groups[f"method/{name}"] = interleave(method(array), rounds)
    for name, (array, function) in arguments().items():
        groups[f"argument/{name}"] = interleave(argument(array, function), rounds)
    return groups


def operators(rounds: int) -> dict:
    from benchmarks.operators import groups
    from benchmarks.timing import interleave

    return {name: interleave(subjects, rounds) for name, subjects in groups().items()}


def bindings(rounds: int) -> dict:
    from benchmarks.bindings import groups
    from benchmarks.timing import interleave

    return {name: interleave(subjects, rounds) for name, subjects in groups().items()}


def pairs(rounds: int) -> dict:
    from benchmarks.pairs import groups
    from benchmarks.timing import interleave

    return {name: interleave(subjects, rounds) for name, subjects in groups().items()}


def moving(rounds: int) -> dict:
    from benchmarks.moving import groups
    from benchmarks.timing import interleave

    return {name: interleave(subjects, rounds) for name, subjects in groups().items()}


def ports(rounds: int, names: list[str]) -> dict:
    from benchmarks.ports.calls import groups
    from benchmarks.timing import interleave

    return {name: interleave(subjects, rounds) for name, subjects in groups(names).items()}


def memory(exchanges: int) -> dict:
    from benchmarks.memory import measure

    return measure(exchanges)


if __name__ == "__main__":
    jobs = (
        exchanges,
        conversions,
        calls,
        methods,
        copies,
        operators,
        bindings,
        pairs,
        moving,
        ports,
        memory,
    )
    job = {function.__name__: function for function in jobs}[sys.argv[1]]
    print(json.dumps(job(**json.loads(sys.argv[2]))))
