"""Parameters of classes that hold other tensors: programs read what is inside, and notice what is changed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import planish
import pytest
import torch
from coded_weights import Coded, Nested, in_codes
from live_program import attached
from planish.capture import capture
from planish.capture.live import load_live, write_live
from planish.errors import PlanishError
from planish.ship import wrapped
from torch import nn


def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def ran(module: Any) -> int:
    return int(planish.status(module).ran)


@pytest.mark.parametrize("kind", [Coded, Nested])
def test_what_is_inside_is_an_input_by_the_name_of_the_attributes(kind: type[Coded], tmp_path: Path) -> None:
    module, x = in_codes(perceptron(), kind), torch.randn(3, 8)
    captured = capture(module, (x,), {}, tmp_path)
    names = [item["name"] for item in captured.graph["inputs"] if item["kind"] == "param"]
    scale = ["0.weight.scale"] if kind is Coded else ["0.weight.scale.codes", "0.weight.scale.scale"]
    assert {"0.weight.codes", *scale} < set(names) and not any("original" in name for name in names)
    place = next(k for k, item in enumerate(captured.graph["inputs"]) if item["name"] == "0.weight.codes")
    assert captured.graph["values"][captured.graph["inputs"][place]["value"]]["dtype"] == "i8"
    assert not any(item["kind"] == "const" for item in captured.graph["inputs"])
    assert captured.flat_inputs((x,), {})[place].data_ptr() == module[0].weight.codes.data_ptr()


@pytest.mark.parametrize("kind", [Coded, Nested])
def test_calls_are_answered_by_the_program(kind: type[Coded], tmp_path: Path) -> None:
    module, x = in_codes(perceptron(), kind), torch.randn(3, 8)
    expected = module(x)
    attached(module, tmp_path, x)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(module(x), expected)
    assert ran(module) == 3
    twin = copy.deepcopy(module)
    with torch.no_grad():
        torch.testing.assert_close(twin(x), expected)
    assert ran(twin) == 1


def test_other_contents_are_read_and_another_tensor_is_found(tmp_path: Path) -> None:
    module, x = in_codes(perceptron()), torch.randn(3, 8)
    attached(module, tmp_path, x)
    other = in_codes(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)))
    with torch.no_grad():
        module(x)
        module[0].weight.codes.copy_(other[0].weight.codes)
        module[2].weight = other[2].weight
        plain = in_codes(perceptron())
        plain[0].weight.codes.copy_(other[0].weight.codes)
        plain[2].weight = other[2].weight
        torch.testing.assert_close(module(x), plain(x))
        assert ran(module) == 2
        module[0].weight.scale = module[0].weight.scale * 2
        plain[0].weight.scale = plain[0].weight.scale * 2
        torch.testing.assert_close(module(x), plain(x))
        assert ran(module) == 3


def test_what_stands_beside_the_tensors_is_compared(tmp_path: Path) -> None:
    module, x = in_codes(perceptron(), offset=3), torch.randn(3, 8)
    attached(module, tmp_path, x)
    with torch.no_grad():
        module(x)
        module[0].weight.offset = 0
        with pytest.warns(planish.FallbackWarning, match=r"'0\.weight\.offset' is 0, captured was 3"):
            module(x)
        module[0].weight.offset = 3
        module(x)
    assert ran(module) == 2


def test_a_plain_weight_in_its_place_is_refused(tmp_path: Path) -> None:
    module, x = in_codes(perceptron()), torch.randn(3, 8)
    attached(module, tmp_path, x)
    module[0].weight = nn.Parameter(torch.randn(16, 8), requires_grad=False)
    with torch.no_grad(), pytest.warns(planish.FallbackWarning, match=r"the module has no tensor '0\.weight\.codes'|'0\.weight' is"):
        result = module(x)
    assert ran(module) == 0 and torch.isfinite(result).all()


def test_gradients_that_are_asked_for_are_the_module_s(tmp_path: Path) -> None:
    module, x = in_codes(perceptron()), torch.randn(3, 8)
    for layer in (module[0], module[2]):
        layer.bias.requires_grad_(False)
    attached(module, tmp_path, x)
    module(x)
    assert ran(module) == 1
    module[0].weight.requires_grad_(True)
    with pytest.warns(planish.FallbackWarning, match="gradients may be asked for"):
        assert module(x).requires_grad
    with torch.no_grad():
        module(x)
    assert ran(module) == 2


def test_the_module_itself_is_written_and_read(tmp_path: Path) -> None:
    module, x = in_codes(perceptron()), torch.randn(3, 8)
    assert write_live(tmp_path / "task", "it", module, (x,), {}) == "module"
    task = load_live(tmp_path / "task")
    assert [*wrapped.parameters(task.model)] == [*wrapped.parameters(module)] and isinstance(task.model[0].weight, Coded)  # type: ignore[index]
    torch.testing.assert_close(task.model(x), module(x))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", Coded.of(torch.randn(4, 4)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.table.mul_(2)  # type: ignore[operator]
        return x @ self.table


def test_tensors_that_are_changed_or_passed_are_named(tmp_path: Path) -> None:
    with pytest.raises(PlanishError, match="'table', a Coded, which holds other tensors") as refused:
        capture(Counting(), (torch.randn(2, 4),), {}, tmp_path)
    assert refused.value.kind == "not_exportable" and "plain buffer" in refused.value.hint
    with pytest.raises(PlanishError, match="an argument is a Coded, which holds other tensors") as refused:
        capture(perceptron(), (Coded.of(torch.randn(3, 8)),), {}, tmp_path)
    assert refused.value.kind == "unsupported_op"

    class Gives(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(Coded.of(torch.randn(4, 4)), requires_grad=False)

        def forward(self, x: torch.Tensor) -> Any:
            return x @ self.weight, self.weight

    with pytest.raises(PlanishError, match="a result is a Coded, which holds other tensors"):
        capture(Gives(), (torch.randn(2, 4),), {}, tmp_path)


def test_optimised_by_what_it_holds(tmp_path: Path) -> None:
    module = in_codes(perceptron())
    x = torch.randn(3, 8)
    expected = module(x)
    with torch.no_grad():
        found = planish.optimize(module, x, budget="3s", baselines="none", out=tmp_path, progress=False, pieces=False)
        assert found.timed == "module" and found.result["outcome"] in ("improved", "no_improvement")
        assert "wrong" not in found.reason and "verification" not in found.reason, found.reason
        torch.testing.assert_close(module(x), expected)
    text = json.dumps(json.loads(next(tmp_path.rglob("program.json")).read_text())) if [*tmp_path.rglob("program.json")] else ""
    assert not text or "0.weight.codes" in text


class Marked(torch.Tensor):
    """A matrix in codes whose scale is an attribute that torch knows nothing of."""

    scale: torch.Tensor

    @staticmethod
    def __new__(cls, codes: torch.Tensor) -> Marked:
        return torch.Tensor._make_subclass(cls, codes, False)


class OfMarked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", Marked(torch.ones(4, 4, dtype=torch.int8)))
        self.weight.scale = torch.ones(4)  # type: ignore[union-attr, assignment]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.weight.to(x.dtype)) * self.weight.scale  # type: ignore[operator, union-attr]


def test_a_class_that_does_not_say_what_it_holds_is_named(tmp_path: Path) -> None:
    model, x = OfMarked(), torch.randn(2, 4)
    assert model(x).shape == (2, 4)
    with pytest.raises(PlanishError, match=r"'weight' is a Marked, a class of tensors that torch.export cannot follow") as refused:
        capture(model, (x,), {}, tmp_path)
    assert refused.value.kind == "not_exportable" and "plain tensors" in refused.value.hint


@pytest.mark.parametrize("wrap", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm])
def test_parametrised_modules_are_written_as_they_are(wrap: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = nn.Sequential(wrap(nn.Linear(8, 4)), nn.ReLU()).eval(), torch.randn(3, 8)
    assert write_live(tmp_path / "task", "it", module, (x,), {}) == "module"
    task = load_live(tmp_path / "task")
    torch.testing.assert_close(task.model(x), module(x))
    assert type(task.model[0]).__name__ == "ParametrizedLinear" and [*task.model.state_dict()] == [*module.state_dict()]  # type: ignore[index]
