"""`planish export`: every form of a shipped folder does what the folder does, away from the package and the place it was made in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import Home, lines
from optimised_task import Optimised

for neighbour in ("executor", "ship"):
    sys.path.insert(0, str(Path(__file__).parents[1] / "python" / neighbour))

from programs import buffer, build, kernel, launch, param, program, user  # noqa: E402
from shipping import with_kernels  # noqa: E402

TASK = '''import torch
from torch import nn

class Model(nn.Module):
    """A docstring with a \\\\ backslash."""
    def __init__(self, width, shift=0.5):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, width))
        self.shift = shift

    def forward(self, x):
        return torch.relu(x) * self.weight + self.shift

def get_inputs():
    return [torch.randn(4, 8)]

def get_init_inputs():
    return [8]
'''
KERNEL = kernel(
    "relu_scale",
    "auto* x = (const float*)args[0]; auto* w = (const float*)args[1]; auto* out = (float*)args[2]; auto n = *(const int64_t*)args[3];"
    "auto shift = *(const float*)args[4]; for (int64_t i = 0; i < n; ++i) out[i] = (x[i] < 0 ? 0 : x[i]) * w[i % 8] + shift;",
)
DOCUMENT = program(
    [buffer("input", [4, 8], user(0)), buffer("param", [8], param("weight")), buffer("output", [4, 8])],
    [launch(0, {"buffer": 0}, {"buffer": 1}, {"buffer": 2}, {"i64": 32}, {"f32": "0x1p-1"})],
    [{"buffer": 2, "kind": "user"}],
    [KERNEL],
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with out/shipped, made by hand so that what ships is always a program, and its task.py."""
    made = Home(tmp_path_factory.mktemp("export"))
    (made.path / "kernels").mkdir()
    folder = with_kernels(made.path / "out", TASK, DOCUMENT, build([KERNEL], made.path / "kernels"))
    assert folder == made.path / "out" / "shipped"
    made.task(TASK)
    return made


# Runs the text as KernelBench does: exec in a namespace of its own, where no file, folder or package of ours can be seen.
EXEC = """
import json, os, sys
text = sys.stdin.read()
assert not any("planish" in name for name in sys.modules)
import torch
torch.set_num_threads(1)
for attempt in range(2):
    space = {}
    exec(text, space)
    torch.manual_seed(1)
    model, x = space["ModelNew"](*space["get_init_inputs"]()), space["get_inputs"]()[0]
    with torch.no_grad():
        same = [torch.equal(model(x), space["Model"].forward(model, x)) for _ in range(3)]
        hits = model._planish.shipped.extension.hits()
        shorter = torch.equal(model(x[:2]), space["Model"].forward(model, x[:2]))
    other = space["ModelNew"](8, shift=1.0)
    other_same = torch.equal(other(x), space["Model"].forward(other, x)) and bool(other._planish.reason)
mine = sorted(name.rpartition("_")[2] for name in sys.modules if name.startswith("planish"))
import inspect
print(json.dumps({"same": same, "hits": hits, "shorter": shorter, "other": other_same, "modules": mine, "why": model._planish.why,
                  "source": "torch.relu" in inspect.getsource(space["Model"].forward)}))
"""


def test_a_single_file_needs_nothing_else(home: Home, tmp_path: Path) -> None:
    done = home.run("export", "out", "--form", "file")
    assert done.returncode == 0, done.stderr
    made = home.path / "task_planish.py"
    assert done.stdout.strip() == str(made)
    text = made.read_text()
    ran = subprocess.run([sys.executable, "-I", "-c", EXEC], input=text, capture_output=True, text=True, cwd=tmp_path, env={"PATH": ""}, check=False)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout.splitlines()[-1])
    assert seen["same"] == [True] * 3 and seen["shorter"] and seen["other"] and seen["source"], seen
    assert seen["hits"] == 4, seen  # of three calls, the first binds; twice
    assert seen["modules"] == ["executor", "guards", "reference"], seen
    assert list(tmp_path.iterdir()) == []


def test_verify_takes_the_file_and_the_folder(home: Home) -> None:
    assert home.run("export", "out", "--form", "file", "--out", "solution.py").returncode == 0
    for path in ("solution.py", "out"):
        code, document = home.document("verify", "task.py", path, "--target", "cpu", "--seeds", "1")
        assert code == 0 and document["verified"], document


def test_the_source_form_builds_and_its_test_passes(home: Home) -> None:
    code, document = home.document("export", "out/shipped", "--form", "source", "--out", "project")
    assert code == 0 and document["form"] == "source", document
    project = home.path / "project"
    made = subprocess.run(["make", "-C", project, "test", f"PYTHON={sys.executable}"], capture_output=True, text=True, check=False)
    assert made.returncode == 0 and "passed" in made.stdout, made.stdout + made.stderr
    # It is a test that can fail: a kernel that does something else is noticed.
    source = project / "kernels" / "k0.cpp"
    source.write_text(source.read_text().replace("+ shift", "- shift"))
    broken = subprocess.run(["make", "-C", project, "test", f"PYTHON={sys.executable}"], capture_output=True, text=True, check=False)
    assert broken.returncode != 0 and "relative error" in broken.stderr


def test_the_folder_form_goes_elsewhere(home: Home, tmp_path: Path) -> None:
    done = home.run("export", "out", "--out", str(tmp_path / "copy"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copy" / "module.py").exists() and (tmp_path / "copy" / "kernels" / "k0.so").exists()


def test_a_run_is_exported_by_its_id(optimised: Optimised, tmp_path: Path) -> None:
    home, run = optimised.home, optimised.result["run"]
    code, document = home.document("export", run, "--form", "file", "--out", str(tmp_path / "small.py"))
    assert code == 0 and document["task"] == "small", document
    assert "class ModelNew(Model)" in (tmp_path / "small.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (["nothing-here"], "no_such_run", "nothing-here"),
        (["kernels"], "not_shipped", "kernels"),
        (["out", "--form", "wheel"], "usage", "--form"),
        (["out", "--form", "file", "--out", "task.py"], "in_the_way", "task.py"),
        (["out", "--out", "kernels"], "not_shipped", "kernels"),
    ],
)
def test_errors_are_named(home: Home, arguments: list[str], kind: str, words: str) -> None:
    done = home.run("export", *arguments, "--json")
    assert done.returncode == 2, done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == kind and words in error["message"], error
    assert lines(done.stderr, "hint: ")


def test_a_task_with_neighbours_ships_with_them(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "planish_test_helper.py").write_text("import torch\n\ndef act(x):\n    return torch.relu(x) * 2\n")
    source = "from planish_test_helper import act\nimport torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return act(x)\n"
    (tmp_path / "tasks" / "task.py").write_text(source + "\ndef get_inputs():\n    return [torch.randn(4, 8)]\n")
    done = home.run("optimize", "tasks/task.py", "--target", "cpu", "--budget", "3s", "--evals", "1", "--baselines", "none", "--out", "out")
    assert done.returncode in (0, 1), done.stderr
    shutil.move(tmp_path / "out" / "shipped", tmp_path / "moved")
    shutil.rmtree(tmp_path / "tasks")
    code = "import sys; sys.path.insert(0, 'moved'); import torch, module; x = torch.randn(4, 8); print(torch.equal(module.load()(x), torch.relu(x) * 2))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "True", ran.stderr
    refused = home.run("export", "moved", "--form", "file")
    assert refused.returncode == 2 and "planish_test_helper.py" in refused.stderr
