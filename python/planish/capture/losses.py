"""Losses written so that each class row is summed before the batch is: one kernel can then read a row, normalise it and give one number.
And one that torch writes wrongly."""

from __future__ import annotations

from collections.abc import Callable

import torch

_NONE, _MEAN = 0, 1
Decomposition = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


def _wide(dtype: torch.dtype) -> torch.dtype:
    """What sums are kept in: 16 bits are not enough for them."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _rows(terms: torch.Tensor, dim: int) -> torch.Tensor:
    return terms.sum(dim, dtype=_wide(terms.dtype))


def kl_div(input: torch.Tensor, target: torch.Tensor, reduction: int = _MEAN, *, log_target: bool = False) -> torch.Tensor:
    terms = target.exp() * (target - input) if log_target else torch.xlogy(target, target) - target * input
    if reduction == _NONE or terms.dim() == 0:
        return terms
    total = _rows(terms, -1).sum()
    return (total / terms.numel() if reduction == _MEAN else total).to(terms.dtype)


def cross_entropy_loss(
    self: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, reduction: int = _MEAN, ignore_index: int = -100, label_smoothing: float = 0.0
) -> torch.Tensor:
    dim = 0 if self.dim() == 1 else 1
    scale = None if weight is None else weight.view([-1 if d == dim else 1 for d in range(self.dim())])
    logs = torch.log_softmax(self, dim)
    if target.dtype.is_floating_point:
        losses, share = _of_probabilities(logs, target, scale, dim, label_smoothing), None
    else:
        losses, share = _of_classes(logs, target, scale, dim, ignore_index, label_smoothing)
    if reduction == _NONE:
        return losses.to(self.dtype)
    total = losses.sum()
    if reduction == _MEAN:
        total = total / (self.numel() // self.shape[dim] if share is None else share.sum())
    return total.to(self.dtype)


def _of_probabilities(logs: torch.Tensor, target: torch.Tensor, scale: torch.Tensor | None, dim: int, smoothing: float) -> torch.Tensor:
    """A loss for each row."""
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / logs.shape[dim]
    terms = logs * target
    return -_rows(terms if scale is None else terms * scale, dim)


def _of_classes(
    logs: torch.Tensor, target: torch.Tensor, scale: torch.Tensor | None, dim: int, ignore_index: int, smoothing: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """A loss for each row, and what the row counts for in a mean: the weight of its class, 1, or 0 where it is ignored."""
    wide = _wide(logs.dtype)
    kept = target != ignore_index
    place = torch.where(kept, target, 0).unsqueeze(dim)
    losses = -logs.gather(dim, place).squeeze(dim).to(wide)
    share = kept.to(wide)
    if scale is not None:
        own = scale.expand_as(logs).gather(dim, place).squeeze(dim).to(wide)
        losses, share = losses * own, share * own
    if smoothing > 0:
        all_classes = -_rows(logs if scale is None else logs * scale, dim)
        losses = losses * (1 - smoothing) + all_classes * (smoothing / logs.shape[dim])
    return torch.where(kept, losses, 0), share


def multilabel_margin_loss_forward(self: torch.Tensor, target: torch.Tensor, reduction: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(the loss, where a class is a label). torch's own form adds what stands behind the -1 that ends a row's labels, as label 0."""
    classes = self.shape[-1] if self.dim() else 1
    logits, labels = self.reshape(-1, classes), target.reshape(-1, classes)
    at = torch.arange(classes, device=self.device)
    end = torch.where(labels == -1, at, classes).amin(-1, keepdim=True)
    given = at < end
    is_label = (at == torch.where(given, labels, -1).unsqueeze(-1)).any(-2)
    own = logits.gather(-1, torch.where(given, labels, 0)).to(_wide(self.dtype))
    terms = (1 - own.unsqueeze(-1) + logits.unsqueeze(-2)).clamp_min(0) / classes
    losses = torch.where(given.unsqueeze(-1) & ~is_label.unsqueeze(-2), terms, 0).sum(-1).sum(-1)
    found = losses.mean() if reduction == _MEAN else losses.sum() if reduction != _NONE else losses.reshape(self.shape[:-1])
    return found.to(self.dtype), is_label.reshape(target.shape).to(self.dtype)


DECOMPOSITIONS: dict[torch._ops.OpOverload, Decomposition] = {
    torch.ops.aten.kl_div.default: kl_div,
    torch.ops.aten.cross_entropy_loss.default: cross_entropy_loss,
    torch.ops.aten.multilabel_margin_loss_forward.default: multilabel_margin_loss_forward,
}
