"""Other parameters for a model that is constructed: drawn from another seed, and none of them a constant.

A gate that is zero at the start (a LayerScale, the second factor of a LoRA, a projection of a residual branch) hides what it multiplies, a norm's
ones and zeros hide themselves, and a sigmoid of -50 hides what it multiplies whatever that number is changed to: what is large gets values about one.
Whoever constructs a model under `varied` finds other values there, the same for all who do so with one seed, by
whatever names and in whatever order they construct: they hang on the constant and on the place within the tensor, along its first dim with a period of
four, so that what the task stacks of several constants and a solution makes as one is the same as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as registry
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.overrides import TorchFunctionMode

#: The seed before `get_init_inputs` and before the constructor: KernelBench's, so that its weights are ours.
INIT_SEED = 42

_FLOATS = ("f64", "f32", "f16", "bf16")
_SMALL = 0.05  # hides what it multiplies, as zero does
_LARGE = 3.0  # the gate that it opens or closes (a sigmoid, a softmax) hides what is behind, or what is beside
_PERIOD = 4  # one number everywhere would be taken off again by a norm
_SAME = 0.005  # relative; a module that was cast has them rounded
_FILLS = frozenset({torch.Tensor.fill_, torch.Tensor.zero_})


class _Variation(TorchFunctionMode):
    """Constants get their other values where they are registered, and where all of a registered tensor is filled with one."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.settings = seed % 2 == 0
        self._registered: dict[int, torch.Tensor] = {}  # by address, which nobody else gets while they are kept
        self._given: list[float] = []  # the single numbers that constants became

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _FILLS and isinstance(result, torch.Tensor) and result.numel():
            whole = self._registered.get(result.data_ptr())
            if whole is not None and whole.numel() == result.numel():
                self.vary(result)
        return result

    def register(self, _owner: nn.Module, _name: str, tensor: torch.Tensor | None) -> torch.Tensor | None:
        """Hook of a module that gets a parameter or buffer: what it gets instead, where that must be another tensor."""
        if tensor is None or not self._varies(tensor):
            return None
        found = tensor
        if _expanded(tensor):
            found = tensor.detach().clone(memory_format=torch.contiguous_format)
            found = nn.Parameter(found, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else found
        self.vary(found)
        self._registered[found.data_ptr()] = found.detach()
        return None if found is tensor else found

    def _varies(self, tensor: torch.Tensor) -> bool:
        if isinstance(tensor, UninitializedTensorMixin) or tensor.is_meta or not tensor.is_floating_point():
            return False
        return tensor.numel() > (0 if self.settings or isinstance(tensor, nn.Parameter) else 1)

    def vary_all(self, model: nn.Module) -> None:
        """What was filled after it had been registered."""
        for tensor in (*model.parameters(), *model.buffers()):
            if self._varies(tensor) and not _expanded(tensor):
                self.vary(tensor)

    def vary(self, tensor: torch.Tensor) -> None:
        """In place, where it is a constant, or all of a parameter is large, and no variation made it so."""
        flat = tensor.detach().squeeze()
        first = flat.reshape(-1)[:1]
        constant = float(first)
        if not math.isfinite(constant) or any(math.isclose(constant, given, rel_tol=_SAME) for given in self._given):
            return
        if not bool((flat == first).all()):
            if isinstance(tensor, nn.Parameter) and bool((flat.abs() > _LARGE).all()):
                flat.copy_(flat.sign() * (0.5 + (flat.abs() * 0.618).frac()))  # of each number alone, so that it may be packed with others
            return
        generator = torch.Generator().manual_seed(self.seed)
        noise = torch.rand((_PERIOD, *flat.shape[1:]), generator=generator, dtype=torch.float64).mul_(2).sub_(1)
        noise += noise.sign() * 0.25
        noise = noise[torch.arange(flat.shape[0]) % _PERIOD] if flat.ndim else noise[0]
        small = noise if constant == 0 else math.copysign(1.0, constant) * noise.abs()
        values = small if abs(constant) > _LARGE else constant * (1 + 0.3 * noise) if abs(constant) >= _SMALL else 0.2 * small
        flat.copy_(values)
        if values.numel() == 1:
            self._given.append(float(values))  # what is one number, or was made of it, looks like a constant still


def _expanded(tensor: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


@contextmanager
def _varied(seed: int) -> Iterator[_Variation]:
    mode = _Variation(seed)
    hook: Any = mode.register  # torch says that hooks return nothing, and takes what they return
    hooks = [registry.register_module_parameter_registration_hook(hook), registry.register_module_buffer_registration_hook(hook)]
    try:
        with mode:
            yield mode
    finally:
        for added in hooks:
            added.remove()


def varied(seed: int, draws: int, construct: Callable[[], Any]) -> Any:
    """What `construct` makes with constants other than its own, which come of `seed`; torch's generator starts with `draws`. An even seed changes buffers
    of one number too: they are settings that a graph may have taken in, or the gate of a branch."""
    torch.manual_seed(draws)
    with _varied(seed) as mode:
        model = construct()
    if isinstance(model, nn.Module):
        mode.vary_all(model)
    return model


def draws_of(graph: dict[str, Any], seed: int) -> int:
    """What a model is drawn from under a variation: its seed, but the usual one where constants of the graph came of that too."""
    floats = any(i["kind"] == "const" and graph["values"][i["value"]]["dtype"] in _FLOATS for i in graph["inputs"])
    return INIT_SEED if floats else seed
