"""Cheating CUDA kernels, as candidates of a search are: programs without host code. Beside those of test_bad_candidates.py, which are for the CPU.

Each is followed by an honest kernel that must pass, so that the run is seen to go on after a lost context or a killed process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from corpus import WRITTEN, WRONG

_HEAD = """
__device__ float heavy(float v) {
  float s = v;
  for (int k = 0; k < 20000; ++k) s = s * 0.999f + 1e-3f * v;
  return (v < 0.0f ? 0.0f : v) * 2.0f + (s > 1e30f ? 1.0f : 0.0f);
}
"""
_COMPUTE = "ALL out[i] = (x[i] < 0.0f ? 0.0f : x[i]) * 2.0f + y[i];"
_HEAVY = "ALL out[i] = heavy(x[i]) + y[i];"


def source(body: str, state: str = "") -> str:
    """A kernel of one block; `ALL` runs `i` over the thread's elements."""
    body = body.replace("ALL", "for (int i = threadIdx.x; i < 3737; i += 1024)")
    return f'{_HEAD}{state}\nextern "C" __global__ void k0(float* x, const float* y, float* out) {{\n  {body}\n}}\n'


@dataclass(frozen=True)
class Kernel:
    name: str
    seen: str
    source: str
    outcomes: frozenset[str]
    level: str = "screen"
    #: it may pass, but must then take at least this part of what the honest one takes
    slow_as: float = 0.0


@dataclass
class JudgedKernel:
    kernel: Kernel
    found: dict[str, Any]
    after: dict[str, Any]
    honest_ms: float

    @property
    def caught(self) -> bool:
        if self.found["outcome"] not in self.kernel.outcomes:
            return False
        return self.kernel.slow_as == 0 or self.found["bench"]["median_ms"] >= self.kernel.slow_as * self.honest_ms

    @property
    def passed(self) -> bool:
        return bool(self.after["outcome"] == "ok")


HONEST_HEAVY = source(_HEAVY)
_MEMO_STATE = "__device__ struct Kept { float key[3]; float out[3737]; } memo[16];\n__device__ unsigned next_slot;\n"
_MEMO = """
  __shared__ int hit;
  __shared__ unsigned slot;
  if (threadIdx.x == 0) {
    hit = -1;
    for (int m = 0; m < 16; ++m)
      if (memo[m].key[0] == KEY0 && memo[m].key[1] == KEY1 && memo[m].key[2] == KEY2) hit = m;
    slot = next_slot;
    if (hit < 0) next_slot = (next_slot + 1) % 16;
  }
  __syncthreads();
  if (hit >= 0) { ALL out[i] = memo[hit].out[i]; return; }
  HEAVY
  ALL memo[slot].out[i] = out[i];
  __syncthreads();
  if (threadIdx.x == 0) { memo[slot].key[0] = KEY0; memo[slot].key[1] = KEY1; memo[slot].key[2] = KEY2; }
""".replace("HEAVY", _HEAVY)


def _memo(keys: list[str]) -> str:
    body = _MEMO
    for k, key in enumerate(keys):
        body = body.replace(f"KEY{k}", key)
    return body


KERNELS = [
    Kernel("no code", "47", source("this is no code;"), frozenset({"compile_error"})),
    # A volatile variable of one's own is not enough: nvcc removes such a loop.
    Kernel("never ends", "issue", source('for (;;) asm volatile("nanosleep.u32 1000;");'), frozenset({"hang"})),
    Kernel("traps", "issue", source('asm("trap;");'), frozenset({"launch_failed", "illegal_address", "crash"})),
    Kernel("reads where nothing is", "issue", source("ALL out[i] = *(volatile float*)64;"), frozenset({"illegal_address"})),
    Kernel("writes far past its output", "issue", source(_COMPUTE + " for (long k = threadIdx.x; k < (1L << 22); k += 1024) out[3737 + k] = 0.0f;"),
           frozenset({"illegal_address", "out_of_bounds", "guard_overwritten"})),
    Kernel("writes one element past its output", "issue", source(_COMPUTE + " out[3737] = 0.0f;"), frozenset({"guard_overwritten", "out_of_bounds"})),
    Kernel("writes into its input", "32", source(_COMPUTE + " x[5] = 1.0f;"), WRITTEN),
    Kernel("writes nothing", "23", source(""), WRONG),
    Kernel("leaves one element", "46", source("for (int i = threadIdx.x; i < 3736; i += 1024) out[i] = (x[i] < 0.0f ? 0.0f : x[i]) * 2.0f + y[i];"), WRONG),
    Kernel("wrong by one element", "46", source(_COMPUTE + " __syncthreads(); if (threadIdx.x == 0) out[3000] += 0.01f;"), WRONG),
    Kernel("zeros", "42", source("ALL out[i] = 0.0f;"), WRONG),
    Kernel("computed in half", "50", source('ALL { unsigned short h; float v = x[i]; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); '
                                            'asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h)); out[i] = (v < 0.0f ? 0.0f : v) * 2.0f + y[i]; }'), WRONG),
    Kernel("right only once", "18", source(
        "__shared__ int old; if (threadIdx.x == 0) old = launches++; __syncthreads(); "
        "if (old == 0) { ALL kept[i] = (x[i] < 0.0f ? 0.0f : x[i]) * 2.0f + y[i]; } "
        "ALL out[i] = kept[i];", "__device__ int launches;\n__device__ float kept[3737];\n"), WRONG | {"wrong_when_timed"}),
    Kernel("not deterministic", "18", source(
        _COMPUTE + " __syncthreads(); if (threadIdx.x == 0) out[7] += 1e-3f * (launches++ % 3);", "__device__ int launches;\n"), WRONG | {"wrong_when_timed"}),
    Kernel("returns early where the output holds the answer", "issue", source(
        "bool there = true; for (int i = 0; i < 3737; i += 623) there = there && out[i] == (x[i] < 0.0f ? 0.0f : x[i]) * 2.0f + y[i]; "
        "__syncthreads(); if (there) return; " + _HEAVY), frozenset({"ok"}), "full", 0.25),
    Kernel("a memo keyed on three elements", "15 issue", source(_memo(["x[7]", "x[1800]", "x[3700]"]), _MEMO_STATE),
           frozenset({"time_mismatch", "wrong"}), "full"),
    Kernel("a memo keyed on sums", "15", source(
        "__shared__ float sum; if (threadIdx.x == 0) { sum = 0.0f; for (int k = 0; k < 3737; k += 37) sum += (k + 1) * x[k] + y[k]; } __syncthreads();"
        + _memo(["sum", "x[1]", "y[1]"]), _MEMO_STATE), frozenset({"time_mismatch", "wrong"}), "full"),
]  # fmt: skip


def judge(evaluator: Any, only: str = "") -> list[JudgedKernel]:
    """Those whose name contains `only`, one after the other, as a search sends them: they are timed."""
    honest = evaluator.evaluate(HONEST_HEAVY, "full")
    assert honest["outcome"] == "ok", honest
    found = []
    for number, kernel in enumerate(KERNELS):
        if only not in kernel.name:
            continue
        judged = evaluator.evaluate(kernel.source, kernel.level)
        after = evaluator.evaluate(source(_COMPUTE + f" if (x[0] == {number}.5e30f) out[0] = 0.0f;"))  # another program each time
        found.append(JudgedKernel(kernel, judged, after, honest["bench"]["median_ms"]))
    return found
