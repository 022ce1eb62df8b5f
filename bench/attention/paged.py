"""Times attention of many queries over pages of keys and values beside PyTorch on one GPU:

    python3 bench/attention/paged.py [--dump build/bin/planish-contraction-dump] [--out ROWS.json] [--seeds 8] [--max-seconds 240]

Each sequence has new queries behind as many cached keys as a seed draws; its keys and values, cached and new, lie in pages in no order that a table names
(chunked prefill). Every first guess of the emitter is checked against fp64 (two heads of each that shares keys first and last), run twice for the same
bits, and timed in turn with an indexed read of the pages before `scaled_dot_product_attention`, with `flex_attention` whose mask knows the lengths of what
was read so, and with `varlen_attn` over the same pages where this PyTorch has that; a row holds the median of each, the operations that count and the errors.
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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "contraction"), str(ROOT / "python"), str(Path(__file__).resolve().parent)]

import torch  # noqa: E402
from beside import in_turn  # noqa: E402
from check import compile_all  # noqa: E402
from launched import launched  # noqa: E402
from subject import Subject  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402


@dataclass(frozen=True)
class Shape:
    name: str
    batch: int
    queries: int
    context: int
    heads: int = 32
    shared: int = 8
    features: int = 128
    page: int = 16
    by_place: bool = True
    equal: bool = False  # as many cached keys in each
    packed: bool = False  # as varlen_attn has it: queries one sequence after the other, and how many keys each has
    seed: int = 1

    def lengths(self) -> list[int]:
        """Of the cached keys."""
        draw = random.Random(self.seed)
        return [self.context if self.equal else draw.randint(self.context // 4, self.context) for _ in range(self.batch)]

    def pages(self) -> int:
        return -(-(self.context + self.queries) // self.page)

    def pool(self) -> int:
        return self.batch * self.pages() + 3

    def option(self) -> list[str]:
        if self.packed:
            most = self.pages() * self.page
            return ["--packed", f"{self.batch} {self.batch * self.queries} {self.heads} {self.shared} {self.features} -1 0 {self.page} {most}"]
        text = f"{self.batch} {self.queries} {self.context} {self.heads} {self.shared} {self.features} {self.page} {int(self.by_place)}"
        return ["--paged", text]

    def pairs(self) -> int:
        """Of a query and a key that it sees, of all sequences."""
        return sum(self.queries * n + self.queries * (self.queries + 1) // 2 for n in self.lengths())


SHAPES = [
    Shape("2 of 256 behind 1000, pages of 16", 2, 256, 1000, equal=True),
    Shape("2 of 256 behind 1000, pages of 64", 2, 256, 1000, page=64, equal=True),
    Shape("8 of 512 behind up to 4096, pages of 16", 8, 512, 4096),
    Shape("8 of 512 behind up to 4096, pages of 64", 8, 512, 4096, page=64),
    Shape("8 of 512 behind up to 4096, pages of 256", 8, 512, 4096, page=256),
    Shape("8 of 512 behind up to 4096, pages of 16, heads first", 8, 512, 4096, by_place=False),
    Shape("8 of 512 behind up to 4096, pages of 64, heads first", 8, 512, 4096, page=64, by_place=False),
    Shape("1 of 2048 behind 30720, pages of 16", 1, 2048, 30720, equal=True),
    Shape("1 of 2048 behind 30720, pages of 128", 1, 2048, 30720, page=128, equal=True),
    Shape("16 of 128 behind up to 8192, pages of 32", 16, 128, 8192, page=32),
    Shape("8 of 512 behind up to 4096, pages of 16, 16 heads of 64", 8, 512, 4096, heads=16, shared=16, features=64),
    Shape("8 of 512 behind up to 4096, packed, pages of 16", 8, 512, 4096, packed=True),
    Shape("8 of 512 behind up to 4096, packed, pages of 256", 8, 512, 4096, page=256, packed=True),
    Shape("64 of 64 behind up to 2048, packed, pages of 16", 64, 64, 2048, packed=True),
]


@dataclass
class Drawn:
    """Inputs, with what they are read as."""

    shape: Shape
    q: torch.Tensor  # [batch, heads, queries, features], as a projection leaves them
    caches: list[torch.Tensor]
    table: torch.Tensor
    lengths: torch.Tensor

    def gathered(self) -> list[torch.Tensor]:
        s, table = self.shape, self.table.long()
        if s.by_place:
            return [c[table].view(s.batch, -1, s.shared, s.features).transpose(1, 2) for c in self.caches]
        return [c[table].permute(0, 2, 1, 3, 4).reshape(s.batch, s.shared, -1, s.features) for c in self.caches]

    def packed(self) -> list[torch.Tensor]:
        """Queries, where each sequence's begin, and how many keys each has."""
        s = self.shape
        offsets = torch.arange(s.batch + 1, device="cuda", dtype=torch.int32) * s.queries
        return [self.q.transpose(1, 2).reshape(-1, s.heads, s.features), offsets, (self.lengths.flatten() + s.queries).int()]

    def mask(self) -> torch.Tensor:
        rows, keys = torch.arange(self.shape.queries, device="cuda"), torch.arange(self.shape.pages() * self.shape.page, device="cuda")
        return keys <= self.lengths + rows[:, None]


