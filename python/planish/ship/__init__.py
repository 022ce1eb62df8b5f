"""Shipped modules: the templates that are copied into a shipped folder, and attaching a program to a live module.

`module.py`, `guards.py` and `../executor.py` are copied verbatim into every shipped folder (src/ship); they import nothing
of Planish there.
"""

from planish.ship.live import attach, detach, load

__all__ = ["attach", "detach", "load"]
