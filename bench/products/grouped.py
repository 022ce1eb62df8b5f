"""Products of rows in groups (the experts of a mixture) beside torch's, on a GPU:

    python3 bench/products/grouped.py [--rows 16,512,4096,16384] > rows.jsonl

Rows are sorted by expert and drawn unevenly. The program is its graph cut once, with the first guess of its schedule and no search; torch's
is `torch._grouped_mm` as a CUDA graph. A row of JSON: microseconds, and errors against float64 (relative Frobenius norms, of 512 rows).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from first_guess import executor_of, program_of, times_in_turn, torch_forms  # noqa: E402

# k, n, experts: gate and up, and down, of Mixtral-8x7B and of Qwen3-30B-A3B
SHAPES = {"mixtral gate_up": (4096, 28672, 8), "mixtral down": (14336, 4096, 8), "qwen3 gate_up": (2048, 1536, 128), "qwen3 down": (768, 2048, 128)}


class Grouped(nn.Module):
    def __init__(self, k: int, n: int, experts: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(experts, n, k, dtype=torch.bfloat16) * k**-0.5)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch._grouped_mm(x, self.weight.transpose(1, 2), offs=ends)


def ends_of(rows: int, experts: int) -> torch.Tensor:
    shares = torch.rand(experts, device="cuda") + 0.25
    ends = (shares.cumsum(0) / shares.sum() * rows).round().to(torch.int32)
    ends[-1] = rows
    return ends


def error(found: torch.Tensor, module: Grouped, x: torch.Tensor, ends: torch.Tensor) -> float:
    some = torch.linspace(0, x.shape[0] - 1, min(512, x.shape[0]), device="cuda").long().unique()
    of = torch.searchsorted(ends.long(), some, right=True)
    wrong = total = 0.0
    for expert in of.unique():
        mine = some[of == expert]
        exact = x[mine].double() @ module.weight[expert].double().t()
        wrong += float((found[mine].double() - exact).pow(2).sum())
        total += float(exact.pow(2).sum())
    return (wrong / total) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="16,512,4096,16384")
    options = parser.parse_args()
    for name, (k, n, experts) in SHAPES.items():
        torch.manual_seed(0)
        with torch.device("cuda"):
            module = Grouped(k, n, experts).eval()
        for rows in map(int, options.rows.split(",")):
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                x = torch.randn(rows, k, dtype=torch.bfloat16, device="cuda")
                ends = ends_of(rows, experts)
                row: dict[str, Any] = {"device": torch.cuda.get_device_name(), "name": name, "k": k, "n": n, "experts": experts, "rows": rows}
                try:
                    program, cubins, blobs = program_of(Path(folder) / "task.py", module, ((x, ends), {}), Path(folder))
                    executor, given = executor_of(program, cubins, blobs, module, (x, ends))
                    row["error"] = error(executor.run(given)[0], module, x, ends)
                    row["torch_error"] = error(module(x, ends), module, x, ends)
                    row["aten"] = sum(step["kind"] == "aten" for step in program["steps"])
                    forms = {"planish": lambda e=executor, g=given: e.run(g)} | torch_forms(module, (x, ends), ["graph"])
                    row["us"] = {form: round(ms * 1e3, 1) for form, ms in times_in_turn(forms, rounds=5, seconds=0.05).items()}
                    row["tflops"] = round(2e-6 * rows * k * n / row["us"]["planish"], 1)
                except Exception as failure:
                    row["failed"] = f"{type(failure).__name__}: {failure}"[:500]
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
