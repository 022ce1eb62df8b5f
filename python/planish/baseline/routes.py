"""Where rounding decides which way a model takes (the experts of a mixture, the bins of a quantiser), rows of a result are another's altogether, of
eager's too. Which rows these are is found by letting eager round otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from planish import float8
from planish.ship import wrapped

DRAWS = 4
_NEAR = 5e-2  # of a row, beside the result's scale: a row that lies further went another way
_OTHERS = 1e-2  # of the rows: further away than any draw moved them
_MOST = 0.7  # relative error of a result of which something is still told


def rounded_otherwise(model: torch.nn.Module, tree: Any, generator: torch.Generator, tree_map: Callable[..., Any]) -> Any:
    """Moves a quarter of all parameters, and of the elements of the inputs that it returns, by one rounding of their dtype."""

    def moved(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or not t.dtype.is_floating_point:
            return t
        step = torch.randint(-1, 7, t.shape, generator=generator).clamp(max=2).to(t.device)
        way = torch.where(step < 0, -1.0, torch.where(step == 0, 1.0, 0.0))
        return float8.stored(t.detach().double() * (1 + torch.finfo(t.dtype).eps * way), t.dtype)

    with torch.no_grad():
        for parameter in wrapped.parameters(model).values():
            parameter.copy_(moved(parameter))
    return tree_map(moved, tree)


def explained_by_routes(actual: Any, exact: Any, draws: list[Any], some: bool = False) -> bool:
    """Whether an output lies no further from the truth than eager's does where it rounds otherwise: in norm at most twice as far as the worst of
    the draws, and far away only in rows (of the last dim) that a draw moved too. `exact` is the model's in fp64, `draws` are
    eager's. `some`: and there is such a row."""
    if not all(isinstance(t, torch.Tensor) and t.is_floating_point() and t.shape == exact.shape for t in (actual, exact, *draws)):
        return False
    if exact.ndim < 2 or not exact.numel() or not all(bool(float8.computable(t).isfinite().all()) for t in (actual, exact)):
        return False
    truth = exact.double().reshape(-1, exact.shape[-1])
    scale = max(float(truth.square().mean().sqrt()), 1e-300)

    def far(t: torch.Tensor) -> tuple[torch.Tensor, float]:
        errors = (t.double().reshape(truth.shape) - truth).square()
        return errors.mean(-1).sqrt() > _NEAR * scale, float(errors.mean().sqrt()) / scale

    moved = torch.zeros(len(truth), dtype=torch.bool, device=truth.device)
    worst = 0.0
    for draw in draws:
        rows, error = far(draw)
        moved |= rows
        worst = max(worst, error)
    ours, error = far(actual)
    if some and not bool(moved.any()):
        return False
    return error <= min(2 * worst, _MOST) and int((ours & ~moved).sum()) <= _OTHERS * len(truth)
