"""Kernels that a search tried and refused, with why."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from device_programs import root


def refused_kernels(folder: Path, run: str) -> str:
    """Of a run in `folder`/store.db, those whose results were wrong or that ended badly, one below the other; empty where there are none."""
    tried = folder / f"tried-{run}.jsonl"
    command = [str(root() / "bin" / "planish"), "export", run, "--format", "trajectories", "--store", "store.db", "--out", str(tried)]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    attempts = [attempt for line in tried.read_text().splitlines() for attempt in json.loads(line)["attempts"]]
    refused = [one for one in attempts if one["outcome"] in ("wrong", "nan", "crash", "hang", "illegal_address")]
    return "\n".join(f"    {one['outcome']} {one['proposal'] or one['form']}\n        {one['message']}" for one in refused)
