"""A part of the corpus (`make cheats` runs all of it): each cheat is named, and its honest twin passes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus import CORPUS, Entry
from corpus_kept import KEPT
from corpus_later import LATER
from corpus_times import TIMED
from evaluator import PLANISH
from judge_corpus import Judge

ALL = [*CORPUS, *LATER, *KEPT, *TIMED]
QUICK = [e for e in ALL if e.quick]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    if not PLANISH.exists():
        pytest.fail(f"{PLANISH} is not built: run make build")
    running = Judge(tmp_path_factory.mktemp("corpus"))
    yield running
    running.close()


@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: entry.name)
def test_the_cheat_is_named_and_its_twin_passes(entry: Entry, judge: Judge) -> None:
    found = judge.judge(entry)
    assert found.caught, found.cheat
    assert found.passed, found.twin


def test_every_entry_has_a_name_of_its_own_and_a_place_in_the_list() -> None:
    assert len({e.name for e in ALL}) == len(ALL)
    listed = (Path(__file__).parents[2] / "docs" / "results" / "cheats.md").read_text()
    assert [e.name for e in ALL if f"| {e.name} |" not in listed] == [], "run make cheats"
    assert all(re.fullmatch(r"(\d+|issue)( (\d+|issue))*", e.seen) and e.outcomes and "ok" not in e.outcomes for e in ALL)
