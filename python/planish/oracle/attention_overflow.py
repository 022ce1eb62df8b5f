"""Rows of attention whose products of queries and keys leave the numbers before they are scaled.

Torch's composed form of attention takes the root of the scale to both factors first, its fused kernels scale the products: where these overflow one
gives numbers and the others NaN, so that neither is a property of the task."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

#: Asks for something of the data: whoever computes the same several times may know the answer.
Ask = Callable[[Callable[[], bool | torch.Tensor]], bool]

_ROWS = 1024  #: queries at once
_PRODUCTS = 1 << 26  #: at once, of so many heads


def _now(question: Callable[[], bool | torch.Tensor]) -> bool:
    return bool(question())


def overflowing_rows(query: torch.Tensor, key: torch.Tensor, largest: float, ask: Ask = _now) -> torch.Tensor | None:
    """Of `query` (..., heads, l, e) and `key` (..., heads or a divisor of these, s, e) in fp64: rows of which some product is beyond `largest`, as
    (..., heads, l) of booleans; None where none is. What a mask hides counts."""
    if query.numel() == 0 or key.numel() == 0:
        return None
    # Rows with a product that is no number are none of these, so the largest numbers say whether any is.
    if ask(lambda: _largest_number(query) * _largest_number(key) * query.shape[-1] <= largest):
        return None
    if query.ndim > 2 and key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    key = key.expand(*query.shape[:-2], *key.shape[-2:])
    queries, keys = query.reshape(-1, *query.shape[-2:]), key.reshape(-1, *key.shape[-2:])
    beyond = torch.zeros(queries.shape[:2], dtype=torch.bool, device=query.device)
    heads = max(1, _PRODUCTS // (min(_ROWS, queries.shape[1]) * keys.shape[1]))
    for head in range(0, queries.shape[0], heads):
        for begin in range(0, queries.shape[1], _ROWS):
            products = queries[head : head + heads, begin : begin + _ROWS] @ keys[head : head + heads].transpose(-2, -1)
            beyond[head : head + heads, begin : begin + _ROWS] = ~(products.abs() <= largest).all(-1) & products.isfinite().all(-1)
    return beyond.reshape(query.shape[:-1]) if ask(beyond.any) else None


def _largest_number(values: torch.Tensor) -> torch.Tensor:
    return values.abs().nan_to_num_(0.0, 0.0, 0.0).amax()


def leave_open(result: torch.Tensor, query: torch.Tensor, key: torch.Tensor, dtype: torch.dtype, ask: Ask = _now) -> torch.Tensor:
    """The result (..., l, v) in fp64 of attention whose factors have `dtype`, with NaN in such rows: sums of anything narrower are in f32."""
    largest = torch.finfo(torch.promote_types(dtype, torch.float32)).max
    rows = None if math.isinf(largest) or dtype == torch.float64 else overflowing_rows(query, key, largest, ask)
    return result if rows is None else result.masked_fill(rows.unsqueeze(-1), math.nan)
