"""planish.optimize on what cannot be captured whole, with a stand-in for the search of each piece."""

from __future__ import annotations

import copy
import io
import logging
from typing import Any

import models
import planish
import pytest
import torch
from found import Searches
from planish.errors import PlanishError
from planish.pieces import whole
from planish.pieces.judge import judge
from planish.pieces.search import LEAST_SHARE, Search, seconds
from torch import nn

REFUSAL = PlanishError("data_dependent", "Model: cannot be captured: its control flow depends on tensor values", "")
X = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of PyTorch's own steps are not: times are given."""
    times(monkeypatch, 1.0)


def times(monkeypatch: pytest.MonkeyPatch, ours: float) -> None:
    """Milliseconds in pieces; eager takes 2, and as good as nothing where only shares are asked for."""
    row = {"shipped": ours, "eager": 2.0}
    monkeypatch.setattr(whole, "_times", lambda modules, *_: {name: [row[name] if "shipped" in modules else 1e-6] * 30 for name in modules})


def optimized(module: nn.Module, *args: Any, **settings: Any) -> dict[str, Any]:
    settings.setdefault("baselines", "eager")
    return whole.optimize(module, "Model", (args, {}), REFUSAL, Search("Model", 10.0, None, settings, True))


CASES = [models.Branch, models.Print, models.Item, models.Loop, models.Custom, models.Counter, models.Experts, models.Suppression, models.Layers]


