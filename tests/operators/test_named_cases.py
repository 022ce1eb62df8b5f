"""Programs that people tried: each is taken, or refused by a sentence that names operator and line and says what to do."""

from __future__ import annotations

import copy
import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
import torch
from planish.capture import LoadedTask
from planish.capture.live import redraw
from planish.functions import Function
from torch import nn

from tests.random_graphs.parts import Tool

from .judge import TAKEN, Outcome, judge


def task_of(thing: nn.Module | Callable[..., Any], *args: Any) -> LoadedTask:
    """As planish.optimize makes it, a function included."""
    model = (thing if isinstance(thing, nn.Module) else Function(thing).module).eval()

    def make_inputs(seed: int, device: torch.device | str) -> Any:
        generator = torch.Generator().manual_seed(seed)
        return tuple(redraw(x, generator) for x in args), {}

    return LoadedTask("task", Path("task"), "", copy.deepcopy(model), make_inputs, lambda: copy.deepcopy(model), live=True)


def outcome_of(tool: Tool, folder: Path, thing: nn.Module | Callable[..., Any], *args: Any) -> Outcome:
    torch.manual_seed(0)
    return judge(task_of(thing, *args), tool, folder)


X = torch.linspace(-1, 1, 24).reshape(4, 6)
X8 = torch.linspace(-2, 2, 256).reshape(16, 16).to(torch.float8_e4m3fn)
SQUARE = torch.eye(4) * 4 + torch.linspace(-1, 1, 16).reshape(4, 4)
DEFINITE = torch.eye(4) * 4 + torch.ones(4, 4)


@dataclass(frozen=True)
class Refused:
    """`operator` stands in the message, behind it the line that has `line` in it; `hint` in the hint."""

    kind: str
    operator: str
    line: str
    hint: str


def branches(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x.sin()
    return x.cos()


def draws_for_nothing(x: torch.Tensor) -> torch.Tensor:
    torch.multinomial(x.softmax(-1), 1)
    return x * 2


def timed(x: torch.Tensor) -> torch.Tensor:
    return x * (time.time() % 1000)


def timed_by_name(x: torch.Tensor) -> torch.Tensor:
    return x * (perf_counter() % 1000)


def dated(x: torch.Tensor) -> torch.Tensor:
    return x * datetime.datetime.now().year


def dated_today(x: torch.Tensor) -> torch.Tensor:
    return x * datetime.date.today().toordinal()


def dated_by_name(x: torch.Tensor) -> torch.Tensor:
    return x * date.today().toordinal()


def timed_by_default(x: torch.Tensor, clock: Callable[[], float] = time.time) -> torch.Tensor:
    return x * (clock() % 1000)


class Timed(nn.Module):
    clock = time.monotonic

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.clock() % 1000)


