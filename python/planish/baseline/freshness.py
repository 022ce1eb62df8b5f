"""Whether something that is timed does the work at every call, or hands out what it has computed before."""

from __future__ import annotations

import secrets
from collections.abc import Callable

# Were new and known contents alike, all new calls would be slower than all known ones once in C(16, 8) = 12,870 times;
# they must also be slower by this ratio and difference, which covers branches and caches that remember contents.
PAIRS = 8
RATIO, DIFFERENCE_MS = 1.25, 0.05
_MOST_REPEATS = 6


def keeps_results(refresh: Callable[[int], None], call: Callable[[int], float]) -> str:
    """Why the module must be keeping results, or nothing.

    `refresh(seed)` writes contents into the inputs of set 0, the same for the same seed and at the same addresses; `call(set)` gives the milliseconds
    of one call. Contents are written anew before each of the two calls that are compared, so that caches are in the same state, and all
    that differs is whether the module has met them; how often it has is drawn, so that it cannot count its way through. Which comes first is drawn
    too, so that clocks that rise or fall speak for neither: the first pair can only begin with the new contents, the second begins with known ones."""
    fastest_new, slowest_known, before = float("inf"), 0.0, 0
    for pair in range(PAIRS):
        seed = secrets.randbits(62)
        known_first = pair == 1 or (pair > 1 and secrets.randbelow(2) == 0)
        if known_first:
            slowest_known = max(slowest_known, _once(refresh, call, before))
        fastest_new = min(fastest_new, _once(refresh, call, seed))
        for _ in range(secrets.randbelow(_MOST_REPEATS)):
            call(0)
        if not known_first:
            slowest_known = max(slowest_known, _once(refresh, call, seed))
        if fastest_new <= RATIO * slowest_known or fastest_new - slowest_known <= DIFFERENCE_MS:
            return ""
        before = seed
    return f"it keeps results: {fastest_new:.4g} ms at least on new contents, {slowest_known:.4g} ms at most on contents it has met before"


def _once(refresh: Callable[[int], None], call: Callable[[int], float], seed: int) -> float:
    refresh(seed)
    call(1)  # threads are awake and clocks up
    return call(0)
