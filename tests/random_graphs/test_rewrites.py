"""Rewritten graphs, composed of kernels and run: they give what eager gives, in numbers and in what is not finite."""

from __future__ import annotations

import copy
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from planish import rt
from planish.capture import capture
from planish.executor import Executor
from torch import nn

from .parts import CPP_FLAGS, Tool, cpu_levels


class Summed(nn.Module):
    """The first sum makes rows of one element, over which the rest folds."""

    def __init__(self) -> None:
        super().__init__()
        self.gemm = nn.Linear(40, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = ((self.gemm(x) / 2 + 0.25) * 1.5).sum(1, keepdim=True)
        return torch.logsumexp(y * 0.125, 1, keepdim=True) + torch.softmax(y, 1)


class Mean(nn.Module):
    """A mean over a product that only it reads, beside another reader of the factors."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x @ w).mean(-1) - 3.0, torch.relu(x) + w.sum()


class Diagonal(nn.Module):
    """On either side."""

    def __init__(self, left: bool) -> None:
        super().__init__()
        self.left = left

    def forward(self, b: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.diag(a) @ b if self.left else b @ torch.diag(a)


class Kept(nn.Module):
    """What it would save is read by something else."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x @ w
        return y.sum(-1), y


class Chain(nn.Module):
    """A wide layer and a narrow one with nothing between: x·a·b."""

    def __init__(self) -> None:
        super().__init__()
        self.gemm = nn.Linear(40, 96)
        self.head = nn.Linear(96, 3)
        with torch.no_grad():
            self.head.weight.abs_().add_(0.1)
            self.head.weight[0, 5] = 0
            self.head.weight[1, 7].neg_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.head(self.gemm(x)))


class Bottleneck(nn.Module):
    """A batch norm whose result PyTorch's own convolution reads."""

    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Conv2d(4, 16, 1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.project = nn.Conv2d(16, 3, 3, stride=4)
        with torch.no_grad():
            self.norm.running_mean.normal_()
            self.norm.running_var.uniform_(0.5, 2)
            self.norm.weight.normal_()
            self.norm.bias.normal_()
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.project(self.norm(self.expand(x))))


