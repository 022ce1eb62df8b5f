"""Callers that have torch, or the module, in another state than the one in which modules are proved and timed (`no_grad`, the task's own mode, the main
thread): a module's answer is not theirs to change."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

#: What a `run` request names. `recorded`: gradients are recorded, the inputs ask for none. `differentiated`: the inputs do.
#: `inference`: inference mode, with inputs that were made in it. `other_mode`: train() where the task evaluates, eval() where it trains.
#: `thread`: another thread than the one that made the module. `one_thread`: torch may take one thread; `more_threads`: one more than it has.
CALLERS = ("recorded", "differentiated", "inference", "other_mode", "thread", "one_thread", "more_threads")
#: Of these gradients are recorded.
_DIFFERENTIATING = ("recorded", "differentiated")
_COPIED = 1 << 30  # bytes of an input up to which it is made anew for inference


def state_of(caller: str) -> contextlib.AbstractContextManager[Any]:
    if caller == "inference":
        return torch.inference_mode()
    return torch.enable_grad() if caller in _DIFFERENTIATING else torch.no_grad()


def differentiates(caller: str) -> bool:
    return caller in _DIFFERENTIATING


@contextlib.contextmanager
def mode_of(caller: str, model: nn.Module) -> Iterator[None]:
    """The module in the mode that caller has it in. Modes, and buffers that a call of the other one changes, are as they were behind it."""
    if caller != "other_mode":
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(module._buffers, key, buffer, buffer.clone()) for module in model.modules() for key, buffer in module._buffers.items() if buffer is not None]
    try:
        with contextlib.suppress(NotImplementedError):  # an exported program has one mode
            model.train(not model.training)
        yield
    finally:
        for module, training in modes:
            module.training = training
        with torch.no_grad():
            for owner, key, buffer, value in buffers:
                owner[key] = buffer.copy_(value)


@contextlib.contextmanager
def threads(most: int) -> Iterator[None]:
    """torch, and host code that asks it, may take so many threads; 0: as many as before."""
    before = torch.get_num_threads()
    if most:
        torch.set_num_threads(most)
    try:
        yield
    finally:
        if most:
            torch.set_num_threads(before)


def _threads_of(caller: str) -> int:
    return {"one_thread": 1, "more_threads": torch.get_num_threads() + 1}.get(caller, 0)


def call_of(caller: str, function: Callable[[], Any]) -> Any:
    """What the function gives in that caller's thread. Raises what it raises."""
    if caller != "thread":
        with state_of(caller), threads(_threads_of(caller)):
            return function()
    found: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            with state_of(caller):
                found.append(function())
        except BaseException as error:
            raised.append(error)

    worker = threading.Thread(target=run)
    worker.start()
    worker.join()
    if raised:
        raise raised[0]
    return found[0]


def inputs_of(caller: str, leaves: list[Any], kept: Iterable[int]) -> list[Any]:
    """The leaves of a call as that caller would have them; those at `kept`, which the call changes, as they are."""
    as_they_are = set(kept)
    return [leaf if position in as_they_are else _as_given(caller, leaf) for position, leaf in enumerate(leaves)]


def _as_given(caller: str, leaf: Any) -> Any:
    if type(leaf) is not torch.Tensor or leaf.layout is not torch.strided:
        return leaf
    if caller == "differentiated" and (leaf.is_floating_point() or leaf.is_complex()):
        return leaf.detach().requires_grad_()
    if caller == "inference" and leaf.untyped_storage().nbytes() <= _COPIED:
        with torch.inference_mode():
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device).copy_(leaf)
    return leaf
