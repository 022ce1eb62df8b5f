"""PyTorch's own list of operators (OpInfo) with sample inputs, each as a task."""

from __future__ import annotations

import itertools
import random
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from planish.capture import LoadedTask
from planish.capture.live import redraw
from torch.utils import _pytree as pytree

#: In the order in which one is chosen for an operator.
DTYPES = (torch.float32, torch.int64, torch.complex64, torch.bool, torch.bfloat16)
MOST_ELEMENTS = 1 << 16


@dataclass(frozen=True)
class Sample:
    """A call of an operator: `leaves` of (args, kwargs), nested as `spec` says. `key` names it: operator, dtype and number."""

    key: str
    function: Any
    spec: Any
    leaves: tuple[Any, ...]

    def task(self) -> LoadedTask:
        """A fresh one, as a live task is: the samples themselves are drawn anew for each seed."""
        tensors = [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

        def make_inputs(seed: int, device: torch.device | str) -> Any:
            generator = torch.Generator().manual_seed(seed)
            return tuple(redraw(t, generator) for t in tensors), {}

        return LoadedTask(self.key, Path(self.key), "", Call(self), make_inputs, lambda: Call(self), live=True)


class Call(torch.nn.Module):
    """The operator as a module whose inputs are the sample's tensors; all else is part of it."""

    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self.sample = sample

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.sample.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.sample.spec)
        return self.sample.function(*args, **kwargs)


@cache
def operators() -> dict[str, Any]:
    """OpInfo entries by name and variant."""
    try:
        import expecttest  # noqa: F401
    except ImportError:  # of which samples need nothing
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {f"{op.name}{'/' if op.variant_test_name else ''}{op.variant_test_name}": op for op in op_db}


def samples_of(name: str, count: int, dtypes: int = 1, seed: int = 0) -> Iterator[Sample]:
    """Up to `count` samples of the operator for each of the first `dtypes` types that it takes: the first, and others drawn."""
    op = operators()[name]
    supported = op.supported_dtypes("cpu")
    for dtype in [d for d in DTYPES if d in supported][:dtypes]:
        torch.manual_seed(seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), 200))
        except (TypeError, RuntimeError):  # of three entries torch has no samples for a CPU without arguments of its test suite
            continue
        numbers = [0, *sorted(random.Random(f"{seed} {name} {dtype}").sample(range(1, len(found)), min(count, len(found)) - 1))] if found else []
        for number in numbers:
            one = found[number]
            leaves, spec = pytree.tree_flatten(((one.input, *one.args), one.kwargs))
            leaves = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            if sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor)) <= MOST_ELEMENTS:
                yield Sample(f"{name} {str(dtype).removeprefix('torch.')} #{number}", op.op, spec, tuple(leaves))  # the operator, without what tests know of it
