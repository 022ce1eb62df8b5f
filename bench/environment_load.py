"""Many clients at one environment endpoint on loopback, with workers that are killed meanwhile: rate, latency, and whether anything is lost.

    bench/environment_load.py [--clients 64] [--requests 3] [--kill-every 10] [--workers 2] [--no-times] [--out FILE.json]

Every client sends its requests one after the other and waits for each grade. Of four completions two are right, one is wrong and one has no code.
Every so many seconds one process of the endpoint's (a command, an evaluator, a guest, an oracle; not the endpoint itself) gets SIGKILL.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "cli")]

from command import Home  # noqa: E402
from endpoint import RIGHT, TASK, Endpoint  # noqa: E402
from planish.environment import Environment  # noqa: E402

#: Completion, and the outcome that it must get.
ANSWERS = [(RIGHT, "ok"), (RIGHT.replace("2 *", "3 *"), "wrong"), (RIGHT, "ok"), ("I would rather not.", "no_code")]
KILLED = ("verify", "evaluator", "planish.runner", "planish.oracle")


def client(number: int, url: str, requests: int, into: list[dict[str, Any]]) -> None:
    endpoint = Environment(url, token="", timeout=3600)
    for i in range(requests):
        completion, wanted = ANSWERS[(number + i) % len(ANSWERS)]
        began = time.monotonic()
        try:
            # Every one a text of its own.
            grade = endpoint.grade(f"{completion}\n{number}.{i}", "small" if number % 2 else "other")
            into.append({"seconds": time.monotonic() - began, "outcome": grade.outcome, "wanted": wanted, "error": grade.error, "judged": wanted != "no_code"})
        except Exception as error:
            into.append({"seconds": time.monotonic() - began, "outcome": "lost", "wanted": wanted, "error": repr(error), "judged": True})


def kill(running: Endpoint, every: float, over: threading.Event, killed: Counter[str]) -> None:
    draw = random.Random(1)
    while not over.wait(every):
        word = draw.choice(KILLED)
        found = running.workers(word)
        if found:
            try:
                os.kill(draw.choice(found), signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed[word] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--kill-every", type=float, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    seen: list[dict[str, Any]] = []
    killed: Counter[str] = Counter()
    over = threading.Event()
    with tempfile.TemporaryDirectory() as name:
        home = Home(Path(name))
        (home.path / "tasks").mkdir()
        for task in ("small", "other"):
            (home.path / "tasks" / f"{task}.py").write_text(f"NAME = '{task}'\n{TASK}")
        extra = ["--no-times"] if arguments.no_times else []
        with Endpoint(home, "--tasks", "tasks", "--workers", str(arguments.workers), "--quiet", *extra) as running:
            threads = [threading.Thread(target=client, args=(n, running.url, arguments.requests, seen)) for n in range(arguments.clients)]
            killer = threading.Thread(target=kill, args=(running, arguments.kill_every, over, killed))
            began = time.monotonic()
            for thread in (*threads, killer):
                thread.start()
            for thread in threads:
                thread.join()
            seconds = time.monotonic() - began
            over.set()
            killer.join()
    latencies = sorted(one["seconds"] for one in seen if one["judged"])
    other = [one for one in seen if one["outcome"] != one["wanted"]]
    result = {
        "clients": arguments.clients,
        "workers": arguments.workers,
        "times": not arguments.no_times,
        "requests": len(seen),
        "seconds": round(seconds, 1),
        "requests_a_second": round(len(seen) / seconds, 2),
        "judged_latency_seconds": {
            "p50": round(statistics.median(latencies), 2),
            "p99": round(latencies[min(len(latencies) - 1, int(0.99 * len(latencies)))], 2),
            "max": round(latencies[-1], 2),
        },
        "killed": dict(killed),
        "lost": arguments.clients * arguments.requests - sum(one["outcome"] != "lost" for one in seen),
        "other_than_wanted": other,
    }
    print(json.dumps(result, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
