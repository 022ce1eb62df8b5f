"""What the evaluations of stored runs cost, by tier: `python bench/evaluation_costs.py [STORE.db] [RUN]`.

Reads the store that `planish optimize` wrote and prints a line a region with evaluations a minute and the mean seconds of compile and
test; timing and new data are the rest. The rate is over the time between the first and the last evaluation of the search, so it includes everything in between.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path


def main() -> None:
    home = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share"))
    store = Path(sys.argv[1]) if len(sys.argv) > 1 else home / "planish" / "store.db"
    database = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    runs = [row["id"] for row in database.execute("select id from runs order by started")]
    print(f"{'task':28} {'run':24} {'evals':>6} {'ok':>5} {'a minute':>9} {'compile s':>10} {'test s':>8} {'other s':>8}")
    for run in [sys.argv[2]] if len(sys.argv) > 2 else runs:
        task = database.execute("select task from runs where id=?", (run,)).fetchone()["task"]
        rows = database.execute("select * from evaluations where run=? order by rowid", (run,)).fetchall()
        found = []
        for row in rows:
            if row["genome"] and row["level"] == "screen":
                digest = row["document"]
                found.append((row, json.loads((store.parent / "objects" / digest[:2] / digest[2:]).read_text())))
        if not found:
            continue
        span = found[-1][0]["at_seconds"] - found[0][0]["at_seconds"]
        count = len(found)
        compile_s = sum(d.get("compile", {}).get("seconds", 0) for _, d in found) / count
        test_s = sum(d.get("test", {}).get("seconds", 0) for _, d in found) / count
        each = span / max(1, count - 1)
        ok = sum(d["outcome"] == "ok" for _, d in found)
        rate = 60 / each if each else 0
        print(f"{task:28} {run:24} {count:6} {ok:5} {rate:9.1f} {compile_s:10.3f} {test_s:8.3f} {each - compile_s - test_s:8.3f}")


main()
