"""Random numbers that a model draws outside of torch: Python's `random` and NumPy's global generator.

Capture turns such a number into a constant of the graph, and two draws may lie close enough together to pass for rounding. So it is not
left to their distance: where a call moved a generator, the call is made again from where it left it.
"""

from __future__ import annotations

import random
import sys
from typing import Any


def state() -> tuple[Any, ...]:
    """The states of the generators that this process has; equal states compare equal."""
    numpy = sys.modules.get("numpy.random")
    kind, keys, *rest = numpy.get_state() if numpy is not None else (None, b"")
    return random.getstate(), kind, bytes(keys), *rest
