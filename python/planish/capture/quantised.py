"""Products of 8-bit tensors in operators that kernels have: a product in single precision, and scales where torch's own kernels apply them.
A number of 8 bits is exact in single precision, and in bfloat16, so that nothing is lost on the way to tensor cores."""

from __future__ import annotations

from collections.abc import Callable

import torch

aten = torch.ops.aten


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32)


def _of_blocks(scale: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """A scale for each element of a factor of `shape`, from one for each block of rows and columns of equal sizes."""
    for dim, size in enumerate(shape):
        count = scale.shape[dim]
        if count not in (1, size):
            block = -(-size // count)
            block = next((b for b in (32, 64, 128) if -(-size // b) == count), block)
            kept = [scale.shape[d] for d in range(dim)], [scale.shape[d] for d in range(dim + 1, scale.ndim)]
            scale = scale.unsqueeze(dim + 1).expand(*kept[0], count, block, *kept[1]).reshape(*kept[0], count * block, *kept[1]).narrow(dim, 0, size)
    return scale


def _scaled_mm(
    self: torch.Tensor, mat2: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None, out_dtype: torch.dtype | None = None, use_fast_accum: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Scales of whole tensors, of rows of `self` and columns of `mat2` are applied to the sums; those of blocks along k to the factors."""
    if self.dtype.itemsize != 1 or mat2.dtype.itemsize != 1 or scale_a.dtype != torch.float32 or scale_b.dtype != torch.float32:
        return NotImplemented
    a, b = _wide(self), _wide(mat2)
    behind: list[torch.Tensor] = []
    if scale_a.numel() == 1 or scale_a.shape == (self.shape[0], 1):
        behind.append(scale_a if scale_a.numel() > 1 else scale_a.reshape(()))
    elif scale_a.ndim == 2:
        a = a * _of_blocks(scale_a, self.shape)
    else:
        return NotImplemented
    if scale_b.numel() == 1 or scale_b.shape == (1, mat2.shape[1]):
        behind.append(scale_b if scale_b.numel() > 1 else scale_b.reshape(()))
    elif scale_b.ndim == 2:
        b = b * _of_blocks(scale_b, mat2.shape)
    else:
        return NotImplemented
    result = torch.mm(a, b)
    for scale in behind:
        result = result * scale
    if bias is not None:
        result = result + _wide(bias)
    if scale_result is not None:
        result = result * scale_result.reshape(())
    return result.to(self.dtype if out_dtype is None else out_dtype)


def _weight_int8pack_mm(self: torch.Tensor, mat2: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """`mat2` is [n, k], with a scale for each row."""
    return (torch.mm(_wide(self), _wide(mat2).t()) * _wide(scales)).to(self.dtype)


DECOMPOSITIONS: dict[torch._ops.OpOverload, Callable[..., torch.Tensor]] = {
    aten._scaled_mm.default: _scaled_mm,
    aten._weight_int8pack_mm.default: _weight_int8pack_mm,
}
