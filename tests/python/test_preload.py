"""What a process imports before it is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = str(Path(__file__).parents[2] / "python")
AFTER = """
import sys
from planish import preload
preload.{name}()
import torch
print(*(name in sys.modules for name in {wanted}), torch.cuda.is_initialized())
"""


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("for_capture", ["torch._dynamo", "torch.export._trace", "sympy"]), ("for_compiling", ["torch._inductor.compile_fx", "torch._inductor.codegen.cpp"])],
)
def test_it_is_loaded_and_nothing_else_has_happened(name: str, wanted: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    done = subprocess.run([sys.executable, "-c", AFTER.format(name=name, wanted=wanted)], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*["True"] * len(wanted), "False"] and not done.stderr


def test_what_cannot_be_loaded_is_missed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from planish import preload

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no export here")

    monkeypatch.setattr(torch.export, "export", broken)
    preload.for_capture()


@pytest.mark.parametrize("module", ["planish.api", "planish.runner.module", "planish.baseline.table"])
def test_who_captures_nothing_does_not_import_what_captures(module: str) -> None:
    """torch's tracer and compiler take half as long again as torch."""
    script = f"import sys, torch, {module}; print(*sorted(n for n in ('torch._dynamo', 'sympy', 'planish.capture.export') if n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": SOURCES}, capture_output=True, text=True, check=True)
    assert not done.stdout.split() and not done.stderr


def test_the_libraries_of_a_module_are_those_of_its_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from planish import preload
    from torch import nn

    library = tmp_path / "site-packages" / "lib_of_layers"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("")
    (library / "layers.py").write_text("from torch import nn\nclass Layer(nn.Identity):\n    pass\nclass Cache:\n    pass\n")
    (tmp_path / "layers_of_mine.py").write_text("from lib_of_layers.layers import Layer\nclass Mine(Layer):\n    pass\n")
    for folder in (tmp_path, library.parent):
        monkeypatch.syspath_prepend(str(folder))
    from layers_of_mine import Mine
    from lib_of_layers.layers import Cache, Layer

    for module, call in ((nn.Sequential(Layer()), ((), {})), (Mine(), ((), {})), (nn.ReLU(), ((), {"cache": Cache()}))):
        assert preload.libraries_of(module, call) == "lib_of_layers.layers"
    assert preload.libraries_of(nn.ReLU(), ((), {})) == ""
    program = "import sys\nfrom planish import preload\npreload.for_task()\nprint('lib_of_layers.layers' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": f"{SOURCES}:{library.parent}", preload.NAMES: "not.there,lib_of_layers.layers"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] and not done.stderr