@torch.no_grad()
@pytest.mark.parametrize("model", CASES, ids=lambda m: m.__name__)
def test_each_kind_runs_in_pieces(searches: Searches, model: type[nn.Module], capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    module = model().eval()
    args = (X, torch.tensor([2, 5, 8])) if model is models.Loop else (X,)
    before = copy.deepcopy(module)
    result = optimized(module, *args)
    assert result["outcome"] == "improved", result
    assert result["speedup"] == {"eager": 2.0} and result["accuracy"]["verified"] and result["form"] == "pieces"
    assert any(p["outcome"] == "improved" and p["folder"] for p in result["pieces"])
    if model is models.Custom:
        assert result["opaque"] == ["planish_tests_pieces.doubled"]
    elif model not in (models.Counter,):
        assert any("models.py:" in line and "Encountered" not in line for line in result["breaks"]), result["breaks"]
    for other in (X, X.flip(0), X * 2):
        torch.testing.assert_close(module(other, *args[1:]), before(other, *args[1:]), rtol=1e-5, atol=1e-5)
        assert getattr(module, "calls", 0) == getattr(before, "calls", 0)
    assert planish.status(module).ran >= 1 and type(module).__name__ == model.__name__
    said = capsys.readouterr()
    assert "cannot be captured whole" in said.err and "piece 1 of" in said.err
    if model is models.Print:
        assert said.out.count("the mean is") == 6, "it prints when it is called, and not while it is judged"


@torch.no_grad()
def test_functions_and_their_modules_run_in_pieces(searches: Searches) -> None:
    layer = nn.Linear(16, 16)

    def gated(x: torch.Tensor) -> torch.Tensor:
        y = models.work(layer(x))
        return y * 2 if y.sum() > 0 else y

    function = planish.Function(gated)
    assert whole.optimize(function.module, "gated", ((X,), {}), REFUSAL, Search("gated", 10.0, None, {"baselines": "eager"}))["outcome"] == "improved"
    layer.weight.mul_(-1)
    for x in (X, -X):
        torch.testing.assert_close(function(x), gated(x))
    assert planish.status(function).ran == 2


@torch.no_grad()
def test_layers_alike_are_searched_once(searches: Searches) -> None:
    result = optimized(models.Layers().eval(), X)
    calls = sorted(p["calls"] for p in result["pieces"])
    assert calls[-1] == 3 and len(searches.asked) == len([p for p in result["pieces"] if p["outcome"] == "improved"])


@torch.no_grad()
def test_what_another_run_found_is_not_searched_again(searches: Searches, capsys: pytest.CaptureFixture[str]) -> None:
    module = models.Branch().eval()
    optimized(module, X)
    count = len(searches.asked)
    again = optimized(copy.deepcopy(planish.detach(module)), X)
    assert len(searches.asked) == count and again["outcome"] == "improved" and "as found earlier" in capsys.readouterr().err


@torch.no_grad()
def test_a_wrong_program_is_found_out_by_the_whole(searches: Searches) -> None:
    searches.faulty = True
    module = models.Branch().eval()
    result = optimized(module, X)
    assert result["outcome"] == "no_improvement" and "is not what the module gives" in result["reason"], result
    assert type(module) is models.Branch and not result["accuracy"]["verified"]


class Drops(models.Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.dropout(models.work(self.linear(x)), 0.5, True) + torch.rand_like(x)
        return models.work(y) if y.sum() > 0 else models.work(-y) + torch.randn(16)


class DropsOtherwise(Drops):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.rand_like(x)
        y = nn.functional.dropout(models.work(self.linear(x)), 0.5, True) + noise
        return models.work(y) if y.sum() > 0 else models.work(-y) + torch.randn(16)


class DropsOnceMore(Drops):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = super().forward(x)
        torch.rand(1)
        return result


@torch.no_grad()
def test_what_draws_draws_eagers_numbers_in_pieces(searches: Searches) -> None:
    torch.manual_seed(0)
    module = Drops()
    before, state = copy.deepcopy(module), torch.get_rng_state()
    result = optimized(module, X)
    assert torch.equal(torch.get_rng_state(), state)
    assert result["outcome"] == "improved" and result["accuracy"]["verified"], result
    for seed in range(3):
        torch.manual_seed(seed)
        expected, left = before(X), torch.get_rng_state()
        torch.manual_seed(seed)
        torch.testing.assert_close(module(X), expected)
        assert torch.equal(torch.get_rng_state(), left)
    assert planish.status(module).ran == 3


@torch.no_grad()
@pytest.mark.parametrize("other", [Drops, DropsOtherwise, DropsOnceMore])
def test_the_whole_is_judged_by_its_draws(other: type[Drops]) -> None:
    eager, pieces = Drops(), other()
    pieces.load_state_dict(eager.state_dict())
    verdict = judge(eager, pieces, ((X,), {}), "eager", "Model", REFUSAL)
    assert (verdict.problem == "") is (other is Drops), verdict.problem
    if other is DropsOnceMore:
        assert "output 1" in verdict.problem


@torch.no_grad()
def test_slower_than_eager_is_not_attached(searches: Searches, monkeypatch: pytest.MonkeyPatch) -> None:
    times(monkeypatch, 2.1)
    module = models.Branch().eval()
    result = optimized(module, X)
    assert result["outcome"] == "no_improvement" and "in pieces a call takes 2.1 ms" in result["reason"] and type(module) is models.Branch


@torch.no_grad()
def test_nothing_gained(searches: Searches) -> None:
    searches.nothing = True
    module = models.Branch().eval()
    result = optimized(module, X)
    assert result["outcome"] == "no_improvement" and "none gained: eager is faster" in result["reason"] and type(module) is models.Branch


@torch.no_grad()
def test_a_search_that_fails_leaves_the_piece(searches: Searches) -> None:
    searches.error = PlanishError("random_ops", "it is random", "")
    result = optimized(models.Branch().eval(), X)
    assert "it is random" in result["reason"] and all(p["outcome"] in ("random_ops", "left") for p in result["pieces"])
    asked = len(searches.asked)
    optimized(models.Branch().eval(), X)
    assert len(searches.asked) == asked, "that it is random is known"


@torch.no_grad()
def test_what_is_all_python_has_no_pieces(searches: Searches) -> None:
    class Python(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return torch.from_numpy(x.numpy() + 1)

    with torch._dynamo.config.patch(trace_numpy=False):
        result = optimized(Python(), X)
    assert result["outcome"] == "no_improvement" and result["pieces"] == [] and "no piece to search" in result["reason"]


def test_gradients_and_contexts_run_the_original(searches: Searches, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "planish.calls")
    module = models.Branch().eval()
    optimized(module, X)
    with pytest.warns(planish.FallbackWarning, match="gradients"):
        module(X).sum().backward()
    assert module.linear.weight.grad is not None
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), pytest.warns(planish.FallbackWarning, match="autocast"):
        module(X)
    assert planish.status(module).ran == 0 and planish.status(module).calls == 2
    assert [word in record.getMessage() for record, word in zip(caplog.records, ("gradients", "autocast"), strict=True)] == [True, True]


@torch.no_grad()
def test_parameters_are_live(searches: Searches) -> None:
    module = models.Branch().eval()
    optimized(module, X)
    module(X)
    module.linear.weight.mul_(-2)
    torch.testing.assert_close(module(X), models.Branch.forward(module, X))
    module.linear.weight.data = torch.randn(16, 16)
    torch.testing.assert_close(module(X), models.Branch.forward(module, X))
    module.linear = nn.Linear(16, 16)
    torch.testing.assert_close(module(X), models.Branch.forward(module, X))
    assert planish.status(module).ran == 4


@torch.no_grad()
def test_copies_and_pickles_run_what_lies_in_the_store(searches: Searches) -> None:
    module = models.Branch().eval()
    optimized(module, X)
    expected = models.Branch.forward(module, X)
    stream = io.BytesIO()
    torch.save(module, stream)
    stream.seek(0)
    asked = len(searches.asked)
    for other in (copy.deepcopy(module), torch.load(stream, weights_only=False)):
        before = planish.status(other).ran
        torch.testing.assert_close(other(X), expected)
        assert planish.status(other).ran == before + 1
    assert len(searches.asked) == asked
    assert type(planish.detach(module)) is models.Branch and not planish.status(module).attached


@torch.no_grad()
def test_calls_of_other_shapes_run_the_original(searches: Searches) -> None:
    module, other = models.Branch().eval(), torch.randn(3, 16)
    optimized(module, X)
    with pytest.warns(planish.FallbackWarning, match="other shapes"):
        torch.testing.assert_close(module(other), models.Branch.forward(module, other))
    module(X)
    module(x=X)
    assert planish.status(module).ran == 2 and planish.status(module).calls == 3
    result = optimized(module, other)
    assert result["outcome"] == "improved"
    for x in (X, other, X, other):
        torch.testing.assert_close(module(x), models.Branch.forward(module, x))
    assert planish.status(module).ran == 6


@torch.no_grad()
def test_calls_without_a_program_go_around_dynamo(searches: Searches) -> None:
    module, ends = models.Loop().eval(), torch.tensor([2, 5, 8])
    optimized(module, X, ends)
    attachment = module.__dict__["_planish"]
    attachment.quiet = True
    module(X, ends)
    assert attachment.ran == 1
    asked, compiled = [], attachment._compiled
    attachment._compiled = lambda *given: (asked.append(given), models.Loop.forward(*given))[1]  # as where no graph has a program
    for _ in range(2 * whole._IN_VAIN):
        module(X, ends)
    assert len(asked) == whole._IN_VAIN + 1 and planish.status(module).fell_back == {whole._NO_PROGRAM: 2 * whole._IN_VAIN}
    attachment._compiled = compiled
    for _ in range(2 * whole._IN_VAIN):
        module(X, ends)
    assert attachment.ran > whole._IN_VAIN, "one of so many is tried, and brings the pieces back"


def test_the_budget_is_for_all(searches: Searches) -> None:
    """By shares of the time; what is less than a few per cent gets none."""

    class Two(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = (x @ x.T).tanh()
            torch._dynamo.graph_break()
            return y.sum(-1).sum(-1) + 1

    with torch.no_grad():
        result = optimized(Two(), torch.randn(512, 512))
    budgets = [asked["budget"] for asked in searches.asked]
    assert 0 < sum(budgets) <= 10.0 + 1.0 * len(budgets) and all(asked["pieces"] is False for asked in searches.asked)
    shares = [p["share"] for p in result["pieces"]]
    assert len(budgets) == sum(share >= LEAST_SHARE for share in shares) and sum(shares) <= 1.0 + 1e-9


def test_times_in_words() -> None:
    assert [seconds(text) for text in (3, "3", "3s", "2m", "500ms", "1h", 0.5)] == [3, 3, 3, 120, 0.5, 3600, 0.5]
    with pytest.raises(PlanishError, match="is no time"):
        seconds("soon")


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:planish. ")
def test_a_hook_that_comes_later_runs(searches: Searches) -> None:
    """Behind a graph that was made anew meanwhile, as the module's contents changed: torch's compiler looks for no hook there."""

    class Scaled(models.Branch):
        scale = 1.5

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.scale

    torch.manual_seed(0)
    module = Scaled().eval()
    eager = copy.deepcopy(module)
    optimized(module, X)
    for _ in range(6):
        torch.testing.assert_close(module(X), eager(X))
    module.scale = eager.scale = 2.5
    torch.testing.assert_close(module(X), eager(X))
    handles = [both.linear.register_forward_hook(lambda part, args, result: result * 2) for both in (module, eager)]
    ran = planish.status(module).ran
    torch.testing.assert_close(module(X), eager(X))
    assert planish.status(module).ran == ran and any("hooks were added" in why for why in planish.status(module).fell_back)
    for handle in handles:
        handle.remove()
    torch.testing.assert_close(module(X), eager(X))
    assert planish.status(module).ran == ran + 1
