"""The machine that rows were made on: its processor, cores and memory, and how much of it others used meanwhile."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK")
#: Cores that others use, from which on a machine counts as shared: what a system does by itself stays below.
SHARED = 0.2


def described() -> dict[str, Any]:
    """What a row says of its machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"processor": _processor(), "cores": len(os.sched_getaffinity(0)), "memory_gb": round(memory / 2**30, 1)}


def commit() -> str:
    """Of the checkout; empty where there is none."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


class Others:
    """How many cores processes other than this one, and those that it waited for, have used since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic(), _busy_seconds(), _own_seconds()

    def seconds(self) -> float:
        return time.monotonic() - self._start[0]

    def cores(self) -> float | None:
        """None where the system does not tell."""
        _, busy, own = self._start
        now_busy = _busy_seconds()
        if busy is None or now_busy is None:
            return None
        return round(max(0.0, now_busy - busy - (_own_seconds() - own)) / max(1e-3, self.seconds()), 2)


def in_words(rows: Iterable[Mapping[str, Any]]) -> str:
    """The machines of some rows, as a page names them."""
    rows = list(rows)
    by_machine: dict[str, list[float]] = {}
    for row in rows:
        if machine := row.get("machine"):
            used = by_machine.setdefault(f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']:g} GiB", [])
            used += [row["others_cores"]] if row.get("others_cores") is not None else []
    found = [f"{name} ({_shared(used)})" for name, used in sorted(by_machine.items())]
    unnamed = sum("machine" not in row for row in rows)
    if unnamed:
        found.append("a CPU that no row names" if unnamed == len(rows) else f"for {unnamed} of {len(rows)} rows a CPU that they do not name")
    return "; ".join(found)


def _shared(used: list[float]) -> str:
    if not used:
        return "whether others used it is not known"
    mean = sum(used) / len(used)
    return f"shared: others used {mean:.1f} of its cores meanwhile" if mean > SHARED else "nothing else ran"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _busy_seconds() -> float | None:
    """What all cores have worked since the machine started; waiting for a disk is no work."""
    if not Path("/proc/stat").exists():
        return None
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8])
    return (user + nice + system + irq + softirq) / _TICK


def _own_seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)
