"""Waiting for memory that others hold."""

from __future__ import annotations

import pytest
import torch
from harness import Harness
from planish import wire
from planish.oracle import memory, region

SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(8, 8)]
def get_init_inputs():
    return []
"""


def test_waits_until_there_is_enough_and_says_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(wire, "_listener", said.append)
    free = iter([1 << 30, 2 << 30, 3 << 30])
    assert memory.wait_for(3 << 30, lambda: next(free), 60, lambda _: None) == 2
    assert said == ["waiting for memory: 1.0 GB are free, 3.0 GB needed", "waiting for memory: 2.0 GB are free, 3.0 GB needed"]


def test_gives_up_in_the_end() -> None:
    assert memory.wait_for(2, lambda: 1, 5, lambda _: None) == 5


def test_a_reference_waits_once_for_what_would_fit_and_never_for_what_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(SOURCE)
    waits: list[int] = []

    def wait(need: int, free: object, seconds: float) -> float:
        waits.append(need)
        return seconds

    monkeypatch.setattr(region.memory, "wait_for", wait)
    monkeypatch.setattr(region.memory, "available", lambda device: 1000)
    assert harness.region._room(memory.total(torch.device("cpu")) * 2) == 800
    assert waits == [], "no one can free more than there is"
    assert harness.region._room(5000) == 800 and waits == [5000]
    assert harness.region._room(5000) == 800 and waits == [5000], "its patience is spent"
    assert harness.region._room(700) == 800 and waits == [5000]
