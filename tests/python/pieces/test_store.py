"""What was found for a piece, read by later processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from planish.pieces import store
from planish.pieces.store import Found

KEY = "k" * 64


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLANISH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def shipped(folder: Path) -> Path:
    (folder / "blobs").mkdir(parents=True)
    (folder / "ship.json").write_text("{}")
    (folder / "blobs" / "0").write_bytes(b"\0")
    return folder


def test_a_program_is_kept_and_found(tmp_path: Path) -> None:
    assert store.find(KEY, 1.0, "s") is None
    kept = store.keep(KEY, Found("improved", 2.0, "", 10.0, "s", shipped(tmp_path / "out")))
    assert kept.folder is not None and (kept.folder / "ship.json").exists() and not (tmp_path / "out").exists()
    assert store.find(KEY, 1.0, "s") == store.find(KEY, 1e6, "s") == kept
    assert store.find(KEY, 1.0, "other settings") is None


@pytest.mark.parametrize("change", ["altered", "removed", "added"])
def test_a_folder_that_was_changed_is_not_used(tmp_path: Path, change: str) -> None:
    folder = store.keep(KEY, Found("improved", 2.0, "", 10.0, "s", shipped(tmp_path / "out"))).folder
    assert folder is not None
    if change == "removed":
        (folder / "blobs" / "0").unlink()
    else:
        (folder / ("ship.json" if change == "altered" else "more")).write_text("{ }")
    assert store.find(KEY, 1.0, "s") is None and not folder.exists()


def test_nothing_is_nothing_only_within_that_time(tmp_path: Path) -> None:
    store.keep(KEY, Found("none", 1.0, "eager is faster", 10.0, "s", None))
    found = store.find(KEY, 12.0, "s")
    assert found is not None and found.folder is None and found.reason == "eager is faster"
    assert store.find(KEY, 60.0, "s") is None
    assert store.keep(KEY, Found("improved", 2.0, "", 60.0, "s", shipped(tmp_path / "out"))).folder is not None
    late = store.keep(KEY, Found("none", 1.0, "another process", 60.0, "s", None))
    assert late.outcome == "improved" and [p.name for p in (tmp_path / "data" / "pieces").iterdir()] == [KEY]
