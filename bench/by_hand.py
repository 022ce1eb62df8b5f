"""Kernels written by hand against the built-in coder: examples/by_hand, turn by turn.

    python bench/by_hand.py --out by_hand.jsonl [--budget 60s] [--baselines LIST] [--only NAME] [--target cuda]

For each task every turn (turn1.cu, turn2.cu, …) is judged by `planish try` in the order in which it was written, on one evaluator that
`planish serve` keeps. Then `planish optimize` searches the task twice: the built-in coder alone, and with the last turn that was right as
a coder's answer for the whole task, which goes through the same tiers, proof and claim. A line of JSON a step:
{"task", "step": "try" | "built_in" | "by_hand", "file", "seconds", …}. Exit code 1 where the hand-written one did not win.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples" / "by_hand"
PLANISH = os.environ.get("PLANISH_BIN", str(Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin" / "planish"))
#: Of a verdict: what was measured, not the text that says it again.
KEPT = ("ok", "outcome", "message", "median_ms", "pytorch_ms", "speedup", "warm")


def answer(file: Path) -> int:
    """The coder's side (docs/formats/coder.md): the file, once, for the whole task; nothing for its regions."""
    given = False
    for line in sys.stdin:
        last = given or json.loads(line)["region"] != "task"
        print(json.dumps({"finished": True} if last else {"source": file.read_text()}), flush=True)
        given = True
    return 0


def planish(*arguments: str) -> tuple[dict[str, Any], float]:
    began = time.perf_counter()
    done = subprocess.run([PLANISH, *arguments, "--json"], capture_output=True, text=True, check=False)
    seconds = round(time.perf_counter() - began, 3)
    if not done.stdout.strip():
        raise SystemExit(f"{PLANISH} {' '.join(arguments)} gave no document:\n{done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document, seconds


def tried(task: Path, turn: Path, target: str) -> dict[str, Any]:
    said, seconds = planish("try", str(task), str(turn), "--target", target)
    out: dict[str, Any] = {"task": task.parent.name, "step": "try", "file": turn.name, "seconds": seconds}
    if "error" in said:
        return out | {"ok": False, "outcome": said["error"]["kind"], "message": said["error"]["message"]}
    verdict = said["verdict"] or {}
    roofline = said["evaluation"].get("roofline") or {}
    return (
        out
        | {key: said[key] for key in KEPT}
        | {"device": said["device"], "roofline": roofline.get("fraction"), "bound_ms": roofline.get("bound_ms")}
        | {"verdict": {key: verdict.get(key) for key in ("kind", "issue", "message")}}
    )


def optimized(step: str, task: Path, options: argparse.Namespace, *more: str) -> dict[str, Any]:
    arguments = ["optimize", str(task), "--target", options.target, "--budget", options.budget, "--baselines", options.baselines, "--cold"]
    folder = options.ship / task.parent.name / step
    result, seconds = planish(*arguments, "--out", str(folder), *more)
    out: dict[str, Any] = {"task": task.parent.name, "step": step, "seconds": seconds}
    if "error" in result:
        return out | {"outcome": result["error"]["kind"], "message": result["error"]["message"]}
    kept = ("outcome", "reason", "form", "headline", "times_ms", "speedup", "speedup_best_baseline", "best_baseline", "accuracy", "roofline")
    used = [region["id"] for region in result.get("regions", []) if region.get("used")]
    return out | {key: result[key] for key in kept if key in result} | {"regions_used": used}


def run(task: Path, options: argparse.Namespace, out: TextIO) -> bool:
    def say(step: dict[str, Any]) -> dict[str, Any]:
        print(json.dumps(step), file=out, flush=True)
        brief = {key: step.get(key) for key in ("task", "step", "file", "outcome", "median_ms", "speedup", "headline", "seconds") if step.get(key) is not None}
        print(json.dumps(brief), file=sys.stderr, flush=True)
        return step

    right = [turn for turn in sorted(task.parent.glob("turn*.cu")) if say(tried(task, turn, options.target))["ok"]]
    if options.tries_only:
        return bool(right)
    say(optimized("built_in", task, options))
    if not right:
        return False
    coder = f"{sys.executable} {Path(__file__).resolve()} --answer {right[-1]}"
    won = say(optimized("by_hand", task, options, "--coder", coder, "--strategy", "coders"))
    return won["outcome"] == "improved" and won["regions_used"] == ["task"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the transcript; standard output where it is not given")
    parser.add_argument("--ship", type=Path, help="where what was shipped stays; else in a folder that goes")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--baselines", default="all")
    parser.add_argument("--only", action="append", default=[], help="names of examples")
    parser.add_argument("--tries-only", action="store_true", help="no searches")
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        return answer(options.answer)
    tasks = [task for task in sorted(EXAMPLES.glob("*/task.py")) if not options.only or task.parent.name in options.only]
    if not tasks:
        parser.error(f"{EXAMPLES} has no example {' '.join(options.only)}")
    with tempfile.TemporaryDirectory(prefix="planish-by-hand-") as folder:
        options.ship = (options.ship or Path(folder)).resolve()
        server = subprocess.Popen([PLANISH, "serve", "--json"], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        server.stdout.readline()
        out = options.out.open("w") if options.out else sys.stdout
        try:
            won = [run(task.resolve(), options, out) for task in tasks]
        finally:
            server.terminate()
            server.wait(30)
            if options.out:
                out.close()
    return 0 if all(won) else 1


if __name__ == "__main__":
    sys.exit(main())
