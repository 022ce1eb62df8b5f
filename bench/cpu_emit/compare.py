"""Times emitted seeds against torch eager and torch.compile, interleaved: ratios hold on a loaded machine.

Run: g++ dump.cpp (see its head), then: python bench/cpu_emit/compare.py DIR [--no-compile]
"""

import ctypes
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch

FLAGS = ["-O3", "-march=native", "-std=c++17", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-w"]


def softmax(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.softmax(x, -1),)


def softmax_columns(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.softmax(x, 0),)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y, mean, _ = torch.native_layer_norm(x, [x.shape[1]], w, b, 1e-5)
    return (y, mean)


def bias_gelu(x: torch.Tensor, b: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.nn.functional.gelu(x + b) + r,)


def transpose_scale(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return ((x.t() * 2.5).contiguous(),)


def row_sum(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return ((x * x).sum(-1),)


CASES: dict[str, tuple[Callable[..., tuple[torch.Tensor, ...]], list[tuple[int, ...]]]] = {
    "softmax": (softmax, [(4096, 4096)]),
    "softmax_short": (softmax, [(65536, 64)]),
    "layer_norm": (layer_norm, [(4096, 4096), (4096,), (4096,)]),
    "bias_gelu": (bias_gelu, [(4096, 4096), (4096,), (4096, 4096)]),
    "transpose_scale": (transpose_scale, [(4096, 4096)]),
    "row_sum": (row_sum, [(4, 4000000)]),
    "softmax_columns": (softmax_columns, [(4096, 4096)]),
}


def main() -> None:
    folder = Path(sys.argv[1])
    for name, (reference, shapes) in CASES.items():
        inputs = [torch.randn(s) for s in shapes]
        want = reference(*inputs)
        outs = [torch.empty(w.shape) for w in want]
        pointers = (ctypes.c_void_p * (len(inputs) + len(outs)))(*[t.data_ptr() for t in inputs + outs])
        runs: dict[str, Callable[[], object]] = {}
        source = inputs[0]
        target = torch.empty_like(source)
        runs["copy"] = partial(target.copy_, source)
        runs["eager"] = partial(reference, *inputs)
        if "--no-compile" not in sys.argv:
            compiled = torch.compile(reference)
            compiled(*inputs)
            runs["compile"] = partial(compiled, *inputs)
        genes = {}
        for path in sorted(folder.glob(f"{name}.*.cpp")):
            began = time.perf_counter()
            subprocess.run(["g++", *FLAGS, str(path), "-o", str(path.with_suffix(".so"))], check=True)
            label = path.stem.split(".")[-1]
            genes[label] = f"{path.read_text().splitlines()[0][3:]}  (g++ {time.perf_counter() - began:.2f} s)"
            entry = ctypes.CDLL(str(path.with_suffix(".so"))).k0
            runs[label] = partial(entry, pointers)
            for o in outs:
                o.fill_(float("nan"))
            entry(pointers)
            for o, w in zip(outs, want, strict=True):
                torch.testing.assert_close(o, w.reshape(o.shape), rtol=1e-4, atol=1e-5)
        times: dict[str, list[float]] = {k: [] for k in runs}
        with torch.no_grad():
            for _ in range(15):
                for k, f in runs.items():
                    began = time.perf_counter()
                    f()
                    times[k].append(time.perf_counter() - began)
        moved = 4 * sum(t.numel() for t in inputs + outs)
        for k, t in times.items():
            m = median(t)
            bytes_moved = 8 * source.numel() if k == "copy" else moved
            print(f"{name:16} {k:8} {m * 1e3:9.3f} ms {bytes_moved / m / 1e9:7.2f} GB/s  best {min(t) * 1e3:9.3f}  {genes.get(k, '')}", flush=True)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
