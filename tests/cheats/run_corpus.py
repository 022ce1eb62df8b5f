#!/usr/bin/env python3
"""Judges the whole cheat corpus and prints, and writes, what became of it: `make cheats`.

    PLANISH_BUILD=build python tests/cheats/run_corpus.py [--only WORDS] [--out docs/results/cheats.md]

Minutes: every solution of others runs in processes of its own. Ends with 1 where a cheat passes or an honest twin does not."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from corpus import CORPUS
from judge_corpus import Judge, Judged


def document(found: list[Judged], seconds: float) -> str:
    caught, passed = sum(j.caught for j in found), sum(j.passed for j in found)
    where = f"{seconds:.0f} s on {os.cpu_count()} cores, {date.today()}."
    sandbox = found[0].twin["sandbox"]
    held = ", ".join(f"{key} {value}" for key, value in sorted(sandbox.items()) if value not in (None, [], ""))
    lines = [
        "# Cheats caught, honest twins passed", "",
        "Made by `make cheats` (`tests/cheats/run_corpus.py`): each solution of `tests/cheats/corpus.py` is judged as `planish verify` judges it, on the CPU.",
        "`seen` is the number of the trick in the list of `docs/trust.md`, or `issue`: seen in an attack on Planish itself.", "",
        f"**Cheats caught: {caught} of {len(found)}. Honest twins passed: {passed} of {len(found)}.** {where}", "",
        f"Active around the solutions: {held}.", "",
        "| cheat | seen | task | named | twin |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for j in found:
        named = j.cheat["outcome"] if j.caught else f"**{j.cheat['outcome']}**"
        twin = "passed" if j.passed else f"**{j.twin['outcome']}**"
        lines.append(f"| {j.entry.name} | {j.entry.seen} | {j.entry.task} | {named} | {twin} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="entries whose name contains this")
    parser.add_argument("--out", type=Path, help="write the table here")
    options = parser.parse_args()
    found: list[Judged] = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="planish-cheats-") as folder:
        judge = Judge(Path(folder))
        try:
            for entry in sorted((e for e in CORPUS if options.only in e.name), key=lambda e: e.task):
                judged = judge.judge(entry)
                found.append(judged)
                for what, right, reply in (("cheat", judged.caught, judged.cheat), ("twin", judged.passed, judged.twin)):
                    print(f"{'ok  ' if right else 'FAIL'} {what:5} {entry.name}: {reply['outcome']} {reply['message'].splitlines()[:1]}", flush=True)
        finally:
            judge.close()
    text = document(found, time.monotonic() - start)
    print(text.split("\n")[5])
    if options.out:
        options.out.write_text(text)
    return 0 if all(j.caught and j.passed for j in found) else 1


if __name__ == "__main__":
    sys.exit(main())