def timed_in_a_closure(clock: Callable[[], Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x * (clock() % 1000)


def measures(x: torch.Tensor) -> torch.Tensor:
    start = time.perf_counter()
    y = x.exp() * 2
    if time.perf_counter() - start > 1e6:
        print("slow")
    return y


def seeds(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return x + torch.randn_like(x)


def derives(x: torch.Tensor) -> torch.Tensor:
    square = lambda y: (y * y).sum()  # noqa: E731
    return torch.func.grad(square)(x)


def pulls_back(x: torch.Tensor) -> torch.Tensor:
    _, back = torch.func.vjp(torch.sin, x)
    return back(x)[0]


class Recording(nn.Module):
    """Turns gradients on for its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return self.layer(x)


def detaches(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x * x).sum(), x)[0]


def attends(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q, k, v)


class Opaque:
    """Holds a tensor where nobody can look without taking it out."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = iter([x])


HEADS = tuple(torch.linspace(-1, 1, 512).reshape(1, 2, 16, 16) for _ in range(3))

REFUSALS: list[tuple[Any, tuple[Any, ...], Refused]] = [
    (lambda x: x[x > 0], (X,), Refused("data_dependent", "uses index ", "x[x > 0]", "torch.where")),
    (lambda x: x.masked_select(x > 0), (X,), Refused("data_dependent", "uses masked_select ", "x.masked_select", "torch.where")),
    (lambda x: (x > 0).nonzero(), (X,), Refused("data_dependent", "uses nonzero ", ".nonzero()", "nonzero_static")),
    (lambda x: x.flatten()[(x.flatten() > 0).nonzero()].sum(), (X,), Refused("data_dependent", "uses nonzero ", "nonzero", "nonzero_static")),
    (lambda x, n: x.repeat_interleave(n, 0), (X, torch.tensor([1, 2, 0, 3])), Refused("data_dependent", "uses repeat_interleave ", "(n, 0)", "output_size")),
    (lambda n: n.unique(), (torch.tensor([1, 2, 2, 3]),), Refused("data_dependent", "uses _unique2 ", "n.unique()", "as an input")),
    (lambda n: n.bincount(), (torch.tensor([1, 2, 2, 3]),), Refused("data_dependent", "uses bincount ", "n.bincount()", "scatter_add")),
    (lambda n: n.bincount(minlength=6), (torch.tensor([1, 2, 2, 3]),), Refused("data_dependent", "uses bincount ", "n.bincount(", "x.clamp(0, n - 1)")),
    (lambda x: x.argmax(1).bincount(minlength=5), (X,), Refused("data_dependent", "uses bincount ", "bincount(", "x.clamp(0, n - 1)")),
    (lambda x: x * x.sum().item(), (X,), Refused("data_dependent", "a Python number of a tensor ", ".item()", "keep it a tensor")),
    (branches, (X,), Refused("data_dependent", "control flow ", "if x.sum() > 0:", "torch.cond")),
    (lambda x: x.to_sparse() @ x.T, (X,), Refused("unsupported_op", "uses _to_sparse ", "to_sparse()", "to_dense")),
    (lambda a, x: a @ x, (torch.eye(4).to_sparse(), X), Refused("unsupported_op", "sparse_coo", "", "to_dense")),
    (draws_for_nothing, (X,), Refused("random_ops", "uses multinomial ", "torch.multinomial(x.softmax(-1), 1)), which draws", "leave the draw out")),
    (lambda x: x.new_empty(3, 4).unsqueeze(0), (X,), Refused("random_ops", "uses empty ", "x.new_empty(3, 4)", "torch.zeros")),
    (lambda x, c=None: x * 2, (X, Opaque(X)), Refused("not_exportable", "an argument cannot be taken apart", "attribute 'x' of a Opaque", "plain objects")),
    (lambda x: {"y": x, "cache": Opaque(x)}, (X,), Refused("not_exportable", "a result cannot be taken apart", "attribute 'x' of a Opaque", "plain objects")),
    (lambda x: x * 2j, (torch.complex(X, X),), Refused("not_exportable", "uses mul ", "x * 2j", "a real number")),
    (derives, (X,), Refused("not_exportable", "records gradients ", "torch.func.grad(square)(x)", "write the derivative as operators")),
    (pulls_back, (X,), Refused("not_exportable", "records gradients ", "back", "write the derivative as operators")),
    (Recording(), (X,), Refused("not_exportable", "records gradients ", "self.layer(x)", "leave out torch.enable_grad()")),
    (detaches, (X,), Refused("not_exportable", "its requires_grad_ ", "test_named_cases.py:", "leave that part out of forward")),
    (timed, (X,), Refused("not_exportable", "depend on the time", "", "as an argument")),
    (timed_by_name, (X,), Refused("not_exportable", "depend on the time", "", "as an argument")),
    (dated, (X,), Refused("not_exportable", "depend on the time", "", "as an argument")),
    (dated_today, (X,), Refused("not_exportable", "depend on the time", "", "as an argument")),
    (dated_by_name, (X,), Refused("not_exportable", "depend on the time", "", "as an argument")),
    (timed_by_default, (X,), Refused("not_exportable", "test_named_cases.py:", "asks a clock that its code keeps", "by its module")),
    (Timed(), (X,), Refused("not_exportable", "test_named_cases.py:", "asks a clock that its code keeps", "by its module")),
    (timed_in_a_closure(time.time_ns), (X,), Refused("not_exportable", "test_named_cases.py:", "asks a clock that its code keeps", "by its module")),
    (seeds, (X,), Refused("random_ops", "seeds torch's generator ", "torch.manual_seed(3)", "before the module is called")),
]


@pytest.mark.parametrize(("thing", "args", "refused"), REFUSALS, ids=[f"{r.kind}-{n}" for n, (_, _, r) in enumerate(REFUSALS)])
def test_is_refused(thing: Any, args: tuple[Any, ...], refused: Refused, tool: Tool, tmp_path: Path) -> None:
    found = outcome_of(tool, tmp_path, thing, *args)
    assert found.kind == refused.kind, found
    _, _, behind = found.message.partition(refused.operator)
    assert behind or not refused.line, found
    assert refused.operator in found.message and refused.line in behind and refused.hint in found.hint, found
    if refused.line and refused.kind != "not_exportable":
        assert f"({Path(__file__).name}:" in behind, found


class Encoder(nn.Module):
    def __init__(self, nested: bool) -> None:
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=nested)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return self.layers(x, src_key_padding_mask=padding)


def test_the_fast_path_of_a_transformer_encoder_is_named(tool: Tool, tmp_path: Path) -> None:
    """In eager it writes zeros where the graph, which no nested tensor enters, computes."""
    args = torch.randn(2, 5, 16), torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.operators.test_named_cases.redraw", lambda x, generator: x.clone())  # a mask that is all padding gives NaN
        found = outcome_of(tool, tmp_path, Encoder(nested=True), *args)
        assert found.kind == "capture_mismatch" and "fast path" in found.message and "enable_nested_tensor=False" in found.hint, found
        found = outcome_of(tool, tmp_path, Encoder(nested=False), *args)
        assert found.kind == TAKEN, found


def nested_conditions(x: torch.Tensor) -> torch.Tensor:
    def inner(y: torch.Tensor) -> torch.Tensor:
        return torch.cond(y.max() > 0.5, lambda z: z * 2, lambda z: z - 1, (y,))

    return torch.cond(x.sum() > 0, inner, lambda y: y.cos(), (x,))


class Decoder(nn.Module):
    """The middle of a VAE decoder: a group norm of an image that attention transposed, at batch 1."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, 32)
        self.out = nn.Conv2d(32, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, _, c = x.shape
        y = (x * 2).transpose(1, 2).reshape(b, c, 4, 4)
        return self.out(self.norm(y))


class Counter(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n.add_(1)
        return x * n


@torch.no_grad()
def pruned() -> nn.Module:
    from torch.nn.utils import prune

    layers = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    prune.random_unstructured(layers[0], "weight", 0.5)
    prune.l1_unstructured(layers[0], "weight", 0.2)
    return layers


def counts_picked(x: torch.Tensor) -> torch.Tensor:
    """How many rows pick each column, in ways that say themselves that no number is larger."""
    picked = x.topk(2).indices.flatten()
    n = picked.numel()
    return torch.stack([
        torch.bincount(picked, minlength=6), torch.bincount(picked % 4, minlength=6), torch.bincount(x.argmax(1), minlength=6),
        torch.bincount((x.flatten()[:n] * 9).long().clamp(0, 5), minlength=6), torch.bincount((x > 0).flatten().long(), minlength=6),
    ])  # fmt: skip


def masks(x: torch.Tensor) -> list[torch.Tensor]:
    """Few places of each row, some of them twice, in the last dim and in the first, of larger sources and in other types."""
    picked = x.topk(3).indices % 4
    few = x.argsort(0)[:2]
    return [
        torch.zeros(4, 6).scatter(1, picked, 1.0), torch.full((4, 6), True).scatter(-1, picked, False), torch.zeros(4, 6).scatter_add(1, picked, x),
        torch.zeros(5, 6, dtype=torch.int64).scatter(0, few, 7), torch.ones(4, 6).bfloat16().scatter_add(0, few, x.bfloat16()),
        torch.zeros_like(x).scatter_add(1, picked[:2], x), torch.zeros(4, 6).scatter(1, picked, -0.5),
    ]  # fmt: skip


CODES = torch.arange(2048, dtype=torch.int32).view(32, 64) % 16


def writes_rows(x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
    """As caches are written by hand: one place of a dim, a number or a row for it, wherever the dim stands."""
    found = [x.view(2, 2, 6).clone() for _ in range(7)]
    found[0][:, :, n[0]] = x.view(2, 2, 6)[:, :, 0] * 2
    found[1][n[1]] = 1.0
    found[2][..., n[2]] = x[0, :2].double()
    found[3][..., n[1], :] = x[0]
    found[4][0, n[1], 1:4] = x[1, :3]
    found[5][:, -n[1]] = x[None, None, 2:3]
    found[6][None, :, n[1], None, 2:] = x[3, 2:]
    return found


def multiplies_packed(x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    return torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, 32, scales)


TAKEN_CASES: dict[str, tuple[Any, ...]] = {
    "weights packed by torch": (multiplies_packed, torch.ones(4, 64).bfloat16(), CODES, torch.ones(2, 32, 2).bfloat16()),
    "masks written into new tensors": (masks, X),
    "rows written by tensors": (writes_rows, X, torch.tensor([1, 0, 1])),
    "bincount of a known range": (counts_picked, X),
    "weighted bincount": (lambda x: torch.bincount(x.argmax(1), x[:, 0], minlength=6), X),
    "bincount of no rows": (lambda x: torch.bincount(x[:0].argmax(1), minlength=6), X),
    "rows by tensors": (lambda x, n: (x[n[0]], x[:, n.max()] * 2, x[-n[1]]), X, torch.tensor([2, 1, 3])),
    "measures its own time": (measures, X),
    "flex_attention": (attends, *HEADS),
    "renorm in bf16": (lambda x: x.renorm(2, 0, 1.0), X.bfloat16()),
    "cond": (lambda x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,)), X),
    "cond in cond": (nested_conditions, X),
    "solve": (torch.linalg.solve, SQUARE, X),
    "inv": (torch.linalg.inv, DEFINITE),
    "cholesky": (torch.linalg.cholesky, DEFINITE),
    "topk": (lambda x: x.topk(2), X),
    "sort, max and more": (lambda x: {"a": x.sort(), "b": [x.max(1)]}, X),
    "group norm of a transposed image": (Decoder(), torch.linspace(-1, 1, 512).reshape(1, 16, 32)),
    "overlapping input": (lambda x: x * 2, torch.linspace(-1, 1, 20).as_strided((4, 6), (3, 1))),
    "pruned": (pruned(), X),
    "one element that is changed": (Counter(), X, torch.tensor([3])),
    "index": (lambda x, i: x[i], X, torch.tensor([0, 3])),
    "integer quotient": (lambda a, b: a // b, torch.arange(4), torch.arange(1, 5)),
    "a tensor that goes by its name alone": (lambda x, y: torch.searchsorted(x, y, sorter=x.argsort()), X[0].flip(0), X[1]),
    "windows of one number": (lambda x: x.unfold(0, 1, 1).clone(), torch.tensor(2.0)),
    "renorm of complex numbers": (lambda x: x.renorm(1, 0, 1.0), torch.complex(X, X * X)),
    "nothing, uninitialised": (lambda x: (x * 2, x.new_empty(0)), X),
    "complex double": (lambda x: torch.fft.ifft(x.double()), X),
    "fp8 on the way": (lambda x: x.to(torch.float8_e4m3fn).float() * 2, X),
    "fp8 given and returned": (lambda x, y: ((x / 3).to(torch.float8_e5m2), y.float() * 2, y), X, X.to(torch.float8_e4m3fn)),
    "fp8 product": (lambda a, b, s: torch._scaled_mm(a, b.t(), s, s, out_dtype=torch.bfloat16), X8, X8, torch.tensor(0.5)),
    "int8 product": (torch._int_mm, torch.ones(32, 32, dtype=torch.int8), torch.full((32, 32), 3, dtype=torch.int8)),
}


@pytest.mark.parametrize("name", TAKEN_CASES)
def test_is_taken(name: str, tool: Tool, tmp_path: Path) -> None:
    thing, *args = TAKEN_CASES[name]
    found = outcome_of(tool, tmp_path, thing, *args)
    assert found.kind == TAKEN, found


def test_a_draw_gives_no_example_away() -> None:
    generator = torch.Generator()
    for example in (torch.tensor([3]), torch.tensor(2.0), torch.randn(3, 3)):
        kept = example.clone()
        redraw(example, generator).add_(1)
        assert torch.equal(example, kept)


def test_definite_matrices_stay_it() -> None:
    generator = torch.Generator().manual_seed(1)
    example = torch.stack([DEFINITE + torch.diag(torch.arange(4.0)), 2 * DEFINITE + torch.diag(torch.arange(4.0))])
    drawn = redraw(example, generator)
    assert not torch.equal(drawn, example) and torch.equal(drawn, drawn.mT)
    assert torch.allclose(torch.linalg.eigvalsh(drawn), torch.linalg.eigvalsh(example), atol=1e-4)
