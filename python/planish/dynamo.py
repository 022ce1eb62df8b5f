"""`torch.compile(model, backend="planish")`: each graph that torch captures is optimised as a program of its own.

Options (`torch.compile(…, options={…})`) are keywords of planish.optimize; PLANISH_BACKEND_BUDGET names the search budget of a graph where they do
not (10s). A graph that gains nothing, that takes sizes as arguments, or that needs gradients runs as torch captured it. Why, is logged
under the name `planish`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

_log = logging.getLogger("planish")


def backend(graph: Any, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **more: Any) -> Callable[..., Any]:
    """What torch.compile calls with each graph. Returns what runs in its place."""
    import torch

    from planish.api import optimize
    from planish.errors import PlanishError

    if not all(isinstance(x, torch.Tensor) for x in example_inputs):
        _log.warning("a graph takes sizes as arguments and runs as it is; torch.compile(…, dynamic=False) makes one graph for each shape")
        return graph.forward  # type: ignore[no-any-return]
    if torch.is_grad_enabled() and any(x.requires_grad for x in example_inputs):
        _log.warning("a graph that needs gradients runs as it is; call the model under torch.no_grad()")
        return graph.forward  # type: ignore[no-any-return]
    settings = {"budget": os.environ.get("PLANISH_BACKEND_BUDGET", "10s"), "progress": False, "name": "graph", **more, **(options or {})}
    try:
        with torch.no_grad():
            found = optimize(graph, tuple(_real(x) for x in example_inputs), **settings)
    except PlanishError as error:
        _log.warning("a graph runs as it is: %s", error.message)
        return graph.forward  # type: ignore[no-any-return]
    _log.info("%r", found)
    return found.module if found.improved else graph.forward  # type: ignore[no-any-return]


def _real(x: Any) -> Any:
    """A tensor to measure with. Graphs may come with fake ones, which have a shape and no values."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if not isinstance(x, FakeTensor):
        return x.detach()
    made = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    return made.normal_() if x.dtype.is_floating_point else made.zero_()
