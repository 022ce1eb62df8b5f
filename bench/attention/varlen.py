"""Times attention over packed sequences beside PyTorch's varlen_attn on one GPU:

    python3 bench/attention/varlen.py [--dump build/bin/planish-contraction-dump] [--out ROWS.json] [--seeds 8] [--max-seconds 240]

Lengths of sequences are drawn by a seed. Every first guess of the emitter is checked against fp64 (two heads of each that shares keys first and last),
run twice for the same bits, and timed in turn with `varlen_attn`, and with one call of scaled_dot_product_attention for each sequence; a row holds the
median of each, the operations that count (keys that are hidden do not) and the errors.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "contraction"), str(ROOT / "python"), str(Path(__file__).resolve().parent)]

import torch  # noqa: E402
from beside import in_turn  # noqa: E402
from check import compile_all  # noqa: E402
from launched import launched  # noqa: E402
from planish.capture.packed_attention import packed_attention  # noqa: E402
from subject import Subject  # noqa: E402


@dataclass(frozen=True)
class Shape:
    name: str
    sequences: int
    shortest: int
    longest: int
    heads: int = 32
    shared: int = 8
    features: int = 128
    left: int = -1
    right: int = 0
    seed: int = 1

    def lengths(self) -> list[int]:
        draw = random.Random(self.seed)
        return [draw.randint(self.shortest, self.longest) for _ in range(self.sequences)]

    def option(self) -> str:
        return f"{self.sequences} {sum(self.lengths())} {self.heads} {self.shared} {self.features} {self.left} {self.right}"

    def pairs(self) -> int:
        """Of a query and a key that it sees, of all sequences."""
        first, last = (lambda i: 0 if self.left < 0 else max(0, i - self.left)), (lambda i, n: n if self.right < 0 else min(n, i + self.right + 1))
        return sum(last(i, n) - first(i) for n in self.lengths() for i in range(n))


SHAPES = [
    Shape("16 of 128 to 4096, causal", 16, 128, 4096),
    Shape("16 of 128 to 4096, causal, other lengths", 16, 128, 4096, seed=2),
    Shape("8 of 4096, causal", 8, 4096, 4096),
    Shape("64 of 64 to 512, causal", 64, 64, 512),
    Shape("256 of 16 to 256, causal", 256, 16, 256),
    Shape("2 of 8192 to 16384, causal", 2, 8192, 16384),
    Shape("16 of 128 to 4096, window of 1024", 16, 128, 4096, left=1024),
    Shape("32 of 197 to 1024, whole, 16 heads of 64", 32, 197, 1024, heads=16, shared=16, features=64, right=-1),
    Shape("4 of 128 to 512, causal", 4, 128, 512),
]


def errors(shape: Shape, tensors: list[Any], found: list[Any]) -> list[float]:
    """Relative to fp64, of the first and the last group of heads that share keys."""
    q, k, v, offsets = tensors
    group, sums = shape.heads // shape.shared, [0.0] * (len(found) + 1)
    for shared in {0, shape.shared - 1}:
        heads = slice(shared * group, shared * group + group)
        wide = [q[:, heads].double(), *(t[:, shared : shared + 1].double() for t in (k, v))]
        exact = packed_attention(*wide, offsets, offsets, 0, 0, window_size_left=shape.left, window_size_right=shape.right)[0]
        assert exact is not None
        for i, mine in enumerate(found):
            sums[i] += float((mine[:, heads].double() - exact).square().sum())
        sums[-1] += float(exact.square().sum())
    return [(one / sums[-1]) ** 0.5 for one in sums[:-1]]


def rivals(shape: Shape, tensors: list[Any]) -> dict[str, Callable[[], Any]]:
    from torch.nn.attention.varlen import varlen_attn

    q, k, v, offsets = tensors
    longest, bounds = max(shape.lengths()), list(pairwise(offsets.tolist()))
    grouped = shape.heads != shape.shared
    found: dict[str, Callable[[], Any]] = {}

    def packed() -> Any:
        return torch.ops.aten._flash_attention_forward(
            q, k, v, offsets, offsets, longest, longest, 0.0, shape.right == 0, False, window_size_left=shape.left, window_size_right=shape.right
        )[0]

    def wrapped() -> Any:
        return varlen_attn(q, k, v, offsets, offsets, longest, longest, window_size=(shape.left, shape.right), enable_gqa=grouped)

    def one_by_one() -> Any:
        heads = [[t[a:b].transpose(0, 1)[None] for t in (q, k, v)] for a, b in bounds]
        return [torch.nn.functional.scaled_dot_product_attention(*each, is_causal=shape.right == 0, enable_gqa=grouped) for each in heads]

    # The operator that varlen_attn ends in, for a PyTorch whose wrapper takes other arguments.
    all_ = {"varlen_attn": wrapped, "flash": packed} | ({"one by one": one_by_one} if shape.left < 0 else {})
    for name, run in all_.items():
        try:
            run()
            torch.cuda.synchronize()
            found[name] = run
        except (RuntimeError, TypeError, ValueError) as error:
            print(f"{name}: {str(error).splitlines()[0][:120]}")
    return found


def row_of(subject: Subject, shape: Shape, case: dict[str, Any], compiled: dict[str, Any]) -> dict[str, Any]:
    lengths, generator = shape.lengths(), torch.Generator("cuda").manual_seed(7)
    tokens = sum(lengths)
    sizes = [(tokens, heads, shape.features) for heads in (shape.heads, shape.shared, shape.shared)]
    tensors = [torch.randn(size, device="cuda", generator=generator).bfloat16() for size in sizes]
    tensors.append(torch.tensor([0, *lengths], device="cuda").cumsum(0, dtype=torch.int32))
    inputs = [tensors[declared["value"]] for declared in case["inputs"]]
    out = torch.empty_like(tensors[0])
    runs: dict[str, Callable[[], Any]] = {}
    keep, steady, worst = [], True, 0.0
    for variant in case["variants"]:
        run, scratch = launched(subject, variant, compiled, inputs, out)
        keep.append(scratch)
        answers = []
        for _ in range(2):
            out.fill_(float("nan"))
            run()
            torch.cuda.synchronize()
            answers.append(out.clone())
        steady &= torch.equal(*answers)
        worst = max(worst, errors(shape, tensors, answers[:1])[0])
        runs[variant["genome"]] = run
    theirs = rivals(shape, tensors)
    eager = next((theirs[name]() for name in ("varlen_attn", "flash") if name in theirs), None)
    row: dict[str, Any] = asdict(shape) | {"tokens": tokens, "steady": steady, "worst_error": worst}
    row["eager_error"] = None if eager is None else errors(shape, tensors, [eager])[0]
    row["flops"] = 4 * shape.heads * shape.features * shape.pairs()
    row["ms"] = in_turn(runs | theirs)
    row["best"] = min(runs, key=lambda name: row["ms"][name])
    row["first"] = next(iter(runs))
    rival = next((name for name in ("varlen_attn", "flash") if name in theirs), None)
    row["ratio"] = None if rival is None else row["ms"][rival] / row["ms"][row["best"]]
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", type=Path, default=ROOT / "build" / "bin" / "planish-contraction-dump")
    parser.add_argument("--out", type=Path, default=Path("varlen-rows.json"))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--max-seconds", type=float, default=240.0)
    args = parser.parse_args()
    command = [str(args.dump), "--seeds", str(args.seeds)]
    for shape in SHAPES:
        command += ["--packed", shape.option()]
    cases = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    compiled = compile_all(cases)
    if not torch.cuda.is_available():
        print(f"{len(compiled)} sources, {sum(not cubin for cubin, _, _ in compiled.values())} of which do not compile; no GPU to run them on")
        return 3
    subject, rows, begun, wrong = Subject(), [], time.monotonic(), False
    facts = {"device": subject.device, "torch": torch.__version__, "cuda": torch.version.cuda}
    for shape, case in zip(SHAPES, cases, strict=True):
        if time.monotonic() - begun > args.max_seconds:
            print("no time left")
            break
        row = row_of(subject, shape, case, compiled)
        rows.append(row)
        torch.cuda.empty_cache()
        bad = not row["steady"] or not row["worst_error"] < max(4e-3, 2 * (row["eager_error"] or 0))
        wrong |= bad
        rates = {
            name: f"{row['flops'] / ms / 1e9:.0f}"
            for name, ms in row["ms"].items()
            if name in (row["best"], row["first"], "varlen_attn", "flash", "one by one")
        }
        print(f"{'WRONG ' if bad else ''}{shape.name} ({row['tokens']} tokens): TFLOP/s {rates}, {row['ratio'] and round(row['ratio'], 2)} times varlen_attn; "
              f"errors {row['worst_error']:.2e}, eager's {row['eager_error'] or 0:.2e}; same bits twice: {row['steady']}", flush=True)  # fmt: skip
        args.out.write_text(json.dumps(facts | {"rows": rows}, indent=1))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
