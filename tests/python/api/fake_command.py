"""A stand-in for the `planish` command: it notes how it was called, says something, and answers as it was told to."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

plan = json.loads(Path(os.environ["FAKE_PLAN"]).read_text())
calls = Path(os.environ["FAKE_CALLS"])
known = json.loads(calls.read_text()) if calls.exists() else []
task = Path(sys.argv[2])
calls.write_text(json.dumps([*known, {"argv": sys.argv[1:], "task": json.loads((task / "task.json").read_text()), "inside": os.environ.get("PLANISH_INSIDE")}]))
step = plan[min(len(known), len(plan) - 1)]
print("searching 1 region", file=sys.stderr, flush=True)
if "says" in step:
    print(step["says"], file=sys.stderr, flush=True)
if os.environ.get("FAKE_WIDTH"):
    print(f"drawn {os.get_terminal_size(2).columns} wide", file=sys.stderr, flush=True)
if "hangs" in step:  # until it is interrupted; then it saves its state, says so, and ends as the command does
    pid = os.getpid()
    signal.signal(signal.SIGINT, lambda *_: (Path(step["hangs"]).write_text(f"saved by {pid}"), sys.exit(130)))
    Path(step["hangs"]).write_text(f"running as {pid}")
    while True:
        signal.pause()
out = Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
result = step["result"]
if "ship" in step:
    shutil.copytree(step["ship"], out / "shipped")
    result["shipped"] = str(out / "shipped")
print(json.dumps(result) if step.get("text") is None else step["text"])
raise SystemExit(step["code"])
