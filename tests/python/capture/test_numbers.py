"""Capture for the numbers of a call: what Python reads of integers is answered by the example's, and noted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from planish.capture import numbers
from planish.capture.export import Captured, capture
from planish.capture.task import load_task
from planish.errors import PlanishError
from planish.executor import read_scalar
from planish.oracle.interpret import Interpreter, Mode
from torch import Tensor, nn

Forward = Callable[[Tensor, Tensor], Tensor]


class Reads(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.run = forward

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return self.run(x, n)


def loop(x: Tensor, n: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for b in range(x.shape[0]):
        k = int(n[b])
        out[b, :k] = torch.tanh(x[b, :k])
    return out


def offsets(x: Tensor, n: Tensor) -> Tensor:
    ends = n.cumsum(0).tolist()
    return torch.cat([x.flatten(0, 1)[a:b].sum(0, keepdim=True) for a, b in zip([0, *ends], ends, strict=False)])


def in_place(x: Tensor, n: Tensor) -> Tensor:
    n = n.clone()
    n += 1
    n[0] = 2
    return x[:, : int(n.sum()) % 8]


def by_experts(x: Tensor, n: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for expert in n.unique().tolist():
        rows = torch.nonzero(n == expert).squeeze(1)
        out[rows] = x[rows] * expert
    return out


CASES: dict[str, Forward] = {
    "a loop over lengths": loop,
    "offsets as a list": offsets,
    "a branch": lambda x, n: x * 2 if n.max() > 3 else x * 3,
    "a number of numbers": lambda x, n: x[:, : (n.cumsum(0)[1:] - n.cumsum(0)[:-1]).max().item()],  # type: ignore[misc]
    "a mask": lambda x, n: x[n > 3] * 2,
    "a mask that is written through": lambda x, n: x.clone().index_put_((n > 3,), torch.zeros(())) + x[n == 1].sum(),
    "repeats": lambda x, n: torch.repeat_interleave(x[:, 0], n, dim=0),
    "repeats of places": lambda x, n: torch.repeat_interleave(torch.arange(4), n) + x.sum(),
    "places of truths": lambda x, n: x[torch.nonzero(n > 3).squeeze(1)],
    "where": lambda x, n: x[torch.where(n > 3)[0]],
    "bounds of slices": lambda x, n: x[:, : n[1]] + torch.arange(n[1])[:, None],
    "parts": lambda x, n: torch.cat([p.sum(1, keepdim=True) for p in x[:, :13].split(n.tolist(), 1)], 1),
    "a walk": lambda x, n: sum((x[:, int(v) - 1] for v in n), torch.zeros(())),
    "in place": in_place,
    "a float of integers": lambda x, n: F.pad(x, (0, 0, 0, int(n.max()))) * n.float().mean().item(),
    "also as a tensor": lambda x, n: x * n[:, None, None] + x[:, :1] * int(n[0]),
    "is one of them": lambda x, n: x * 2 if 3 in n else x,
    "a range": lambda x, n: sum((x[:, i] for i in range(n[1])), torch.zeros(())),
    "experts": by_experts,
}


def captured(forward: Forward, n: Tensor, folder: Path, leaves: tuple[int, ...] = (1,)) -> tuple[Captured, Tensor]:
    x = torch.randn(4, 13, 8)
    return capture(Reads(forward), (x, n), {}, folder, numbers=leaves), x


@pytest.mark.parametrize("name", CASES)
def test_what_python_reads_is_part_of_the_graph(name: str, tmp_path: Path) -> None:
    n = torch.tensor([1, 5, 3, 4])
    found, x = captured(CASES[name], n.clone(), tmp_path)
    expected = CASES[name](x, n.clone())
    inputs = dict(zip((i["value"] for i in found.graph["inputs"]), found.flat_inputs((x, n), {}), strict=True))
    wanted = [o["value"] for o in found.graph["outputs"]]
    torch.testing.assert_close(Interpreter(found, range(len(found.nodes))).run(inputs, wanted, Mode())[wanted[0]], expected)
    ((scalar),) = found.graph["scalars"]
    assert scalar["index"] == 1 and torch.equal(read_scalar(scalar["arg"]), n)
    assert all(i["kind"] != "user" or i["name"] == "x" for i in found.graph["inputs"])


def test_numbers_that_nobody_reads_stay_inputs(tmp_path: Path) -> None:
    found, _ = captured(lambda x, n: x * n[:, None, None], torch.tensor([1, 5, 3, 4]), tmp_path)
    assert not found.graph["scalars"] and [i["name"] for i in found.graph["inputs"] if i["kind"] == "user"] == ["x", "n"]


def test_without_it_the_loop_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as caught:
        captured(loop, torch.tensor([1, 5, 3, 4]), tmp_path, ())
    assert caught.value.kind == "data_dependent"


def writes_into_them(x: Tensor, n: Tensor) -> Tensor:
    n = n.clone()
    n[0] = x.sum().to(torch.int64)
    return x[:, : int(n[1])]


def changes_its_argument(x: Tensor, n: Tensor) -> Tensor:
    k = int(n[0])
    n += 1
    return x[:, :k]


@pytest.mark.parametrize(
    ("forward", "kind", "words"),
    [
        (writes_into_them, "not_exportable", "writes what is computed into numbers that it is captured for"),
        (changes_its_argument, "not_exportable", "changes 'n', whose numbers it is captured for"),
        (lambda x, n: x * 2 if x.sum() > 0 else x, "data_dependent", "control flow depends on tensor values"),
        (lambda x, n: x[:, : int(torch.randint_like(n, 1, 4)[0])], "data_dependent", "depends on tensor values"),
    ],
)
def test_what_numbers_do_not_tell_is_refused(forward: Forward, kind: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as caught:
        captured(forward, torch.tensor([1, 5, 3, 4]), tmp_path)
    assert caught.value.kind == kind and words in caught.value.message


def leaves(wanted: Any, *args: Any, **kwargs: Any) -> list[int]:
    def forward(x: Tensor, lengths: Any = None, **more: Any) -> None: ...

    return numbers.leaves_of(forward, args, kwargs, wanted, "Model")


X, N = torch.randn(4), torch.tensor([1, 2])


def test_arguments_are_named() -> None:
    assert leaves(["lengths"], X, N) == [1] and leaves(["lengths"], X, lengths={"a": N, "b": [N > 1, X]}) == [1, 2]
    assert leaves(["offsets"], X, offsets=N) == [1] and leaves(True, X, N, offsets=X) == [1]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (["length"], "was given no argument 'length'"),
        (["x"], "'x' holds no tensor of integers"),
        ("lengths", "names no arguments"),
        (3, "names no arguments"),
    ],
)
def test_what_names_nothing_is_refused(wanted: Any, words: str) -> None:
    with pytest.raises(PlanishError) as caught:
        leaves(wanted, X, N)
    assert caught.value.kind == "bad_request" and words in caught.value.message


def test_a_task_file_says_what_it_is_captured_for(tmp_path: Path) -> None:
    text = "import torch\nfrom torch import nn\nSPECIALIZE = ['n']\nclass Model(nn.Module):\n    def forward(self, x, n):\n        return x[:, :int(n[0])]\n"
    path = tmp_path / "task.py"
    path.write_text(text + "def get_inputs():\n    return [torch.randn(4, 64), torch.randint(4, 64, (1,))]\n")
    task = load_task(path)
    (x, n), _ = task.make_inputs(1, "cpu")
    (y, same), _ = task.make_inputs(2, "cpu")
    assert list(task.numbers) == [1] and torch.equal(n, same) and not torch.equal(x, y)
    path.write_text(text.replace("['n']", "['m']") + "def get_inputs():\n    return [torch.randn(4, 64), torch.randint(4, 64, (1,))]\n")
    with pytest.raises(PlanishError) as caught:
        load_task(path)
    assert "no argument 'm'" in caught.value.message
