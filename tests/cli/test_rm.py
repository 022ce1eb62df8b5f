"""`latest` and `planish rm`, on copies of a store with a real run."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from command import Home
from optimised_task import Optimised


@pytest.fixture
def copy(optimised: Optimised, tmp_path: Path) -> Home:
    shutil.copytree(optimised.home.path / "data", tmp_path / "data")
    return Home(tmp_path)


def test_latest_is_the_last_run(copy: Home, optimised: Optimised) -> None:
    run = optimised.result["run"]
    assert copy.document("show", "latest")[1]["run"] == run
    assert run in copy.document("report", "latest")[1]["report"]
    (copy.path / "empty").mkdir()
    code, error = Home(copy.path / "empty").document("show", "latest")
    assert code == 2 and error["error"]["kind"] == "no_such_run"


def test_latest_is_no_name_for_a_run(copy: Home) -> None:
    code, document = copy.document("optimize", copy.task("x = 1\n"), "--run-id", "latest")
    assert code == 2 and document["error"]["kind"] == "usage"


def test_rm_removes_a_run_with_its_objects_and_keeps_what_was_learned(copy: Home, optimised: Optimised) -> None:
    before = copy.document("runs")[1]
    objects = [name for name in copy.store_bytes() if "store.db" not in name]
    assert objects
    code, document = copy.document("rm", "latest")
    assert code == 0 and document["removed"] == [optimised.result["run"]]
    assert document["bytes_after"] < document["bytes_before"]
    after = copy.document("runs")[1]
    assert after["runs"] == []
    assert [name for name in copy.store_bytes() if "store.db" not in name] == [], "nobody names them"
    with sqlite3.connect(copy.path / "data" / "planish" / "store.db") as database:
        assert database.execute("SELECT count(*) FROM outcomes").fetchone()[0] == sum(size["outcomes"] for size in before["tuning_database"])
    assert copy.document("rm", "latest")[1]["error"]["kind"] == "no_such_run"
    assert optimised.shipped.exists(), "what was shipped is the user's"


def test_rm_by_number_and_by_size(copy: Home) -> None:
    assert copy.document("rm", "--keep", "1")[1]["removed"] == []
    assert copy.document("rm", "--to", "1000")[1]["removed"] == []
    assert len(copy.document("rm", "--to", "0")[1]["removed"]) == 1
    code, document = copy.document("rm")
    assert code == 2 and document["error"]["kind"] == "usage"


def test_rm_takes_a_run_that_was_killed(copy: Home) -> None:
    with sqlite3.connect(copy.path / "data" / "planish" / "store.db") as database:
        database.execute("UPDATE runs SET state='running'")
    # Nobody holds its lock: it was killed, and may go.
    assert copy.document("rm", "latest")[0] == 0
