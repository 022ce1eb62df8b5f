"""What a run gained, as bars: the end of `make demo`. Reads a result document."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

LABELS = {"eager": "PyTorch eager", "compile": "torch.compile", "shipped": "Planish", "candidate": "not shipped"}


def bars(times: dict[str, float], width: int) -> list[str]:
    """A line each, the longest time `width` characters long. Times in ms."""
    longest = max(times.values())
    return [f"  {LABELS.get(name, name):<16}{'█' * max(1, round(width * ms / longest))} {ms:.3g} ms" for name, ms in times.items()]


def main() -> None:
    result = json.loads(Path(sys.argv[1]).read_text())
    times = {name: time["median"] for name, time in result["times_ms"].items() if time.get("median")}
    wanted = {name: times[name] for name in ("eager", "compile", "candidate" if "candidate" in times else "shipped") if name in times}
    print()
    if wanted:
        print(f"{result['task']} on {result['device']['name']}, a call:")
        print("\n".join(bars(wanted, min(50, shutil.get_terminal_size().columns - 34))))
    print("\nnext: build/bin/planish optimize YOUR_MODEL.py   (a file with Model and get_inputs, as examples/cpu/gated_blend.py)")


if __name__ == "__main__":
    main()
