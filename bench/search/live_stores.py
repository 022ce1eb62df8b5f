"""Stores that hold what earlier runs learned, and nothing else."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def earlier_store(path: Path, sources: list[Path]) -> None:
    """Makes a store of the kernels and outcomes of others."""
    if not sources:
        raise ValueError("no earlier runs")
    with sqlite3.connect(sources[0]) as first:
        first.execute("VACUUM INTO ?", (str(path),))
    first.close()
    database = sqlite3.connect(path)
    with database:
        # A run, its regions and its evaluations are of no use to a later one; and what they name lies in another folder.
        for name in ("evaluations", "regions", "runs"):
            database.execute(f"DELETE FROM {name}")
    for source in sources[1:]:
        database.execute("ATTACH ? AS other", (str(source),))
        with database:
            database.execute("INSERT OR IGNORE INTO kernels SELECT * FROM other.kernels")
            columns = ", ".join(row[1] for row in database.execute("PRAGMA table_info(outcomes)") if row[1] != "id")
            database.execute(f"INSERT INTO outcomes({columns}) SELECT {columns} FROM other.outcomes ORDER BY id")
        database.execute("DETACH other")
    database.close()
