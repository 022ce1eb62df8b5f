"""Attention of one token over caches as serving keeps them, whole modules, beside eager: python3 bench/decode_attention/caches.py [--out ROWS] [SHAPE …].

Pages of a pool that a table names, codes of 8 bits with scales of a head or a key, sequences of different lengths: each is a plain PyTorch module,
captured, cut once and built with the first guess of every kernel's schedule, no search; `--genes 'split=1' …` gives more rows, with these genes in place
of the guess's. Its result is held to float64 beside eager's; both are timed in turn, calls over copies of the caches that no cache holds together, as one
CUDA graph. A row is a line of JSON; rates are of the bytes of the keys, values and scales that count, against 4.37 TB/s. `--cut` needs no GPU: it prints
the kernels of each program.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from first_guess import cut_of, executor_of, program_of, times_in_turn  # noqa: E402

RATE = 4.37e12


@dataclass(frozen=True)
class Shape:
    name: str
    batch: int
    keys: int  # places of a sequence's pages
    page: int = 16
    kv_heads: int = 8
    group: int = 4
    head: int = 128
    stored: str = "bfloat16"  # of both caches
    scale: str = "none"  # none | head | key
    by_place: bool = True  # a page is [place, head, feature]
    ragged: bool = True  # sequences have an eighth of the keys to all of them, else all do


SHAPES = [
    Shape("b1 2k", 1, 2048, ragged=False),
    Shape("b1 32k", 1, 32768, ragged=False),
    Shape("b8 4k", 8, 4096),
    Shape("b32 2k", 32, 2048, ragged=False),
    Shape("b32 2k ragged", 32, 2048),
    Shape("b64 4k ragged", 64, 4096),
    Shape("b32 2k rows", 32, 2048, page=1),
    Shape("b32 2k pages of 64, by head", 32, 2048, page=64, by_place=False),
    Shape("b32 2k e4m3, scale of a head", 32, 2048, stored="float8_e4m3fn", scale="head"),
    Shape("b64 4k e4m3, scale of a key", 64, 4096, stored="float8_e4m3fn", scale="key"),
    Shape("b32 2k int8, scale of a key", 32, 2048, stored="int8", scale="key"),
    Shape("b1 32k e4m3, scale of a head", 1, 32768, stored="float8_e4m3fn", scale="head", ragged=False),
]


class Paged(nn.Module):
    """softmax(q · kᵀ / √d) · v of the keys before each sequence's length. q: [batch, heads, 1, d] bf16; pools of pages; table: [batch, pages]."""

    def __init__(self, by_place: bool) -> None:
        super().__init__()
        self.by_place = by_place

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, ks: Any = None, vs: Any = None
    ) -> torch.Tensor:
        keys, values = (self.rows(pool, table, q.dtype, scale) for pool, scale in ((k, ks), (v, vs)))
        mask = torch.arange(keys.shape[2], device=q.device) < lengths[:, None, None, None]
        return functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)

    def rows(self, pool: torch.Tensor, table: torch.Tensor, dtype: torch.dtype, scale: torch.Tensor | None) -> torch.Tensor:
        taken = self.in_order(pool[table])
        if scale is None:
            return taken.to(dtype)
        factor = self.in_order(scale[table]) if scale.shape[0] == pool.shape[0] else scale
        return (taken.float() * factor).to(dtype)

    def in_order(self, taken: torch.Tensor) -> torch.Tensor:
        if self.by_place:
            return taken.flatten(1, 2).transpose(1, 2)
        return taken.transpose(1, 2).flatten(2, 3)


def inputs(s: Shape, device: str) -> dict[str, torch.Tensor]:
    stored = getattr(torch, s.stored)
    of_sequence = s.keys // s.page
    pool = s.batch * of_sequence + 8

    def page(last: int) -> tuple[int, ...]:
        return (pool, s.page, s.kv_heads, last) if s.by_place else (pool, s.kv_heads, s.page, last)

    def cache() -> torch.Tensor:
        if s.stored == "int8":
            return torch.randint(-127, 128, page(s.head), device=device, dtype=stored)
        return torch.randn(page(s.head), device=device).to(stored)

    call = {"q": torch.randn(s.batch, s.kv_heads * s.group, 1, s.head, device=device, dtype=torch.bfloat16), "k": cache(), "v": cache()}
    call["table"] = torch.randperm(pool, device=device)[: s.batch * of_sequence].view(s.batch, of_sequence).int()
    lengths = torch.full((s.batch,), s.keys, device=device)
    if s.ragged:
        lengths = torch.linspace(s.keys / 8, s.keys, s.batch, device=device).long()
    call["lengths"] = lengths
    for name in ("ks", "vs"):
        size = 1 / 64 if s.stored == "int8" else 1.0
        if s.scale == "head":
            call[name] = size * (0.5 + torch.rand(1, s.kv_heads, 1, 1, device=device))
        elif s.scale == "key":
            call[name] = size * (0.5 + torch.rand(page(1), device=device))
    return call


