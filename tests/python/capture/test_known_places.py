"""Elements at places that are known at capture become views, and give what the index gave; other places stay an index."""

import random
from pathlib import Path

import pytest
import torch
from planish.capture import capture
from planish.capture.known_places import Steps
from planish.oracle.interpret import Interpreter, Mode

VIEWS = {f"aten.{name}" for name in "view.default permute.default expand.default clone.default slice.Tensor unsqueeze.default".split()}
ORDER = [0, 4, 1, 5, 2, 6, 3, 7]


class Takes(torch.nn.Module):
    def __init__(self, places: torch.Tensor | None, dim: int) -> None:
        super().__init__()
        self.places, self.dim = places, dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[(slice(None),) * self.dim + (self.places,)]


class Computes(torch.nn.Module):
    """Places of the module's own numbers: an order within words, a group for each row, every third."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        order = torch.arange(x.shape[1]).view(-1, 8)[:, ORDER].view(-1)
        return x[:, order], x[torch.arange(12) // 3], x.index_select(1, torch.arange(2, 23, 3)), x[:, [-1, -2]]


def run(module: torch.nn.Module, x: torch.Tensor, folder: Path) -> tuple[list[str], list[torch.Tensor]]:
    found = capture(module, (x,), {}, folder)
    wanted = [o["value"] for o in found.graph["outputs"]]
    inputs = {i["value"]: t for i, t in zip(found.graph["inputs"], found.flat_inputs((x,), {}), strict=True)}
    results = Interpreter(found, range(len(found.nodes))).run(inputs, wanted, Mode())
    return [n["op"] for n in found.graph["nodes"]], [results[w] for w in wanted]


def test_places_that_run_in_steps_are_views(tmp_path: Path) -> None:
    x = torch.randn(5, 24)
    ops, results = run(Computes(), x, tmp_path)
    for found, wanted in zip(results, Computes()(x), strict=True):
        assert torch.equal(found, wanted)
    # Falling places are no view; they are counted where they are read.
    counted = [op for op in ops if op not in VIEWS]
    assert sorted(counted) == ["aten.arange.start_step", "aten.index.Tensor"]


@pytest.mark.parametrize("places", [[0, 2, 1, 5], [3, 3, 4, 1, 1, 2], [7, 0], [0, 1, 1, 2]])
def test_others_stay_an_index(places: list[int], tmp_path: Path) -> None:
    x = torch.randn(8, 3)
    module = Takes(torch.tensor(places), 0)
    ops, (found,) = run(module, x, tmp_path)
    assert "aten.index.Tensor" in ops and torch.equal(found, x[torch.tensor(places)])


def test_places_of_a_call_stay_an_index(tmp_path: Path) -> None:
    class Given(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("order", torch.arange(8).view(2, 4).t().reshape(-1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[self.order]

    ops, _ = run(Given(), torch.randn(8, 3), tmp_path)
    assert ops == ["aten.index.Tensor"]


def test_constants_in_steps_are_counted(tmp_path: Path) -> None:
    """As GPTQ's shifts, which a module keeps."""

    class Shifts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.by = torch.arange(0, 32, 4, dtype=torch.int32).unsqueeze(0)
            self.other = torch.tensor([1, 2, 4], dtype=torch.int32)

        def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return words.unsqueeze(-1) >> self.by, words[:3] * self.other

    words = torch.randint(-(2**31), 2**31 - 1, (6,), dtype=torch.int32)
    ops, results = run(Shifts(), words, tmp_path)
    assert ops.count("aten.arange.start_step") == 1
    for found, wanted in zip(results, Shifts()(words), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("seed", range(40))
def test_any_digits_are_read_back(seed: int) -> None:
    """Drawn: a shape, its dims in another order, some repeated, some left out before and behind."""
    draw = random.Random(seed)
    shape = [draw.randint(2, 4) for _ in range(draw.randint(1, 3))]
    first, unit, behind = draw.randint(0, 3), draw.randint(1, 2), draw.randint(0, 2)
    places = torch.arange(int(torch.Size(shape).numel())).view(shape).permute(draw.sample(range(len(shape)), len(shape))) * unit + first
    if draw.random() < 0.5:
        at = draw.randint(0, places.ndim)
        places = places.unsqueeze(at).expand([*places.shape[:at], 3, *places.shape[at:]])
    places = places.reshape(-1)
    size = int(places.max()) + 1 + behind
    steps = Steps.of(places)
    assert steps is not None
    take = steps.view(size)
    assert take is not None
    x = torch.randn(2, size, 3)
    assert torch.equal(take(x, 1).reshape(2, -1, 3), x[:, places])
