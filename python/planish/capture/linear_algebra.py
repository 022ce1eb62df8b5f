"""Checks of factorisations while they are traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def checks_as_operators() -> Iterator[None]:
    """While this holds, the check behind `solve`, `inv` or `cholesky` (is the matrix singular?) is an operator without a result. From torch 2.12
    on it counts as an effect, for whose order a token travels through the graph. What comes without a token, `capture` then drops: a program
    answers with what the factorisation leaves where eager raises (docs/python.md)."""
    try:
        holder = torch._library.simple_registry.singleton.find("aten::_linalg_check_errors").effect
        theirs = holder.effect
    except AttributeError:  # a torch that knows no such effects
        yield
        return
    holder.register(None)
    try:
        yield
    finally:
        holder.register(theirs)