def drawn(s: Shape) -> Drawn:
    generator = torch.Generator("cuda").manual_seed(7)
    one = (s.page, s.shared, s.features) if s.by_place else (s.shared, s.page, s.features)
    q = torch.randn(s.batch, s.queries, s.heads, s.features, device="cuda", generator=generator).bfloat16().transpose(1, 2)
    caches = [torch.randn(s.pool(), *one, device="cuda", generator=generator).bfloat16() for _ in range(2)]
    table = torch.randperm(s.pool(), device="cuda", generator=generator)[: s.batch * s.pages()].int().view(s.batch, s.pages())
    lengths = torch.tensor(s.lengths(), device="cuda").view(-1, 1, 1, 1)
    return Drawn(s, q, caches, table, lengths)


def errors(x: Drawn, found: list[Any]) -> list[float]:
    """Relative to fp64, of the first and the last head of each sequence."""
    s, mask, sums = x.shape, x.mask(), [0.0] * (len(found) + 1)
    k, v = x.gathered()
    for head in {0, s.heads - 1}:
        shared = head // (s.heads // s.shared)
        for b in range(s.batch):
            scores = x.q[b, head].double() @ k[b, shared].double().T / s.features**0.5
            exact = torch.softmax(scores.masked_fill(~mask[b, 0], -float("inf")), -1) @ v[b, shared].double()
            for i, mine in enumerate(found):
                sums[i] += float((mine[b, head].double() - exact).square().sum())
            sums[-1] += float(exact.square().sum())
    return [(one / sums[-1]) ** 0.5 for one in sums[:-1]]


