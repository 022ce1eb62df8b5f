"""What memory takes of kernels that store tiles of results: python3 bench/contraction/stores.py [--plane N]... [--columns N]... [--reads S]...

Images of 64 rows (channels) of N results each, stored run by run as warps of a convolution do: a tile has so many columns, and each row's run of
them begins where the tile does (from 0), or where a sector of 8, 16 or 32 results does, so that what lies before belongs to the tile before.
Nothing is computed. Beside its results a tile reads S times as many bytes, all before the first of them is stored; with that, runs begin at
sectors of 8, and blocks have neighbouring tiles (as convolutions do) or a range of tiles each. Median of 12, each behind a pass over 256 MB.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics

import driver
import torch

ROWS = 64
WARPS = 8
TEXT = """
extern "C" __global__ void __launch_bounds__(WARPS * 32) stores(float* p, const float4* __restrict__ q, int images) {
  constexpr int plane = PLANE, columns = COLUMNS, whole = WHOLE, rows = ROWS, reads = READS, each = (reads + WARPS * 32 - 1) / (WARPS * 32);
  constexpr int step = whole > 1 ? columns - whole : columns, tiles = (plane + step - 1) / step;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int all = images * tiles, per = (all + gridDim.x - 1) / gridDim.x;
  const int from = RANGES ? per * blockIdx.x : blockIdx.x, until = RANGES ? min(all, from + per) : all;
  float sum = 0;
  for (int t = from; t < until; t += RANGES ? 1 : gridDim.x) {
    float4 got[each + 1];
#pragma unroll
    for (int k = 0; k < each; ++k) {
      const int i = k * WARPS * 32 + threadIdx.x;
      if (i < reads) got[k] = q[(long long)t * reads + i];
    }
    const int image = t / tiles, first = t % tiles * step;
    const bool last = first + step >= plane;
    for (int r = warp; r < rows; r += WARPS) {
      const int row = (image * rows + r) * plane;
      int begin = row + first, end = last ? row + plane : row + first + step;
      if (whole > 1 && first > 0) begin = (begin + whole - 1) & ~(whole - 1);
      if (whole > 1 && !last) end = (end + whole - 1) & ~(whole - 1);
#pragma unroll
      for (int k = 0; k < columns; k += 32)
        if (begin + k + lane < end) p[begin + k + lane] = (float)k;
    }
#pragma unroll
    for (int k = 0; k < each; ++k)
      if (k * WARPS * 32 + threadIdx.x < reads) sum += got[k].x + got[k].y + got[k].z + got[k].w;
  }
  if (sum == 1.25e30f) p[0] = sum;  // so that what is read is asked for
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plane", type=int, action="append", help="results of a row of an image (default: 15876, 15625, 16384)")
    parser.add_argument("--columns", type=int, action="append", help="of a tile (default: 128, 256)")
    parser.add_argument("--reads", type=float, action="append", help="bytes that are read for each that is stored (default: none are)")
    args = parser.parse_args()
    torch.zeros(1, device="cuda")
    machine = driver.Driver()
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    blocks = torch.cuda.get_device_properties(0).multi_processor_count

    def measure(out: torch.Tensor, read: torch.Tensor, images: int, settings: dict[str, int]) -> float:
        text = TEXT
        for name, value in settings.items():
            text = text.replace(name, str(value))
        function = machine.load(driver.compile_text(text)[0], "stores", 0)
        config = machine.config(blocks, WARPS * 32, 0, torch.cuda.current_stream().cuda_stream)
        times = []
        for _ in range(12):
            flush.zero_()
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            machine.launch(function, config, [ctypes.c_void_p(out.data_ptr()), ctypes.c_void_p(read.data_ptr()), ctypes.c_int(images)])
            events[1].record()
            events[1].synchronize()
            times.append(events[0].elapsed_time(events[1]))
        return statistics.median(times)

    print(f"{torch.cuda.get_device_name()}: results a row, columns a tile, runs begin at multiples of, bytes read for each stored, ranges, ms, TB/s")
    for plane in args.plane or [15876, 15625, 16384]:
        images = (128 << 20) // (ROWS * plane)
        out = torch.empty(images * ROWS * plane, device="cuda")
        for columns in args.columns or [128, 256]:
            ways = [(whole, 0.0, 0) for whole in (1, 8, 16, 32)] + [(8, share, ranges) for share in args.reads or [] for ranges in (0, 1)]
            for whole, share, ranges in ways:
                tiles = -(-plane // (columns - whole if whole > 1 else columns))
                reads = round(share * ROWS * plane / tiles / 4)  # of 16 bytes, of a tile
                read = torch.zeros(max(images * tiles * reads * 4, 1), device="cuda")
                settings = {"PLANE": plane, "COLUMNS": columns, "WHOLE": whole, "ROWS": ROWS, "READS": reads, "RANGES": ranges, "WARPS": WARPS}
                ms = measure(out, read, images, settings)
                moved = out.numel() * 4 + images * tiles * reads * 16
                print(f"{plane:6d} {columns:4d} {whole:3d} {share:5.2f} {ranges} {ms:.3f} {moved / ms / 1e9:.2f}")


if __name__ == "__main__":
    main()
