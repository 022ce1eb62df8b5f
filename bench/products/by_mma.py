"""Products by mma.sync, `sm80/product.cuh` alone, beside torch's: python3 bench/products/by_mma.py [--out ROWS] [--top N] [--seconds S] [NAME …].

As measure.py does it for the device file of warpgroups, of the same shapes, on whatever GPU from sm_80 on is there: errors of samples against float64,
the same bits twice, nothing written outside; then the fastest two tilings in turn with torch's. A row is a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]
from device_file import Cuda, expanded  # noqa: E402
from measure import RESULTS, Shape, Subject, measure, shapes, up  # noqa: E402


@dataclass(frozen=True)
class MmaTiling:
    tile_rows: int
    tile_columns: int
    tile_depth: int
    warps_rows: int
    warps_columns: int
    stages: int
    resident: int
    splits: int

    @property
    def threads(self) -> int:
        return 32 * self.warps_rows * self.warps_columns


def shared(s: Shape, t: MmaTiling) -> int:
    """As MmaProductLayout has it."""
    a = up(t.tile_rows, 64) * 64 if s.a_across else t.tile_rows
    b = up(t.tile_columns, 64) * 64 if s.b_across else t.tile_columns
    return t.stages * (a + s.parts * b) * t.tile_depth * 2 + 2048 * t.threads // 32 + 16 + 8 * (s.groups + 1) + 128


def tilings(s: Shape, top: int) -> list[MmaTiling]:
    """The least padded first, of those that fit."""
    gpu: Any = torch.cuda.get_device_properties(0)
    found: dict[tuple[int, ...], tuple[float, MmaTiling]] = {}
    for rows, columns, down, across in ((128, 128, 2, 2), (128, 128, 2, 4), (128, 256, 2, 4), (256, 128, 4, 2), (128, 64, 2, 2), (64, 128, 2, 2),
                                        (64, 64, 2, 2), (32, 128, 1, 4), (32, 64, 1, 4), (32, 64, 1, 2)):  # fmt: skip
        for depth in (32, 64):
            for resident in (1, 2, 3):
                tiles = up(s.m, rows) * up(s.n, columns) * s.units + s.groups
                for splits in (1, 2, 3, 4, 6, 8):
                    if splits > 1 and (s.groups or splits * 256 > s.k or tiles * splits > 4 * gpu.multi_processor_count):
                        continue
                    if (
                        rows // down * columns // across * s.parts > 64 * 64
                        or resident * down * across * 32 * (rows // down * columns // across * s.parts // 32 + 60) > 65536
                    ):
                        continue
                    for stages in (6, 5, 4, 3):
                        t = MmaTiling(rows, columns, depth, down, across, stages, resident, splits)
                        if shared(s, t) <= gpu.shared_memory_per_block_optin and resident * (shared(s, t) + 1024) <= gpu.shared_memory_per_multiprocessor:
                            break
                    else:
                        continue
                    # Products of the busiest multiprocessor, and what their steps take beside them.
                    rounds = up(tiles * splits, gpu.multi_processor_count * resident) * resident
                    cost = rounds * rows * columns * s.parts * (s.k / splits) * (1 + 24 / min(rows // down, columns // across) + 2 / (down * across * resident))
                    cost += rounds * rows * columns * (2000 if splits > 1 else 500)
                    key = (rows, columns, depth, down, across)
                    if key not in found or cost < found[key][0]:
                        found[key] = cost, t
    return [t for _, t in sorted(found.values(), key=lambda each: each[0])][:top]


KERNEL = (
    """
