"""planish.optimize as users call it: a script's own module, a function over a module, with the real command on the CPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cli"))

from command import Home
from serving import asked_by_all

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("PLANISH_BUILD", ROOT / "build"))

#: Eager computes a thousand columns to add them up; a program that adds the weights up first has a thousandth of the products. What is
#: gained so is more than a busy machine hides, and where it is not gained the rewrite is gone.
MODULE = """
import os, sys
import planish, torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1024, 512) / 32)
        self.scale = nn.Parameter(torch.rand(1))

    def forward(self, x):
        y = nn.functional.linear(x, self.weight).sum(-1, keepdim=True)
        return torch.tanh(y * 0.01) * self.scale
"""
SETTINGS = 'target="cpu", budget="60s", evals=4, seed=1, baselines="none"'
LIVE = (
    MODULE
    + f"""
with torch.no_grad():
    block, x = Block().eval(), torch.randn(256, 512)
    before = block(x)
    found = planish.optimize(block, (x,), {SETTINGS})
    print(found)
    assert found.improved and found.speedup > 1, found.reason
    assert found.timed == os.environ["EXPECTED_FORM"], found.timed
    torch.testing.assert_close(block(x), before, atol=1e-5, rtol=1e-4)
    block.scale.mul_(2)
    torch.testing.assert_close(block(x), Block.forward(block, x), atol=1e-5, rtol=1e-4)
    assert planish.status(block).ran == planish.status(block).calls == 2, planish.status(block)
"""
)

FUNCTION = (
    MODULE
    + f"""
block, x = Block().eval(), torch.randn(256, 512)
offset = 0.5


@planish.optimize(example_inputs=(x,), {SETTINGS})
def energies(x):
    return block(x) + offset


with torch.no_grad():
    print(energies.optimized)
    assert energies.optimized.improved, energies.optimized.reason
    assert energies.optimized.timed == "exported"
    torch.testing.assert_close(energies(x), energies.original(x), atol=1e-5, rtol=1e-4)
    block.scale.mul_(2)
    torch.testing.assert_close(energies(x), energies.original(x), atol=1e-5, rtol=1e-4)
    assert planish.status(energies).ran == planish.status(energies).calls == 2, planish.status(energies)
    offset = 1.0
    torch.testing.assert_close(energies(x), energies.original(x))
    assert planish.status(energies).calls == 2
"""
)

PIECES = (
    MODULE
    + f"""
class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        y = self.block(x)
        return y * 2 if y.abs().max() > 1e-4 else y


with torch.no_grad():
    gated, x = Gated().eval(), torch.randn(256, 512)
    found = planish.optimize(gated, (x,), {SETTINGS})
    print(found)
    assert found.improved and found.timed == "pieces", found.reason
    torch.testing.assert_close(gated(x), Gated.forward(gated, x), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(gated(x * 0), Gated.forward(gated, x * 0), atol=1e-5, rtol=1e-4)
    gated.block.scale.mul_(2)
    torch.testing.assert_close(gated(x), Gated.forward(gated, x), atol=1e-5, rtol=1e-4)
    assert planish.status(gated).ran == planish.status(gated).calls == 3, planish.status(gated)
    compiled = torch.compile(Gated.forward, backend="planish", options={{"baselines": "none", "evals": 4, "budget": 60}})
    for _ in range(3):
        torch.testing.assert_close(compiled(gated, x), Gated.forward(gated, x), atol=1e-5, rtol=1e-4)
"""
)


def run(script: str, folder: Path, **environment: str) -> str:
    path = folder / "user_script.py"
    path.write_text(script)
    scratch = folder / "tmp"
    scratch.mkdir(exist_ok=True)
    settings = {"PYTHONPATH": str(ROOT / "python"), "PLANISH_BIN": str(BUILD / "bin" / "planish"), "PLANISH_CACHE": str(folder / "cache"),
                "PLANISH_STORE": str(folder / "store.db"), "PLANISH_DATA": str(folder / "data"), "TMPDIR": str(scratch), **environment}  # fmt: skip
    done = subprocess.run([sys.executable, str(path)], cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning: planish" not in done.stderr, done.stderr
    assert [p for p in scratch.iterdir() if p.name.startswith("planish-")] == []
    return done.stdout


def test_a_module_of_the_users_script_runs_its_program(tmp_path: Path) -> None:
    form = "exported" if importlib.util.find_spec("cloudpickle") is None else "module"
    assert "x as fast as eager" in run(LIVE, tmp_path, EXPECTED_FORM=form)


def test_a_function_over_a_module_runs_its_program(tmp_path: Path) -> None:
    assert "its exported program" in run(FUNCTION, tmp_path)


def test_what_cannot_be_captured_whole_runs_in_pieces(tmp_path: Path) -> None:
    """Each graph is a run of its own: they ask one warm evaluator."""
    (tmp_path / "warm").mkdir()
    with asked_by_all(Home(tmp_path / "warm")) as warm:
        said = run(PIECES, tmp_path, **warm)
    assert "1 of 1 graphs" in said or "1 of 2 graphs" in said or "1 of 3 graphs" in said, said
    assert "user_script.py:" in said
