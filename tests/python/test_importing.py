"""Imports while Python looks for no garbage."""

from __future__ import annotations

import gc
import weakref

import pytest
from planish.importing import lasting


def test_what_is_made_inside_is_not_looked_at_again() -> None:
    before = gc.get_freeze_count()
    with lasting():
        assert not gc.isenabled()
        kept = [[n] for n in range(5000)]
    assert gc.isenabled() and gc.get_freeze_count() >= before + len(kept)
    assert not any(one is kept[0] for one in gc.get_objects())


def test_a_failed_import_leaves_the_collector_as_it_was() -> None:
    with pytest.raises(ImportError), lasting():
        raise ImportError("no torch")
    assert gc.isenabled()
    gc.disable()
    try:
        with lasting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


class Node:
    def __init__(self) -> None:
        self.own = self


def test_cycles_made_afterwards_are_collected() -> None:
    with lasting():
        kept = weakref.ref(Node())
    later = weakref.ref(Node())
    gc.collect()
    assert later() is None and kept() is not None
