"""Solutions whose parameters are not the task's by name, and such as write what is not theirs, judged by a real evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from evaluator import PLANISH, Evaluator

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first = nn.Linear(n, n)
        self.second = nn.Linear(n, n)

    def forward(self, x):
        return self.first(x) + self.second(x)

def get_inputs():
    return [torch.randn(37, 16)]

def get_init_inputs():
    return [16]
"""

RENAMED = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a = nn.Linear(n, n)
        self.b = nn.Linear(n, n)

    def forward(self, x):
        return self.a(x) + self.b(x)
"""

PACKED = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        a, b = nn.Linear(n, n), nn.Linear(n, n)
        self.weight = nn.Parameter(torch.cat([a.weight.detach(), b.weight.detach()]))
        self.bias = nn.Parameter(torch.cat([a.bias.detach(), b.bias.detach()]))

    def forward(self, x):
        a, b = nn.functional.linear(x, self.weight, self.bias).chunk(2, -1)
        return a + b
"""

CASES = {
    "other names": (RENAMED, "ok", "state_by_order"),
    "other names, wrong": (RENAMED.replace("self.b(x)", "1.01 * self.b(x)"), "wrong", "state_by_order"),
    "packed": (PACKED, "ok", "own_state"),
    "packed, wrong": (PACKED.replace("[a.bias.detach()", "[0 * a.bias.detach()"), "wrong", "own_state"),
    "packed after other draws": (PACKED.replace("a, b = ", "torch.randn(1); a, b = "), "wrong", "own_state"),
    "the task's own names": (TASK.replace("class Model(", "class ModelNew("), "ok", None),
    "writes its input": (RENAMED.replace("return ", "x.mul_(2)\n        return "), "input_write", "state_by_order"),
    "writes a parameter": (RENAMED.replace("return ", "self.a.bias.data.mul_(2)\n        return "), "input_write", "state_by_order"),
    "faults elsewhere": (RENAMED.replace("return ", "import ctypes; ctypes.string_at(8)\n        return "), "crash", "state_by_order"),
}

# What starts as nothing: a gate of zeros, the second factor of a LoRA, a projection that is zero, a norm of ones and zeros.
HIDDEN = """
import torch
import torch.nn as nn
from torch.nn.functional import gelu, layer_norm, linear

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(n, n), nn.Linear(n, n), nn.Linear(n, n)
        nn.init.zeros_(self.v.bias)
        self.norm = nn.LayerNorm(n)
        self.gate = nn.Parameter(torch.zeros(n))
        self.down, self.up = nn.Linear(n, 4, bias=False), nn.Linear(4, n, bias=False)
        self.up.weight.data.zero_()
        self.branch = nn.Linear(n, n)

    def forward(self, x):
        h = torch.softmax(self.q(x) @ self.k(x).T, -1) @ self.v(x)
        h = self.norm(h + self.up(self.down(x)))
        return h + self.gate * gelu(self.branch(h))

def get_inputs():
    return [torch.randn(24, 16)]

def get_init_inputs():
    return [16]
"""

HONEST_HIDDEN = """
import torch
import torch.nn as nn
from torch.nn.functional import gelu, layer_norm, linear

class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        q, k, v = nn.Linear(n, n), nn.Linear(n, n), nn.Linear(n, n)
        nn.init.zeros_(v.bias)
        self.qkv = nn.Parameter(torch.cat([q.weight, k.weight, v.weight]).detach())
        self.qkv_bias = nn.Parameter(torch.cat([q.bias, k.bias, v.bias]).detach())
        self.gamma, self.beta = nn.Parameter(torch.ones(n)), nn.Parameter(torch.zeros(n))
        self.scale = nn.Parameter(torch.zeros(n, 1))
        down, up = nn.Linear(n, 4, bias=False), nn.Linear(4, n, bias=False)
        nn.init.zeros_(up.weight)
        self.a, self.b = nn.Parameter(down.weight.detach()), nn.Parameter(up.weight.detach().T.contiguous())
        self.mlp = nn.Linear(n, n)

    def forward(self, x):
        q, k, v = linear(x, self.qkv, self.qkv_bias).chunk(3, -1)
        h = torch.softmax(q @ k.T, -1) @ v
        h = layer_norm(h + x @ self.a.T @ self.b, (x.shape[-1],), self.gamma, self.beta)
        return h + self.scale[:, 0] * gelu(self.mlp(h))
"""

HIDDEN_CASES = {
    "merged, renamed and reshaped": (HONEST_HIDDEN, "ok"),
    "no low-rank part": (HONEST_HIDDEN.replace("h + x @ self.a.T @ self.b", "h"), "wrong"),
    "no gated branch": (HONEST_HIDDEN.replace("return h + self.scale[:, 0] * gelu(self.mlp(h))", "return h"), "wrong"),
    "no branch behind the gate": (HONEST_HIDDEN.replace("gelu(self.mlp(h))", "h"), "wrong"),
    "no affine norm": (HONEST_HIDDEN.replace("self.gamma, self.beta)\n        return", "None, None)\n        return"), "wrong"),
    "no bias that is zero": (HONEST_HIDDEN.replace("q.bias, k.bias, v.bias", "q.bias, k.bias, torch.zeros(n)"), "wrong"),
    "its weights written down": (HONEST_HIDDEN.replace("super().__init__()\n", "super().__init__()\n        torch.manual_seed(42)\n"), "wrong"),
}


