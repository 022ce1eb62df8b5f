"""Searches whose result must be proved on data of one kind, without a kernel that was refused on the way."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from device_programs import root


def searched(folder: Path, source: str, regime: str, name: str, *options: str) -> tuple[dict[str, Any], str]:
    """The result of `planish optimize` of this task, and why it is none to go by; empty where it was proved on `regime` too."""
    (folder / "task.py").write_text(source)
    command = [str(root() / "bin" / "planish"), "optimize", "task.py", "--cold", "--store", "store.db", "--out", f"out-{name}", "--json", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    if not done.stdout.strip():
        return {}, f"it says nothing: {done.stderr[-600:]}"
    found = json.loads(done.stdout)
    if "error" in found:
        return found, str(found["error"]["message"])
    accuracy = found["accuracy"]
    if not accuracy["verified"] or regime not in accuracy["regimes"]:
        return found, f"{found['reason']} (proved on {', '.join(accuracy['regimes'])}; left out: {accuracy['skipped']})"
    # A search goes on without a kernel that is refused.
    refused = _refused_kernels(folder, found["run"])
    return found, f"kernels that were refused\n{refused}" if refused else ""


def _refused_kernels(folder: Path, run: str) -> str:
    """Kernels whose results were wrong or that ended badly, one below the other; empty where there are none."""
    tried = folder / f"tried-{run}.jsonl"
    command = [str(root() / "bin" / "planish"), "export", run, "--format", "trajectories", "--store", "store.db", "--out", str(tried)]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    attempts = [attempt for line in tried.read_text().splitlines() for attempt in json.loads(line)["attempts"]]
    refused = [one for one in attempts if one["outcome"] in ("wrong", "nan", "crash", "hang", "illegal_address")]
    return "\n".join(f"    {one['outcome']} {one['proposal'] or one['form']}\n        {one['message']}" for one in refused)