class Transition(nn.Module):
    """A pool that may come before the convolution, behind what a kernel does before either."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(12, 6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.avg_pool2d(self.conv(x * 0.5), 2)


class Pooled(nn.Module):
    """Average pools behind a convolution with taps, and what may lie between."""

    def __init__(self, conv: nn.Module, pools: list[nn.Module], between: bool = False) -> None:
        super().__init__()
        self.conv = conv
        self.pools = nn.Sequential(*pools)
        self.between = between
        self.scale = nn.Parameter(torch.randn(conv.out_channels, *[1] * (conv.weight.dim() - 2)))
        with torch.no_grad():
            # Taps that are added have one sign for some channels, and a zero among them for some.
            taps = conv.weight.view(*conv.weight.shape[:2], -1)
            taps[::2, ::2] = taps[::2, ::2].abs() + 0.1
            taps[1::2, ::2] = -taps[1::2, ::2].abs() - 0.1
            taps[0, -1, ::3] = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        if self.between:
            y = (y / 2 + self.scale) * self.scale
        return self.pools(y) * 0.25


class Triangles(nn.Module):
    """Products that the graph's own triangles cut: of a factor, of both, of what is wanted, and of a layer's weights."""

    def __init__(self, which: str) -> None:
        super().__init__()
        self.which = which
        self.layer = nn.Linear(512, 512)

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        if self.which == "wanted":
            return torch.triu(torch.matmul(x, w)) * 2
        if self.which == "left":
            return torch.tril(x) @ w
        if self.which == "right":
            return x @ torch.where(torch.arange(512)[:, None] < torch.arange(512), w, 0)
        if self.which == "layer":
            return torch.relu(nn.functional.linear(x, torch.tril(self.layer.weight), self.layer.bias))
        if self.which == "apart":
            return torch.triu(x) @ torch.tril(w)
        return torch.tril(torch.tril(x) @ torch.tril(w))


class Attention(nn.Module):
    """Heads of more features than a kernel of ours has room for."""

    def __init__(self, causal: bool = False, scale: float | None = None) -> None:
        super().__init__()
        self.causal = causal
        self.scale = scale

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal, scale=self.scale)


def answer(tool: Tool, model: nn.Module, args: tuple[torch.Tensor, ...], programs: int, own: bool = False) -> dict[str, Any]:
    """`own`: as where kernels of ours compute products, though on a CPU PyTorch does."""
    with tempfile.TemporaryDirectory() as blobs:
        graph = capture(model, args, {}, Path(blobs)).graph
    found = tool.ask({"graph": graph, "target": "cpu", "arch": cpu_levels()[0], "programs": programs, "seed": 5, "rewrite": True, "own": own})
    assert "error" not in found, found["error"]
    return found


def run(program: dict[str, Any], folder: Path, model: nn.Module, args: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    binaries = []
    for k, one in enumerate(program["kernels"]):
        (folder / f"k{k}.cpp").write_text(one["source"].replace('extern "C" void k0', 'extern "C" __attribute__((visibility("default"))) void k0'))
        command = ["g++", "-O1", f"-march={cpu_levels()[0]}", *CPP_FLAGS, *one["flags"], str(folder / f"k{k}.cpp"), "-o", str(folder / f"k{k}.so")]
        subprocess.run(command, check=True)
        binaries.append(str(folder / f"k{k}.so"))
    executor = Executor(program, binaries, "", rt.find_library(), "cpu", effects=[])
    params = {name: value.detach() for name, value in (*model.named_parameters(), *model.named_buffers())}
    return executor.run([args[b.index] if b.kind == "user" else params[b.name] for b in executor.bindings])


CASES: list[tuple[nn.Module, tuple[torch.Tensor, ...], list[str], int]] = [
    (Summed(), (torch.randn(32, 40),), ["sum_through_product", "softmax_of_one", "softmax_of_one"], 4),
    (Chain(), (torch.randn(64, 40),), ["product_through_product"], 3),
    (Mean(), (torch.randn(4, 8, 40), torch.randn(40, 24)), ["sum_through_product"], 3),
]


@pytest.mark.parametrize(("model", "args", "rules", "most"), CASES, ids=["sum", "chain", "mean"])
@torch.no_grad()
def test_a_rewritten_graph_gives_the_same(tool: Tool, tmp_path: Path, model: nn.Module, args: tuple[torch.Tensor, ...], rules: list[str], most: int) -> None:
    found = answer(tool, model, args, 2)
    assert sorted(found["rewrites"]) == sorted(rules)
    for k, item in enumerate(found["programs"]):
        program = item["program"]
        assert [s for s in program["steps"] if s["kind"] == "aten"] == [] and len(program["kernels"]) <= most
        folder = tmp_path / str(k)
        folder.mkdir()
        usual = [a.clone() for a in args]
        # An infinity meets weights of both signs, of one sign, and a zero; NaN meets them all.
        odd = [a.clone() for a in args]
        rows = odd[0].view(-1, odd[0].shape[-1])
        rows[0, 3], rows[1, 4], rows[2, 5], rows[3, 6], rows[4, 7], rows[5, 8] = torch.inf, -torch.inf, torch.inf, torch.nan, -torch.inf, torch.inf
        weights = model.gemm.weight.detach() if isinstance(model, Summed | Chain) else odd[1].t()
        weights[:, 4].abs_().add_(1)
        weights[:, 5].abs_().add_(1).neg_()
        weights[:, 7].abs_().add_(1)
        weights[2, 7] = 0
        for given in (usual, odd):
            wanted = model(*given)
            results = run(program, folder, model, tuple(given))
            for result, expected in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
                torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4, equal_nan=True)
            if given is odd:
                assert not torch.isfinite(results[0]).all() and torch.isfinite(results[0]).any()


@pytest.mark.parametrize("left", [True, False], ids=["rows", "columns"])
@torch.no_grad()
def test_a_diagonal_scales(tool: Tool, tmp_path: Path, left: bool) -> None:
    model, a, b = Diagonal(left), torch.randn(24), torch.randn(24, 24)
    found = answer(tool, model, (b, a), 1)
    assert found["rewrites"] == ["diagonal_product"]
    program = found["programs"][0]["program"]
    assert [s for s in program["steps"] if s["kind"] == "aten"] == []
    odd, odd_scale = b.clone(), a.clone()
    odd[2, 3], odd[5, 7], odd[6, 7], odd[9, 9] = torch.inf, torch.nan, -torch.inf, torch.inf
    odd_scale[11], odd_scale[12] = torch.inf, torch.nan
    for given in ((b, a), (odd, a), (b, odd_scale)):
        [result] = run(program, tmp_path, model, given)
        torch.testing.assert_close(result, model(*given), rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    ("model", "shape", "rule", "steps"),
    [
        (Bottleneck(), (1, 4, 256, 256), "affine_into_weights", ["launch", "launch", "aten", "aten", "launch"]),
        (Transition(), (2, 12, 10, 8), "pool_before_convolution", ["launch", "aten"]),
    ],
    ids=["batch norm", "pool"],
)
@torch.no_grad()
def test_pytorch_reads_a_rewritten_value(tool: Tool, tmp_path: Path, model: nn.Module, shape: tuple[int, ...], rule: str, steps: list[str]) -> None:
    """Kernels and PyTorch's own convolutions in one region, with values of the rewritten graph between them."""
    usual = torch.randn(shape)
    odd = usual.clone()
    odd[0, 1, 2, 3], odd[0, 2, 2, 4], odd[0, 3, 7, 7], odd[0, 3, 6, 7] = torch.inf, torch.nan, -torch.inf, torch.inf
    found = answer(tool, model, (usual,), 1)
    assert found["rewrites"] == [rule]
    program = found["programs"][0]["program"]
    assert sorted(s["kind"] for s in program["steps"]) == sorted(steps)
    temps = {b for b, buffer in enumerate(program["buffers"]) if buffer["role"] == "temp"}
    read = {arg["buffer"] for s in program["steps"] if s["kind"] == "aten" for arg in s["args"] if "buffer" in arg}
    assert temps & read and all(program["buffers"][b]["dtype"] == "f32" for b in temps & read)
    for given in (usual, odd):
        [result] = run(program, tmp_path, model, (given,))
        torch.testing.assert_close(result, model(given), rtol=1e-4, atol=1e-4, equal_nan=True)
        if given is odd:
            assert not torch.isfinite(result).all() and torch.isfinite(result).any()


