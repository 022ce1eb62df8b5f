"""A shipped folder with a compiled kernel runs it through its own copy of the runtime."""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

for neighbour in ("executor", "ship"):
    sys.path.insert(0, str(Path(__file__).parents[1] / neighbour))

from planish.ship import load  # noqa: E402
from programs import SCALE, buffer, build, program, scale, user  # noqa: E402
from shipping import program_ran, runs, with_kernels  # noqa: E402

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(64)]
"""


@pytest.fixture(params=["in C", "in Python"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    document = program([buffer("input", [64], user(0)), buffer("output", [64])], [scale(0, 1, 64)], [{"buffer": 1, "kind": "user"}], [SCALE])
    return with_kernels(tmp_path, TASK, document, build([SCALE], tmp_path), request.param == "in C")


def test_the_form_that_runs(folder: Path) -> None:
    model = load(folder)
    model(torch.ones(64))
    with runs() as seen:
        model(torch.ones(64))
    assert seen == ["direct" if (folder / "planish_call.so").exists() else "run"]


def test_the_kernel_runs(folder: Path) -> None:
    model, x = load(folder), torch.randn(64)
    ran, result = program_ran(model, x)
    assert ran and torch.equal(result, x * 2)
    assert torch.equal(model(x[:32]), x[:32] * 2)


def test_a_moved_folder_still_works(folder: Path, tmp_path: Path) -> None:
    moved = shutil.move(folder, tmp_path / "elsewhere")
    ran, result = program_ran(load(moved), torch.ones(64))
    assert ran and torch.equal(result, torch.full((64,), 2.0))


def test_a_free_threaded_interpreter_does_not_load_the_extension(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts references as an interpreter with a global lock does; the checks in Python answer there."""
    known = sysconfig.get_config_var
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: 1 if name == "Py_GIL_DISABLED" else known(name))
    model, x = load(folder), torch.randn(64)
    with runs() as seen:
        assert torch.equal(model(x), x * 2) and torch.equal(model(x), x * 2)
    assert seen == ["run", "run"] and model._planish.shipped.extension is None


@pytest.mark.parametrize("broken", ["a missing binary", "a missing runtime", "another CPU"])
def test_what_cannot_be_loaded_leaves_the_original(folder: Path, broken: str) -> None:
    if broken == "a missing binary":
        (folder / "kernels" / "k0.so").unlink()
    elif broken == "a missing runtime":
        (folder / "libplanish_rt.so").unlink()
    else:
        manifest = json.loads((folder / "ship.json").read_text())
        (folder / "ship.json").write_text(json.dumps({**manifest, "cpu_flags": ["avx9000"]}))
    model, x = load(folder), torch.randn(64)
    ran, result = program_ran(model, x)
    assert not ran and torch.equal(result, x * 2) and model._planish.why
