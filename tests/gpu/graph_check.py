"""Several kernels in one submission: launches against a patched CUDA graph. Correctness of both, then what either costs.

python tests/gpu/graph_check.py [--json FILE]      exits 1 if a result was wrong, 3 without a GPU
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from device_programs import chain, changing, executor, has_gpu

ELEMENTS = 1 << 16
FAILED: list[str] = []


def expected(x: torch.Tensor, length: int) -> torch.Tensor:
    for _ in range(length):
        x = 2 * x + 1
    return x


def check(name: str, good: bool, note: str = "") -> None:
    print(f"{'ok  ' if good else 'FAIL'} {name}{' ' + note if note else ''}", flush=True)
    if not good:
        FAILED.append(name)


def data(seed: int) -> torch.Tensor:
    return torch.randint(-1000, 1000, (ELEMENTS,), device="cuda", generator=torch.Generator("cuda").manual_seed(seed)).float()


def changing_addresses(folder: Path, way: str) -> None:
    """Many calls in the queue at once, each with tensors of its own: a patch must not reach calls that were submitted before."""
    run = executor(chain(5, ELEMENTS), folder, way).run
    inputs = [data(k) for k in range(200)]
    torch.cuda.synchronize()
    results = [run([x])[0] for x in inputs]
    torch.cuda.synchronize()
    check(f"{way}: 200 calls on changing addresses", all(torch.equal(y, expected(x, 5)) for x, y in zip(inputs, results, strict=True)))
    # The same addresses with other contents, and outputs that are dropped at once.
    x, good = data(1000), True
    for k in range(100):
        x.fill_(k)
        good = good and bool((run([x])[0] == expected(torch.tensor(float(k)), 5).item()).all())
    check(f"{way}: 100 calls on one address", good)


def two_streams(folder: Path, way: str) -> None:
    made = executor(chain(6, ELEMENTS), folder, way)
    streams = [torch.cuda.Stream() for _ in range(6)]
    inputs = [data(50 + k) for k in range(6)]
    torch.cuda.synchronize()
    results: list[list[torch.Tensor]] = [[] for _ in streams]
    for _ in range(40):
        for k, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                results[k].append(made.run([inputs[k]])[0])
    torch.cuda.synchronize()
    good = all(torch.equal(y, expected(inputs[k], 6)) for k in range(6) for y in results[k])
    check(f"{way}: six streams in turn", good, str(made.submission()))


def threads(folder: Path, way: str) -> None:
    made = executor(chain(4, ELEMENTS), folder, way)
    wrong: list[int] = []

    def work(k: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(100):
                x = torch.full((ELEMENTS,), float(k * 100 + i), device="cuda")
                y = made.run([x])[0]
                stream.synchronize()
                if not torch.equal(y, expected(x, 4)):
                    wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    check(f"{way}: four threads, a stream each", not wrong, str(made.submission()))


def captured(folder: Path, way: str, warm: int) -> None:
    """A CUDA graph of the user's around the call, before and after the first calls have settled anything."""
    made = executor(chain(4, ELEMENTS), folder, way)
    x = data(7)
    for _ in range(warm):
        made.run([x])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        made.run([x])
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = made.run([x])[0]
    good = True
    for k in range(5):
        x.copy_(data(70 + k))
        other = made.run([data(90 + k)])[0]  # the graph's arguments are its own
        graph.replay()
        good = good and torch.equal(y, expected(x, 4)) and torch.equal(other, expected(data(90 + k), 4))
    check(f"{way}: captured after {warm} calls", good)


def clusters(folder: Path, way: str) -> None:
    made = executor(chain(3, ELEMENTS, cluster=4), folder, way)
    blocks = torch.arange(ELEMENTS, device="cuda") // 256
    good = True
    for k in range(30):
        x = data(k)
        good = good and torch.equal(made.run([x])[0], expected(x, 2) + 400 + blocks % 4)
    check(f"{way}: clusters of four", good, str(made.submission()))


def changes(folder: Path, way: str) -> None:
    """Values that are copied to the caller's buffers, many and few, large and small, with a tail of bytes."""
    for elements, targets in ((1, 200), (1001, 130), (ELEMENTS, 3), (5_000_001, 2)):
        made = executor(changing(3, elements, targets), folder, way, effects=[])
        states = [torch.zeros(elements, device="cuda") for _ in range(targets)]
        good = True
        for k in range(30):
            x = torch.full((elements,), float(k), device="cuda")
            y = made.run([x, *states])[0]
            good = good and torch.equal(y, expected(x, 3)) and all(torch.equal(s, y) for s in states)
            states[k % targets] = torch.zeros(elements, device="cuda")  # at another address
        check(f"{way}: {targets} buffers of {elements} elements changed", good, str(made.submission()))


def block(call: Callable[[int], Any], calls: int) -> float:
    for k in range(4):
        call(k)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for k in range(calls):
        call(k)
    spent = (time.perf_counter() - start) / calls * 1e6
    torch.cuda.synchronize()
    return spent


def between_events(call: Callable[[int], Any], calls: int = 60) -> float:
    found = []
    for k in range(calls):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        call(k)
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end) * 1e3)
    return statistics.median(found)


def costs(folder: Path) -> list[dict[str, Any]]:
    """Host µs a call of either way by number of kernels: one set of addresses, and four in turn with outputs of their own."""
    rows = []
    keep = [data(k) for k in range(4)]
    for length in (1, 2, 3, 4, 6, 8, 12, 20, 40):
        row: dict[str, Any] = {"kernels": length}
        for way in ("0", "1"):
            run = executor(chain(length, 1024), folder, way).run
            small = [x[:1024].clone() for x in keep]
            rounds = 20
            calls = max(4, 400 // length)
            row[f"same_{way}"] = statistics.median(block(lambda k, run=run, small=small: run([small[0]]), calls) for _ in range(rounds))
            # Outputs are held, so that they too are at another address each time.
            held: list[Any] = [None] * 4

            def moving(k: int, run: Any = run, small: Any = small, held: Any = held) -> None:
                held[k % 4] = run([small[k % 4]])

            row[f"moving_{way}"] = statistics.median(block(moving, calls) for _ in range(rounds))
            row[f"event_{way}"] = between_events(lambda k, run=run, small=small: run([small[0]]))
        automatic = executor(chain(length, 1024), folder, "auto")
        for _ in range(40):
            automatic.run([small[0]])
            torch.cuda.synchronize()
        row["auto"] = automatic.submission()
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


@torch.no_grad()
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not has_gpu():
        print("error: no CUDA device that torch can use", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for way in ("0", "1", "auto"):
            changing_addresses(folder, way)
            two_streams(folder, way)
            threads(folder, way)
            captured(folder, way, 1)
            captured(folder, way, 40)
            clusters(folder, way)
            changes(folder, way)
        used = executor(chain(3, ELEMENTS), folder, "1")
        used.run([data(1)])
        check("a graph is what ran when it was asked for", used.submission()["way"] == "graph", str(used.submission()))
        used = executor(changing(3, 1000, 60), folder, "1", effects=[])
        used.run([data(1)[:1000], *(torch.zeros(1000, device="cuda") for _ in range(60))])
        check("a program that changes buffers is one graph as well", used.submission()["way"] == "graph", str(used.submission()))
        rows = costs(folder)
        if options.json:
            options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "host_us": rows}, indent=1))
    print(f"{len(FAILED)} checks failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
