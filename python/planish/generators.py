"""The state of torch's own generators as a tensor: what random steps begin with and leave (docs/decisions/0200-draws-are-steps-in-a-row.md).

On the CPU that is the state of its generator; on a GPU the CPU's and, behind it, the device's. Functions of torch are bound when this is imported, so
that what is loaded later cannot stand in for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

_host = torch.default_generator
_get, _set = _host.get_state, _host.set_state
_HOST_BYTES = _get().numel()


def _device_generator(device: torch.device) -> torch.Generator:
    torch.cuda.init()
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]


def state(device: torch.device) -> torch.Tensor:
    """Of the generators that operators on the device, and those on the CPU, draw from; bytes on the device."""
    found = _get()
    if device.type != "cuda":
        return found
    return torch.cat([found, _device_generator(device).get_state()]).to(device)


def restore(saved: torch.Tensor, device: torch.device) -> None:
    """Makes `saved`, which state() gave on a device of this type, the generators' state."""
    there = saved.cpu() if saved.is_cuda else saved
    if device.type == "cuda":
        _device_generator(device).set_state(there[_HOST_BYTES:].clone())
        there = there[:_HOST_BYTES]
    _set(there.clone() if there.storage_offset() or not there.is_contiguous() else there)


def seeded(seed: int, device: torch.device) -> torch.Tensor:
    """The state behind a seed; every second time with a normal number at hand, as torch keeps of those that it makes in pairs. The generators' own states
    stay."""
    before = state(device)
    try:
        torch.manual_seed(seed)
        if seed % 2:
            torch.randn((), device="cpu")
            torch.randn((3,), device=device)
        return state(device)
    finally:
        restore(before, device)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Whoever called draws on from where they were: what is drawn inside is for nobody. Of all devices that are in use when it begins."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []):
        yield
