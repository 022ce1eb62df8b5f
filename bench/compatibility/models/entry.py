"""One row of the table of models: a model made from a configuration, and how its library's documentation calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import planish
from torch import nn

Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Subject:
    """What a row is about: the module that is optimised, the call that it is optimised for, and, where a library calls the module for the user
    (`generate`, a pipeline), that code."""

    module: nn.Module
    call: Call
    use: Callable[[], Any] | None = None
    last: Call | None = None  #: of the calls that `use` makes: another that a program is made for where the first one's does not answer it


@dataclass(frozen=True)
class Entry:
    """`make` gives the subject, small and with random parameters. `quick`: among the few that are run often."""

    name: str
    library: str
    called: str  #: forward, generate or pipeline step
    make: Callable[[], Subject]
    quick: bool = False


def recorded(module: nn.Module, use: Callable[[], Any], which: int) -> Subject:
    """The `which`-th call that somebody else's code makes of the module."""
    with planish.record(module) as calls:
        use()
    return Subject(module, calls[which], use, calls[-1])
