"""`planish try`: kernels written by hand, for the whole task or a region of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Home
from optimised_task import SMALL
from serving import served
from terminal import OnTerminal

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
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("try"))
    home.task(SMALL)
    with served(home):
        yield home


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
    code, listed = home.document("try", "task.py", "--target", "cpu", "--no-serve")
    assert code == 0 and [r["id"] for r in listed["regions"]][:2] == ["task", "r0"]
    assert "in1: f32[64, 96], contiguous" in listed["regions"][0]["description"] and "aten.tanh.default" in listed["regions"][0]["description"]


NORM = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
def get_inputs(): return [torch.randn(32, 512)]
def get_init_inputs(): return []
"""


def test_regions_of_other_ways_to_cut_a_task_say_what_they_stand_for(home: Home) -> None:
    said = home.run("try", home.task(NORM, "norm.py"), "--target", "cpu").stdout
    first, others = said.split("Other ways to cut it (fusion plans):")
    assert "r0: " in first and "in place of" not in first, said
    heads = [line for line in others.splitlines() if line.startswith("r")]
    assert heads and all(" in place of r0): " in line for line in heads), said


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


FUNCTION = """import torch

def fused(x, scale):
    return torch.sigmoid(torch.tanh(x) * scale + x * x) * x
"""
NEW = SMALL.replace("class Model(", "class ModelNew(")


def test_without_counters_a_note_says_why(home: Home) -> None:
    listed = home.document("try", "task.py", "--target", "cpu")[1]["regions"]
    for file, said in ((source(home, listed[0]["description"]), "GPU"), (home.task(NEW, "new.py"), "guest")):
        code, tried = home.document("try", "task.py", file, "--target", "cpu", "--quick", "--profile")
        assert code == 0 and tried["profile"] is None, tried
        (note,) = [n for n in tried["notes"] if n["kind"] == "no_counters"]
        assert said in note["text"], note


def test_python_files_are_tried_as_guests(home: Home) -> None:
    for text, name in ((NEW, "new.py"), (FUNCTION, "function.py")):
        code, tried = home.document("try", "task.py", home.task(text, name), "--target", "cpu", "--quick")
        assert code == 0 and tried["form"] == "solution" and tried["ok"], tried
        assert tried["median_ms"] > 0 and tried["pytorch_ms"] > 0 and tried["speedup"] > 0, tried
        assert tried["sandbox"]["seccomp"] != "none" and tried["evaluation"]["test"]["cases"][0]["ok"], tried
    wrong = home.task(FUNCTION.replace("x * x)", "x * x * 1.01)"), "wrong.py")
    done = home.run("try", "task.py", wrong, "--target", "cpu", "--quick")
    assert done.returncode == 1 and "NOT right" in done.stdout and "expected" in done.stdout and "mismatch" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("text", "outcome", "said"),
    [
        ("def forward(x, weights):\n    return x\n", "load_failed", "asks for 'weights', the task has x, scale"),
        ("def one(x):\n    return x\ndef two(x):\n    return x\n", "load_failed", "several functions (one, two)"),
        ("import torch\n", "load_failed", "no class ModelNew and no function"),
        ("def forward(x:\n", "load_failed", "SyntaxError"),
        ("import os\ndef forward(x, scale):\n    os._exit(0)\n", "exit", ""),
        ("def forward(x, scale):\n    raise ValueError('no such luck')\n", "launch_failed", "no such luck"),
        ("def forward(x, scale):\n    return x.sum()\n", "launch_failed", ""),
        ("import socket\ndef forward(x, scale):\n    socket.create_connection(('127.0.0.1', 1))\n", "launch_failed", "Error"),
    ],
)
def test_what_is_wrong_with_a_python_file_is_its_verdict(home: Home, text: str, outcome: str, said: str) -> None:
    code, tried = home.document("try", "task.py", home.task(text, "bad.py"), "--target", "cpu", "--quick")
    assert code == 1 and not tried["ok"] and tried["outcome"] == outcome and said in tried["message"], tried
    assert tried["median_ms"] is None and tried["verdict"]["kind"] in ("compile_error", "fault", "mismatch"), tried


def test_a_folder_and_a_region_are_no_place_for_python(home: Home) -> None:
    (home.path / "folder").mkdir(exist_ok=True)
    code, document = home.document("try", "task.py", "folder", "--target", "cpu")
    assert code == 2 and document["error"]["kind"] == "not_a_file" and "verify" in document["error"]["hint"]
    code, document = home.document("try", "task.py", home.task(NEW, "new.py"), "--region", "r0", "--target", "cpu")
    assert code == 2 and document["error"]["kind"] == "no_such_region" and "--region" in document["error"]["hint"]


def test_what_is_served_keeps_the_task_until_a_file_of_it_changes(home: Home) -> None:
    home.task("FACTOR = 1.0\n", "factors.py")
    task = home.task(SMALL.replace("import torch\n", "import torch\nfrom factors import FACTOR\n", 1).replace("return ", "return FACTOR * ", 1), "kept.py")
    kernel = source(home, home.document("try", task, "--target", "cpu")[1]["regions"][0]["description"], "kept.cpp")
    solution = home.task(NEW, "kept_new.py")

    def tried(file: str) -> dict[str, object]:
        code, document = home.document("try", task, file, "--target", "cpu", "--quick")
        assert "error" not in document and code in (0, 1), document
        return document

    # It was opened to be listed; what was tried before is no duplicate.
    first, again = tried(kernel), tried(kernel)
    assert first["warm"] and again["warm"] and first["ok"] and again["ok"], (first, again)
    # A guest of somebody's does not make the next verdict another.
    assert tried(solution)["ok"] and tried(kernel)["ok"]
    assert tried(home.task("def forward(x, scale):\n    import os, signal\n    os.kill(os.getpid(), signal.SIGSEGV)\n", "dies.py"))["outcome"] == "crash"
    last = tried(kernel)
    assert last["warm"] and last["ok"]
    # What the task imports is a part of it.
    home.task("FACTOR = 2.0\n", "factors.py")
    changed = tried(kernel)
    assert not changed["warm"] and changed["outcome"] == "wrong", changed
    assert tried(home.task(NEW.replace("return ", "return 2 * ", 1), "doubled.py"))["ok"]


def test_each_save_is_judged_until_somebody_interrupts(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.task(NORM)
    head = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
    answer = head + "        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)\n"
    home.task("class ModelNew(:\n", "answer.py")
    with OnTerminal(home, "try", "task.py", "answer.py", "--quick", "--watch", "--target", "cpu", "--no-serve") as command:
        command.until(lambda text: text.count("waiting until answer.py or task.py is saved") == 1 and "invalid syntax" in text, 240)
        for times, eps, said in ((2, "1e-6", "right"), (3, "1.0", "wrong")):
            (tmp_path / "other.py").write_text(answer.replace("EPS", eps))
            (tmp_path / "other.py").replace(tmp_path / "answer.py")  # as editors save
            text = command.until(lambda text, n=times: text.count("is saved (Ctrl-C ends)") == n, 240)
            assert said in text.split("is saved (Ctrl-C ends)")[times - 1], text
        command.press(b"\x03")
        assert command.finish(60) == 130
    for words in (("task.py", "--watch"), ("task.py", "-", "--watch")):
        code, document = home.document("try", *words)
        assert code == 2 and document["error"]["kind"] == "usage" and "two files" in document["error"]["message"]
