"""Which calls a program answers, counted by the checks in C and in Python alike."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from planish import counts
from planish.ship import load
from shipping import runs
from test_changes import shipped


@pytest.fixture(scope="module", params=["in C", "in Python"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shipped(tmp_path_factory.mktemp("counts"), request.param == "in C")


def test_a_call_that_needs_no_gradients_runs_the_program_in_grad_mode(folder: Path, request: pytest.FixtureRequest) -> None:
    model, x = load(folder), torch.randn(4, 8)
    assert torch.is_grad_enabled()
    with pytest.warns(UserWarning, match=r"planish: .*torch\.no_grad"):
        assert model(x).requires_grad
    model.requires_grad_(False)
    with runs() as seen:
        for _ in range(3):
            model(x)
    # The first of them binds, or had bound; from then on the C form answers where there is one.
    assert len(seen) == 3 and ("direct" in seen) is ("in C" in request.node.callspec.id)
    assert counts.status(model).ran == 3 and counts.status(model).calls == 4


@torch.no_grad()
def test_counts_outlive_a_new_binding_and_are_a_modules_own(folder: Path) -> None:
    model, other, x = load(folder), load(folder), torch.randn(4, 8)
    for _ in range(3):
        model(x)
    model.gain = 4.0  # looked at afresh from here on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model(x)
    model.gain = 3.0
    model(x)
    model(x)
    other(x)
    found = counts.status(model)
    assert (found.ran, found.calls, counts.status(other).ran) == (5, 6, 1)
    assert "gain" in repr(found)


@torch.no_grad()
def test_a_runtime_of_another_version_leaves_the_original_running(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "old")
    subprocess.run(["g++", "-shared", "-x", "c++", "/dev/null", "-o", str(tmp_path / "old" / "libplanish_rt.so")], check=True)
    manifest = json.loads((tmp_path / "old" / "ship.json").read_text())
    if "files" in manifest:  # it was shipped with that one
        manifest["files"]["libplanish_rt.so"] = hashlib.sha256((tmp_path / "old" / "libplanish_rt.so").read_bytes()).hexdigest()
        (tmp_path / "old" / "ship.json").write_text(json.dumps(manifest))
    model, x = load(tmp_path / "old"), torch.randn(4, 8)
    with pytest.warns(UserWarning, match=r"planish: .*optimise it again"):
        torch.testing.assert_close(model(x), type(model).__mro__[1].forward(model, x))
    assert counts.status(model).ran == 0


@torch.no_grad()
def test_each_reason_is_said_once(folder: Path) -> None:
    model = load(folder)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for rows in (5, 6, 7):
            model(torch.randn(rows, 8))
        model(torch.randn(8, 4).T)
    assert [str(w.message).partition("program: ")[2].partition(" (said")[0] for w in said] == [
        "input 0 has shape [5, 8], the program was made for [4, 8]",
        "input 0 lies otherwise in memory (strides (1, 4)) than the program was made for",
    ]
    assert all(w.filename == __file__ for w in said)
    assert sorted(counts.status(model).fell_back.values()) == [1, 3]
