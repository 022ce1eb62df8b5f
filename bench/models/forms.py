"""PyTorch's own forms of a module with named arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from first_guess import torch_forms


class Bound(torch.nn.Module):
    """The module with its named arguments, for forms that are called with positions alone."""

    def __init__(self, module: torch.nn.Module, named: dict[str, Any]) -> None:
        super().__init__()
        self.module, self.named = module, named

    def forward(self, *args: Any) -> Any:
        return self.module(*args, **self.named)


def forms_of(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """The forms, and why some are none."""
    found: dict[str, Callable[[], Any]] = {}
    without: dict[str, str] = {}
    for name in names:
        try:
            found |= torch_forms(Bound(module, kwargs), args, [name])
        except Exception as error:
            without[name] = f"{type(error).__name__}: {error}"[:300]
    return found, without


def rewound(call: Callable[[], Any], rewind: Callable[[], None] | None, steps: int) -> Callable[[], Any]:
    """The same call, with `rewind` before every `steps` of them."""
    if rewind is None:
        return call
    made = 0

    def again() -> Any:
        nonlocal made
        if made % steps == 0:
            rewind()
        made += 1
        return call()

    return again
