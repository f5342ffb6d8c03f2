"""doctor and inspect with large libraries, each in processes of their own."""

import json

from tests.support.fake_libraries import run

from .peers import require


def answer(folder, *arguments):
    done = run(folder, *arguments, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_doctor(tmp_path):
    for name in ("torch", "jax", "mlx"):
        require(name)
    report = answer(tmp_path, "doctor", "--only", "numpy,torch,jax,mlx")
    rows = {row["name"]: row for row in report["libraries"]}
    assert {row["outcome"] for row in rows.values()} == {"works"}, rows
    assert {name: row["import_path"]["kind"] for name, row in rows.items()} == {
        "numpy": "bridge",
        "torch": "table",
        "jax": "buffer",
        "mlx": "__dlpack__",
    }
    assert rows["jax"]["tensor"]["readonly"] and not rows["torch"]["tensor"]["readonly"]
    assert rows["jax"]["dlpack"]["capsule"] == "dltensor"
    assert all(row["defects"] for row in rows.values())


def test_inspect(tmp_path):
    for name in ("torch", "jax", "mlx"):
        require(name)
    found = answer(tmp_path, "inspect", "torch:ones(3, 4).t()", "--only", "numpy,torch")
    assert found["managed"]["strides"] == [1, 4] and found["managed"]["by_library"]
    assert found["import_path"]["table"]["version"] == "1.3"
    assert found["consumers"]["numpy"] == {"outcome": "zero-copy", "reason": ""}
    found = answer(tmp_path, "inspect", "torch:ones(6)", "--only", "mlx")
    reason = "mlx.core.array always copies such data"
    assert found["consumers"]["mlx"] == {"outcome": "copy", "reason": reason}
    found = answer(tmp_path, "inspect", "jax.numpy:ones(6)", "--only", "torch")
    assert found["consumers"]["torch"]["outcome"] == "copy"
    assert "read-only" in found["consumers"]["torch"]["reason"]


def test_a_lazy_view_is_explained(tmp_path):
    require("torch")
    done = run(tmp_path, "inspect", "torch:tensor([1j]).conj()", "--quick", "--only", "numpy")
    assert done.returncode == 1
    assert "resolve_conj()" in done.stderr
