"""Storage order: a strided tensor as one flat run, so that comparing needs no copies of the candidate's output."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def storage_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The permutation of dims that puts the largest stride first (a permuted dense tensor becomes contiguous)."""
    return tuple(sorted(range(len(shape)), key=lambda d: (-strides[d] if shape[d] > 1 else -(1 << 62), d)))


def flat(tensor: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """The elements in `order`, one-dimensional; a view when the layout allows it."""
    return tensor.permute(tuple(order)).reshape(-1)


def unravel(position: int, shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The index in the tensor of a position in its flat form."""
    index = [0] * len(shape)
    for dim in reversed(order):
        index[dim] = position % shape[dim] if shape[dim] else 0
        position //= max(1, shape[dim])
    return index


def distinct(tensor: torch.Tensor) -> torch.Tensor:
    """The view without the repetitions of expanded dims, so that each element can be written once."""
    for dim in range(tensor.ndim):
        if tensor.stride(dim) == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def copy_into(destination: torch.Tensor, source: torch.Tensor) -> None:
    """Copies, also into an expanded destination (from a source that is equal along the expanded dims), and into one whose elements overlap
    otherwise (from a source that is equal where they do)."""
    for dim in range(destination.ndim):
        if destination.stride(dim) == 0 and destination.shape[dim] > 1:
            destination = destination.narrow(dim, 0, 1)
            source = source.narrow(dim, 0, 1)
    if not _may_overlap(destination):
        destination.copy_(source)
        return
    extent = 1 + sum((n - 1) * s for n, s in zip(destination.shape, destination.stride(), strict=True))
    places = torch.arange(extent, device=destination.device).as_strided(destination.shape, destination.stride())
    destination.as_strided((extent,), (1,))[places.reshape(-1)] = source.reshape(-1).to(destination)


def _may_overlap(tensor: torch.Tensor) -> bool:
    """Whether two elements may lie in one place: a dim's step is within what the smaller ones span."""
    span = 0
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1):
        if stride <= span:
            return tensor.numel() > 0
        span += (size - 1) * stride
    return False


def run_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """A one-dimensional view of the memory that holds every element once, in storage order (of an expanded dim once); None where there are
    gaps or overlaps between them."""
    once = distinct(tensor)
    expected = 1
    for dim in reversed(storage_order(once.shape, once.stride())):
        if once.shape[dim] > 1:
            if once.stride(dim) != expected:
                return None
            expected *= once.shape[dim]
    return once.as_strided((once.numel(),), (1,))


def as_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """The same values with these strides: the tensor itself where it has them, a view where only dims of size 1 have others (no element lies
    elsewhere, but operators guess the memory format by them), else a copy."""
    if tensor.stride() == tuple(strides):
        return tensor
    if all(a == b or size <= 1 for a, b, size in zip(tensor.stride(), strides, tensor.shape, strict=True)):
        return tensor.as_strided(tensor.shape, tuple(strides))
    laid = torch.empty_strided(tensor.shape, tuple(strides), dtype=tensor.dtype, device=tensor.device)
    copy_into(laid, tensor)
    return laid