POOLS: list[tuple[str, nn.Module, list[nn.Module], tuple[int, ...], bool]] = [
    ("one dim", nn.Conv1d(3, 8, 4, padding=2), [nn.AvgPool1d(3, 2)], (2, 3, 61), False),
    ("two", nn.Conv2d(3, 8, (3, 5), padding=(1, 2)), [nn.AvgPool2d((2, 4))], (2, 3, 22, 27), True),
    ("groups", nn.Conv2d(4, 16, 3, groups=4, dilation=2), [nn.AvgPool2d(2)], (2, 4, 23, 22), False),
    ("three", nn.Conv3d(2, 6, 3, padding=1), [nn.AvgPool3d(2), nn.AvgPool3d((1, 2, 2))], (1, 2, 9, 10, 13), True),
    ("transposed", nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), [nn.AvgPool2d(2)], (2, 4, 13, 14), True),
    ("transposed, overlapping", nn.ConvTranspose2d(4, 6, 5, stride=2, padding=1), [nn.AvgPool2d(4, 2)], (2, 4, 13, 14), False),
    ("transposed, by threes", nn.ConvTranspose2d(4, 6, 4, stride=(3, 1), padding=(0, 2)), [nn.AvgPool2d((3, 2))], (2, 4, 9, 14), False),
    ("transposed, of three", nn.ConvTranspose3d(3, 4, 3, stride=2, padding=1), [nn.AvgPool3d(2), nn.AvgPool3d(2)], (1, 3, 6, 7, 8), True),
]


