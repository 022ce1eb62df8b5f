"""What rows of bench/compatibility say of the machine that they were made on, and what a page makes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench/compatibility"))
import machine

XEON = {"processor": "A Xeon", "cores": 2, "memory_gb": 23.0}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{}], "a CPU that no row names"),
        ([{"machine": XEON, "others_cores": 0.1}], "A Xeon, 2 cores, 23 GiB (nothing else ran)"),
        ([{"machine": XEON, "others_cores": c} for c in (0.5, 1.5)], "A Xeon, 2 cores, 23 GiB (shared: others used 1.0 of its cores meanwhile)"),
        ([{"machine": XEON, "others_cores": None}], "A Xeon, 2 cores, 23 GiB (whether others used it is not known)"),
        ([{}, {"machine": XEON, "others_cores": 0}], "A Xeon, 2 cores, 23 GiB (nothing else ran); for 1 of 2 rows a CPU that they do not name"),
    ],
)
def test_a_page_names_machines_and_whether_they_were_shared(rows: list[dict[str, Any]], words: str) -> None:
    assert machine.in_words(rows) == words


def test_a_row_describes_this_machine() -> None:
    told = machine.described()
    assert told["processor"] and told["cores"] >= 1
    kibibytes = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert told["memory_gb"] == pytest.approx(kibibytes / 2**20, abs=0.06)


def test_others_are_those_that_nobody_waited_for() -> None:
    """The same work counts while its process lives, and no longer once it was waited for: then it is our own."""
    burn = "import time\nwhile time.process_time() < 1: pass\nprint('done', flush=True)\ninput()\n"
    others = machine.Others()
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "done\n"
        before, seconds = others.cores(), others.seconds()
        assert before is not None and before * seconds >= 0.9
        child.communicate("\n")
    after = others.cores()
    assert after is not None and after * others.seconds() <= before * seconds + (others.seconds() - seconds) * machine.described()["cores"] - 0.8
