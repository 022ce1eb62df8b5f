"""The files of a recording: what planish-search-draw printed, rows as they come, and the finished table that search_replay reads.

A table is gzip-compressed JSON lines (bench/search/table.h). Rows are appended to NAME.rows.jsonl while a recording runs, so that one which was
stopped goes on where it was.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]
DTYPE_BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "u8": 1, "bool": 1}


def find_program(name: str) -> Path:
    """Of a checkout's build (PLANISH_BUILD names another), or of a dist folder."""
    root = Path(__file__).resolve().parents[2]
    for folder in (root / "bin", Path(os.environ.get("PLANISH_BUILD", root / "build")) / "bin"):
        if (folder / name).is_file():
            return folder / name
    raise SystemExit(f"error: {name} was not found\nhint: ninja -C build {name}, or make dist")


def read_lines(path: Path) -> Iterator[Json]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            yield json.loads(line)


def identity(drawn: Json) -> str:
    """Equal for genomes whose kernels and launches are equal."""
    return hashlib.sha256(json.dumps([drawn["launches"], drawn["scratch_bytes"]], sort_keys=True).encode()).hexdigest()[:12]


def short(value: float) -> float:
    """Five digits: far below what a measurement is off by."""
    return float(f"{value:.5g}")


def bytes_moved(head: Json) -> int:
    return sum(math.prod(t["shape"]) * DTYPE_BYTES[t["dtype"]] for t in head["inputs"] + head["outputs"])


class Rows:
    """What was recorded of one task so far, by genome."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.by_genome: dict[str, Json] = {}
        text = path.read_text() if path.exists() else ""
        # A line without its end was being written when the recording was stopped.
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole)
        for line in whole.splitlines():
            row = json.loads(line)
            self.by_genome[row["genome"]] = row

    def add(self, row: Json) -> None:
        self.by_genome[row["genome"]] = row
        with self.path.open("a") as file:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")

    def same_program(self) -> dict[str, Json]:
        return {row["program"]: row for row in self.by_genome.values() if "program" in row}


def write_table(path: Path, head: Json, rows: Rows, device: str, repeat: Json) -> Json:
    """Returns the head that was written. `complete`: no legal genome of these genes is missing."""
    table_head = {"schema": "planish.search_table/2", "complete": len(rows.by_genome) >= head["genomes"], "device": device, "repeat": repeat}
    table_head |= {key: head[key] for key in ("name", "family", "parameters", "arch", "genes")}
    table_head |= {"bytes": bytes_moved(head), "seeds": [seed for seed in head["seeds"] if seed in rows.by_genome]}
    lines = [table_head, *sorted(rows.by_genome.values(), key=lambda row: row["genome"])]
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
        packed.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode())
    return table_head