@pytest.mark.parametrize(("conv", "pools", "shape", "between"), [case[1:] for case in POOLS], ids=[case[0] for case in POOLS])
@torch.no_grad()
def test_pools_move_through_convolutions(tool: Tool, tmp_path: Path, conv: nn.Module, pools: list[nn.Module], shape: tuple[int, ...], between: bool) -> None:
    """An infinity meets weights of both signs, or of one, among those that are added; NaN is NaN."""
    torch.manual_seed(11)
    model, usual = Pooled(conv, pools, between), torch.randn(shape)
    found = answer(tool, model, (usual,), 1)
    moved = "pool_through_transposed" if "Transpose" in type(conv).__name__ else "pool_through_convolution"
    assert found["rewrites"] == ["pool_of_pool"] * (len(pools) - 1) + [moved]
    program = found["programs"][0]["program"]
    # A group for each channel is a kernel of ours.
    convolved = [] if conv.groups == conv.in_channels else [f"aten.conv{len(shape) - 2}d.default"]
    assert [s["op"] for s in program["steps"] if s["kind"] == "aten"] == convolved
    given = [usual]
    for value in (torch.inf, -torch.inf, torch.nan):
        for count in (1, 4):
            odd = usual.clone()
            odd.view(-1)[torch.randperm(odd.numel())[:count]] = value
            given.append(odd)
    both = usual.clone()
    places = torch.randperm(both.numel())[:9]
    both.view(-1)[places] = torch.tensor([torch.inf, -torch.inf, torch.nan]).repeat(3)
    infinite = 0
    for one in (*given, both):
        [result] = run(program, tmp_path, model, (one,))
        # As doubles, which no fast algorithm adds in another way.
        expected = model.double()(one.double()).float()
        model.float()
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
        infinite += int(torch.isinf(result).sum())
    assert infinite > 0 and torch.isnan(result).any()


