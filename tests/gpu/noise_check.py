"""The steps by which numbers err (planish/oracle/erring.py): the kernels of a GPU beside PyTorch's operators, and what a pass takes.

python tests/gpu/noise_check.py      exits 1 where they differ, 3 without a GPU
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch
from planish.oracle import erring

COUNT = 1 << 22
#: What a multiplication and an addition that are one may differ by from two, of the values' size.
ROUNDING = 2.0**-51


def steps(values: torch.Tensor, noise: torch.Tensor, spread: torch.Tensor) -> dict[str, Callable[[], torch.Tensor]]:
    found: dict[str, Callable[[], torch.Tensor]] = {
        "scaled": lambda: erring.scaled(values.clone(), noise, 2.0**-24),
        "shifted": lambda: erring.shifted(values.clone(), noise, spread, 0.5),
        "sums": lambda: erring.summed(values.clone(), noise, spread, 300.0, 1024, False, 2.0**-24, 1.0),
        "sums of equal terms": lambda: erring.summed(values.clone(), noise, spread, 4000.0, 1024, True, 2.0**-24, 1.0),
    }
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        found[f"rounded to {dtype}"] = lambda dtype=dtype: erring.rounded(values.clone(), noise, dtype, 0.5)
    return found


def milliseconds(call: Callable[[], torch.Tensor]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    begin.record()
    for _ in range(20):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 20


def main() -> int:
    if not torch.cuda.is_available():
        print("error: no CUDA device that torch can use", file=sys.stderr)
        return 3
    generator = torch.Generator("cuda").manual_seed(1)
    draw = torch.empty(COUNT, dtype=torch.float64, device="cuda")
    values = draw.normal_(generator=generator) * torch.exp2(torch.randint(-150, 120, (COUNT,), generator=generator, device="cuda").double())
    values[:8] = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e308, 2.0**-1040, -1.0])
    noise = torch.empty_like(values).uniform_(-1, 1, generator=generator)
    spread = values.square() * torch.empty_like(values).uniform_(0, 2, generator=generator) / 300
    failed = 0
    for name, step in steps(values, noise, spread).items():
        fused, ours = step(), milliseconds(step)
        with patch.object(erring, "_fused", lambda *_: False):
            composed, theirs = step(), milliseconds(step)
        off = (fused - composed).abs() > ROUNDING * composed.abs()
        wrong = (off & torch.isfinite(composed)) | (fused.isfinite() != composed.isfinite()) | (fused.isnan() != composed.isnan())
        failed += bool(wrong.any())
        what = f", {int(wrong.sum())} differ, the first at {float(values[int(wrong.int().argmax())])!r}" if bool(wrong.any()) else ""
        print(f"{'FAIL' if what else 'ok  '} {name}: {ours:.3f} ms, {theirs:.3f} by PyTorch's operators{what}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
