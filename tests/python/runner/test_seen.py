"""What a caller sees of a solution's call beside the values that it returns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from planish.errors import PlanishError
from planish.runner import seen
from planish.runner.handles import Bound
from planish.runner.module import ModuleHandle
from torch.overrides import _get_current_function_mode_stack

HEAD = "import torch\nimport torch.overrides\nfrom torch import nn\n"


def source(name: str, forward: str, init: str = "pass") -> str:
    made = f"class {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n    def forward(self, x):\n        {forward}\n"
    return HEAD + made


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    yield
    while _get_current_function_mode_stack():
        _get_current_function_mode_stack()[-1].__exit__(None, None, None)
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)
    torch.set_autocast_enabled("cpu", False)
    torch.use_deterministic_algorithms(False)


def called(folder: Path, task: str, solution: str, init: str = "pass") -> torch.Tensor:
    """The first output of a solution's call, as the runner stores it."""
    folder.mkdir(exist_ok=True)
    get = "def get_inputs():\n    return [torch.randn(4, 6)]\ndef get_init_inputs():\n    return []\n"
    (folder / "task.py").write_text(source("Model", task, init) + get)
    (folder / "solution.py").write_text(source("ModelNew", solution, init))
    handle = ModuleHandle(folder / "solution.py", folder / "task.py", 0, False, torch.device("cpu"), None)
    x = torch.randn(4, 6)
    bound = Bound(names={"in0": x, "out0": torch.full([4, 6], torch.nan)})
    prepared = handle.prepare(bound)
    with torch.no_grad():
        handle.before(prepared)
        handle.store(prepared, handle.call(prepared))
    return bound.names["out0"]


# By name: the task, what is refused and with which word, and what is right.
CASES = {
    "an input for a copy of it": ("return x.clone()", "return x", "shares memory with an input", "return x + 0"),
    "a part of an input": ("return x * 1", "return x[:, :]", "shares memory with an input", "return x.clone()"),
    "elements in one place": ("return x.mean(-1, keepdim=True).repeat(1, 6)", "return x.mean(-1, keepdim=True).expand(-1, 6)", "share one place",
                              "return x.mean(-1, keepdim=True).expand(-1, 6).contiguous()"),
    "gradients": ("return x * 2", "return (x * 2).requires_grad_(True)", "requires gradients", "return x + x"),
    "a default dtype": ("return x * 2", "torch.set_default_dtype(torch.float64); return x * 2", "the default dtype", "torch.manual_seed(0); return x * 2"),
    "deterministic algorithms": ("return x * 2", "torch.use_deterministic_algorithms(True); return x * 2", "deterministic", "return x * 2"),
    "a number of threads": ("return x * 2", "torch.set_num_threads(torch.get_num_threads() + 1); return x * 2", "number of threads",
                            "n = torch.get_num_threads(); torch.set_num_threads(n + 1); y = x * 2; torch.set_num_threads(n); return y"),
    "denormal numbers": ("return x * 2", "torch.set_flush_denormal(True); return x * 2", "denormal", "torch.set_flush_denormal(False); return x * 2"),
    "autocast on the CPU": ("return x * 2", "torch.set_autocast_enabled('cpu', True); return x * 2", "autocast on the CPU",
                            "torch.set_autocast_enabled('cpu', False); return x * 2"),
    "a default device": ("return x * 2", "torch.set_default_device('meta'); return x * 2", "default device", "return x * 2"),
    "a mode": ("return x * 2", "torch.overrides.BaseTorchFunctionMode().__enter__(); return x * 2", "BaseTorchFunctionMode",
               "\n        with torch.overrides.BaseTorchFunctionMode():\n            return x * 2"),
    "gradients that are recorded": ("return x * 2", "torch.set_grad_enabled(True); return x * 2", "gradients on", "return x * 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_more_than_values_is_seen(name: str, tmp_path: Path) -> None:
    task, wrong, word, right = CASES[name]
    called(tmp_path / "right", task, right)
    with pytest.raises(PlanishError) as error:
        called(tmp_path / "wrong", task, wrong)
    assert error.value.kind == "launch_failed" and word in str(error.value)


SAME = {
    "an input that the task returns": ("return x", "return x"),
    "a view that the task returns": ("return x[:, :]", "return x[:, :]"),
    "a copy where the task returns a view": ("return x[:, :]", "return x.clone()"),
    "elements in one place in both": ("return x.mean(-1, keepdim=True).expand(-1, 6)", "return x.mean(-1, keepdim=True).expand(-1, 6)"),
    "a view of memory of its own": ("return x * 2", "big = torch.empty(3, 4, 6); big[1] = x * 2; return big[1]"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_the_task_does_too_passes(name: str, tmp_path: Path) -> None:
    called(tmp_path, *SAME[name])


def test_a_state_that_is_handed_out() -> None:
    model = torch.nn.BatchNorm1d(3)
    assert seen.bonds(model.running_mean, [], model) and seen.bonds(model.weight.detach()[1:], [], model)
    assert not seen.bonds(torch.ones(3), [torch.ones(3)], model) and not seen.bonds(torch.ones(0), [], model) and not seen.bonds(3, [], model)