def rivals(x: Drawn) -> dict[str, Callable[[], Any]]:
    s, grouped = x.shape, x.shape.heads != x.shape.shared
    mask = x.mask()

    def sdpa() -> Any:
        k, v = x.gathered()
        return scaled_dot_product_attention(x.q, k, v, attn_mask=mask, enable_gqa=grouped)

    def expanded() -> Any:
        k, v = (t.repeat_interleave(s.heads // s.shared, 1) for t in x.gathered())
        return scaled_dot_product_attention(x.q, k, v, attn_mask=mask)

    def flex() -> Callable[[], Any]:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        compiled, offsets = torch.compile(flex_attention, dynamic=False), x.lengths.flatten()
        block = create_block_mask(lambda b, h, i, j: j <= i + offsets[b], s.batch, None, s.queries, mask.shape[-1], device="cuda")

        def run() -> Any:
            k, v = x.gathered()
            return compiled(x.q, k, v, block_mask=block, enable_gqa=grouped)

        return run

    def varlen() -> Callable[[], Any]:
        from torch.nn.attention.varlen import varlen_attn

        (packed, offsets, used), (keys, values) = x.packed(), x.caches
        options: dict[str, Any] = {"window_size": (-1, 0), "enable_gqa": grouped, "seqused_k": used, "block_table": x.table}
        # The operator asks for offsets of keys, too, and does not read them where a table says where keys lie.
        bounds = torch.cat([used.new_zeros(1), used.cumsum(0, dtype=torch.int32)])

        def run() -> Any:
            return (
                varlen_attn(packed, keys, values, offsets, bounds, s.queries, int(mask.shape[-1]), **options).view(*x.q.transpose(1, 2).shape).transpose(1, 2)
            )

        return run

    makers: dict[str, Callable[[], Callable[[], Any]]] = {"sdpa": lambda: sdpa, "expanded": lambda: expanded, "flex": flex}
    found: dict[str, Callable[[], Any]] = {}
    for name, make in (makers | ({"varlen_attn": varlen} if s.by_place else {})).items():
        try:
            run = make()
            run()
            torch.cuda.synchronize()
            found[name] = run
        except Exception as error:  # a rival that does not run is none
            print(f"{name}: {(str(error) or type(error).__name__).splitlines()[0][:120]}")
    return found


def row_of(subject: Subject, shape: Shape, case: dict[str, Any], compiled: dict[str, Any]) -> dict[str, Any]:
    x = drawn(shape)
    # The graph's values, in the order of their making.
    order = sorted(declared["value"] for declared in case["inputs"])
    packed, offsets, used = x.packed()
    tensors = [packed, *x.caches, offsets, used, x.table] if shape.packed else [x.q, x.table, *x.caches, x.lengths]
    values = dict(zip(order, tensors, strict=True))
    inputs = [values[declared["value"]] for declared in case["inputs"]]
    out = torch.empty(shape.batch, shape.queries, shape.heads, shape.features, device="cuda", dtype=torch.bfloat16)
    result = out.transpose(1, 2)
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
            answers.append(result.clone())
        steady &= torch.equal(*answers)
        worst = max(worst, errors(x, answers[:1])[0])
        runs[variant["genome"]] = run
    # A page that there is not: the first sequence's queries have no numbers, and all others do.
    kept = int(x.table[0, 0])
    x.table[0, 0] = shape.pool()
    run()
    torch.cuda.synchronize()
    lost = bool(result[0].isnan().all()) and not bool(result[1:].isnan().any())
    x.table[0, 0] = kept
    theirs = rivals(x)
    row: dict[str, Any] = asdict(shape) | {"steady": steady, "worst_error": worst, "page_that_is_none": lost}
    row["eager_error"] = errors(x, [theirs["sdpa"]()])[0] if "sdpa" in theirs else None
    row["flops"] = 4 * shape.heads * shape.features * shape.pairs()
    row["ms"] = in_turn(runs | theirs)
    row["best"] = min(runs, key=lambda name: row["ms"][name])
    row["first"] = next(iter(runs))
    rival = min(theirs, key=lambda name: row["ms"][name], default=None)
    row["ratio"] = None if rival is None else row["ms"][rival] / row["ms"][row["first"]]
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", type=Path, default=ROOT / "build" / "bin" / "planish-contraction-dump")
    parser.add_argument("--out", type=Path, default=Path("paged-rows.json"))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--max-seconds", type=float, default=240.0)
    args = parser.parse_args()
    command = [str(args.dump), "--seeds", str(args.seeds)]
    for shape in SHAPES:
        command += shape.option()
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
        bad = not row["steady"] or not row["page_that_is_none"] or not row["worst_error"] < max(4e-3, 2 * (row["eager_error"] or 0))
        wrong |= bad
        named = {row["best"], row["first"], "sdpa", "expanded", "flex", "varlen_attn"}
        times = {name: f"{ms * 1e3:.1f} us, {row['flops'] / ms / 1e9:.0f} TFLOP/s" for name, ms in row["ms"].items() if name in named}
        print(f"{'WRONG ' if bad else ''}{shape.name}: {times}, the first guess {row['ratio'] and round(row['ratio'], 2)} times the best of them; "
              f"errors {row['worst_error']:.2e}, eager's {row['eager_error'] or 0:.2e}; "
              f"same bits twice: {row['steady']}; a page that is none: {row['page_that_is_none']}", flush=True)  # fmt: skip
        args.out.write_text(json.dumps(facts | {"rows": rows}, indent=1))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
