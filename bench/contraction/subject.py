"""What runs beside the GPU: packs operands as a plan lays them out, launches its kernel, compares with fp64 and times it."""

from __future__ import annotations

import ctypes
import statistics
from typing import Any

import driver
import torch


def pack(x: torch.Tensor, rows: int, depth: int, slab: int) -> torch.Tensor:
    """A 16-bit matrix (row, k), with zeros up to `rows` and `depth`: slabs of k, groups of 8 rows, chunks of 8 k, rows."""
    full = torch.zeros(rows, depth, dtype=x.dtype, device=x.device)
    full[: x.shape[0], : x.shape[1]] = x
    return full.view(rows // 8, 8, depth // slab, slab // 8, 8).permute(2, 0, 3, 1, 4).contiguous()


def split(x: torch.Tensor, scheme: str, dtype: torch.dtype) -> list[torch.Tensor]:
    high = x.to(dtype)
    if scheme == "plain":
        return [high]
    return [high, ((x - high.float()) * 2048.0).to(dtype)]


class Subject:
    """One process, one device, one thread."""

    def __init__(self) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False
        self.device = torch.cuda.get_device_name()
        self.flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
        self.driver = driver.Driver()
        self.shape: tuple[int, int, int] = (0, 0, 0)
        self.references: dict[str, torch.Tensor] = {}
        self.packed: dict[Any, list[torch.Tensor]] = {}

    def inputs(self, shape: tuple[int, int, int]) -> None:
        if shape == self.shape:
            return
        generator = torch.Generator("cuda").manual_seed(sum(shape))
        m, n, k = shape
        self.a = torch.randn(m, k, device="cuda", generator=generator)
        self.b = torch.randn(n, k, device="cuda", generator=generator)
        self.shape, self.references, self.packed = shape, {}, {}

    def reference(self, kind: str) -> torch.Tensor:
        if kind not in self.references:
            a, b = self.a, self.b
            if kind != "fp32":
                dtype = torch.bfloat16 if kind == "bf16" else torch.float16
                a, b = a.to(dtype), b.to(dtype)
            self.references[kind] = a.double() @ b.double().T
        return self.references[kind]

    def error(self, out: torch.Tensor, kind: str) -> float:
        reference = self.reference(kind)
        return float((out.double() - reference).norm() / reference.norm())

    def times(self, run: Any, cold_runs: int = 15, warm_runs: int = 15) -> dict[str, float]:
        """Milliseconds: with the caches full of something else, one by one without, and one of many in a row."""

        def one(before: Any) -> float:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            before()
            start.record()
            run()
            end.record()
            end.synchronize()
            return start.elapsed_time(end)

        for _ in range(3):
            run()
        cold = statistics.median(one(lambda: self.flush.add_(1)) for _ in range(cold_runs))
        warm = statistics.median(one(lambda: None) for _ in range(warm_runs))
        count = max(5, min(200, int(120 / max(warm, 1e-3))))
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return {"cold_ms": cold, "warm_ms": warm, "sustained_ms": start.elapsed_time(end) / count}

    def baseline(self, shape: tuple[int, int, int]) -> dict[str, str]:
        """What PyTorch's own products reach: TFLOP/s with cold caches, and in a row, and the error against fp64."""
        self.inputs(shape)
        m, n, k = shape
        answers = {}
        for name in ("fp32", "tf32", "fp16", "bf16"):
            dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(name, torch.float32)
            a, b = self.a.to(dtype), self.b.to(dtype).T
            torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
            error = self.error(a @ b, "fp32" if dtype == torch.float32 else name)
            took = self.times(lambda a=a, b=b: a @ b, 7, 5)
            torch.backends.cuda.matmul.allow_tf32 = False
            answers[name] = f"{2e-9 * m * n * k / took['cold_ms']:.0f}/{2e-9 * m * n * k / took['sustained_ms']:.0f} TF {error:.1e}"
        return answers

    def run(self, variant: Any) -> dict[str, Any]:
        self.inputs(variant.shape)
        m, n, _ = variant.shape
        plan, launch = variant.plan, variant.launch
        scheme, bf16 = plan.get("scheme", "split"), plan.get("element") == "bf16"
        parts = int(plan.get("split_k", 1))
        slab = int(plan.get("bk", 64))
        arguments: list[Any] = []
        for x, rows in ((self.a, launch["rows_a"]), (self.b, launch["rows_b"])):
            key = (id(x), rows, launch["depth"], slab, scheme, bf16)
            if key not in self.packed:
                if len(self.packed) > 24:
                    self.packed.clear()
                dtype = torch.bfloat16 if bf16 else torch.float16
                self.packed[key] = [pack(part, rows, launch["depth"], slab) for part in split(x, scheme, dtype)]
            arguments += [ctypes.c_void_p(part.data_ptr()) for part in self.packed[key]]
        out = torch.full((parts, m, n), float("nan"), device="cuda")
        arguments.append(ctypes.c_void_p(out.data_ptr()))
        function = self.driver.load(variant.cubin, launch["entry"], launch["shared"])
        stream = torch.cuda.current_stream().cuda_stream
        config = self.driver.config(launch["blocks"], launch["threads"], launch["shared"], stream)

        def run() -> None:
            self.driver.launch(function, config, arguments)

        kind = "fp32" if scheme != "plain" else "bf16" if bf16 else "fp16"
        run()
        torch.cuda.synchronize()
        error = self.error(out.sum(0), kind)
        if not error < 1e-3:
            raise ValueError(f"wrong: relative error {error:.2e}, {int(out.isnan().sum())} of {out.numel()} elements are NaN")
        first = out.clone()
        steady = True
        for _ in range(3):
            out.fill_(float("nan"))
            run()
            steady = steady and bool(torch.equal(first, out))
        times = self.times(run)
        steady = steady and bool(torch.equal(first, out))
        worst = float((first.sum(0).double() - self.reference(kind)).abs().max())
        return {"error": error, "max_error": worst, "steady": steady, "blocks": config.grid[0], **times}
