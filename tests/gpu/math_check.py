"""Short forms of functions, and the plain functions that they stand for, over all floats against fp64, on a GPU.

    planish-emit-dump --small --most 1 > small.json && python tests/gpu/math_check.py small.json
    python tests/gpu/math_check.py small.json --step 16        # every 16th bit pattern

Prints for each the largest error in units of the last place (results below the normal numbers may be 0) and where it is. Fails where a form is
less exact than is allowed here, or is not NaN or infinite exactly where fp64 is.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

CHUNK = 1 << 26

# Name, text of x, allowed ulp, magnitude up to which it holds, the plain function.
FORMS = [
    ("sigmoid", "pl_full_sigmoid(x)", 3.5, math.inf, "1.0f / (1.0f + expf(-x))"),
    ("tanh", "pl_short_tanh(x, 1.0, 1.0)", 6.5, math.inf, "tanhf(x)"),
    ("capped", "pl_short_tanh(x, 1.0 / 30, 30.0)", 6.5, math.inf, "30.0f * tanhf(x * (1.0f / 30.0f))"),
    ("normal", "pl_narrow_normal(x)", 145.0, math.inf, "erfcf(x * -0.70710678f)"),
    ("near", "pl_near_tanh(x, 1.0, 1.0)", 1.2, 0.9, "tanhf(x)"),
    ("near capped", "pl_near_tanh(x, 1.0 / 30, 30.0)", 1.2, 27.0, "30.0f * tanhf(x * (1.0f / 30.0f))"),
    ("softplus", "pl_short_softplus(x)", 7.0, math.inf, "x > 20.0f ? x : log1pf(expf(x))"),
    ("tanh of softplus", "pl_short_tanh_softplus(x)", 9.0, math.inf, "tanhf(x > 20.0f ? x : log1pf(expf(x)))"),
]


def exact() -> dict[str, Callable[[Any], Any]]:
    import torch

    def softplus(x: Any) -> Any:
        return x.clamp_min(0) + torch.log1p(torch.exp(-x.abs()))

    return {
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "capped": lambda x: 30 * torch.tanh(x / 30),
        "normal": lambda x: torch.erfc(x * -math.sqrt(0.5)),  # ndtr is 0 from -8.3 on
        "near": torch.tanh,
        "near capped": lambda x: 30 * torch.tanh(x / 30),
        "softplus": softplus,
        "tanh of softplus": lambda x: torch.tanh(softplus(x)),
    }


def worst(x: Any, got: Any, want: Any) -> tuple[float, float, int]:
    """Largest error in ulp, where, and how many are NaN or infinite in one of the two alone."""
    import torch

    want32 = want.float()
    odd = (torch.isnan(want) != torch.isnan(got)) | (torch.isinf(want32) & (want32 != got)) | (torch.isinf(got) & (want32 != got))
    finite = torch.isfinite(want32) & torch.isfinite(got)
    magnitude = torch.where(finite, want.abs(), 1.0).clamp_min(2.0**-126)
    error = (got.double() - want).abs() / torch.exp2(torch.floor(torch.log2(magnitude)) - 23)
    error = torch.where(finite & ~((want.abs() < 2.0**-126) & (got.abs() < 2.0**-126)), error, 0.0)
    at = int(error.argmax())
    return float(error[at]), float(x[at]), int(odd.sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump")
    parser.add_argument("--step", type=int, default=1)
    options = parser.parse_args()
    import torch
    from emit_check import Compiler, Driver

    document = json.loads(Path(options.dump).read_text())
    source = next(v["source"] for k in document["kernels"] for v in k.get("variants", []) if v.get("language") == "cuda")
    prelude = source.split("// ---- kernel ----\n")[0]
    head = "planish_kernel(const float* in0, float* out0) {\n  const int i = blockIdx.x * 256 + threadIdx.x;\n  const float x = in0[i];\n"
    compiler, driver, functions = Compiler(), Driver(), exact()
    torch.zeros(1, device="cuda")
    failed = 0
    for name, text, allowed, most, plain in FORMS:
        for label, expression in ((name, text), (f"{name}, plain", plain)):
            body = f'{prelude}extern "C" __global__ void __launch_bounds__(256) {head}  out0[i] = {expression};\n}}\n'
            cubin, registers, _, error = compiler.cuda(body)
            if error:
                print(f"FAIL {label}: {error[:600]}")
                failed += 1
                continue
            launch = {"entry": "planish_kernel", "shared": 0, "cluster": [1, 1, 1], "grid": [CHUNK // 256, 1, 1], "block": [256, 1, 1]}
            module, function = driver.load(cubin, launch)
            largest, where, odd = 0.0, 0.0, 0
            got = torch.empty(CHUNK, device="cuda")
            for start in range(-(1 << 31), 1 << 31, CHUNK * options.step):
                bits = torch.arange(start, min(start + CHUNK * options.step, 1 << 31), options.step, device="cuda").to(torch.int32)
                x = bits.view(torch.float32)
                if math.isfinite(most):
                    x = torch.where(x.abs() <= most, x, 0.0)
                x = torch.nn.functional.pad(x, (0, CHUNK - x.numel())).contiguous()
                got.fill_(7777.0)
                driver.launcher(function, launch, [x.data_ptr(), got.data_ptr()])(torch.cuda.current_stream().cuda_stream)
                torch.cuda.synchronize()
                here = worst(x, got, functions[name](x.double()))
                if here[0] > largest:
                    largest, where = here[0], here[1]
                odd += here[2]
            driver.unload(module)
            wrong = label == name and (largest > allowed or odd > 0)
            failed += wrong
            print(f"{'FAIL' if wrong else 'ok  '} {label}: {largest:.3f} ulp at {where!r}, {odd} not finite alike, {registers} registers", flush=True)
    print(f"{failed} forms failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
