"""The calls that somebody else's code makes of a module, as examples for planish.optimize."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from planish.errors import PlanishError

Call = tuple[tuple[Any, ...], dict[str, Any]]


@contextmanager
def record(module: nn.Module) -> Iterator[list[Call]]:
    """While this holds, each call of `module` is added to the list, as `((args...), {kwargs})` before the call changed anything of it: what a library
    passes where it calls the module for you (`model.generate`, a pipeline). Arguments are copied: a cache of 1 GB takes 1 GB a call.

    Raises PlanishError: bad_request."""
    if not isinstance(module, nn.Module):
        raise PlanishError("bad_request", f"{type(module).__name__} is no module", "give the part that is called, as in planish.record(pipe.unet)")
    calls: list[Call] = []

    def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append(copy.deepcopy((args, kwargs)))

    hook = module.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        yield calls
    finally:
        hook.remove()
