"""Batch norms that average over all batches so far (`momentum=None`), in a form that torch.export captures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def _forward(self: _BatchNorm, x: torch.Tensor) -> torch.Tensor:
    """torch's own forward makes a Python number of the count, on which the graph would depend. Here it stays a tensor: with a momentum
    of 1 the updated statistics are those of the batch, and the average is taken outside."""
    self._check_input_dim(x)
    assert self.num_batches_tracked is not None and self.running_mean is not None and self.running_var is not None
    self.num_batches_tracked.add_(1)
    share = 1.0 / self.num_batches_tracked.to(torch.float64)
    mean, var = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
    y = nn.functional.batch_norm(x, mean, var, self.weight, self.bias, True, 1.0, self.eps)
    for running, now in ((self.running_mean, mean), (self.running_var, var)):
        running.copy_(running * (1.0 - share) + now * share)
    return y


def _averages(module: nn.Module) -> bool:
    return (
        isinstance(module, _BatchNorm)
        and type(module).forward is _BatchNorm.forward
        and "forward" not in vars(module)
        and module.momentum is None
        and module.training
        and module.track_running_stats
        and None not in (module.num_batches_tracked, module.running_mean, module.running_var)
    )


@contextmanager
def averaging_as_tensors(model: nn.Module) -> Iterator[None]:
    """While this holds, such modules of `model` compute the same without a Python number. Afterwards they are as before."""
    changed = [module for module in model.modules() if _averages(module)]
    for module in changed:
        module.forward = MethodType(_forward, module)
    try:
        yield
    finally:
        for module in changed:
            del module.forward
