"""Compiles, checks and times kernels of tile plans on the GPU: python3 bench/contraction/measure.py PLANS [--out FOLDER] [--emit PROGRAM].

PLANS has a line a variant: `M N K bm=128 …` (`#` begins a comment). The emitter is built with g++ unless it is named. Every variant runs in a
process that is killed after a time limit, so that a wrong barrier costs one variant. Correctness comes first: relative Frobenius error against an
fp64 product of what the kernel was given (fp32 operands where it splits them, rounded ones otherwise), on an output full of NaN, several times over.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import driver

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 15.0


@dataclasses.dataclass
class Variant:
    """One line of the plans' file, and what became of it."""

    shape: tuple[int, int, int]
    plan: dict[str, str]
    text: str
    launch: dict[str, Any] = dataclasses.field(default_factory=dict)
    cubin: bytes = b""
    compile_s: float = 0.0
    registers: str = ""
    note: str = ""


def read_plans(path: Path) -> list[Variant]:
    variants = []
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            m, n, k = (int(word) for word in words[:3])
            variants.append(Variant((m, n, k), dict(word.split("=") for word in words[3:]), " ".join(words[3:])))
    return variants


def build_emitter(folder: Path) -> Path:
    program = folder / "emit"
    parts = ("plan", "plan_text", "main_loop", "machine_text")  # which need no library
    sources = [str(ROOT / "bench/contraction/emit.cpp"), *(str(ROOT / f"src/codegen/contraction/{name}.cpp") for name in parts)]
    subprocess.run(["g++", "-std=c++23", "-O1", f"-I{ROOT}/src", *sources, "-o", str(program)], check=True)
    return program


def prepare(emitter: Path, variant: Variant, spin_limit: int, folder: Path, index: int) -> Variant:
    """Emits and compiles one variant; a failure is its note."""
    shape = [str(extent) for extent in variant.shape]
    run = subprocess.run([str(emitter), *shape, f"{variant.text} spin_limit={spin_limit}"], capture_output=True, text=True, check=False)
    if run.returncode:
        variant.note = run.stderr.strip().splitlines()[0][:90]
        return variant
    variant.launch = json.loads(run.stdout.splitlines()[0].removeprefix("// "))
    (folder / f"{index:03}.cu").write_text(run.stdout)
    begun = time.monotonic()
    try:
        variant.cubin, log = driver.compile_text(run.stdout)
    except RuntimeError as error:
        variant.note = "does not compile: " + str(error).splitlines()[0][:80]
        return variant
    variant.compile_s = time.monotonic() - begun
    used, spilled = re.search(r"Used (\d+) registers", log), re.search(r"(\d+) bytes spill stores", log)
    variant.registers = used[1] if used else "?"
    if spilled and spilled[1] != "0":
        variant.registers += f"+{spilled[1]}B spilled"
    variant.registers += "".join(" " + warning for warning in re.findall(r"C75\d\d", log))
    return variant


def serve() -> None:
    """The child: reads pickled variants, answers a JSON line each."""
    import pickle

    from subject import Subject

    subject = Subject()
    print(json.dumps({"ready": True, "device": subject.device}), flush=True)
    while True:
        head = sys.stdin.buffer.read(8)
        if len(head) < 8:
            return
        job = pickle.loads(sys.stdin.buffer.read(int.from_bytes(head, "little")))
        try:
            answer = subject.baseline(job[1]) if job[0] == "baseline" else subject.run(job[1])
        except Exception as error:  # whatever it was, the parent has to hear of it
            answer = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:110]}", "fatal": "CUDA" in str(error)}
        print(json.dumps(answer), flush=True)


class Child:
    """A process with a GPU context that outlives neither a hang nor a fault."""

    def __init__(self, log: Path, program: str = __file__) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.device = ""
        self.log = log
        self.program = program

    def ask(self, job: tuple[Any, ...]) -> dict[str, Any]:
        import pickle

        if self.process is None:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen([sys.executable, self.program, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
            began = self._answer(120.0)
            if "failed" in began:
                return {"failed": f"no GPU process ({began['failed']}; {self.log} says why)"}
            self.device = began["device"]
        assert self.process and self.process.stdin
        body = pickle.dumps(job)
        try:
            self.process.stdin.write(len(body).to_bytes(8, "little") + body)
            self.process.stdin.flush()
        except OSError:
            self.end()
            return {"failed": "the process is gone"}
        answer = self._answer(LIMIT_S)
        if answer.get("fatal"):
            self.end()
        return answer

    def _answer(self, limit: float) -> dict[str, Any]:
        assert self.process and self.process.stdout
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.end()
            return {"failed": "crashed" if ready else f"nothing within {limit:.0f} s"}
        return dict(json.loads(line))

    def end(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def row(variant: Variant, answer: dict[str, Any]) -> str:
    shape = "x".join(map(str, variant.shape))
    if "failed" in answer:
        return f"{shape:>15}  {'FAILED':>46}  {variant.text}  -- {answer['failed']}"
    m, n, k = variant.shape
    rate = [2e-9 * m * n * k / answer[name] for name in ("cold_ms", "warm_ms", "sustained_ms")]
    return (
        f"{shape:>15} {answer['error']:8.1e} {answer['cold_ms']:8.4f} {rate[0]:6.1f} {rate[1]:6.1f} {rate[2]:6.1f} {variant.compile_s:5.2f} "
        f"{variant.registers:>4} {answer['blocks']:4}  {variant.text}" + ("" if answer["steady"] else "  UNSTEADY")
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("plans", nargs="?")
    parser.add_argument("--out", type=Path, default=Path("contraction-out"))
    parser.add_argument("--emit", type=Path)
    parser.add_argument("--spin-limit", type=int, default=20_000_000)
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--max-seconds", type=float, default=80.0)
    parser.add_argument("--serve", action="store_true")
    args = parser.parse_args()
    if args.serve:
        serve()
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    variants = read_plans(Path(args.plans))
    emitter = args.emit or build_emitter(args.out)
    with concurrent.futures.ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        jobs = [pool.submit(prepare, emitter, variant, args.spin_limit, args.out, index) for index, variant in enumerate(variants)]
        variants = [job.result() for job in jobs]
    if args.compile_only:
        for variant in variants:
            print(f"{variant.compile_s:5.2f} s  {variant.registers:>5}  {variant.text}  {variant.note}")
        return 0 if all(not variant.note for variant in variants) else 1
    child = Child(args.out / "child.log")
    begun = time.monotonic()
    rows, raw = [], []
    for shape in dict.fromkeys(variant.shape for variant in variants):
        answer = child.ask(("baseline", shape))
        rows.append(f"{'x'.join(map(str, shape)):>15}  " + "  ".join(f"{name} {value}" for name, value in answer.items()))
    for variant in variants:
        if variant.note:
            answer = {"failed": variant.note}
        elif time.monotonic() - begun > args.max_seconds:
            answer = {"failed": "no time left"}
        else:
            answer = child.ask(("run", variant))
        rows.append(row(variant, answer))
        raw.append({"shape": variant.shape, "plan": variant.text, "compile_s": variant.compile_s, "registers": variant.registers, **answer})
        (args.out / "rows.json").write_text(json.dumps(raw, indent=1))
    child.end()
    table = [f"{child.device}; ms cold; TFLOP/s cold, warm, sustained; compile s; registers; blocks", *rows]
    (args.out / "table.txt").write_text("\n".join(table) + "\n")
    print("\n".join(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
