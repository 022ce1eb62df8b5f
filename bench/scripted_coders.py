"""What the swarm itself costs when language models sit in all its seats: models are scripted here, of known quality.

    python bench/scripted_coders.py [--seats 32] [--budget 60] [--latency 2] [--cap 2000000] [--out FILE.json]

Three kinds of coders answer on the loopback, each after `latency` seconds: one whose programs never compile, one that is right one time in ten, one
that is right and faster one time in fifty (else wrong). Each run is recorded, and replayed: a replay takes the same decisions with nothing measured and
nobody asked, so its time over the number of proposals is what the swarm spends on each. No figure says anything about a model.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
BINARY = Path(os.environ.get("PLANISH_BUILD", ROOT / "build")) / "bin" / "planish-bin"

#: Right, and slower: sums in double precision.
SLOW = ("float part[32] = {};", "double part[32] = {};")


def program(kind: str, number: int, words: str) -> str:
    """The answer with this number."""
    from scripted_model import KERNEL, fenced, kernel_for

    found = re.search(r"in(\d): f32\[512[,\]]", words)
    if found is None:
        return "I do not know this region."
    kernel = kernel_for(words, KERNEL).replace("float sum = 0;", f"float sum = 0 * {number}.0f;")
    wrong = kernel.replace("-1.0f)", "-1.5f)")
    if kind == "broken":
        return fenced(kernel.replace("float* out", "flaot* out"))
    if kind == "right one time in ten":
        return fenced(kernel.replace(*SLOW) if number % 10 == 0 else wrong)
    return fenced(kernel if number % 50 == 0 else wrong)


class Model:
    """A server that thinks for so long."""

    def __init__(self, kind: str, latency: float) -> None:
        self.asked, lock = 0, threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
                words = "\n".join(str(m["content"]) for m in body["messages"])
                with lock:
                    outer.asked += 1
                    number = outer.asked
                time.sleep(latency)
                from scripted_model import asked_for, spoken

                text = "ready" if asked_for(body) == "warm-up" else program(kind, number, words)
                # Tokens as a server would count them, four bytes each.
                status, headers, data = spoken(
                    text, prompt=len(words) // 4, output=len(text) // 4, cached=len(str(body["messages"][0]["content"])) // 4 if number > 1 else 0
                )
                self.send_response(status)
                for name, value in (headers | {"content-length": str(len(data.encode()))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data.encode())

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 64

            def handle_error(self, *_: object) -> None:
                """Who hangs up at the end of a search is no error."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def planish(home: Path, *arguments: str, **env: str) -> tuple[dict[str, Any], float]:
    environment = (
        os.environ | {"HOME": str(home), "XDG_DATA_HOME": f"{home}/data", "XDG_CACHE_HOME": f"{home}/cache", "XDG_CONFIG_HOME": f"{home}/config"} | env
    )
    began = time.monotonic()
    done = subprocess.run([str(BINARY), *arguments, "--json"], cwd=home, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout + done.stderr)
    return json.loads(done.stdout), time.monotonic() - began


def busy_seconds(tape: Path) -> float:
    """How long at least one candidate was in the evaluator."""
    spans = []
    for line in tape.read_text().splitlines()[1:]:
        entry = json.loads(line)
        if entry.get("op") == "evaluate" and entry["key"].startswith("r"):
            spans.append((entry["at"], entry["at"] + entry["took"]))
    # The first one is PyTorch's form of the region, before the search.
    out, until = 0.0, 0.0
    for begin, end in sorted(spans)[1:]:
        out += max(0.0, end - max(begin, until))
        until = max(until, end)
    return out


def measure(kind: str, seats: int, budget: float, latency: float, cap: int) -> dict[str, Any]:
    from scripted_model import TASK, model_toml

    with tempfile.TemporaryDirectory(prefix="planish-scripted-") as folder:
        home = Path(folder)
        (home / "task.py").write_text(TASK)
        model = Model(kind, latency)
        try:
            (home / "planish.toml").write_text(model_toml(f"http://127.0.0.1:{model.server.server_port}", tokens=cap))
            command = (
                "optimize",
                "task.py",
                "--target",
                "cpu",
                "--search-only",
                "--budget",
                f"{budget}s",
                "--strategy",
                "refine",
                "--turns",
                "100000",
                "--models",
                str(seats),
            )
            result, _ = planish(home, *command, "--record", "tape")
        finally:
            model.close()
        again, replay_seconds = planish(home, "optimize", "task.py", "--replay", "tape", PLANISH_PYTHON="/bin/false")
        assert again["search"]["coders"] == result["search"]["coders"]
        _, start_seconds = planish(home, "runs")
        search = result["search"]
        proposals = sum(s["proposed"] for s in search["coders"])
        evaluations = sum(n for tier in result["evaluations"].values() for n in tier.values())
        seconds = result["seconds"]["in"]["search"]
        return {
            "coders": kind,
            "seats": seats,
            "search_seconds": seconds,
            "proposals": proposals,
            "evaluations": evaluations,
            "evaluations_a_minute": 60 * evaluations / seconds,
            "evaluator_idle": max(0.0, 1 - busy_seconds(home / "tape" / "run.jsonl") / seconds),
            "overhead_ms_a_proposal": 1e3 * max(0.0, replay_seconds - start_seconds) / max(proposals, 1),
            "passed": sum(s["passed"] for s in search["coders"]),
            "improved": sum(s["improved"] for s in search["coders"]),
            "models": search["models"],
            "cap": cap,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seats", type=int, default=32)
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--latency", type=float, default=2)
    parser.add_argument("--cap", type=int, default=2_000_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [
        measure(kind, options.seats, options.budget, options.latency, options.cap)
        for kind in ("broken", "right one time in ten", "right and faster one time in fifty")
    ]
    print(
        "| coders | proposals | evaluations a minute | evaluator idle | swarm's overhead a proposal | right | best so far "
        "| tokens by purpose | cap |\n|---|---|---|---|---|---|---|---|---|"
    )
    for row in rows:
        tokens = ", ".join(f"{purpose} {cost['tokens']:,}" for purpose, cost in row["models"]["purposes"].items())
        print(
            f"| {row['coders']} | {row['proposals']} | {row['evaluations_a_minute']:.0f} | {100 * row['evaluator_idle']:.0f} % "
            f"| {row['overhead_ms_a_proposal']:.1f} ms "
            f"| {row['passed']} | {row['improved']} | {tokens} | {row['models']['tokens']:,} of {row['cap']:,} |"
        )
        assert row["models"]["tokens"] <= row["cap"]
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