struct Policy {
  static constexpr int rows = %(m)d, columns = %(n)d, depth = %(k)d, units = %(units)d, groups = %(groups)d, parts = %(parts)d;
  static constexpr int tile_rows = %(tile_rows)d, tile_columns = %(tile_columns)d, tile_depth = %(tile_depth)d, stages = %(stages)d;
  static constexpr int warps_rows = %(warps_rows)d, warps_columns = %(warps_columns)d, resident = %(resident)d;
  static constexpr int splits = %(splits)d, raster = 8, result_bytes = 2;
  static constexpr bool a_across = %(a_across)d, b_across = %(b_across)d, bf16 = %(bf16)d, words = columns %% 8 == 0;
  static constexpr long long a_row = a_across ? 1 : depth, a_depth = a_across ? rows : 1;
  static constexpr long long b_row = b_across ? 1 : depth, b_depth = b_across ? columns : 1;
};
struct Functors {
  const u16* in_a; const u16* in_b; u16* out; const int* ends;
  PL_DEVICE int group_end(int i) const { return ends[i]; }
  PL_DEVICE const u16* a(int unit) const { return in_a + unit * (long long)%(m)d * %(k)d; }
  PL_DEVICE const u16* b(int part, int unit) const { return in_b + (part * %(bs)d + unit) * (long long)%(n)d * %(k)d; }
"""
    + RESULTS
    + """extern "C" __global__ void __launch_bounds__(MmaProductLayout<Policy>::threads, Policy::resident)
k0(const u16* a, const u16* b, u16* out, const int* ends, float* partial, u32* arrived) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const Functors f{a, b, out, ends};
  product_by_mma<Policy>(f, pl_smem, partial, arrived);
}
"""
)


def source(s: Shape, t: MmaTiling) -> str:
    values: dict[str, Any] = asdict(s) | asdict(t) | {"type": "f16" if s.fp16 else "bf16", "bf16": not s.fp16, "bs": s.groups or s.units}
    return expanded("sm80/product.cuh", set()) + KERNEL % values


class MmaSubject(Subject):
    def own(self, cuda: Cuda, cubin: Path, t: Any) -> tuple[dict[str, Any], list[Callable[[], Any]]]:
        s, bytes_ = self.s, shared(self.s, t)
        tiles = (up(s.m, t.tile_rows) + s.groups) * up(s.n, t.tile_columns) * s.units
        function = cuda.function(cubin, bytes_)
        partial = torch.full((tiles * t.splits * t.tile_rows * t.tile_columns * s.parts if t.splits > 1 else 1,), float("nan"), device="cuda")
        arrived = torch.zeros(tiles, device="cuda", dtype=torch.int32)
        blocks = min(torch.cuda.get_device_properties(0).multi_processor_count * t.resident, tiles * t.splits)
        return self.checked([lambda b=b: cuda.launch(function, blocks, t.threads, bytes_, [self.a, b, self.out, self.ends, partial, arrived]) for b in self.b])  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="of shapes; all of them by default")
    parser.add_argument("--out", type=Path, default=Path("products-mma.jsonl"), help="rows are added here")
    parser.add_argument("--top", type=int, default=8, help="tilings of a shape")
    parser.add_argument("--seconds", type=float, default=1e9, help="no shape begins after so long")
    given = parser.parse_args()
    began, cuda = time.monotonic(), Cuda()
    torch.cuda.init()
    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    chosen = [s for s in shapes() if not given.names or s.name in given.names]
    jobs = [(s, t) for s in chosen for t in tilings(s, given.top)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:

        def compiled(number: int, s: Shape, t: MmaTiling) -> Path:
            text, cubin = Path(folder) / f"{number}.cu", Path(folder) / f"{number}.cubin"
            text.write_text(source(s, t))
            subprocess.run(["nvcc", f"-arch={arch}", "-O3", "-std=c++17", "-cubin", "-o", str(cubin), str(text)], check=True)
            return cubin

        cubins = {job: pool.submit(compiled, number, *job) for number, job in enumerate(jobs)}
        for number, s in enumerate(chosen):
            if time.monotonic() - began > given.seconds:
                print("no time for", [each.name for each in chosen[number:]])
                pool.shutdown(cancel_futures=True)
                break
            torch.manual_seed(number)
            row = measure(s, cuda, {t: cubins[each, t].result() for each, t in jobs if each == s}, MmaSubject(s))
            with given.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            best = row.get("best", {})
            rivals = ", ".join(f"{name} {row[name]} µs" for name in ("torch", "loop", "grouped_mm") if name in row)
            print(f"{s.name}: {row.get('us')} µs, {row.get('teraflops')} TF, {rivals}, ratio {row.get('ratio')}; {best}", flush=True)


if __name__ == "__main__":
    main()
