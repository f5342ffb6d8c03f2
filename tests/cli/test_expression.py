# SPDX-License-Identifier: Apache-2.0
"""MODULE:EXPRESSION: what each name of the expression stands for."""

import sys
from pathlib import Path

import pytest

from fastdl._cli.expression import evaluate


@pytest.fixture
def lazy(tmp_path: Path, monkeypatch):
    """A package with a `__getattr__`, a submodule that it does not import, and names that are also
    those of other modules and of builtins."""
    package = tmp_path / "lazy_package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "sum = 'the sum of the package'\n"
        "def __getattr__(name):\n"
        "    if name in ('random', 'max'):\n"
        "        return f'the {name} of the package'\n"
        "    if name == 'gone':\n"
        "        raise AttributeError('gone was removed: use random')\n"
        "    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')\n"
    )
    (package / "json.py").write_text("where = __name__\n")
    (package / "broken.py").write_text("import no_such_module_\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "lazy_package"
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazy_package"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("random", "the random of the package"),  # not the standard library's
        ("sum", "the sum of the package"),  # nor a builtin
        ("max", "the max of the package"),
        ("json.where", "lazy_package.json"),
        ("len(random)", 25),
        ("statistics.mean([1, 3])", 2),
        ("fastdl.from_dlpack.__name__", "from_dlpack"),
        ("lazy_package.sum", "the sum of the package"),
        # What the expression binds is its own.
        ("[random for random in (1, 2)]", [1, 2]),
        ("[json.where for json in [json]]", ["lazy_package.json"]),
        ("(lambda json, *, nothere=2: json + nothere)(1)", 3),
        ("(nothere := 3) + nothere", 6),
        ("[(nothere := i) for i in (1, 2)] + [nothere]", [1, 2, 2]),
        ("{nothere: i for i, nothere in enumerate('ab')}", {"a": 0, "b": 1}),
        ("[[random for _ in 'a'] for random in 'b']", [["b"]]),
        ("[sum for _ in (1,)]", ["the sum of the package"]),
        ("(lambda: json.where)()", "lazy_package.json"),
    ],
)
def test_names_of_the_module_come_first(lazy, expression, value):
    assert evaluate(f"{lazy}:{expression}") == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("numpy:qqq_(3)", "module 'numpy' has no attribute 'qqq_'"),
        ("math:[nothere_ for _ in (1,)]", "module 'math' has no attribute 'nothere_'"),
        ("math:(lambda: nothere_)()", "module 'math' has no attribute 'nothere_'"),
    ],
)
def test_a_name_that_is_nowhere(expression, message):
    with pytest.raises(AttributeError) as caught:
        evaluate(expression)
    assert str(caught.value) == message


def test_what_the_module_or_an_import_raises_is_passed_on(lazy):
    with pytest.raises(AttributeError, match="^gone was removed: use random$"):
        evaluate(f"{lazy}:gone")
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module_'"):
        evaluate(f"{lazy}:broken.x")
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module_'"):
        evaluate("no_such_module_:1")
