"""Tasks that draw random numbers: right is who draws eager's, in eager's order, from eager's generator; whoever does not is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from harness import Harness
from planish import generators
from planish.capture import draws
from planish.errors import PlanishError
from planish.oracle.mutation_check import mutation_check

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def task(body: str, more: str = "") -> str:
    lines = "\n        ".join(body.splitlines())
    inputs = "def get_inputs():\n    return [torch.randn(256, 64)]\n"
    return f"{HEAD}{more}\nclass Model(nn.Module):\n    def forward(self, x):\n        {lines}\n{inputs}"


DROPOUT = task("y = F.dropout(torch.tanh(x), 0.25, True)\nreturn torch.sin(y) + 0.1 * torch.randn_like(y)")


def solved(harness: Harness, solution: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
    """What a solution gives on the present data, and the generator that it leaves."""
    given = harness.inputs()
    state = next(given[item["name"]] for item in harness.graph["inputs"] if item["kind"] == draws.INPUT)
    generators.restore(state, torch.device("cpu"))
    return [solution(given["x"]), generators.state(torch.device("cpu"))]


def right(x: torch.Tensor) -> torch.Tensor:
    stays = torch.empty_like(x, dtype=torch.bool).bernoulli_(0.75)
    return torch.sin(torch.tanh(x) * stays * (1 / 0.75)) + torch.randn(x.shape) * 0.1


def leaves_out(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(torch.tanh(x)) + 0.1 * torch.randn_like(x)


def draws_twice(x: torch.Tensor) -> torch.Tensor:
    F.dropout(x, 0.25, True)
    return right(x)


def in_another_order(x: torch.Tensor) -> torch.Tensor:
    noise = torch.randn_like(x)
    return torch.sin(F.dropout(torch.tanh(x), 0.25, True)) + 0.1 * noise


def in_another_shape(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(F.dropout(torch.tanh(x), 0.25, True)) + 0.1 * torch.randn(x.shape[::-1]).t()


def from_another_generator(x: torch.Tensor) -> torch.Tensor:
    other = torch.Generator().manual_seed(torch.initial_seed())
    return torch.sin(F.dropout(torch.tanh(x), 0.25, True)) + 0.1 * torch.randn(x.shape, generator=other)


def draws_once_more(x: torch.Tensor) -> torch.Tensor:
    found = right(x)
    torch.rand(1)
    return found


def gives_the_state_back(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        return right(x)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_who_draws_as_eager_does_is_right(seed: int, tmp_path: Path) -> None:
    harness = Harness(DROPOUT, tmp_path)
    harness.make(seed)
    verdict = harness.judge(solved(harness, right), "full")
    assert verdict["ok"], verdict["message"]


@pytest.mark.parametrize("wrong", [leaves_out, draws_twice, in_another_order, in_another_shape, from_another_generator, draws_once_more, gives_the_state_back])
def test_who_draws_otherwise_is_wrong(wrong: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path) -> None:
    harness = Harness(DROPOUT, tmp_path)
    harness.make(1)
    verdict = harness.judge(solved(harness, wrong))
    assert not verdict["ok"] and verdict["problem"] == "mismatch", verdict
    if wrong in (draws_once_more, gives_the_state_back):  # its numbers are right
        assert "generator is left in another state" in verdict["message"]


def test_each_data_set_has_a_state_of_its_own_and_the_same_seed_the_same(tmp_path: Path) -> None:
    harness = Harness(DROPOUT, tmp_path)
    seen = []
    for seed in (1, 2, 1):
        harness.make(seed)
        seen.append(harness.inputs()["generator"])
    assert torch.equal(seen[0], seen[2]) and not torch.equal(seen[0], seen[1])


def test_what_takes_no_work_does_not_pass_and_the_state_alone_is_no_work(tmp_path: Path) -> None:
    found = mutation_check(Harness(DROPOUT, tmp_path).region)
    assert {"zeros", "constant", "input x", "bf16"} <= set(found["tried"]) and not found["degenerate"]
    nothing = mutation_check(Harness(task("return x * 0 + 0 * torch.rand_like(x)"), tmp_path).region)
    assert "zeros" in nothing["degenerate"]


def test_choices_by_probabilities_are_indices_of_the_same_draw(tmp_path: Path) -> None:
    harness = Harness(task("p = torch.softmax(x * 3, -1)\nreturn torch.multinomial(p, 2)"), tmp_path)
    harness.make(1)
    verdict = harness.judge(solved(harness, lambda x: torch.multinomial((x * 3).exp(), 2)), "full")
    assert verdict["ok"], verdict["message"]
    wrong = harness.judge(solved(harness, lambda x: torch.multinomial(torch.softmax(x * 2, -1), 2)), "full")
    assert not wrong["ok"]


LOOP = task(
    "out = torch.zeros_like(x)\nfor b in range(4):\n    if x[b].sum() > -1e9:\n"
    "        out[b] = F.dropout(torch.tanh(x[b]), 0.3, True) + torch.randn(64).mean()\nreturn out + torch.tanh(x)"
)


def test_a_task_without_a_graph_draws_in_double_what_it_draws_in_its_own_types(tmp_path: Path) -> None:
    harness = Harness(LOOP, tmp_path)
    assert harness.service.task.module is not None

    def in_other_words(x: torch.Tensor) -> torch.Tensor:
        out = torch.tanh(x)
        rows = torch.zeros_like(x)
        for b in range(4):
            rows[b] = out[b] * torch.empty(64).bernoulli_(0.7) / 0.7 + torch.randn(64).sum() / 64
        return rows + out

    for seed, regime in ((1, "task"), (2, "normal"), (3, "wide")):
        harness.make(seed, regime)
        verdict = harness.judge(solved(harness, in_other_words), "full")
        assert verdict["ok"], (regime, verdict["message"])
        assert not harness.judge(solved(harness, lambda x: torch.tanh(x) * 2), "full")["ok"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (task("torch.rand(3)\nreturn torch.tanh(x) * 2"), "draws random numbers that nothing uses"),
        (task("return x + torch.randn(x.shape, generator=G)", "G = torch.Generator()\n"), "torch.Generator of its own"),
    ],
)
def test_draws_that_no_program_makes_are_refused(source: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as caught:
        Harness(source, tmp_path)
    assert caught.value.kind == "random_ops" and words in caught.value.message
