"""The files that guards.py needs are named in four places, which a shipped folder and file depend on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from planish.ship import guards

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("loader", ["module.py", "single.py"])
def test_loaders_import_all_parts_in_order(loader: str) -> None:
    text = (ROOT / "python" / "planish" / "ship" / loader).read_text()
    (listed,) = re.findall(r'for _part in "([^"]*)"', text)
    assert tuple(listed.split()) == guards.PARTS


def test_what_is_copied_is_what_is_imported() -> None:
    text = (ROOT / "src" / "ship" / "parts.h").read_text()
    assert re.findall(r'"([\w/.]+\.py)"', text) == ["executor.py", *(f"ship/{part}.py" for part in (*guards.PARTS, "guards"))]
