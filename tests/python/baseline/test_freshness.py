"""Modules that keep results are told from those that do not, by a clock that the test turns itself."""

from __future__ import annotations

from typing import Any

import pytest
from planish.baseline.freshness import PAIRS, keeps_results


class World:
    """Contents by set, and a module that takes `work` ms, or `kept` where it has met the contents (after `learns` calls on them)."""

    def __init__(self, work: float, kept: float, learns: int = 1, noise: float = 0.0) -> None:
        self.contents: dict[int, Any] = {0: None, 1: "other"}
        self.met: dict[Any, int] = {}
        self.work, self.kept, self.learns, self.noise, self.calls = work, kept, learns, noise, 0

    def refresh(self, seed: int) -> None:
        self.contents[0] = seed

    def call(self, which: int) -> float:
        self.calls += 1
        known = self.met.get(self.contents[which], 0)
        self.met[self.contents[which]] = known + 1
        return (self.kept if known >= self.learns else self.work) + (self.noise if self.calls % 5 == 0 else 0)


@pytest.mark.parametrize(("work", "kept"), [(12, 0.065), (12, 6), (0.46, 0.16)])
def test_one_that_keeps_results_is_named_with_both_times(work: float, kept: float) -> None:
    world = World(work, kept)
    found = keeps_results(world.refresh, world.call)
    assert f"{work:g} ms" in found and f"{kept:g} ms" in found


@pytest.mark.parametrize(("work", "kept"), [(12, 12), (12, 11), (0.02, 0.001), (0.0, 0.0)])
def test_honest_ones_pass_and_small_differences_prove_nothing(work: float, kept: float) -> None:
    world = World(work, kept)
    assert keeps_results(world.refresh, world.call) == ""


def test_noise_on_some_calls_is_no_proof() -> None:
    for step in range(7):
        world = World(1, 1, noise=100)
        world.calls = step
        assert keeps_results(world.refresh, world.call) == ""


@pytest.mark.parametrize("step", [0.8, 1.25])
def test_clocks_that_rise_or_fall_prove_nothing(step: float) -> None:
    class Drifting(World):
        def call(self, which: int) -> float:
            return super().call(which) * step**self.calls

    for _ in range(50):
        world = Drifting(1000, 1000)
        assert keeps_results(world.refresh, world.call) == ""


def test_an_honest_one_is_asked_once() -> None:
    world = World(1, 1)
    keeps_results(world.refresh, world.call)
    assert world.calls <= 4 + 6 < 4 * PAIRS
