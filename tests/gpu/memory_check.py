"""compute-sanitizer in `planish verify`, on a GPU: solutions whose results are right and whose memory accesses are not, each refused by
name; honest ones, and what a search ships, with nothing found.

    python tests/gpu/memory_check.py [--budget 5s] [TASK...]     exits 1 if a verdict is not as it must be, 3 without a GPU

What a search ships is looked at for each TASK: by default one of each kind of kernel, among them those whose copies and barriers the tool has
to follow (products and convolutions on tensor cores, attention, recurrences).

Without the tool, or where it cannot work on this machine, that is said and nothing is judged.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE / "python"), str(HERE / "tests" / "gpu")]

import torch  # noqa: E402
from device_programs import root  # noqa: E402

SHIPPED = [
    "small/layer_norm_gelu_residual.py",
    "suite/gemm_odd_tanh.py",
    "suite/conv2d_grouped_odd.py",
    "suite/transposed_2d_upsample.py",
    "suite/attention_cross_odd.py",
    "suite/recurrent_tanh_odd.py",
]
N = 1_000_003  # no whole number of pages: what lies behind it can be read
TASK = f"""import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1.0

def get_inputs():
    return [torch.randn({N})]

def get_init_inputs():
    return []
"""
SOLUTION = '''import torch
from torch import nn

SOURCE = r"""
extern "C" __global__ void mine(const float* x, const float* scratch, float* y, int n) {
  __shared__ float row[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  float v = i < n ? x[i] : 0.0f;
  float other = 0.0f;
  BODY
  if (i < n) y[i] = (v < 0.0f ? 0.0f : v) + 1.0f + (other == 1.234e30f ? 1.0f : 0.0f);
}
"""
KERNEL = []


class ModelNew(nn.Module):
    def forward(self, x):
        if not KERNEL:
            KERNEL.append(torch.cuda._compile_kernel(SOURCE, "mine"))
        y, scratch = torch.empty_like(x), torch.MAKE(256, device=x.device)
        KERNEL[0](((x.numel() + 255) // 256, 1, 1), (256, 1, 1), (x, scratch, y, x.numel()))
        return y
'''
_BARRIER = "row[threadIdx.x] = v; __syncthreads(); other = row[threadIdx.x ^ 32];"
#: name: (body of the kernel, how the scratch is made, outcome, tool that finds it)
CASES = {
    "honest": (_BARRIER + " if (threadIdx.x < 3) other += scratch[threadIdx.x];", "zeros", "ok", None),
    "reads behind its input": ("if (i == n - 1) other = x[n + 2];", "zeros", "invalid_access", "memcheck"),
    "does not wait for shared memory": (_BARRIER.replace("__syncthreads();", ""), "zeros", "race", "racecheck"),
    "reads what nobody wrote": ("if (i < 8) other = scratch[threadIdx.x];", "empty", "uninitialized_read", "initcheck"),
}


def tool() -> str | None:
    named = os.environ.get("PLANISH_COMPUTE_SANITIZER") or shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    return named if os.access(named, os.X_OK) else None


def works_here(path: str) -> str:
    """Empty where the tool can look at a program of torch on this machine, outside of any guest's place; else what it says."""
    code = "import torch; x = torch.ones(8, device='cuda'); print(float((x + 1).sum()))"
    done = subprocess.run([path, "--tool", "memcheck", "--report-api-errors", "no", sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    text = done.stdout + done.stderr
    return "" if "ERROR SUMMARY: 0 errors" in text and "16.0" in text else text[-1500:]


def planish(*arguments: str | Path) -> dict[str, Any]:
    done = subprocess.run([str(root() / "bin" / "planish"), *map(str, arguments), "--json"], capture_output=True, text=True, timeout=900)
    if not done.stdout:
        raise SystemExit(f"error: planish {arguments[0]} said nothing\ncaused by: {done.stderr.strip()}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def said(document: dict[str, Any]) -> str:
    return "; ".join(f"{one['tool']} {one['result']} {one['reason']} ({one['seconds']:.1f} s)" for one in document["memory"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="5s")
    parser.add_argument("tasks", nargs="*", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU")
        return 3
    path = tool()
    if path is None:
        print("not judged: there is no compute-sanitizer")
        return 0
    if trouble := works_here(path):
        print(f"not judged: compute-sanitizer does not work here:\n{trouble}")
        return 0
    failed = 0
    looked_at: list[tuple[Path, Path]] = []

    def expect(right: bool, text: str) -> None:
        nonlocal failed
        failed += not right
        print(f"{'ok' if right else 'FAILED'}: {text}", flush=True)

    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "task.py").write_text(TASK)
        common = ("--target", "cuda", "--compat", "none", "--seeds", "1", "--no-serve")
        for case, (body, make, outcome, finds) in CASES.items():
            solution = home / f"{case.replace(' ', '_')}.py"
            solution.write_text(SOLUTION.replace("BODY", body).replace("MAKE", make))
            document = planish("verify", home / "task.py", solution, *common)
            found = [one["tool"] for one in document["memory"] if one["result"] == "found"]
            ran = [one["tool"] for one in document["memory"] if one["result"] != "not_run"]
            right = document["outcome"] == outcome and len(ran) == 3 and found == ([finds] if finds else [])
            expect(right, f"{case}: {document['outcome']}: {document['message']}; {said(document)}")
            if not right:
                print(json.dumps(document["memory"], indent=1))
        # The last of them, when nobody asks: what nobody looked at is not found, and that is said.
        document = planish("verify", home / "task.py", solution, *common, "--no-memory-check")
        expect(document["outcome"] == "ok" and all(one["reason"] == "not asked for" for one in document["memory"]), f"not asked: {said(document)}")
        for number, task in enumerate(options.tasks or [HERE / "examples" / one for one in SHIPPED]):
            out = home / f"out{number}"
            found_it = planish("optimize", task, "--target", "cuda", "--budget", options.budget, "--baselines", "eager", "--memory-check", "--no-serve",
                               "--out", out, "--store", home / "store.db")  # fmt: skip
            reason = str(found_it.get("reason") or "")
            if found_it["outcome"] != "improved" and ("is faster than" in reason or "inside the noise" in reason):
                print(f"nothing to look at: {task.name}: {found_it['outcome']}: {reason}", flush=True)
                continue
            # What the tool finds something in is not shipped, and its run says "no improvement": for another reason than those above.
            shipped = next(iter(out.rglob("ship.json"))).parent
            memory = json.loads((shipped / "evidence.json").read_text()).get("memory", [])
            clean = found_it["outcome"] == "improved" and [one["result"] for one in memory] == ["clean"] * 3
            expect(clean, f"{task.name}: {found_it['outcome']} {reason}; {said({'memory': memory})}")
            if clean:
                looked_at.append((task, out))
        expect(len(looked_at) > 0, f"{len(looked_at)} shipped modules were looked at")
        for task, out in looked_at[-1:]:
            document = planish("verify", task, out, "--target", "cuda", "--compat", "none", "--no-serve")
            expect(document["verified"] and all(one["result"] == "clean" for one in document["memory"]), f"what it shipped: {said(document)}")
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
