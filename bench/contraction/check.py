"""Runs what planish-contraction-dump printed on the GPU: python3 bench/contraction/check.py CASES.json [--out FOLDER] [--compile-only] [--strict].

Each variant runs on ordinary data, with rows and columns scaled by powers of two to ±40, and with rows of Inf and NaN; it must be as close to an
fp64 product as fp32 is, row by row, and put Inf and NaN where torch's fp32 product does. Products of integers run on all numbers of their type, and on
the least of them alone, whose sums may wrap around; sums in i32 must be torch's. Then all launches of a variant are timed together and apart.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import ctypes
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import driver
from measure import Child

# Of the last two dimensions of each operand, the one that is not summed over, where it is not the first's rows and the second's columns.
_FEW = 128  # bytes that are spilled around a main loop, which does not do it: what folds load is on its way early
_ROUNDED = 2e-3  # error of a whole output whose factors have ten bits
SUMS = ("_batch", "_group", "_rows", "_squeeze")
INTEGERS = ("i8", "u8")
KINDS = ("special", "scaled", "least", "normal")  # of data
KEPT = {"linear_gelu": (0, 0), "linear_rows": (0, 0), "linear_batch": (0, 0), "transposed_mm": (1, 0)}


def compile_all(cases: list[dict[str, Any]]) -> dict[str, tuple[bytes, str, float]]:
    sources = {launch["source"] for case in cases for variant in case["variants"] for launch in variant["launches"]}
    with concurrent.futures.ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        return dict(zip(sources, pool.map(compile_one, sources), strict=True))


def compile_one(source: str) -> tuple[bytes, str, float]:
    begun = time.monotonic()
    try:
        cubin, log = driver.compile_text(source)
    except RuntimeError as error:
        return b"", str(error)[:600], time.monotonic() - begun
    return cubin, log, time.monotonic() - begun


class Checker:
    """The child's side: one process, one device."""

    def __init__(self) -> None:
        import torch
        from subject import Subject

        self.torch = torch
        self.subject = Subject()
        self.device = self.subject.device
        self.case = ""

    def make_inputs(self, case: dict[str, Any], data: str) -> list[Any]:
        t = self.torch
        generator = t.Generator("cuda").manual_seed(7)
        made: list[Any] = []
        # As the line of Python has them: in the order of the graph's values, which need not be the kernel's.
        order = sorted(range(len(case["inputs"])), key=lambda i: case["inputs"][i]["value"])
        for declared in (case["inputs"][i] for i in order):
            shape = declared["shape"]
            if declared["dtype"] in INTEGERS:
                whole = t.int8 if declared["dtype"] == "i8" else t.uint8
                of = t.iinfo(whole)
                codes = t.randint(of.min, of.max + 1, shape, device="cuda", generator=generator)
                if data == "least":
                    codes.fill_(of.min or of.max)
                made.append(t.empty_strided(shape, declared["strides"], device="cuda", dtype=whole).copy_(codes))
                continue
            if declared["dtype"] == "i32":  # where groups of rows end
                ends = t.randint(0, made[0].shape[0] + 1, shape, device="cuda", generator=generator).sort().values
                ends[-1] = made[0].shape[0]
                made.append(ends.int())
                continue
            dtype = {"f16": t.float16, "bf16": t.bfloat16, "float8_e4m3fn": t.float8_e4m3fn, "float8_e5m2": t.float8_e5m2}.get(declared["dtype"], t.float32)
            x = t.randn(shape, device="cuda", generator=generator)
            if case["name"].startswith("attention"):
                one = self.attention_input(x, len(made), declared["dtype"], data)
                made.append(one if one.dtype == t.bool else t.empty_strided(shape, declared["strides"], device="cuda", dtype=dtype).copy_(one))
                continue
            if data == "scaled" and len(made) < 2 and dtype == t.float32:
                # Every row of the first operand and every column of the second; what is summed over keeps one scale.
                kept = KEPT.get(case["name"], (0, 1))[len(made)]
                own = [-1, 1] if kept == 0 else [1, -1]
                if case["name"].startswith("conv"):  # every image and every output channel
                    own = [-1] + [1] * (len(shape) - 1)
                if case["name"].startswith("conv_transpose") and len(made) == 1:  # whose weights have them behind
                    own = [1, -1] + [1] * (len(shape) - 2)
                power = t.randint(-40, 41, [shape[own.index(-1) - len(own)]], device="cuda", generator=generator).float()
                x = x * t.exp2(power).view(own)
            if data == "special" and len(made) == 0:
                flat = x.view(-1)
                flat[3] = float("inf")
                flat[shape[-1] * 2 + 1] = -float("inf")
                flat[shape[-1] * 5 + 4] = float("nan")
            made.append(t.empty_strided(shape, declared["strides"], device="cuda", dtype=dtype).copy_(x))
        return [made[order.index(i)] for i in range(len(made))]

    def attention_input(self, x: Any, number: int, dtype: str, data: str) -> Any:
        """q, k, v and a mask. Scaled: q and k by powers that cancel, each column of v by its own. Special: rows of each that are not finite."""
        t = self.torch
        if dtype == "bool":
            mask = x > -0.7
            mask[2] = False  # a query without keys
            return mask
        if data == "scaled" and number < 2:
            x = x * 2.0 ** (-37 if number == 0 else 37)
        if data == "scaled" and number == 2:
            x = x * t.exp2(t.randint(-40, 41, [x.shape[-1]], device="cuda", generator=t.Generator("cuda").manual_seed(3)).float())
        if data == "special" and number < 3:
            flat = x.view(-1, *x.shape[-2:])[0]
            flat[3, 1] = float("inf")
            flat[5, 2] = -float("inf")
            if number != 1:
                flat[9, 4] = float("nan")
        return x

    def reference(self, case: dict[str, Any], inputs: list[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs in fp64, and eager's."""
        scope = {"t": self.torch}
        wide = eval(case["python"], scope, {"x": [x.double() if x.is_floating_point() else x for x in inputs]})
        eager = eval(case["python"], scope, {"x": inputs})  # sums of integers are integers
        return [one.double() for one in (wide if isinstance(wide, tuple) else (wide,))], list(eager if isinstance(eager, tuple) else (eager,))

    def judge(self, case: dict[str, Any], data: str, exact: float, ours: Any, wide: Any, eager: Any, answer: dict[str, Any]) -> None:
        """One output: its errors are put into the answer where they are the largest so far."""
        ours = ours.view(wide.shape).double()
        if wide.dim() == 1:  # each by itself: one that is not finite says nothing of the others
            ours, wide, eager = ours[:, None], wide[:, None], eager[:, None]
        if data == "special":
            # cuDNN spreads what is not finite where it transforms; the direct sum is the judge.
            special = wide if case["name"].startswith(("conv", "attention")) else eager.double()
            same = (ours.isfinite() == special.isfinite()) & (ours.isnan() == special.isnan()) & (~special.isinf() | (ours == special))
            answer["misplaced"] = answer.get("misplaced", 0) + int((~same).sum())
            finite = special.isfinite().all(-1) & eager.double().isfinite().all(-1)
            ours, wide, eager = ours[finite], wide[finite], eager[finite]
            if not bool(finite.any()):
                return
        row = (ours - wide).norm(dim=-1) / wide.norm(dim=-1).clamp_min(1e-300)
        theirs = (eager.double() - wide).norm(dim=-1) / wide.norm(dim=-1).clamp_min(1e-300)
        mine = [float((ours - wide).norm() / wide.norm()), float(row.max()), float((eager.double() - wide).norm() / wide.norm()), float(theirs.max())]
        # What sums of many results come to is small beside them.
        if case["name"].endswith(SUMS):
            exact *= 2
        # A row may hang on one element, whose sum cancels: both sides' worst are matters of luck.
        limit, row_limit = max(exact, 2 * mine[2]), max(2.5 * exact, 4 * mine[3])
        if not (mine[0] <= limit and mine[1] <= row_limit):
            answer["wrong"] = data
        if mine[0] > answer.get(data, [-1.0])[0]:
            answer[data] = mine

    def run(self, case: dict[str, Any], variant: dict[str, Any], cubins: list[bytes], baseline: bool) -> dict[str, Any]:
        t, subject = self.torch, self.subject
        functions = [subject.driver.load(cubin, "planish_kernel", launch["shared"]) for cubin, launch in zip(cubins, variant["launches"], strict=True)]
        scratch = [t.full((bytes_ // 4 + 64,), float("nan"), device="cuda") for bytes_ in variant["scratch_bytes"]]
        for index in variant["zeroed"]:  # as the kernel leaves them
            scratch[index].zero_()
        stream = t.cuda.current_stream().cuda_stream
        answer: dict[str, Any] = {}
        declared = case["outputs"][0]
        dtype = {"f16": t.float16, "bf16": t.bfloat16, "i16": t.int16, "i32": t.int32}.get(declared["dtype"], t.float32)
        exact = {t.float16: 6e-4, t.bfloat16: 4e-3, t.int32: 0.0}.get(dtype, 4e-7)
        untouched = float("nan") if dtype.is_floating_point else -12345
        # What no integer stands for becomes any.
        small = case["products"] < 3e8 and dtype.is_floating_point
        # Torch's kernels for attention in 16 bits put NaN elsewhere than the definition does.
        small = small and not (case["name"].startswith("attention") and dtype.itemsize == 2)
        integers = any(one["dtype"] in INTEGERS for one in case["inputs"])
        for data in ("least", "normal") if integers else ("special", "scaled", "normal") if small else ("normal",):
            inputs = self.make_inputs(case, data)
            outputs = [t.empty_strided(one["shape"], one["strides"], device="cuda", dtype=dtype).fill_(untouched) for one in case["outputs"]]
            places = {"input": inputs, "output": outputs, "scratch": scratch}
            steps = []
            for function, launch in zip(functions, variant["launches"], strict=True):
                config = subject.driver.config(launch["grid"], launch["block"], launch["shared"], stream, launch["cluster"])
                steps.append((function, config, [ctypes.c_void_p(places[kind][index].data_ptr()) for kind, index in launch["args"]]))

            def run(steps: list[Any] = steps) -> None:
                for function, config, arguments in steps:
                    subject.driver.launch(function, config, arguments)

            run()
            t.cuda.synchronize()
            graph = [inputs[i] for i in sorted(range(len(inputs)), key=lambda i: case["inputs"][i]["value"])]
            wide, eager = self.reference(case, graph)
            if data == "special" and case["definition"]:
                wide = [eval(case["definition"], {"t": t}, {"x": [x.double() if x.is_floating_point() else x for x in graph]})]
            if data == "special" and case["name"].startswith("conv_transpose"):  # where nothing multiplies zeros in between
                wide = [one.cuda() for one in self.reference(case, [x.double().cpu() for x in inputs])[0]]
            for mine, right, theirs in zip(outputs, wide, eager, strict=True):
                self.judge(case, data, exact, mine, right, theirs, answer)
            if answer.get("misplaced", 0):
                answer["wrong"] = data
            first = [one.clone() for one in outputs]
            for one in outputs:
                one.fill_(untouched)
            run()
            answer["steady"] = answer.get("steady", True) and all(t.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, outputs, strict=True))
        if case["products"] < 1e7:
            return answer
        answer.update(subject.times(run, 9, 5))
        answer["apart_ms"] = [subject.times(lambda one=one: subject.driver.launch(one[0], one[1], one[2]), 5, 3)["cold_ms"] for one in steps]
        if baseline:
            t.backends.cuda.matmul.allow_tf32 = False
            scope = {"t": t, "x": graph}
            code = compile(case["python"], "case", "eval")
            answer["eager_ms"] = subject.times(lambda: eval(code, scope), 5, 3)["cold_ms"]
        return answer


def serve() -> None:
    import pickle

    checker = Checker()
    print(json.dumps({"ready": True, "device": checker.device}), flush=True)
    while True:
        head = sys.stdin.buffer.read(8)
        if len(head) < 8:
            return
        job = pickle.loads(sys.stdin.buffer.read(int.from_bytes(head, "little")))
        try:
            answer = checker.run(*job)
        except Exception as error:  # whatever it was, the parent has to hear of it
            answer = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:140]}", "fatal": "CUDA" in str(error)}
        print(json.dumps(answer), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="?")
    parser.add_argument("--out", type=Path, default=Path("contraction-out"))
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--strict", action="store_true", help="end with 1 where a variant is not right")
    parser.add_argument("--max-seconds", type=float, default=80.0)
    parser.add_argument("--serve", action="store_true")
    args = parser.parse_args()
    if args.serve:
        serve()
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    cases = json.loads(Path(args.cases).read_text())
    begun = time.monotonic()
    compiled = compile_all(cases)
    print(f"{len(compiled)} sources in {time.monotonic() - begun:.1f} s, longest {max(took for _, _, took in compiled.values()):.2f} s")
    failed = 0
    for source, (cubin, log, _) in compiled.items():
        spills = [line.strip() for line in log.splitlines() if any(int(n) > _FEW for n in re.findall(r"(\d+) bytes spill stores", line))]
        if not cubin or spills or "C7510" in log:
            failed += 1
            (args.out / f"bad-{failed}.cu").write_text(source)
            print(f"bad-{failed}.cu: " + ("; ".join(spills) if cubin else log))
    if args.compile_only:
        return 1 if failed else 0
    child = Child(args.out / "child.log", __file__)
    begun = time.monotonic()
    rows, raw = [], []
    not_right = 0
    for case in cases:
        shape = " ".join("x".join(map(str, one["shape"])) for one in case["inputs"]) + " " + case["inputs"][0]["dtype"]
        bare = {k: v for k, v in case.items() if k != "variants"}
        for number, variant in enumerate(case["variants"]):
            cubins = [compiled[launch["source"]][0] for launch in variant["launches"]]
            if time.monotonic() - begun > args.max_seconds:
                answer: dict[str, Any] = {"failed": "no time left"}
            elif not all(cubins):
                answer = {"failed": "does not compile"}
            else:
                launches = [{k: v for k, v in one.items() if k != "source"} for one in variant["launches"]]
                answer = child.ask((bare, variant | {"launches": launches}, cubins, number == 0))
            raw.append({"case": case["name"], "inputs": shape, "genome": variant["genome"], **answer})
            (args.out / "rows.json").write_text(json.dumps(raw, indent=1))
            rows.append(line(case, shape, variant["genome"], answer))
            not_right += not is_right(variant["genome"], answer)
    child.end()
    table = [f"{child.device}; error whole/worst row (eager's); ms cold in all = launches; TFLOP/s cold, sustained; eager ms", *rows]
    (args.out / "table.txt").write_text("\n".join(table) + "\n")
    print("\n".join(table))
    return 1 if args.strict and (not_right or failed) else 0


def is_right(genome: str, answer: dict[str, Any]) -> bool:
    """One product of rounded factors is as right as TF32, whether or not eager rounds here."""
    if "failed" in answer or not answer["steady"] or answer.get("misplaced"):
        return False
    if "wrong" not in answer:
        return True
    return "passes=1" in genome.split() and all(answer[data][0] <= _ROUNDED for data in KINDS if data in answer)


def line(case: dict[str, Any], shape: str, genome: str, answer: dict[str, Any]) -> str:
    head = f"{case['name']} {shape} | {genome} |"
    if "failed" in answer:
        return f"{head} FAILED {answer['failed']}"
    text = head + (f" WRONG on {answer['wrong']}" if "wrong" in answer else "") + ("" if answer["steady"] else " UNSTEADY")
    if answer.get("misplaced"):
        text += f" {answer['misplaced']} Inf or NaN at other places than eager's"
    for data in KINDS:
        if isinstance(answer.get(data), list):
            e = answer[data]
            text += f" {data} {e[0]:.1e}/{e[1]:.1e} ({e[2]:.1e}/{e[3]:.1e})"
    if "cold_ms" in answer:
        rate = [2e-9 * case["products"] / answer[name] for name in ("cold_ms", "sustained_ms")]
        text += f" {answer['cold_ms']:.4f} = " + " + ".join(f"{one:.4f}" for one in answer["apart_ms"]) + f"; {rate[0]:.1f}, {rate[1]:.1f} TF"
    if "eager_ms" in answer:
        text += f"; eager {answer['eager_ms']:.4f}"
    return text


if __name__ == "__main__":
    sys.exit(main())
