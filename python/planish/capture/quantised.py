"""Products of 8-bit tensors in operators that kernels have: a product in single precision, and scales where torch's own kernels apply them.
A number of 8 bits is exact in single precision, and in bfloat16, so that nothing is lost on the way to tensor cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    result = _scaled(a, b, behind, bias)
    if scale_result is not None:
        result = result * scale_result.reshape(())
    return result.to(self.dtype if out_dtype is None else out_dtype)


def _scaled(a: torch.Tensor, b: torch.Tensor, behind: list[torch.Tensor], bias: torch.Tensor | None) -> torch.Tensor:
    """The product, times what scales its sums, and the bias."""
    result = torch.mm(a, b)
    for scale in behind:
        result = result * scale
    return result if bias is None else result + _wide(bias)


#: Recipes of torch.nn.functional.scaled_mm, by their numbers.
_TENSOR, _ROWS, _BLOCKS_1_128, _BLOCKS_128_128 = 0, 1, 4, 5


def _scaled_mm_v2(
    self: torch.Tensor, mat2: torch.Tensor, scale_a: list[torch.Tensor], recipe_a: list[int], swizzle_a: list[int],
    scale_b: list[torch.Tensor], recipe_b: list[int], swizzle_b: list[int], bias: torch.Tensor | None, out_dtype: torch.dtype | None,
    contraction_dim: Sequence[int] = (), use_fast_accum: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The same by recipes. Scales of e8m0 or e4m3, of two levels, or swizzled, stay torch's."""
    if self.dtype.itemsize != 1 or mat2.dtype.itemsize != 1 or len(scale_a) != 1 or len(scale_b) != 1 or contraction_dim or any((*swizzle_a, *swizzle_b)):
        return NotImplemented
    (x,), (y,) = scale_a, scale_b
    if x.dtype != torch.float32 or y.dtype != torch.float32:
        return NotImplemented
    m, k, n, steps = self.shape[0], self.shape[1], mat2.shape[1], -(-self.shape[1] // 128)
    a, b = _wide(self), _wide(mat2)
    behind: list[torch.Tensor] = []
    if recipe_a == [_TENSOR] and x.numel() == 1:
        behind.append(x.reshape(()))
    elif recipe_a == [_ROWS] and x.numel() == m:
        behind.append(x.reshape(m, 1))
    elif recipe_a == [_BLOCKS_1_128] and x.shape == (m, steps):
        a = a * _of_blocks(x, torch.Size((m, k)))
    else:
        return NotImplemented
    if recipe_b == [_TENSOR] and y.numel() == 1:
        behind.append(y.reshape(()))
    elif recipe_b == [_ROWS] and y.numel() == n:
        behind.append(y.reshape(1, n))
    elif recipe_b == [_BLOCKS_1_128] and (y.shape == (n, steps)) != (y.shape == (steps, n)):
        b = b * _of_blocks(y.t() if y.shape == (n, steps) else y, torch.Size((k, n)))
    elif recipe_b == [_BLOCKS_128_128] and y.ndim == 2 and y.shape[0] >= steps and y.shape[1] == -(-n // 128):
        b = b * _of_blocks(y[:steps], torch.Size((k, n)))  # torch asks for whole fours of steps
    else:
        return NotImplemented
    return _scaled(a, b, behind, bias).to(self.dtype if out_dtype is None else out_dtype)


def _scaled_grouped_mm(
    self: torch.Tensor, mat2: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, scale_result: torch.Tensor | None = None, out_dtype: torch.dtype | None = None, use_fast_accum: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Rows of `self` in groups, each with a matrix of `mat2`, and scales of rows and of each matrix's columns: these are the factors', so that the
    group of a row is looked up once. Other forms (groups of columns, or of parts of the sum) and scales of e8m0 stay torch's."""
    if self.ndim != 2 or mat2.ndim != 3 or offs is None or bias is not None or scale_result is not None:
        return NotImplemented
    if self.dtype.itemsize != 1 or mat2.dtype.itemsize != 1 or scale_a.dtype != torch.float32 or scale_b.dtype != torch.float32:
        return NotImplemented
    rows, groups, columns = self.shape[0], mat2.shape[0], mat2.shape[2]
    if scale_a.shape != (rows,) or scale_b.shape != (groups, columns) or columns % 8:  # rows of other results begin at multiples of 16 bytes
        return NotImplemented
    product = aten._grouped_mm.default(_wide(self) * scale_a.unsqueeze(1), _wide(mat2) * scale_b.unsqueeze(1), offs)
    return product.to(torch.bfloat16 if out_dtype is None else out_dtype)


def _weight_int8pack_mm(self: torch.Tensor, mat2: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """`mat2` is [n, k], with a scale for each row."""
    return (torch.mm(_wide(self), _wide(mat2).t()) * _wide(scales)).to(self.dtype)


def _view_dtype(self: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Words of integers as the bytes (or smaller words) that they lie in, lowest first, by arithmetic: who takes codes out of words that are seen as
    bytes is no other than who takes them out of the words. Codes of one size are cast, which keeps their bits."""
    integers = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    if self.dtype not in integers or dtype not in integers or dtype.itemsize > self.dtype.itemsize or not self.ndim:
        return NotImplemented
    if dtype.itemsize == self.dtype.itemsize:
        return self.to(dtype)
    bits = 8 * dtype.itemsize
    shifts = torch.arange(0, 8 * self.dtype.itemsize, bits, dtype=self.dtype, device=self.device)
    return ((self.unsqueeze(-1) >> shifts) & ((1 << bits) - 1)).to(dtype).flatten(-2)


DECOMPOSITIONS: dict[torch._ops.OpOverload, Callable[..., torch.Tensor]] = {
    aten._scaled_mm.default: _scaled_mm,
    aten._scaled_grouped_mm.default: _scaled_grouped_mm,
    aten._weight_int8pack_mm.default: _weight_int8pack_mm,
    aten.view.dtype: _view_dtype,
}
if hasattr(aten, "_scaled_mm_v2"):
    DECOMPOSITIONS[aten._scaled_mm_v2.default] = _scaled_mm_v2
