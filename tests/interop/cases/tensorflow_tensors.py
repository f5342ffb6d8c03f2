# SPDX-License-Identifier: Apache-2.0
"""What is particular to TensorFlow: tensors whose elements are not numbers, or not plain ones.

They are asked in another process: TensorFlow ends one that asks for a capsule of strings.
"""

from tests.support.isolate import describe, run_python

CALLS = (
    "fastdl.asarray(x)",
    "fastdl.convert(x, np.ndarray)",
    "fastdl.convert(x, np.ndarray, copy=False)",
    "fastdl.convert(x, type(x), copy=True)",
)
DLPACK = (
    "fastdl.from_dlpack(x)",
    "fastdl.from_dlpack(x, device='cpu')",
    "fastdl.from_dlpack(x, device=(1, 0))",
    "fastdl.from_dlpack(x, copy=True)",
    "fastdl.from_dlpack(x, copy=False)",
    "fastdl.from_dlpack(x, stream=-1)",
)
NOT_NUMBERS = {
    "string": "tf.constant(['a', 'b'])",
    "resource": "tf.Variable([1.0]).handle",
    "variant": "tf.data.Dataset.range(3)._variant_tensor",
}


def check_refused(sources, calls, words):
    """Each call is refused in these words about the type of its source."""
    lines = ["import numpy as np, tensorflow as tf, fastdl"]
    for name, source in sources.items():
        lines.append(f"x = {source}")
        for call in calls:
            lines += [
                f"try: {call}",
                f"except BufferError as error: assert {words + name!r} in str(error), error",
                f"else: raise AssertionError({call + ' of ' + name!r})",
            ]
    child = run_python("-c", "\n".join(lines))
    assert child.returncode == 0, describe(child)


def test_what_is_not_numbers_is_refused():
    check_refused(NOT_NUMBERS, DLPACK + CALLS, "a tensor of dtype ")


def test_quantised_numbers_are_refused():
    sources = {
        f"q{plain}": f"tf.bitcast(tf.zeros(3, tf.{plain}), tf.q{plain})"
        for plain in ("int8", "uint8", "int16", "uint16", "int32")
    }
    check_refused(sources, DLPACK + CALLS, "a tensor of dtype ")


def test_the_line_in_the_refusal_of_quantised_numbers():
    child = run_python(
        "-c",
        """
import fastdl, tensorflow
for plain in ("int8", "uint8", "int16", "uint16", "int32"):
    x = tensorflow.bitcast(tensorflow.zeros(3, plain), f"q{plain}")
    try:
        fastdl.from_dlpack(x)
    except BufferError as error:
        line = str(error).rpartition(": ")[2].partition(" has ")[0]
    assert fastdl.from_dlpack(eval(line)).dtype == plain
""",
    )
    assert child.returncode == 0, describe(child)
