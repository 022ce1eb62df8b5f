"""Attention of few queries, the device file alone, beside torch's: python3 bench/decode_attention/measure.py [--out ROWS] [SHAPE …].

Every variant (warps, stages, blocks, split) of `sm90/decode_attention.cuh` is compiled with nvcc, checked against float64 on an output full of NaN,
run twice for the same bits, and timed as the backends of `scaled_dot_product_attention` are: calls over copies of the caches that no cache holds
together, as one CUDA graph, the median of seven. A row is a line of JSON; rates are of the bytes of keys and values, against 4.37 TB/s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from device_file import Cuda, expanded  # noqa: E402

RATE = 4.37e12
MULTIPROCESSORS = 132
MOST_SHARED = 227 * 1024


@dataclass(frozen=True)
class Shape:
    name: str
    batch: int
    kv_heads: int
    group: int
    head: int
    keys: int
    by_place: bool = False  # caches lie as [batch, place, head, feature]
    mask: str = "none"  # none | bool | length


SHAPES = [
    Shape("b1 2k", 1, 8, 4, 128, 2048),
    Shape("b1 2k bool", 1, 8, 4, 128, 2048, mask="bool"),
    Shape("b1 2k length", 1, 8, 4, 128, 2048, mask="length"),
    Shape("b1 8k", 1, 8, 4, 128, 8192),
    Shape("b1 32k", 1, 8, 4, 128, 32768),
    Shape("b1 128k bool", 1, 8, 4, 128, 131072, mask="bool"),
    Shape("b8 2k", 8, 8, 4, 128, 2048),
    Shape("b32 2k bool", 32, 8, 4, 128, 2048, mask="bool"),
    Shape("b64 4k", 64, 8, 4, 128, 4096),
    Shape("b16 8k group 8 bshd", 16, 8, 8, 128, 8192, by_place=True),
    Shape("b4 4k heads 32", 4, 32, 1, 128, 4096),
    Shape("b8 8k head 64", 8, 8, 4, 64, 8192),
    Shape("b1 4k heads 32 head 64", 1, 32, 1, 64, 4096, by_place=True),
    Shape("b1 1", 1, 8, 4, 128, 16),
    Shape("b1 8k 16 rows", 1, 8, 16, 128, 8192),
]


@dataclass(frozen=True)
class Variant:
    warps: int
    stages: int
    blocks: int
    splits: int


POLICY = """
struct P {
  static constexpr int units = %(units)d, rows = %(group)d, features = %(head)d, columns = %(head)d, keys = %(keys)d, ahead = 256;
  static constexpr int warps = %(warps)d, stages = %(stages)d, splits = %(splits)d, tile = 16;
  static constexpr long long key_stride = %(key_stride)d, value_stride = %(key_stride)d;
  static constexpr SkinnyCode key_code = code_none, value_code = code_none;
  static constexpr int key_together = 0, value_together = 0;
  static constexpr bool bf16 = true, computed = false, chained = false, weighs = false;
  struct Args { const u16 *q, *k, *v; const u8* mask; const int* position; u16* out; };
  static PL_DEVICE long long unit_at(int unit) { return unit / %(kv_heads)d * %(batch_stride)dll + unit %% %(kv_heads)d * %(head_stride)dll; }
  static PL_DEVICE int end(const Args& a, int unit) { return %(end)s; }
  static PL_DEVICE const void* key(const Args& a, int unit) { return a.k + unit_at(unit); }
  static PL_DEVICE const void* value(const Args& a, int unit) { return a.v + unit_at(unit); }
  static PL_DEVICE uint4 query(const Args& a, int unit, int row, int f) { return *(const uint4*)(a.q + ((long long)unit * rows + row) * features + f); }
  struct Found {};
  static PL_DEVICE Found found(const Args& a, int unit, int row, int key) { return {}; }
  struct Given { %(given)s };
  static PL_DEVICE Given given(const Found&, const Args& a, int unit, int row, int key) { return {%(load)s}; }
  static PL_DEVICE float score(float x, const Given& given, const Args& a, int unit, int row, int key) { return %(score)s; }
  static PL_DEVICE float shift(const Args&, int, int, float m) { return m == no_score() ? 0.0f : m; }
  static PL_DEVICE float divisor(const Args&, int, int, float m, float t) { return t == 0.0f ? 1.0f : t; }
  static PL_DEVICE void store(const Args& a, int unit, int row, int column, float v) {
    a.out[((long long)unit * rows + row) * columns + column] = (u16)(pack_bf16(v, v) & 0xffff);
  }
};
extern "C" __global__ void __launch_bounds__(%(warps)d * 32, %(blocks)d)
k0(const u16* q, const u16* k, const u16* v, const u8* mask, const int* position, u16* out, float* partial, u32* arrived) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  decode_attention<P>({q, k, v, mask, position, out}, NoneWritten::Args(), partial, arrived, pl_smem);
}
"""
MASKS = {
    "none": {"end": "keys", "given": "", "load": "", "score": "x * %(scale)sf"},
    "bool": {"end": "keys", "given": "u8 m;", "load": "a.mask[(long long)(unit / %(kv_heads)d) * %(keys)dll + key]",
             "score": "given.m ? x * %(scale)sf : no_score()"},
    "length": {"end": "*a.position + 1", "given": "", "load": "", "score": "key <= *a.position ? x * %(scale)sf : no_score()"},
}  # fmt: skip


def source(shape: Shape, variant: Variant) -> str:
    values: dict[str, Any] = asdict(shape) | asdict(variant) | {"scale": repr(shape.head**-0.5), "units": shape.batch * shape.kv_heads}
    size = shape.kv_heads * shape.keys * shape.head
    by_head = {"key_stride": shape.head, "head_stride": shape.keys * shape.head, "batch_stride": size}
    by_place = {"key_stride": shape.kv_heads * shape.head, "head_stride": shape.head, "batch_stride": size}
    values |= by_place if shape.by_place else by_head
    values |= {name: text % values for name, text in MASKS[shape.mask].items()}
    return expanded("sm90/decode_attention.cuh", set()) + POLICY % values


def shared_bytes(shape: Shape, variant: Variant) -> int:
    """As DecodeLayout has it."""
    ring = variant.warps * variant.stages * 16 * (shape.head * 4 + 80)
    row = shape.head + shape.head // 32 * 4 + (8 if shape.head // 32 % 4 == 0 else 0)
    left = (shape.group * row + (2 * shape.group + 3) // 4 * 4) * 4
    return max(ring, variant.warps * left, (shape.group * (variant.splits + 1) + 1) * 4)


def variants(shape: Shape) -> list[Variant]:
    found = []
    units, most = shape.batch * shape.kv_heads, max(1, -(-shape.keys // 32))
    for warps, stages, blocks in ((8, 2, 1), (8, 3, 1), (8, 1, 2), (4, 1, 4), (4, 2, 3), (4, 3, 2), (16, 1, 1)):
        full = MULTIPROCESSORS * blocks
        for splits in sorted({min(max(1, s), most) for s in (full // units, 2 * full // units, -(-full // units))}):
            variant = Variant(warps, stages, blocks, splits)
            if shared_bytes(shape, variant) * blocks <= MOST_SHARED and warps * blocks <= 16:
                found.append(variant)
    return found


def microseconds(calls: list[Callable[[], Any]]) -> float:
    """Of a call, of calls in turn, as one graph."""
    with torch.cuda.stream(torch.cuda.Stream()):
        for call in calls[:3]:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / len(calls))
    return statistics.median(times)


class Subject:
    """One shape with its tensors: caches enough that none is in the L2 cache when it is read again."""

    def __init__(self, shape: Shape) -> None:
        self.shape = s = shape
        self.bytes = 4 * s.batch * s.kv_heads * s.keys * s.head
        copies = max(2, min(64, int(400e6 // self.bytes) + 1))
        sizes = (s.batch, s.keys, s.kv_heads, s.head) if s.by_place else (s.batch, s.kv_heads, s.keys, s.head)

        def random(*extents: int) -> torch.Tensor:
            return torch.randn(extents, device="cuda", dtype=torch.bfloat16)

        self.caches = [(random(*sizes), random(*sizes)) for _ in range(copies)]
        self.q = random(s.batch, s.kv_heads * s.group, 1, s.head)
        seen = s.keys - {"none": 0, "bool": 77, "length": 4}[s.mask]
        self.position = torch.tensor([seen - 1], device="cuda", dtype=torch.int32)
        self.mask = torch.arange(s.keys, device="cuda").expand(s.batch, 1, 1, s.keys).lt(seen).contiguous()
        k, v = (self.seen(t).double() for t in self.caches[0])
        q = self.q.view(s.batch, s.kv_heads, s.group, s.head).double()
        scores = torch.einsum("bhgd,bhsd->bhgs", q, k) * s.head**-0.5
        scores = scores.masked_fill(~self.mask, float("-inf"))
        self.expected = torch.einsum("bhgs,bhsd->bhgd", scores.softmax(-1), v).view(self.q.shape)

    def seen(self, cache: torch.Tensor) -> torch.Tensor:
        return cache.transpose(1, 2) if self.shape.by_place else cache

    def row(self, out: torch.Tensor, call: Callable[[torch.Tensor, torch.Tensor], Any]) -> dict[str, Any]:
        """The error of `out`, and the time of calls on each of the caches."""
        error = (out.double() - self.expected).abs().max().item()
        calls: list[Callable[[], Any]] = [lambda k=k, v=v: call(k, v) for k, v in self.caches]  # type: ignore[misc]
        us = microseconds(calls * max(1, 16 // len(calls)))
        return {"us": round(us, 2), "rate": round(self.bytes / us * 1e6 / RATE, 3), "error": error}

    def rival(self, backend: SDPBackend | None) -> dict[str, Any]:
        mask = None if self.shape.mask == "none" else self.mask

        def call(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return functional.scaled_dot_product_attention(self.q, self.seen(k), self.seen(v), attn_mask=mask, enable_gqa=self.shape.group > 1)

        try:
            if backend is None:
                return self.row(call(*self.caches[0]), call)
            with sdpa_kernel(backend):
                return self.row(call(*self.caches[0]), call)
        except RuntimeError as error:
            return {"refused": str(error).splitlines()[0][:80]}

    def own(self, cuda: Cuda, cubin: Path, variant: Variant) -> dict[str, Any]:
        s, out = self.shape, torch.full_like(self.q, float("nan"))
        shared, blocks = shared_bytes(s, variant), s.batch * s.kv_heads * variant.splits
        function = cuda.function(cubin, shared)
        partial = torch.full((blocks * s.group * (s.head + 2),), float("nan"), device="cuda")
        arrived = torch.zeros(s.batch * s.kv_heads, device="cuda", dtype=torch.int32)

        def call(k: torch.Tensor, v: torch.Tensor) -> None:
            cuda.launch(function, blocks, variant.warps * 32, shared, [self.q, k, v, self.mask, self.position, out, partial, arrived])

        call(*self.caches[0])
        first = out.clone()
        call(*self.caches[0])
        torch.cuda.synchronize()
        return asdict(variant) | {"same_bits": torch.equal(first, out)} | self.row(first, call)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("shapes", nargs="*", help="names; all of them by default")
    parser.add_argument("--out", type=Path, help="rows go here")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    shapes = [s for s in SHAPES if not given.shapes or s.name in given.shapes]
    cuda, rows = Cuda(), []
    with tempfile.TemporaryDirectory() as folder:

        def compiled(item: tuple[int, tuple[Shape, Variant]]) -> Path:
            number, (shape, variant) = item
            text, cubin = Path(folder) / f"{number}.cu", Path(folder) / f"{number}.cubin"
            text.write_text(source(shape, variant))
            subprocess.run(["nvcc", "-arch=sm_90a", "-O3", "-std=c++17", "-cubin", "-o", str(cubin), str(text)], check=True)
            return cubin

        jobs = [(s, v) for s in shapes for v in variants(s)]
        with ThreadPoolExecutor() as pool:
            cubins = dict(zip(jobs, pool.map(compiled, enumerate(jobs)), strict=True))
        for number, shape in enumerate(shapes):
            torch.manual_seed(number)
            subject = Subject(shape)
            row = asdict(shape) | {"bytes": subject.bytes, "device": torch.cuda.get_device_name(), "torch": torch.__version__}
            for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, None):
                row["default" if backend is None else backend.name] = subject.rival(backend)
            found = sorted((subject.own(cuda, cubins[shape, v], v) for v in variants(shape)), key=lambda each: each["us"])
            row["variants"] = found
            rows.append(json.dumps(row))
            print(shape.name, found[0], {k: v for k, v in row.items() if isinstance(v, dict)}, flush=True)
            del subject
            torch.cuda.empty_cache()
    if given.out:
        given.out.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
