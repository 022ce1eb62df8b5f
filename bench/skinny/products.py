"""Times skinny products (src/codegen/device/sm90/skinny.cuh) beside PyTorch's, on a GPU with nvcc: programmatic chains of launches
whose weights lie cold, in a graph, and the same of torch.nn.functional.linear.

    python bench/skinny/products.py [--rows 1,2,4,8,16] [--models llama,qwen,small] > rows.jsonl

One JSON object a line: shape, rows, configuration, microseconds a launch, bytes of weights a second, error against float64.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEVICE = HERE.parents[1] / "src" / "codegen" / "device"
RATE = 4370  # GB/s that an H200 reads at (docs/results/skinny.md)

# n, k, parts (gate and up are two), whether a norm comes before
SHAPES = {
    "llama": {"qkv": (6144, 4096, 1, 1), "out": (4096, 4096, 1, 0), "gate_up": (14336, 4096, 2, 1), "down": (4096, 14336, 1, 0), "head": (128256, 4096, 1, 1)},
    "qwen": {"qkv": (4608, 3584, 1, 1), "out": (3584, 3584, 1, 0), "gate_up": (18944, 3584, 2, 1), "down": (3584, 18944, 1, 0)},
    "small": {"qkv": (3072, 2048, 1, 1), "out": (2048, 2048, 1, 0), "gate_up": (8192, 2048, 2, 1), "down": (2048, 8192, 1, 0)},
}  # fmt: skip


# Numbers that products.cu has forms by, and the bits of a weight.
FORMS = {"bf16": (0, 16), "int8": (1, 8), "e4m3": (2, 8), "int4": (3, 4)}


def configurations_of_codes(n: int, k: int, parts: int, m: int, bits: int) -> list[tuple[int, ...]]:
    """The same for weights in codes, two blocks a multiprocessor: passes of one to four tiles, eight and sixteen warps, and as many stages as fit, or four."""
    out = []
    rows = -(-n // 132)
    for tiles in (1, 2, 3, 4):
        for warps in (16, 8):
            groups = tiles * parts
            if groups > 8 or rows <= 16 * (tiles - 1):
                continue
            run = 512 // bits
            steps, passes = -(-k // (run * warps)), -(-rows // (16 * tiles))
            x = m * ((-(-k // run) * run * 2 + 127) // 128 * 128 + 64)
            sums = warps * 16 * groups * m * 4 * (2 if m <= 8 else 1)
            table = parts * passes * tiles * 16 * ((steps * warps + 31) // 32 * 32 + 4) * 4 if bits == 4 else 0
            most = min(((113 << 10) - 512 - x - sums - table) // (1024 * groups * warps), max(2, passes * steps), 12)
            if most > 1 or (most == 1 and steps * passes == 1):
                out += [(tiles, warps, stages, 132, 2, 1, 1) for stages in sorted({most, min(most, 4)})]
    return out


def configurations(k: int, parts: int, m: int) -> list[tuple[int, ...]]:
    """tiles, warps, stages, blocks, resident, ring in shared memory, x kept: what the template's seeds begin with."""
    x = m * (k * 2 + 192)
    out = []
    for resident, tiles in ((2, 1), (1, 1), (1, 2)):
        stage = 16384 * parts * tiles
        sums = 16 * 16 * parts * tiles * m * 4 * (2 if m <= 8 else 1)
        room = (113 << 10 if resident == 2 else 220 << 10) - sums
        kept = x + 2 * stage <= room and tiles == 1
        stages = min(10 // (parts * tiles), (room - (x if kept else 0)) // stage)
        if stages >= 2:
            out.append((tiles, 16, stages, 132, resident, 1, int(kept)))
    if x + 65536 < 110 << 10 and parts == 1:
        out.append((1, 16, 4, 264, 2, 1, 1))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1,2,4,8,16")
    parser.add_argument("--models", default="llama,qwen,small")
    parser.add_argument("--forms", type=lambda text: text.split(","), default=["bf16"], help=", ".join(FORMS))
    parser.add_argument("--plain", action="store_true", help="launches that wait in full, as well")
    options = parser.parse_args()
    cases = ""
    for model in options.models.split(","):
        for name, (n, k, parts, norm) in SHAPES[model].items():
            for m, form in itertools.product(map(int, options.rows.split(",")), options.forms):
                number, bits = FORMS[form]
                for one in configurations(k, parts, m) if bits == 16 else configurations_of_codes(n, k, parts, m, bits):
                    for chained in (1, 0) if options.plain else (1,):
                        arguments = ", ".join(map(str, (n, k, m, parts, norm, *one, chained, number)))
                        cases += f'test<P<{arguments}>>("{model} {name}");\n'
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cases.h").write_text(cases)
        command = [
            "nvcc",
            "-std=c++17",
            "-O3",
            "-gencode=arch=compute_90a,code=sm_90a",
            f"-I{DEVICE}",
            f"-I{folder}",
            str(HERE / "products.cu"),
            "-o",
            f"{folder}/products",
        ]
        subprocess.run(command, check=True)
        subprocess.run([f"{folder}/products"], check=True)
    if "bf16" in options.forms:
        torch_rows(options.models.split(","), [int(m) for m in options.rows.split(",")])


def torch_rows(models: list[str], rows: list[int]) -> None:
    """F.linear in a CUDA graph over weights that lie cold; of two parts, one of them."""
    import torch

    for model in models:
        for name, (n, k, _, _) in SHAPES[model].items():
            copies = max(1, min(24, int(2e9 / (n * k * 2))))
            weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) * 0.02 for _ in range(copies)]
            for m in rows:
                x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
                for w in weights[:3]:
                    torch.nn.functional.linear(x, w)
                torch.cuda.synchronize()
                graph, count = torch.cuda.CUDAGraph(), max(4, copies)
                with torch.cuda.graph(graph):
                    for i in range(count):
                        torch.nn.functional.linear(x, weights[i % copies])
                times = []
                for _ in range(9):
                    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    begin.record()
                    graph.replay()
                    end.record()
                    end.synchronize()
                    times.append(begin.elapsed_time(end))
                us = sorted(times[1:])[4] * 1e3 / count
                rate = n * k * 2 / us / 1e3
                print(
                    json.dumps({"shape": f"{model} {name}", "m": m, "by": f"torch {torch.__version__}", "us": round(us, 2), "share": round(rate / RATE, 3)}),
                    flush=True,
                )


if __name__ == "__main__":
    main()
