"""A forged time is told, and rewarded, by no verb (`run_corpus.py --through VERB` tries all of them; test_suite_solutions.py has the suite)."""

from __future__ import annotations

from pathlib import Path

import pytest
import through
from corpus_times import TIMED

#: One that is accepted and slow, and one that is refused.
TRIED = [("environment", "the work is done in `before`", True), ("try", "results kept by three elements", False)]


@pytest.mark.parametrize(("verb", "name", "accepted"), TRIED, ids=[verb for verb, _, _ in TRIED])
def test_a_forged_time_earns_nothing(verb: str, name: str, accepted: bool, tmp_path: Path) -> None:
    (told,) = through.VERBS[verb](tmp_path, [e for e in TIMED if e.name == name])
    assert told.name == name and not told.forged and (told.gain is not None) is accepted, told
    assert accepted or told.reward == 0, told