# Branches that no value of what is learned opens, unless it is changed by much: a sigmoid of -50, a number that is a buffer, a bias that is drawn.
CLOSED = """
import torch
import torch.nn as nn
from torch.nn.functional import gelu, linear

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Linear(n, n), nn.Linear(n, n)
        self.gate = nn.Parameter(torch.full((n,), -50.0))
        self.shut = nn.Parameter(torch.empty(n))
        nn.init.uniform_(self.shut, -60, -40)
        self.register_buffer("mix", torch.tensor(0.0))

    def forward(self, x):
        h = self.a(x)
        return h + torch.sigmoid(self.gate) * torch.sin(h) + torch.exp(self.shut) * torch.tanh(h) + self.mix * gelu(self.b(x))

def get_inputs():
    return [torch.randn(24, 16)]

def get_init_inputs():
    return [16]
"""

HONEST_CLOSED = """
import torch
import torch.nn as nn
from torch.nn.functional import gelu, linear

class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        a, b = nn.Linear(n, n), nn.Linear(n, n)
        self.weight = nn.Parameter(torch.cat([a.weight, b.weight]).detach())
        self.bias = nn.Parameter(torch.cat([a.bias, b.bias]).detach())
        self.open = nn.Parameter(torch.full((n,), -50.0))
        self.low = nn.Parameter(torch.empty(n))
        nn.init.uniform_(self.low, -60, -40)
        self.register_buffer("part", torch.tensor(0.0))

    def forward(self, x):
        h, other = linear(x, self.weight, self.bias).chunk(2, -1)
        return h + torch.sigmoid(self.open) * torch.sin(h) + torch.exp(self.low) * torch.tanh(h) + self.part * gelu(other)
"""

CLOSED_CASES = {
    "packed": (HONEST_CLOSED, "ok"),
    "no branch behind a sigmoid of -50": (HONEST_CLOSED.replace(" + torch.sigmoid(self.open) * torch.sin(h)", ""), "wrong"),
    "another branch behind it": (HONEST_CLOSED.replace("torch.sin(h)", "torch.cos(h)"), "wrong"),
    "no branch behind an exponential of what is drawn": (HONEST_CLOSED.replace(" + torch.exp(self.low) * torch.tanh(h)", ""), "wrong"),
    "no branch behind a buffer of one number": (HONEST_CLOSED.replace(" + self.part * gelu(other)", ""), "wrong"),
    "a branch of its own": (HONEST_CLOSED.replace("return h", "return h + torch.sigmoid(self.open - 1) * h"), "wrong"),
    "the task's own names": (CLOSED.replace("class Model(", "class ModelNew("), "ok"),
    "the task's own names, no branch": (CLOSED.replace("class Model(", "class ModelNew(").replace(" + torch.sigmoid(self.gate) * torch.sin(h)", ""), "wrong"),
}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    yield from started(tmp_path_factory.mktemp("closed"), CLOSED)


@pytest.mark.parametrize("name", CLOSED_CASES)
def test_a_branch_that_is_closed_is_not_left_out(name: str, closed: Evaluator, tmp_path: Path) -> None:
    source, outcome = CLOSED_CASES[name]
    path = tmp_path / "solution.py"
    path.write_text(source)
    found: dict[str, Any] = closed.verify(path)
    assert found["outcome"] == outcome and found["verified"] == (outcome == "ok"), found["message"]


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    yield from started(tmp_path_factory.mktemp("state"), TASK)


@pytest.fixture(scope="module")
def hiding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    yield from started(tmp_path_factory.mktemp("hidden"), HIDDEN)


def started(folder: Path, source: str) -> Iterator[Evaluator]:
    if not PLANISH.exists():
        pytest.fail(f"{PLANISH} is not built: run make build")
    task = folder / "task.py"
    task.write_text(source)
    running = Evaluator(folder, task, region=False)
    yield running
    running.close()


@pytest.mark.parametrize("name", CASES)
def test_a_solution_with_other_state(name: str, evaluator: Evaluator, tmp_path: Path) -> None:
    source, outcome, note = CASES[name]
    path = tmp_path / "solution.py"
    path.write_text(source)
    found: dict[str, Any] = evaluator.verify(path)
    assert found["outcome"] == outcome and found["verified"] == (outcome == "ok"), found["message"]
    assert [n["kind"] for n in found["notes"] if n["kind"].endswith(("state", "order"))] == ([note] if note else [])
    if outcome == "input_write":
        assert "it writes into its" in found["message"]


@pytest.mark.parametrize("name", HIDDEN_CASES)
def test_a_solution_with_state_of_its_own_leaves_nothing_out_that_is_hidden_at_the_start(name: str, hiding: Evaluator, tmp_path: Path) -> None:
    source, outcome = HIDDEN_CASES[name]
    path = tmp_path / "solution.py"
    path.write_text(source)
    found: dict[str, Any] = hiding.verify(path)
    assert found["outcome"] == outcome and found["verified"] == (outcome == "ok"), found["message"]
    assert [n["kind"] for n in found["notes"] if n["kind"] == "own_state"] == ["own_state"]
    assert "from another one" in next(n["text"] for n in found["notes"] if n["kind"] == "own_state")
    if outcome == "wrong":
        assert "has another value" in found["message"]
