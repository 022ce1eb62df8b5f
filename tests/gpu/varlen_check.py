"""Attention over packed sequences: what a search finds is proved, on drawn offsets with sequences of no tokens among them, and is a kernel of ours.

python tests/gpu/varlen_check.py [--budget 4s] [--only causal]      exits 1 if a proof fails, 3 without a GPU or a PyTorch that has varlen_attn
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE / "python"), str(HERE / "tests" / "gpu")]

import torch  # noqa: E402
from searched import searched  # noqa: E402

TASK = """import torch
import torch.nn.functional as F
from torch import nn

LENGTHS, KEYS = {lengths}, {keys}

def offsets(lengths):
    return torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32)

class Model(nn.Module):
    def forward(self, q, k, v, of_queries, of_keys):
        return torch.ops.aten._flash_attention_forward(
            q, k, v, of_queries, of_keys, max(LENGTHS), max(KEYS), 0.0, {causal}, False, window_size_left={left}, window_size_right={right}
        )[0]

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        width, shared = {heads} * {features}, {shared} * {features}
        self.norm = nn.RMSNorm(width, dtype=torch.{dtype})
        self.qkv = nn.Linear(width, width + 2 * shared, bias=False, dtype=torch.{dtype})
        self.out = nn.Linear(width, width, bias=False, dtype=torch.{dtype})

    def forward(self, x, of_queries):
        from torch.nn.attention.varlen import varlen_attn

        width, shared = {heads} * {features}, {shared} * {features}
        q, k, v = (t.view(t.shape[0], -1, {features}) for t in self.qkv(self.norm(x)).split((width, shared, shared), -1))
        y = varlen_attn(q, k, v, of_queries, of_queries, max(LENGTHS), max(LENGTHS){more})
        return x + self.out(y.flatten(1))

def get_inputs():
    if {layer}:
        return [torch.randn(sum(LENGTHS), {heads} * {features}, dtype=torch.{dtype}), offsets(LENGTHS)]
    sizes = (sum(LENGTHS), {heads}), (sum(KEYS), {shared}), (sum(KEYS), {shared})
    return [*(torch.randn(n, heads, {features}, dtype=torch.{dtype}) for n, heads in sizes), offsets(LENGTHS), offsets(KEYS)]

if {layer}:
    Model = Layer

def get_init_inputs():
    return []
"""


@dataclass(frozen=True)
class Kind:
    name: str
    dtype: str
    lengths: tuple[int, ...]
    keys: tuple[int, ...] = ()
    heads: int = 4
    shared: int = 4
    features: int = 64
    causal: bool = False
    left: int | None = None
    right: int | None = None
    layer: bool = False


MANY = tuple(37 * n % 301 for n in range(40))  # some of them of few tokens, one of none
KINDS = [
    Kind("whole", "bfloat16", (300, 0, 17, 700, 1)),
    Kind("causal, grouped", "float16", (300, 130, 17, 700), heads=8, shared=2, features=128, causal=True),
    Kind("more keys than queries, causal", "bfloat16", (100, 1, 64, 0, 9), (400, 300, 64, 50, 0), features=128, causal=True),
    Kind("more queries than keys, causal", "bfloat16", (400, 64, 30), (100, 64, 0), causal=True),
    Kind("a window", "bfloat16", (900, 40, 333), features=128, left=100, right=0),
    Kind("a window on both sides", "float16", (500, 129), (400, 600), left=33, right=20),
    Kind("many sequences", "bfloat16", MANY, heads=2, shared=1, causal=True),
    Kind("a layer", "bfloat16", (1000, 24, 0, 511, 513), heads=16, shared=4, features=64, layer=True),
]


def takes_groups() -> bool:
    """Whether varlen_attn is told of heads that share keys: before 2.12 it found that by itself."""
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in inspect.signature(varlen_attn).parameters


def task(kind: Kind) -> str:
    more = (", window_size=(-1, 0)" if kind.causal else "") + (", enable_gqa=True" if kind.heads != kind.shared and takes_groups() else "")
    return TASK.format(
        lengths=kind.lengths, keys=kind.keys or kind.lengths, causal=kind.causal, left=kind.left, right=kind.right, heads=kind.heads, shared=kind.shared,
        features=kind.features, dtype=kind.dtype, more=more, layer=kind.layer,
    )  # fmt: skip


def proof(folder: Path, kind: Kind, budget: str) -> tuple[str, str]:
    """Why it is not proved; empty where it is. And what was measured."""
    name = kind.name.replace(" ", "-").replace(",", "")
    found, why = searched(folder, task(kind), "labels", name, "--target", "cuda", "--budget", budget, "--baselines", "eager")
    if why:
        return why, ""
    regions = [region for region in found["regions"] if "flash_attention" in region["summary"]]
    if not any(region.get("best_ms") for region in regions):
        return "no kernel of ours computes it", ""
    best = min((region for region in regions if region.get("best_ms")), key=lambda region: region["best_ms"])
    return "", f"{best['best_ms'] * 1e3:.1f} us, PyTorch's operator {best['fallback_ms'] * 1e3:.1f} us; {best['genome']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="4s")
    parser.add_argument("--only", default="", help="cases whose name holds this: 'causal'")
    options = parser.parse_args()
    if importlib.util.find_spec("torch.nn.attention.varlen") is None:
        print("error: this PyTorch has no varlen_attn", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("error: no CUDA device that torch can use", file=sys.stderr)
        return 3
    failed = 0
    with tempfile.TemporaryDirectory(prefix="planish-varlen-") as folder:
        for kind in KINDS:
            if options.only not in kind.name:
                continue
            why, measured = proof(Path(folder), kind, options.budget)
            print(f"{'FAIL' if why else 'ok  '} {kind.name}: {why or measured}", flush=True)
            failed += bool(why)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
