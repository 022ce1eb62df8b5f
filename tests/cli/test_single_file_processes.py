"""Single files in processes that close descriptors, tidy folders, fork, or hold several of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command import Home

for neighbour in ("executor", "ship"):
    sys.path.insert(0, str(Path(__file__).parents[1] / "python" / neighbour))

from programs import SCALE, buffer, build, program, scale, user  # noqa: E402
from shipping import with_kernels  # noqa: E402

TASK = """import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * {factor}

def get_inputs():
    return [torch.randn(64)]
"""
BEFORE = """
import os, sys
import torch
def load(path):
    space = {}
    exec(open(path).read(), space)
    return space["load"]()
def check(model, factor):
    x = torch.randn(64)
    before = model._planish.shipped.runs()
    assert torch.equal(model(x), x * factor), (model(x) / x, factor)
    assert model._planish.shipped.runs() > before, model._planish.why
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two.py, three.py and five.py, which multiply by their names, each with a kernel of its own but one signature."""
    home = Home(tmp_path_factory.mktemp("files"))
    for name, factor in (("two", 2), ("three", 3), ("five", 5)):
        made = home.path / name
        made.mkdir()
        kernel = {**SCALE, "source": str(SCALE["source"]).replace("in[i] * f", f"in[i] * {factor}")}
        document = program([buffer("input", [64], user(0)), buffer("output", [64])], [scale(0, 1, 64)], [{"buffer": 1, "kind": "user"}], [kernel])
        with_kernels(made, TASK.format(factor=factor), document, build([kernel], made))
        done = home.run("export", f"{name}/shipped", "--form", "file", "--out", f"{name}.py")
        assert done.returncode == 0, done.stderr
    return home.path


def run(files: Path, script: str) -> None:
    done = subprocess.run([sys.executable, "-I", "-c", BEFORE + script], capture_output=True, text=True, cwd=files, check=False, timeout=300)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"


def test_files_loaded_after_all_descriptors_were_closed(files: Path) -> None:
    """Their descriptors get the numbers that those of the first had: each must still run its own kernel."""
    run(
        files,
        """
two = load("two.py"); check(two, 2)
os.closerange(3, 4096)
three = load("three.py"); check(three, 3)
os.closerange(3, 4096)
five = load("five.py"); check(five, 5)
check(two, 2); check(three, 3)
""",
    )


def test_what_is_first_needed_after_descriptors_were_closed(files: Path) -> None:
    """As a daemon does between importing and serving; other files are open where ours were."""
    run(
        files,
        """
two, three = load("two.py"), load("three.py")
os.closerange(3, 4096)
others = [open("two.py", "rb") for _ in range(20)]
check(two, 2); check(three, 3)
os.closerange(3, 4096)
two._planish.shipped._executors.clear()
check(two, 2); check(three, 3)
""",
    )


def test_without_files_in_memory_a_folder_is_used_and_tidied_by_its_owner(files: Path, tmp_path: Path) -> None:
    run(
        files,
        f"""
import glob, shutil, tempfile
tempfile.tempdir = {str(tmp_path)!r}
def refuse(*given): raise OSError(38, "not implemented")
os.memfd_create = refuse
two, three = load("two.py"), load("three.py")
check(two, 2)
assert glob.glob({str(tmp_path)!r} + "/planish-*/*")
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert glob.glob({str(tmp_path)!r} + "/planish-*/*"), "a child tidied up"
shutil.rmtree({str(tmp_path)!r})
os.mkdir({str(tmp_path)!r})
check(three, 3)
two._planish.shipped._executors.clear()
check(two, 2)
""",
    )
    assert not list(tmp_path.iterdir()), "nothing stays behind"


def test_two_versions_of_planish_in_one_process(files: Path) -> None:
    """Each file brings its own: their modules never mix."""
    text = (files / "three.py").read_text()
    assert text.count("\n    keep = 2\n") == 1 and text.count('_KEY, _TEXTS, _BINARIES = "') == 1
    (files / "older.py").write_text(text.replace("\n    keep = 2\n", "\n    keep = 7\n").replace('_KEY, _TEXTS, _BINARIES = "', '_KEY, _TEXTS, _BINARIES = "0'))
    run(
        files,
        """
newer, older = load("two.py"), load("older.py")
check(newer, 2); check(older, 3); check(newer, 2)
assert [m._planish.shipped.module._Pool.keep for m in (newer, older)] == [2, 7]
assert newer._planish.shipped.extension is not older._planish.shipped.extension
assert type(newer._planish) is not type(older._planish)
""",
    )
