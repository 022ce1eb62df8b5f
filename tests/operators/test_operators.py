"""A draw of PyTorch's own list of operators; `python -m tests.operators` runs all of it."""

from __future__ import annotations

import random
from pathlib import Path

from tests.random_graphs.parts import Tool

from .judge import TAKEN, judge
from .samples import operators, samples_of

DRAWN, SEED = 24, 43


def test_drawn_operators_are_taken_or_refused_with_a_kind(tool: Tool, tmp_path: Path) -> None:
    """None is `internal`, and most are taken: a harness that refuses everything would pass otherwise."""
    names = random.Random(SEED).sample(sorted(operators()), DRAWN)
    found = {sample.key: judge(sample.task(), tool, tmp_path) for name in names for sample in samples_of(name, 1, seed=SEED)}
    assert {key: outcome for key, outcome in found.items() if not outcome.fine} == {}
    assert len(found) >= DRAWN - 5
    assert sum(outcome.kind == TAKEN for outcome in found.values()) > len(found) / 2
