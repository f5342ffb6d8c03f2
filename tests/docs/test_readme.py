# SPDX-License-Identifier: Apache-2.0
"""The README keeps its promises: its example runs, its commands exist, its numbers are measured."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import fastdl
from tests.support.build import SOURCES, compile_source, load_module

README = Path(__file__).parents[2] / "README.md"


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


def in_readme():
    return re.search(r"```c\n(.*?)```", README.read_text(), re.DOTALL)[1]


def in_the_header():
    text = (README.parent / "include/fastdl/fastdl.h").read_text()
    function = re.search(r"(?m)^ \*     static PyObject .*?^ \*     }$", text, re.DOTALL)[0]
    return "#define FASTDL_IMPLEMENTATION\n#include <fastdl/fastdl.h>\n" + re.sub(
        r"(?m)^ \* {0,5}", "", function
    )


MODULE = """
#include "module.h"
static PyMethodDef methods[] = {{"total", total, METH_O, NULL}, {NULL, NULL, 0, NULL}};
DEFINE_MODULE(total, methods)
"""


@pytest.mark.parametrize("function", [in_readme, in_the_header])
def test_c_function(function, tmp_path):
    """Compiled without a warning, called with arrays that it takes and arrays that it refuses."""
    source, module = tmp_path / "total.c", tmp_path / "total.so"
    source.write_text(function() + MODULE)
    compile_source(source, module, f"-I{SOURCES}", "-Wno-unused-parameter", "-pedantic")
    total = load_module("total", module).total
    array = np.arange(6, dtype=np.float32)
    assert total(array[::-2]) == 9.0
    assert total(fastdl.from_dlpack(array)) == 15.0
    with pytest.raises(TypeError):
        total(np.arange(6))
    with pytest.raises(ValueError):
        total(array.reshape(2, 3))
    with pytest.raises(TypeError):
        total([1.0, 2.0])
