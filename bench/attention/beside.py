"""Times 16-bit attention beside PyTorch's kernels on one GPU, from what `planish-contraction-dump --attention --large --seeds N` printed:

    python3 bench/attention/beside.py CASES.json [--out ROWS.json] [--max-seconds 120]

Every variant of a case (a genome) and every backend of scaled_dot_product_attention that takes the case are run in turn, in batches of several
milliseconds; a row holds the median of each, the operations that count (keys that a mask by place hides do not) and both errors against fp64 on two
heads. Where no backend but the one that materialises scores takes a mask, flex_attention is compiled for it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "contraction"))

import torch
from check import Checker, compile_all
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
BATCH_MS, ROUNDS = 8.0, 7


def visible_pairs(case: dict[str, Any], queries: int, keys: int) -> int:
    if window := re.search(r" - (\d+)\)", case["python"]):
        return sum(min(row + 1, keys, int(window[1])) for row in range(queries))
    if "is_causal" in case["python"]:
        return sum(min(row + 1, keys) for row in range(queries))
    return queries * keys


def flex(case: dict[str, Any], x: list[Any]) -> Callable[[], Any] | None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention, dynamic=False)
    window = re.search(r" - (\d+)\)", case["python"])
    score = block = None
    if window:
        length = int(window[1])
        block = create_block_mask(lambda b, h, i, j: (j <= i) & (j > i - length), None, None, x[0].shape[-2], x[1].shape[-2], device="cuda")
    elif len(x) > 3 and x[3].dtype == torch.bool:
        score = lambda s, b, h, i, j: torch.where(x[3][i, j], s, -float("inf"))  # noqa: E731
    elif len(x) > 3:
        score = lambda s, b, h, i, j: s + x[3][h, i, j]  # noqa: E731
    else:
        return None
    return lambda: compiled(*x[:3], score_mod=score, block_mask=block, enable_gqa="enable_gqa" in case["python"])


def rivals(case: dict[str, Any], x: list[Any]) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    code = compile(case["python"], "case", "eval")
    for name, backend in BACKENDS.items():

        def run(backend: Any = backend) -> Any:
            with sdpa_kernel(backend):
                return eval(code, {"t": torch, "x": x})

        try:
            run()
            torch.cuda.synchronize()
            found[name] = run
        except RuntimeError:
            continue
    if ours := flex(case, x):
        try:
            ours()
            found["flex"] = ours
        except Exception as error:  # a compiler's: whatever it was
            print(f"flex_attention: {str(error).splitlines()[0][:120]}")
    return found


def in_turn(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Medians in milliseconds."""

    def batch(run: Callable[[], Any], count: int) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / count

    counts = {name: max(1, min(50, int(BATCH_MS / max(batch(run, 3), 1e-3)))) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            times[name].append(batch(run, counts[name]))
    return {name: round(statistics.median(all_), 5) for name, all_ in times.items()}


def errors(case: dict[str, Any], x: list[Any], out: Any) -> list[float]:
    """Ours and eager's, relative to fp64, of the first and the last head."""
    groups = x[0].shape[1] // x[1].shape[1]
    eager = eval(case["python"], {"t": torch, "x": x})
    sums = [0.0, 0.0, 0.0]
    for b, h in ((0, 0), (x[0].shape[0] - 1, x[0].shape[1] - 1)):
        q, k, v = x[0][b, h].double(), x[1][b, h // groups].double(), x[2][b, h // groups].double()
        mask = x[3:] and (x[3] if x[3].dtype == torch.bool else x[3][h].double())
        part = [q[None, None], k[None, None], v[None, None], *([mask] if x[3:] else [])]
        wide = eval(case["python"], {"t": torch, "x": part})[0, 0]
        for i, mine in enumerate((out, eager)):
            sums[i] += float((mine[b, h].double() - wide).square().sum())
        sums[2] += float(wide.square().sum())
    return [(one / sums[2]) ** 0.5 for one in sums[:2]]


def row_of(checker: Checker, case: dict[str, Any], compiled: dict[str, Any]) -> dict[str, Any]:
    inputs = checker.make_inputs(case, "normal")
    one = case["outputs"][0]
    out = torch.empty_strided(one["shape"], one["strides"], device="cuda", dtype=torch.bfloat16).fill_(float("nan"))
    x = [inputs[i] for i in sorted(range(len(inputs)), key=lambda i: case["inputs"][i]["value"])]
    driver, keep, runs = checker.subject.driver, [], {}
    for variant in case["variants"]:
        (launch,) = variant["launches"]
        scratch = [torch.empty(bytes_, device="cuda", dtype=torch.uint8) for bytes_ in variant["scratch_bytes"]]
        places = {"input": inputs, "output": [out], "scratch": scratch}
        arguments = [ctypes.c_void_p(places[kind][index].data_ptr()) for kind, index in launch["args"]]
        config = driver.config(launch["grid"], launch["block"], launch["shared"], torch.cuda.current_stream().cuda_stream, launch["cluster"])
        function = driver.load(compiled[launch["source"]][0], "planish_kernel", launch["shared"])
        keep.append(scratch)
        runs[variant["genome"]] = lambda f=function, c=config, a=arguments: driver.launch(f, c, a)
    runs[case["variants"][0]["genome"]]()
    torch.cuda.synchronize()
    queries, features, keys = x[0].shape[-2], x[0].shape[-1], x[1].shape[-2]
    row = {"python": case["python"], "shapes": [list(each.shape) for each in x], "errors": errors(case, x, out) if keys <= 8192 else None}
    row["flops"] = 2 * x[0].shape[0] * x[0].shape[1] * visible_pairs(case, queries, keys) * (features + x[2].shape[-1])
    row["ms"] = in_turn(runs | rivals(case, x))
    ours = min(runs, key=lambda name: row["ms"][name])
    theirs = min((name for name in row["ms"] if name not in runs), key=lambda name: row["ms"][name])
    row |= {"best": ours, "rival": theirs, "ratio": row["ms"][theirs] / row["ms"][ours]}
    return row


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", type=Path)
    parser.add_argument("--out", type=Path, default=Path("attention-rows.json"))
    parser.add_argument("--max-seconds", type=float, default=120.0)
    args = parser.parse_args()
    cases = [case for case in json.loads(args.cases.read_text()) if case["outputs"][0]["dtype"] == "bf16" and case["products"] > 5e8]
    compiled = compile_all(cases)
    took = [seconds for _, _, seconds in compiled.values()]
    checker, rows, begun = Checker(), [], time.monotonic()
    facts = {"device": checker.device, "torch": torch.__version__, "cuda": torch.version.cuda, "compile_s": statistics.median(took)}
    for case in cases:
        if time.monotonic() - begun > args.max_seconds:
            print("no time left")
            break
        row = row_of(checker, case, compiled)
        rows.append(row)
        torch.cuda.empty_cache()
        rate = [row["flops"] / row["ms"][row[which]] / 1e9 for which in ("best", "rival")]
        head = f"{row['shapes'][0]} {row['shapes'][1]} {case['python'][46:]:.60}"
        print(f"{head} {rate[0]:.1f} TF, {row['rival']} {rate[1]:.1f}; {row['ratio']:.2f}; errors {row['errors']}; {row['best']}", flush=True)
        args.out.write_text(json.dumps(facts | {"rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
