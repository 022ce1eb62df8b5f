"""Writes what a stored run measured as tables for search_replay: `python bench/search/table_from_store.py RUN FOLDER [STORE.db]`.

One file a region. Genes have the choices that occur, in order; the first genomes of the run are taken for the coder's first guesses.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path

SEEDS = 8


def main() -> None:
    run, folder = sys.argv[1], Path(sys.argv[2])
    home = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share"))
    store = Path(sys.argv[3]) if len(sys.argv) > 3 else home / "planish" / "store.db"
    database = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    (task,) = database.execute("select task from runs where id=?", (run,)).fetchone()
    tables: dict[str, list[sqlite3.Row]] = {}
    for row in database.execute("select * from evaluations where run=? and genome<>'' and level='screen' order by rowid", (run,)):
        tables.setdefault(row["region"], []).append(row)
    folder.mkdir(parents=True, exist_ok=True)
    for region, rows in tables.items():
        genomes = [dict(word.split("=") for word in row["genome"].split()) for row in rows]
        genes = [{"name": name, "choices": sorted({int(g[name]) for g in genomes})} for name in genomes[0]]
        head = {"schema": "planish.search_table/1", "name": f"{task} {region}", "genes": genes, "seeds": [row["genome"] for row in rows[:SEEDS]]}
        lines = [json.dumps(head)]
        for row in rows:
            timed = row["outcome"] == "ok" and row["median_ms"] > 0
            lines.append(json.dumps({"genome": row["genome"]} | ({"ms": row["median_ms"]} if timed else {"outcome": row["outcome"]})))
        path = folder / f"{task}-{region}.jsonl"
        path.write_text("\n".join(lines) + "\n")
        print(f"{path}: {len(rows)} genomes")


main()
