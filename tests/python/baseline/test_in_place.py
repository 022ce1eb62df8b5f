"""Functions that change their arguments are timed, and compared, on the same contents at each call; rows that rounding sends another way are no fault."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

for neighbour in ("ship", "runner"):
    sys.path.insert(0, str(Path(__file__).parents[1] / neighbour))

from planish.baseline.routes import DRAWS, explained_by_routes, rounded_otherwise  # noqa: E402
from planish.baseline.table import Table, far_apart, further_than_eager  # noqa: E402
from planish.runner.timing import Limits  # noqa: E402
from shipping import ship  # noqa: E402

STEP = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, p, g, m):
        m.lerp_(g, 0.5)
        p.add_(m, alpha=-0.5)
        return p * 1.0

def get_inputs():
    return [torch.randn(16, 8), torch.randn(16, 8), torch.randn(16, 8)]
"""
QUICK = Limits(min_runs=6, max_runs=12, max_seconds=0.5, interval=0.05)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    folder = ship(tmp_path, STEP)
    made = Table(folder.parent / "task.py", torch.device("cpu"))
    made.add("eager", "eager", None)
    made.add("shipped", "shipped", folder)
    return made


def test_arguments_that_a_call_changes_are_given_back(table: Any) -> None:
    first = pytree.tree_map(torch.clone, table.task.make_inputs(1, "cpu"))
    seen = []
    original = table._call

    def call(entry: Any, k: int) -> Any:
        if k % len(table._sets) == 0:
            seen.append((entry.name, pytree.tree_map(torch.clone, table._sets[0])))
        return original(entry, k)

    table._call = call
    found = table.time(["eager", "shipped"], QUICK)
    assert found["errors"] == {} and set(found["times"]) == {"eager", "shipped"}
    assert {name for name, _ in seen} == {"eager", "shipped"}
    timed = [inputs for _, inputs in seen[:6]]
    for inputs in timed:
        for given, wanted in zip(pytree.tree_leaves(inputs), pytree.tree_leaves(first), strict=True):
            torch.testing.assert_close(given, wanted)


@pytest.mark.parametrize("wrong", ["result", "argument"])
def test_a_wrong_change_is_seen(table: Any, wrong: str) -> None:
    def forward(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        m.lerp_(g, 0.5)
        p.add_(m, alpha=-0.5)
        result = p * 1.0
        return result.zero_() if wrong == "result" else m.mul_(1.5) * 0 + result

    table.entries["shipped"].module.forward = forward
    found = table.time(["eager", "shipped"], QUICK)
    assert found["errors"]["shipped"]["kind"] == "wrong_when_timed"
    assert f"output {0 if wrong == 'result' else 2}" in found["errors"]["shipped"]["message"]


class Mixture(nn.Module):
    """One of eight experts a token, by scores that are nearly equal for many."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(32, 8, bias=False)
        self.experts = nn.Parameter(torch.randn(8, 32, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best = self.scores(x).argmax(-1)
        return torch.einsum("ti,tio->to", x, self.experts[best])


def _results(seed: int, rounded: torch.dtype | None) -> tuple[Mixture, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A mixture in bf16, tokens, its own result, and one that rounds otherwise: its product of scores is made in fp32."""
    torch.manual_seed(seed)
    with torch.no_grad():
        model, x = Mixture().to(torch.bfloat16), torch.randn(256, 32).to(torch.bfloat16)
        model.scores.weight.copy_(model.scores.weight[:1] + 3e-2 * model.scores.weight)
        eager = model(x)
        best = (x.float() @ model.scores.weight.float().T).argmax(-1)
        other = torch.einsum("ti,tio->to", x.float(), model.experts.float()[best]).to(torch.bfloat16)
    return model, x, eager, other


def _exact_and_draws(model: Mixture, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    import copy

    draws = []
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
        for draw in range(DRAWS):
            twin = copy.deepcopy(model)
            draws.append(twin(rounded_otherwise(twin, x, torch.Generator().manual_seed(draw), pytree.tree_map)))
    return exact, draws


def test_rows_that_rounding_sends_another_way_are_no_fault() -> None:
    model, x, eager, other = _results(0, None)
    exact, draws = _exact_and_draws(model, x)
    result = torch.where((torch.arange(256) % 2 == 0)[:, None], eager, other)  # agrees with neither everywhere
    assert far_apart(result, exact.to(torch.bfloat16), 0)
    assert further_than_eager(result, other, exact, 0)  # the narrower test would refuse it
    assert explained_by_routes(result, exact, [eager, *draws])


CHEATS = {
    "zeros": lambda r: torch.zeros_like(r),
    "a row of another token": lambda r: r.roll(1, 0),
    "a tenth of the rows": lambda r: torch.where((torch.arange(256) % 10 == 3)[:, None], r.roll(1, 0), r),
    "one and a half times": lambda r: r * 1.5,
    "no numbers": lambda r: r * float("nan"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_what_no_rounding_explains_is_a_fault(name: str) -> None:
    model, x, eager, _ = _results(0, None)
    exact, draws = _exact_and_draws(model, x)
    assert not explained_by_routes(CHEATS[name](eager), exact, [eager, *draws])


#: A mixture by torch's product of groups, which has no form in fp64: its scores are nearly equal for many tokens.
GROUPED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(32, 8, bias=False, dtype=torch.bfloat16)
        self.experts = nn.Parameter(torch.randn(8, 32, 32).to(torch.bfloat16))
        with torch.no_grad():
            self.scores.weight.copy_(self.scores.weight[:1] + 3e-2 * self.scores.weight)

    def forward(self, x, in_single=False):
        scores = x.float() @ self.scores.weight.float().T if in_single else self.scores(x)
        best = scores.argmax(-1)
        order = best.argsort(stable=True)
        ends = torch.bincount(best, minlength=8).cumsum(0).to(torch.int32)
        return torch._grouped_mm(x[order], self.experts, offs=ends)[order.argsort()]

def get_inputs():
    return [torch.randn(256, 32).to(torch.bfloat16)]
"""


@pytest.fixture
def mixture(tmp_path: Path) -> Any:
    (tmp_path / "task.py").write_text(GROUPED)
    made = Table(tmp_path / "task.py", torch.device("cpu"))
    made.add("eager", "eager", None)
    made.time(["eager"], QUICK)
    return made


def test_products_of_groups_are_compared_in_fp64(mixture: Any) -> None:
    x = mixture.sets[0][0][0]
    with torch.no_grad():
        model = mixture._separate()
        best = torch.nn.functional.linear(x.double(), model.scores.weight.double()).argmax(-1)
        wanted = torch.einsum("ti,tio->to", x.double(), model.experts.double()[best])
    for throughout in (False, True):
        with torch.no_grad():
            (found,) = mixture._in_double(0, 1, throughout)
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_mixture_whose_scores_are_rounded_otherwise_is_no_fault(mixture: Any, wrong: bool) -> None:
    eager = mixture.entries["eager"]
    with torch.no_grad():
        expected, other = eager.module(*mixture.sets[0][0]), mixture._separate()(*mixture.sets[0][0], in_single=True)
    assert far_apart(other, expected, 0), "rows went another way"
    eager.last = (0, [other.roll(1, 0) if wrong else other])
    with torch.no_grad():
        mixture._check(eager)
    assert (eager.error is not None) == wrong