class Largest(nn.Module):
    """The largest or least of what may come behind it."""

    def __init__(self, fold: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.fold = fold
        self.b = nn.Parameter(torch.randn(3, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fold(x, self.b)


functional = nn.functional
MAXIMA: list[tuple[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor], tuple[int, ...], int]] = [
    ("pool", lambda x, b: functional.max_pool2d(torch.tanh(x) * 0.5 + b, 2), (2, 3, 9, 12), 3),
    ("no images", lambda x, b: functional.max_pool2d(functional.hardtanh(x) + b, 3, 2, padding=1, ceil_mode=True), (3, 9, 12), 2),
    ("one dim", lambda x, b: functional.max_pool1d(torch.relu(x - 0.25), 3, 2, padding=1), (2, 3, 31), 2),
    ("three", lambda x, b: functional.max_pool3d(torch.sigmoid(x) / 2, 2, dilation=2), (1, 3, 7, 8, 9), 2),
    ("least", lambda x, b: torch.amin(functional.leaky_relu(x) + b, dim=(2, 3), keepdim=True), (2, 3, 9, 12), 2),
    ("largest of channels", lambda x, b: torch.amax(torch.exp(x).clamp(max=3), dim=1), (2, 3, 9, 12), 2),
    # Where it would be wrong: all dims, of which b is not the same; windows of padding alone; factors that vanish in fp32.
    ("all", lambda x, b: torch.amax(x + b, dim=(), keepdim=True), (2, 3, 8, 12), 0),
    ("padding alone", lambda x, b: functional.max_pool2d(torch.sigmoid(x), 2, stride=1, padding=1, dilation=5), (1, 1, 4, 4), 0),
    ("no factor", lambda x, b: torch.amax(x * 1e-50, dim=1), (4, 12), 0),
    ("no quotient", lambda x, b: torch.amax(x / 1e-50, dim=1), (4, 12), 0),
    ("no slope", lambda x, b: torch.amax(functional.leaky_relu(x, 1e-50), dim=1), (4, 12), 0),
]


@pytest.mark.parametrize(("fold", "shape", "moves"), [case[1:] for case in MAXIMA], ids=[case[0] for case in MAXIMA])
@torch.no_grad()
def test_maxima_move_in_front_of_what_never_falls(
    tool: Tool, tmp_path: Path, fold: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], shape: tuple[int, ...], moves: int
) -> None:
    torch.manual_seed(12)
    model, usual = Largest(fold), torch.randn(shape)
    found = answer(tool, model, (usual,), 1)
    assert found.get("rewrites", []) == ["extremum_before_monotone"] * moves
    program = found["programs"][0]["program"]
    given = [usual, torch.zeros(shape)]
    for value in (torch.inf, -torch.inf, torch.nan):
        odd = usual.clone()
        odd.view(-1)[torch.randperm(odd.numel())[:3]] = value
        given.append(odd)
    both = usual.clone()
    both.view(-1)[torch.randperm(both.numel())[:9]] = torch.tensor([torch.inf, -torch.inf, torch.nan]).repeat(3)
    for one in (*given, both):
        [result] = run(program, tmp_path, model, (one,))
        torch.testing.assert_close(result, model(one), rtol=1e-5, atol=1e-6, equal_nan=True)


class Normed(nn.Module):
    """What folds all that a norm makes."""

    def __init__(self, norm: nn.Module, fold: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.norm, self.fold = norm, fold
        with torch.no_grad():
            norm.weight.normal_()
            norm.bias.normal_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.fold(self.norm(x)))


NORMS: list[tuple[str, nn.Module, Callable[[torch.Tensor], torch.Tensor]]] = [
    ("groups", nn.GroupNorm(2, 6), lambda y: y.mean((2, 3))),
    ("groups and channels", nn.GroupNorm(3, 6), lambda y: y.mean((1, 2, 3))),
    ("batches", nn.BatchNorm2d(6), nn.AdaptiveAvgPool2d(1)),
]


@pytest.mark.parametrize(("norm", "fold"), [case[1:] for case in NORMS], ids=[case[0] for case in NORMS])
@torch.no_grad()
def test_folds_move_in_front_of_norms(tool: Tool, tmp_path: Path, norm: nn.Module, fold: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Also where the mean is a thousand times what the data differ by, and where a plane is not finite."""
    torch.manual_seed(13)
    model, usual = Normed(norm, fold), torch.randn(3, 6, 13, 12)
    found = answer(tool, copy.deepcopy(model), (usual,), 1)
    assert found["rewrites"] == ["mean_behind_norm"]
    program = found["programs"][0]["program"]
    far = usual + 1000
    given = [usual, far]
    for value in (torch.inf, -torch.inf, torch.nan):
        odd = usual.clone()
        odd[1, 2, 3, 4] = value
        given.append(odd)
    for one in given:
        exact = copy.deepcopy(model).double()
        [result] = run(program, tmp_path, model, (one,))
        tolerance = 2e-3 if one is far else 2e-5
        torch.testing.assert_close(result, exact(one.double()).float(), rtol=tolerance, atol=tolerance, equal_nan=True)
        for name in ("running_mean", "running_var") if isinstance(norm, nn.BatchNorm2d) else ():
            moved, expected = getattr(norm, name), getattr(exact.norm, name).float()
            torch.testing.assert_close(moved, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
            moved.fill_(0.5)


@pytest.mark.parametrize(("which", "products"), [("wanted", 2), ("left", 2), ("right", 2), ("layer", 2), ("apart", 3), ("both", 3)])
@torch.no_grad()
def test_products_of_triangles_are_products_of_blocks(tool: Tool, tmp_path: Path, which: str, products: int) -> None:
    """What a block leaves out may be an infinity or NaN of the other factor, or one that nobody wants."""
    model, usual = Triangles(which), (torch.randn(512, 512), torch.randn(512, 512))
    found = answer(tool, model, usual, 1)
    assert found["rewrites"] == ["banded_product"]
    program = found["programs"][0]["program"]
    operators = [s["op"] for s in program["steps"] if s["kind"] == "aten"]
    assert sum(op in ("aten.matmul.default", "aten.linear.default") for op in operators) == products
    odd = [a.clone() for a in usual]
    for a in odd:
        # In either triangle, on the diagonal, in rows and columns of each block.
        a[5, 5], a[17, 300], a[400, 20], a[100, 130], a[450, 310], a[508, 510] = torch.inf, torch.nan, -torch.inf, torch.inf, torch.nan, -torch.inf
    for given in (usual, tuple(odd), (usual[0], odd[1]), (odd[0], usual[1])):
        [result] = run(program, tmp_path, model, given)
        torch.testing.assert_close(result, model(*given), rtol=1e-4, atol=1e-3, equal_nan=True)
    assert not torch.isfinite(result).all() and torch.isfinite(result).any()


class Causal(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(512, 512, dtype=torch.bool).tril()
        return torch.softmax((q @ k.transpose(-1, -2) / 16).masked_fill(~mask, -torch.inf), -1) @ v


@torch.no_grad()
def test_causal_attention_as_written_computes_half(tool: Tool, tmp_path: Path) -> None:
    model, usual = Causal(), (torch.randn(2, 512, 256), torch.randn(2, 512, 256), torch.randn(2, 512, 256))
    found = answer(tool, model, usual, 1)
    assert found["rewrites"] == ["banded_product", "banded_product"]
    program = found["programs"][0]["program"]
    assert sum(s.get("op") == "aten.matmul.default" for s in program["steps"]) == 4
    odd = [a.clone() for a in usual]
    odd[0][0, 3, 5], odd[0][1, 400, 5], odd[1][0, 500, 7] = torch.nan, torch.inf, -torch.inf
    odd[2][0, 300, 3], odd[2][1, 511, 4], odd[2][1, 2, 5] = torch.inf, torch.nan, -torch.inf
    for given in (usual, tuple(odd), (*usual[:2], odd[2])):
        [result] = run(program, tmp_path, model, given)
        torch.testing.assert_close(result, model(*given), rtol=1e-4, atol=1e-4, equal_nan=True)
    assert not torch.isfinite(result).all() and torch.isfinite(result).any()


@pytest.mark.parametrize("kind", ["plain", "scaled", "causal", "booleans", "added", "turned"])
@torch.no_grad()
def test_wide_heads_are_products_and_a_softmax(tool: Tool, tmp_path: Path, kind: str) -> None:
    """A query without keys gives zeros, as PyTorch's operator does."""
    torch.manual_seed(3)
    q, k, v = torch.randn(2, 3, 20, 320), torch.randn(2, 3, 28, 320), torch.randn(2, 3, 28, 40)
    args: tuple[torch.Tensor, ...] = (q, k, v)
    if kind == "turned":
        args = (torch.randn(2, 20, 3, 320).transpose(1, 2), torch.randn(2, 28, 3, 320).transpose(1, 2), v)
    if kind == "booleans":
        args = (q, k, v, torch.rand(20, 28) > 0.5)
        args[3][7] = False
    if kind == "added":
        args = (q, k, v, torch.randn(2, 1, 20, 28))
        args[3][1, 0, 4], args[3][0, 0, 2, 5] = -torch.inf, -torch.inf
    model = Attention(kind == "causal", 0.3 if kind == "scaled" else None)
    found = answer(tool, model, args, 1, own=True)
    assert found["rewrites"] == ["wide_attention"]
    program = found["programs"][0]["program"]
    steps = [s.get("op", "launch") for s in program["steps"]]
    assert steps == ["aten.permute.default", "aten.matmul.default", "launch", "aten.matmul.default"]
    [result] = run(program, tmp_path, model, args)
    torch.testing.assert_close(result, model(*args), rtol=1e-5, atol=1e-5)
    if kind in ("booleans", "added"):
        empty = result[:, :, 7] if kind == "booleans" else result[1, :, 4]
        assert (empty == 0).all() and torch.isfinite(result).all()


@torch.no_grad()
def test_heads_that_a_kernel_has_room_for_stay(tool: Tool) -> None:
    heads = tuple(torch.randn(1, 2, 16, 256) for _ in range(3))
    assert "rewrites" not in answer(tool, Attention(), heads, 1, own=True)
    assert "rewrites" not in answer(tool, Attention(), tuple(torch.randn(1, 2, 16, 320) for _ in range(3)), 1)


def test_a_product_that_is_read_stays(tool: Tool) -> None:
    found = answer(tool, Kept(), (torch.randn(32, 40), torch.randn(40, 24)), 1)
    assert "rewrites" not in found
    assert [s["op"] for s in found["programs"][0]["program"]["steps"] if s["kind"] == "aten"] == ["aten.matmul.default"]
