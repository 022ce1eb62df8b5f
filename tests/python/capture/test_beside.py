"""What a task may import from its own folder, and what a file there must not become."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import planish
import pytest
from planish.capture import load_task
from planish.capture.beside import Beside, names_that_torch_imports
from planish.errors import PlanishError

_TASK = """
import torch
{imports}
class Model(torch.nn.Module):
    def forward(self, x):
        return {body}
def get_inputs():
    return [torch.randn(3)]
"""


@pytest.fixture(autouse=True)
def no_other_folder_is_asked() -> Iterator[None]:
    before = list(sys.meta_path)
    sys.meta_path[:] = [finder for finder in before if not isinstance(finder, Beside)]
    yield
    sys.meta_path[:] = before


def _task(folder: Path, imports: str, body: str = "x") -> Path:
    path = folder / "task.py"
    path.write_text(_TASK.format(imports=imports, body=body))
    return path


def test_a_task_imports_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "planish_test_neighbour.py").write_text("import planish_test_package.part\nscale = planish_test_package.part.scale\n")
    (tmp_path / "planish_test_package").mkdir()
    (tmp_path / "planish_test_package" / "__init__.py").write_text("from . import part\n")
    (tmp_path / "planish_test_package" / "part.py").write_text("scale = 3\n")
    late = "import importlib\ndef late():\n    return importlib.import_module('planish_test_late').offset\n"
    (tmp_path / "planish_test_late.py").write_text("offset = 5\n")
    task = load_task(_task(tmp_path, f"from planish_test_neighbour import scale\n{late}", "x * scale + late()"))
    args, _ = task.make_inputs(1, "cpu")
    assert (task.model(*args) == args[0] * 3 + 5).all()


def test_nobody_else_gets_what_lies_beside_a_task(tmp_path: Path) -> None:
    (tmp_path / "planish_test_stranger.py").write_text("raise SystemExit('it ran')\n")
    load_task(_task(tmp_path, "import math"))
    with pytest.raises(ModuleNotFoundError):
        __import__("planish_test_stranger")


def test_a_name_that_torch_asks_for_is_refused_to_the_task_too(tmp_path: Path) -> None:
    name = next(iter(sorted(n for n in names_that_torch_imports() - set(sys.stdlib_module_names) if n not in sys.modules and not _installed(n))))
    (tmp_path / f"{name}.py").write_text("evil = True\n")
    with pytest.raises(PlanishError) as error:
        load_task(_task(tmp_path, f"import {name}"))
    assert error.value.kind == "shadows" and name in error.value.message


@pytest.mark.parametrize("module", ["planish.oracle", "planish.baseline", "planish.runner"])
def test_files_of_the_working_folder_are_not_run(module: str, tmp_path: Path) -> None:
    """Started as src/worker/toolbox.cpp starts them: the names of packages and of our own modules, in the current folder."""
    for name in ("z3", "triton", "numpy", "sympy", "optree", "json", "socket", "torch", "planish"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    code = f"import runpy, sys; sys.argv = ['x', '--help']; runpy.run_module({module!r}, run_name='not main'); import torch._dynamo"
    environment = {**os.environ, "PYTHONPATH": str(Path(planish.__file__).parents[1]), "PYTHONSAFEPATH": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def _installed(name: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True


def test_the_names_are_those_of_imports() -> None:
    assert {"z3", "triton", "numpy", "sympy"} <= names_that_torch_imports()
    assert json.__name__ in names_that_torch_imports() and "helpers" not in names_that_torch_imports()
