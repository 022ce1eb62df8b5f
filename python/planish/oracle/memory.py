"""How much memory there is, and whether an exception means that there was not enough."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from planish.errors import PlanishError
from planish.wire import report_stage

_KEPT = 1 << 31
_IDLE = 3 << 30  # bytes that this evaluator's other processes hold whatever they do: contexts, and what their allocators may keep
_HEADROOM, _CUDA_HEADROOM = 0.8, 0.95
_STALLED = 15.0
_NOTICED = 1 << 26  # bytes
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_OWN_MAPPING = 1 << 25  # bytes of one allocation: what is as large goes back to the system with it
_KEPT_ON_HOST = 1 << 28
_ASKED = re.compile(r"[Tt]ried to allocate (?P<size>(?P<number>[\d.]+) ?(?P<unit>[KMGT]?)(?:iB|B|bytes))")


def available(device: torch.device) -> int:
    """Bytes that new tensors may take."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    free = 1 << 62
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        if limit != "max":
            free = min(free, max(0, int(limit) - used))
    except (OSError, ValueError):
        return free
    return free


def usable(device: torch.device) -> int:
    """Of what is available, what may be planned with. On a GPU too much of it is an error that is answered with less, on the CPU the end of
    the process."""
    return int(available(device) * (_HEADROOM if device.type == "cpu" else _CUDA_HEADROOM))


def without_others(device: torch.device, buffers: int) -> int:
    """Bytes that could be planned with if strangers held none. `buffers`: what this process holds outside of torch's allocator."""
    if device.type == "cuda":
        total = int(torch.cuda.mem_get_info(device)[1])
        return int((total - int(torch.cuda.memory_allocated(device)) - buffers - _IDLE) * _CUDA_HEADROOM)
    return int(_without_others_on_host() * _HEADROOM)


def _without_others_on_host() -> int:
    try:
        found = int(re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024  # type: ignore[index]
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        own = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return (found if limit == "max" else min(found, int(limit))) - own
    except (OSError, ValueError, TypeError):
        return 1 << 62


def wait_for(need: int, free: Callable[[], int], seconds: float, pause: Callable[[float], None] = time.sleep) -> float:
    """Until `free` says that `need` bytes are there, looked at every second for at most `seconds`, or until nobody has let go of anything for
    _STALLED of them. The seconds that it took."""
    waited, most, since = 0.0, -1, 0.0
    while waited < seconds and (there := free()) < need:
        most, since = (there, waited) if there > most + _NOTICED else (most, since)
        if waited - since >= _STALLED:
            break
        report_stage(f"waiting for memory: {there / 2**30:.1f} GB are free, {need / 2**30:.1f} GB needed")
        pause(1.0)
        waited += 1.0
    return waited


def keep_on_host() -> None:
    """Has the C library keep what is freed, up to _KEPT_ON_HOST. By itself it gives each tensor of some MB back at once, and the system makes zeros of
    the same pages for the next one: half of what a check of such tensors took."""
    with suppress(AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _OWN_MAPPING)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_ON_HOST)


def give_back(device: torch.device) -> None:
    """Returns what torch caches but does not use to the device, when it is much: runners and baselines need it too."""
    if device.type == "cuda" and torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device) > _KEPT:
        give_all_back(device)


def give_all_back(device: torch.device) -> None:
    """Whatever it is: before buffers are made outside of torch's allocator, and before anybody waits. Two that wait for each other's caches
    would do so in vain."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def is_exhausted(error: BaseException) -> bool:
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def asked(error: BaseException) -> int:
    """Bytes that torch asked for in vain; 0 where it does not say."""
    found = _ASKED.search(str(error))
    return int(float(found["number"]) * 1024 ** " KMGT".index(found["unit"] or " ")) if found else 0


def out_of_memory(what: str, error: BaseException) -> PlanishError:
    """The PlanishError for it, with the bytes that torch asked for where it says so."""
    found = _ASKED.search(str(error))
    size = f" ({found['size']} more)" if found else ""
    return PlanishError("out_of_memory", f"{what} does not fit in memory{size}", "use smaller inputs")


def gigabytes(count: int) -> str:
    return f"{count} bytes ({count / 2**30:.1f} GiB)"
