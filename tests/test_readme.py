"""The README keeps its promises: its example runs, its commands exist, its numbers are measured."""

import doctest
import re
from pathlib import Path

import numpy as np

import fastdl

README = Path(__file__).parents[1] / "README.md"


def test_example_is_real_and_short():
    text = README.read_text()
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    assert len(block.splitlines()) <= 12
    example = doctest.DocTestParser().get_doctest(
        block, {"fastdl": fastdl, "np": np}, "README", str(README), 0
    )
    with np.printoptions(legacy=False):
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example)
    assert result.attempted >= 6
    assert result.failed == 0


def test_exactly_two_set_up_commands():
    commands = re.findall(r"<!-- command: (\w+) -->\n```sh\n(.*?)\n```", README.read_text())
    assert [name for name, _ in commands] == ["demo", "test"]
    assert "python -m fastdl demo" in commands[0][1]
    assert "python -m pytest" in commands[1][1]


def test_docstring_of_the_package_is_real():
    result = doctest.testmod(fastdl, extraglobs={"np": np})
    assert result.attempted >= 2
    assert result.failed == 0