def counted_bytes(s: Shape, call: dict[str, torch.Tensor]) -> int:
    """Of keys and values before the lengths, and their scales."""
    each = 2 * s.head * call["k"].element_size() + (8 if s.scale == "key" else 0)
    return int(call["lengths"].sum()) * s.kv_heads * each


def exact(s: Shape, call: dict[str, torch.Tensor]) -> torch.Tensor:
    """In float64, a sequence at a time."""
    model = Paged(s.by_place)
    out = []
    for b in range(s.batch):
        n = int(call["lengths"][b])
        keys, values = (
            model.rows(call[name], call["table"][b : b + 1], torch.float64, call.get(name + "s"))[:, :, :n].double().repeat_interleave(s.group, 1)
            for name in ("k", "v")
        )
        scores = call["q"][b : b + 1].double() @ keys.transpose(2, 3) / s.head**0.5
        out.append(scores.softmax(-1) @ values)
    return torch.cat(out)


def cut(s: Shape, folder: Path) -> list[str]:
    """What the program's steps are; leaves its kernels' sources in the folder."""
    task = folder / "task.py"
    task.write_text("")
    program, _ = cut_of(task, Paged(s.by_place), ((), inputs(s, "cpu")), folder, 132)
    for i, kernel in enumerate(program["kernels"]):
        (folder / f"k{i}.cu").write_text(kernel["source"])
    return [step.get("op") or f"kernel {step['kernel']}" for step in program["steps"]]


class Subject:
    """A shape's model and exact result, and calls on copies of its caches."""

    def __init__(self, s: Shape) -> None:
        self.shape, self.model = s, Paged(s.by_place).cuda()
        self.call = inputs(s, "cuda")
        self.want = exact(s, self.call)
        self.bytes = counted_bytes(s, self.call)
        caches = sum(t.nbytes for name, t in self.call.items() if name not in ("q", "table", "lengths"))
        self.copies = [{name: t.clone() for name, t in self.call.items()} for _ in range(max(2, min(64, int(400e6 // caches) + 1)))]

    def error(self, found: torch.Tensor) -> float:
        return ((found.double() - self.want).norm() / self.want.norm()).item()

    def graph(self, call: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[], None]:
        for copy in self.copies[:2]:
            call(copy)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for copy in self.copies:
                call(copy)
        return graph.replay

    def rows(self, genes: list[str]) -> Iterator[dict[str, Any]]:
        forms, error, genomes = {"eager": self.graph(lambda copy: self.model(**copy))}, {"eager": self.error(self.model(**self.call))}, {}
        steps = 0
        kept = []
        for text in ["", *genes]:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                task = folder / "task.py"
                task.write_text("")
                program, cubins, blobs = program_of(task, self.model, ((), self.call), folder, genes=text)
                steps, genomes[text] = len(program["steps"]), program["genomes"][0]
                executor, given = executor_of(program, cubins, blobs, self.model, tuple(self.call.values()))
            error[text] = self.error(executor.run(given)[0])
            places = [b.index for b in executor.bindings]
            forms[text] = self.graph(lambda copy, run=executor.run, places=places: run([tuple(copy.values())[i] for i in places]))
            kept.append(executor)
        times = {name: ms / len(self.copies) for name, ms in times_in_turn(forms, seconds=0.05).items()}
        for text in ["", *genes]:
            us = {"planish": round(times[text] * 1e3, 2), "eager": round(times["eager"] * 1e3, 2)}
            yield {
                **asdict(self.shape), "steps": steps, "genome": genomes[text], "us": us,
                "rate": round(self.bytes / times[text] * 1e3 / RATE, 3), "times_eager": round(times["eager"] / times[text], 2),
                "error": {"planish": error[text], "eager": error["eager"]}, "device": torch.cuda.get_device_name(), "torch": torch.__version__,
            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--genes", action="append", default=[], help="a further row a shape: 'threads=128 split=0'")
    parser.add_argument("--out", type=Path, help="appends a row a shape")
    parser.add_argument("--cut", type=Path, help="prints each program's steps, and leaves the kernels' sources in a folder there")
    args = parser.parse_args()
    for i, shape in enumerate(SHAPES):
        if args.shapes and shape.name not in args.shapes:
            continue
        if args.cut:
            folder = args.cut / str(i)
            folder.mkdir(parents=True)
            print(shape.name, cut(shape, folder))
            continue
        for row in Subject(shape).rows(args.genes):
            print(json.dumps(row), flush=True)
            if args.out:
                with args.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
