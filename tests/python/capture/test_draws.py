"""Random numbers in a captured graph: eager's, from eager's generator, which is left as eager leaves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from planish import generators
from planish.capture import draws
from planish.capture.export import capture
from planish.errors import PlanishError
from planish.oracle.interpret import Double, Interpreter, Mode
from torch import nn

Forward = Callable[..., Any]


class Net(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.lstm = nn.LSTM(16, 8, 2, dropout=0.3, batch_first=True)
        self.run = forward

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self, x)


DRAWS: dict[str, Forward] = {
    "dropout": lambda s, x: F.dropout(s.linear(x), 0.3, True) * 2,
    "dropout of all": lambda s, x: F.dropout(s.linear(x), 1.0, True) + torch.rand(16),
    "dropout in place": lambda s, x: F.dropout(s.linear(x), 0.3, True, True) * 2,
    "dropout in bf16": lambda s, x: F.dropout(x.bfloat16(), 0.3, True),
    "dropout of what is transposed": lambda s, x: F.dropout(x.t(), 0.3, True) + F.dropout(x.t()[::2], 0.5, True).sum(),
    "dropout in place of what is transposed": lambda s, x: F.dropout(x.t().clone(), 0.3, True, True) + 0,
    "dropout of channels last": lambda s, x: F.dropout(x.view(2, 2, 8, 8).to(memory_format=torch.channels_last) * 1, 0.3, True),
    "dropout of what is expanded": lambda s, x: F.dropout(x[:1].expand(16, 16), 0.3, True),
    "dropout of channels": lambda s, x: F.dropout2d(x.view(2, 4, 8, 4), 0.3, True),
    "alpha dropout": lambda s, x: F.alpha_dropout(s.linear(x), 0.3, True),
    "rrelu": lambda s, x: F.rrelu(s.linear(x), training=True),
    "attention": lambda s, x: F.scaled_dot_product_attention(x.view(2, 2, 8, 8), x.view(2, 2, 8, 8), x.view(2, 2, 8, 8), dropout_p=0.2),
    "lstm": lambda s, x: s.lstm(x.view(2, 8, 16))[0],
    "randn": lambda s, x: x + torch.randn_like(x) + torch.randn(16) + torch.rand(16, 16) + torch.randn(3)[0],
    "another type": lambda s, x: torch.rand_like(x.t(), dtype=torch.float64) + torch.randint(0, 9, (16, 16)),
    "in place": lambda s, x: x + torch.empty_like(x.t()).normal_() + torch.empty(16).uniform_(-1, 1) + torch.empty(16).exponential_(),
    "truths": lambda s, x: torch.bernoulli(torch.sigmoid(x)) + torch.empty(16).bernoulli_(0.3) + torch.empty(16).bernoulli_(0.0),
    "multinomial": lambda s, x: torch.multinomial(torch.softmax(s.linear(x), -1), 3),
    "permutation": lambda s, x: x[torch.randperm(16)][torch.randint(0, 16, (4,))],
    "normal": lambda s, x: torch.normal(s.linear(x), 1.0) + torch.normal(0.0, 1.0, (16, 16)),
    "gumbel": lambda s, x: F.gumbel_softmax(s.linear(x)),
    "poisson": lambda s, x: torch.poisson(x.abs()),
    "the same twice": lambda s, x: torch.rand(16) + torch.rand(16) * x,
    "in one order": lambda s, x: torch.randn(16) * 2 + F.dropout(x, 0.5, True) + torch.rand(16),
}  # fmt: skip


def run(forward: Forward, x: torch.Tensor, folder: Path, mode: Mode) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor, dict[str, Any]]:
    """(eager's result and the state that it leaves, the graph's, eager's state before, the document)."""
    model = Net(forward).train()
    with torch.no_grad():
        torch.manual_seed(3)
        theirs = model(x)
        left = generators.state(torch.device("cpu"))
        captured = capture(model, (x,), {}, folder)
        torch.manual_seed(3)
        values = [item["value"] for item in captured.graph["inputs"]]
        inputs = dict(zip(values, captured.flat_inputs((x,), {}), strict=True))
        torch.manual_seed(99)  # what draws goes by the state that it is given
        wanted = [out["value"] for out in captured.graph["outputs"]]
        found = Interpreter(captured, range(len(captured.nodes))).run(inputs, wanted, mode)
    return [theirs, left], [found[v] for v in wanted], left, captured.graph


@pytest.mark.parametrize("name", DRAWS)
def test_a_graph_draws_what_eager_draws_and_leaves_the_generator_as_eager_does(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs, ours, _, graph = run(DRAWS[name], torch.randn(16, 16), tmp_path, Mode())
    assert [o["kind"] for o in graph["outputs"]] == ["user", draws.OUTPUT]
    assert torch.equal(ours[0], theirs[0]) and ours[0].stride() == theirs[0].stride()
    assert torch.equal(ours[1], theirs[1])


@pytest.mark.parametrize("name", DRAWS)
def test_the_reference_in_double_has_the_same_numbers(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs, ours, _, _ = run(DRAWS[name], torch.randn(16, 16), tmp_path, Double())
    assert torch.allclose(ours[0].double(), theirs[0].double(), rtol=1e-2 if "bf16" in name else 1e-4, atol=1e-4)
    assert torch.equal(ours[1], theirs[1])


def test_each_draw_reads_the_state_that_the_one_before_it_left(tmp_path: Path) -> None:
    _, _, _, graph = run(DRAWS["in one order"], torch.randn(16, 16), tmp_path, Mode())
    drawing = [n for n in graph["nodes"] if any(a["name"] == draws.ARGUMENT for a in n["args"])]
    states = [next(a["value"] for a in n["args"] if a["name"] == draws.ARGUMENT) for n in drawing]
    assert [n["op"] for n in drawing] == ["aten.randn.default", "aten.bernoulli.p", "aten.rand.default"]
    assert states[0] == next(i["value"] for i in graph["inputs"] if i["kind"] == draws.INPUT)
    assert [n["outs"][-1] for n in drawing] == [*states[1:], graph["outputs"][-1]["value"]]


def test_what_does_not_draw_has_no_state(tmp_path: Path) -> None:
    _, ours, _, graph = run(lambda s, x: F.dropout(x, 0.3, False) + F.dropout(x, 0.0, True) + x, torch.randn(16, 16), tmp_path, Mode())
    assert len(ours) == 1 and all(i["kind"] != draws.INPUT for i in graph["inputs"])


class OwnGenerator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(x.shape, generator=self.generator)


class TakesGenerator(nn.Module):
    def forward(self, x: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
        return x + torch.randn(x.shape, generator=generator)


@pytest.mark.parametrize(("model", "more"), [(OwnGenerator(), ()), (TakesGenerator(), (torch.Generator(),))])
def test_another_generator_is_declined(model: nn.Module, more: tuple[Any, ...], tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as caught:
        capture(model, (torch.randn(4), *more), {}, tmp_path)
    assert caught.value.kind == "random_ops" and "torch.Generator of its own" in caught.value.message and "torch.manual_seed" in caught.value.hint


def test_a_generator_that_is_not_given_is_torchs(tmp_path: Path) -> None:
    captured = capture(TakesGenerator(), (torch.randn(4),), {}, tmp_path)
    assert captured.graph["nodes"][0]["op"] == "aten.randn.generator"
    assert captured.graph["outputs"][-1]["kind"] == draws.OUTPUT


def test_a_state_is_given_back_whole() -> None:
    cpu = torch.device("cpu")
    saved = generators.seeded(7, cpu)
    generators.restore(saved, cpu)
    first = [torch.randn(1), torch.rand(5), torch.randn(20)]
    generators.restore(saved, cpu)
    assert all(torch.equal(a, b) for a, b in zip(first, [torch.randn(1), torch.rand(5), torch.randn(20)], strict=True))
    before = generators.state(cpu)
    assert not torch.equal(generators.seeded(7, cpu), generators.seeded(8, cpu)) and torch.equal(generators.state(cpu), before)
