"""Whose code is: packages may be installed anywhere."""

from pathlib import Path

import pytest
from planish.ship import names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As `pip install --target` leaves it, with a script of the user's beside what was installed."""
    for name in ("zoo/models/llama.py", "single.py", "mine.py", "zoo-1.0.dist-info/RECORD"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "zoo-1.0.dist-info/RECORD").write_text("zoo/models/llama.py,sha256=x,1\nsingle.py,sha256=y,2\nzoo-1.0.dist-info/RECORD,,\n../../bin/zoo,,\n")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "owner"), [("zoo/models/llama.py", "installed"), ("single.py", "installed"), ("mine.py", "own"), ("bin/zoo", "own"), ("other/zoo.py", "own")]
)
def test_installed_into_any_folder(folder: Path, file: str, owner: str) -> None:
    assert names.whose(str(folder / file)) == owner


def test_relative_and_absent_folders() -> None:
    assert names.whose("script.py") == "own"
    assert names.whose("/nowhere/at/all.py") == "own"
