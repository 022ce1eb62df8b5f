"""Kernels of ours keep the sign of a zero wherever PyTorch has one answer; what it has none for is named here, and shown where it can be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.random_graphs.parts import Tool

from .signs import BINARY, DTYPES, ROWS, UNARY, Applied, Function, differences, kernels, sweeps

#: Of equal zeros torch's vectors take another than its loop over what they leave, or its reductions than they themselves a row further.
BOTH_WAYS = {"maximum", "minimum", "clamp between", "amax", "amin", "softshrink"}
#: By function and type (none: all): where ours is another than eager's, and stays so.
OTHERS: dict[tuple[str, torch.dtype | None], str] = {
    ("fmax", torch.bfloat16): "torch takes the first of equal zeros in f32, f64 and f16, the second in bf16",
    ("fmin", torch.bfloat16): "the same",
    ("max", None): "of a row's equal zeros ours takes any, torch the first",
    ("min", None): "the same",
    ("pow 0.5", torch.float16): "torch takes a root in f32, f64 and bf16 (-0), and a power in f16 (0)",
    ("log1p", None): "torch's is 0 at the smallest number below 0, ours that number",
    ("lerp", None): "torch's is rounded once, and a product below the smallest number keeps its sign there",
    ("lerp far", None): "the same",
    ("tanhshrink", None): "torch rounds tanh to 16 bits before it subtracts it",
    ("layer_norm", None): "the sign of a difference that is rounding alone",
}


def unexplained(found: dict[str, list[str]], dtype: torch.dtype) -> dict[str, list[str]]:
    return {name: what for name, what in found.items() if name not in BOTH_WAYS and (name, dtype) not in OTHERS and (name, None) not in OTHERS}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_signs_are_eagers(dtype: torch.dtype, tool: Tool, tmp_path: Path) -> None:
    for sweep in sweeps(dtype):
        outputs, steps = kernels(sweep, tool, tmp_path / sweep.name, seed=1)
        assert set(steps) == {"kernel"}, "all of it is ours"
        assert unexplained(differences(sweep, outputs), dtype) == {}


def test_a_lost_sign_is_seen() -> None:
    lost: set[str] = set()
    for sweep in sweeps(torch.float32):
        eager = Applied(sweep.functions)(*sweep.inputs)
        lost |= unexplained(differences(sweep, [result + 0.0 for result in eager]), torch.float32).keys()
    assert {"expm1", "elu", "tanh", "hardtanh", "sin", "clamp at -0", "mul", "fmod", "cummax", "max_pool"} <= lost


def signs(function: Function, operands: list[torch.Tensor]) -> set[bool]:
    """Whether the elements of results are negative, over lengths at which torch's loops end differently."""
    return {bool(sign) for n in (1, 3, 17, 64, 100) for sign in function(*[t.repeat(n) for t in operands]).signbit()}


def rows_signs(function: Function) -> set[bool]:
    rows = [torch.tensor([[*head, *[z] * n]]) for n in (1, 5, 16, 38, 99) for z in (0.0, -0.0) for head in ([0.0], [-0.0])]
    return {bool(function(row)[0].signbit()) ^ bool(row[0, 0].signbit()) for row in rows}


@pytest.mark.parametrize("name", sorted(BOTH_WAYS))
def test_torch_itself_has_two_answers(name: str) -> None:
    """Else its answer is to be ours."""
    if name in ROWS:
        assert rows_signs(ROWS[name]) == {True, False}, "neither the first nor any other place"
        return
    zero, below = torch.tensor([0.0]), torch.tensor([-0.0])
    operands = [[below]] if name in UNARY else [[a, b] for a in (zero, below) for b in (zero, below)]
    function = UNARY[name] if name in UNARY else BINARY[name]
    assert any(len(signs(function, one)) == 2 for one in operands)
