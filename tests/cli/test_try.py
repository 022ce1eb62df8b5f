"""`planish try`: kernels written by hand, for the whole task or a region of it."""

from __future__ import annotations

import pytest
from command import Home
from optimised_task import SMALL

KERNEL = """#include <cmath>
extern "C" void whole(void** args) {
  const float* scale = static_cast<const float*>(args[0]);
  const float* x = static_cast<const float*>(args[1]);
  float* y = static_cast<float*>(args[2]);
  for (int i = 0; i < 64 * 96; ++i) {
    const float v = x[i];
    y[i] = v / (1 + std::exp(-(std::tanh(v) * scale[i % 96] + v * v)));
  }
}
//@ launch whole args=SCALE, X, out0
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("try"))
    home.task(SMALL)
    return home


def source(home: Home, description: str, name: str = "kernel.cpp", **changes: str) -> str:
    """The kernel with its arguments as the description names them."""
    names = {line.split(": f32")[1]: line.split(":")[0] for line in description.splitlines() if ": f32" in line and line.startswith("in")}
    (scale,) = [n for shape, n in names.items() if shape.startswith("[96]")]
    (x,) = [n for shape, n in names.items() if shape.startswith("[64, 96]")]
    text = KERNEL.replace("SCALE", scale).replace("X,", f"{x},")
    for old, new in (change.split("=>") for change in changes.values()):
        assert old in text
        text = text.replace(old, new)
    return home.task(text, name)


def test_what_there_is_to_write_for_is_listed(home: Home) -> None:
    code, listed = home.document("try", "task.py", "--target", "cpu")
    assert code == 0 and [r["id"] for r in listed["regions"]][:2] == ["task", "r0"]
    assert "in1: f32[64, 96], contiguous" in listed["regions"][0]["description"] and "aten.tanh.default" in listed["regions"][0]["description"]


def test_a_kernel_for_the_whole_and_for_a_region_is_judged(home: Home) -> None:
    listed = home.document("try", "task.py", "--target", "cpu")[1]["regions"]
    for region in listed[:2]:
        file = source(home, region["description"])
        code, tried = home.document("try", "task.py", file, "--region", region["id"], "--target", "cpu", "--quick")
        assert code == 0 and tried["ok"] and tried["region"] == region["id"], tried
        assert tried["median_ms"] > 0 and tried["pytorch_ms"] > 0 and tried["verdict"], tried
    wrong = source(home, listed[0]["description"], wrong="v * v=>v * v * 1.01f")
    code, tried = home.document("try", "task.py", wrong, "--target", "cpu", "--quick")
    assert code == 1 and tried["outcome"] == "wrong" and tried["median_ms"] is None and tried["verdict"]["kind"] == "mismatch", tried
    broken = source(home, listed[0]["description"], broken="const float v=>const flaot v")
    done = home.run("try", "task.py", broken, "--target", "cpu", "--quick")
    assert done.returncode == 1 and "compile_error" in done.stdout and "flaot" in done.stdout, done.stdout


def test_bad_input_is_named(home: Home) -> None:
    assert home.document("try", "task.py", "absent.cpp")[1]["error"]["kind"] == "no_such_file"
    kernel = home.task("nothing here", "empty.cpp")
    code, document = home.document("try", "task.py", kernel, "--target", "cpu")
    assert code == 2 and document["error"]["kind"] == "bad_source" and "launch" in document["error"]["hint"], document
    code, document = home.document("try", "task.py", kernel, "--region", "r9", "--target", "cpu")
    assert code == 2 and document["error"]["kind"] == "no_such_region" and "lists them" in document["error"]["hint"]
