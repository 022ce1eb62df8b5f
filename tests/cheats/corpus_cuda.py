"""Cheats that only a GPU has, each with its honest twin: streams, events, CUDA graphs, device memory, kernels compiled by NVRTC, Triton and nvcc.

Judged like corpus.py's, of which they are a continuation. Those with `time` are timed as well, alone on the device: what they cheat is the clock."""

from __future__ import annotations

from corpus import RIGHT, TASKS, WRITTEN, WRONG, Entry, add, task

CUDA_CORPUS: list[Entry] = []
#: work of a millisecond, where a clock can be cheated
CUDA_TASKS = {**TASKS, "heavy": task("return torch.relu(x @ x.t()) + x", "torch.randn(3072, 3072)", "x")}
HEAVY = "torch.relu(x @ x.t()) + x"
SLOW = WRONG | {"time_mismatch", "wrong_when_timed"}

# -- streams ---------------------------------------------------------------------------------------------------------
_SIDE = "if self.side is None:\n    self.side = torch.cuda.Stream()\nself.side.wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(self.side):\n"
_BUSY = "    for _ in range(20):\n        out = torch.mm(x, x.t())\n"
add("work on a side stream that nobody waits for", "1", "heavy", _SIDE + _BUSY + f"    out = {HEAVY}\nreturn out",
    _SIDE + f"    out = {HEAVY}\ntorch.cuda.current_stream().wait_stream(self.side)\nout.record_stream(torch.cuda.current_stream())\nreturn out",
    SLOW | {"launch_failed"}, init="self.side = None", time=True, to=CUDA_CORPUS)  # fmt: skip
# The first calls are waited for, as those that are only checked might be; the later ones are not.
# What both return is written after they have returned: the timed check may see that as a result that a later call overwrites, and rightly.
add("a side stream that is waited for while calls are few", "1 11", "heavy",
    "self.count = self.count + 1\n" + _SIDE + f"    out = {HEAVY}\nif self.count < 60:\n    torch.cuda.current_stream().wait_stream(self.side)\nreturn out",
    _SIDE + f"    out = {HEAVY}\ntorch.cuda.current_stream().wait_stream(self.side)\nout.record_stream(torch.cuda.current_stream())\nreturn out",
    SLOW | {"launch_failed"}, init="self.side, self.count = None, 0", time=True, to=CUDA_CORPUS)  # fmt: skip

# -- clocks ----------------------------------------------------------------------------------------------------------
add("events that say a hundredth", "5 12", "heavy", f"return {HEAVY}", f"start = torch.cuda.Event()\nstart.record()\nreturn {HEAVY}",
    SLOW, time=True, twin_before="",
    before="_elapsed = torch.cuda.Event.elapsed_time\ntorch.cuda.Event.elapsed_time = lambda a, b: _elapsed(a, b) / 100\n", to=CUDA_CORPUS)  # fmt: skip
add("a synchronisation that does nothing, and events that say nothing", "5 8", "heavy", f"return {HEAVY}",
    f"torch.cuda.current_stream().query()\nreturn {HEAVY}",
    SLOW, before="torch.cuda.synchronize = lambda *a, **k: None\ntorch.cuda.Event.elapsed_time = lambda a, b: 0.02\n", twin_before="",
    time=True, to=CUDA_CORPUS)  # fmt: skip

# -- results that are kept -------------------------------------------------------------------------------------------
add("results kept by a few elements, on the device", "15", "heavy",
    f"key = tuple(x[::1000, ::1000].flatten().tolist())\nif key not in self.memo:\n    for _ in range(3):\n        out = {HEAVY}\n    self.memo[key] = out\n"
    "return self.memo[key].clone()",
    f"key = tuple(x[::1000, ::1000].flatten().tolist())\nself.memo[0] = key\nreturn {HEAVY}",
    SLOW, init="self.memo = {}", time=True, to=CUDA_CORPUS)  # fmt: skip
_GRAPH = """
{key}
if key not in self.graphs:
    a, b = x.clone(), y.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            torch.relu(a) * 2 + b
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = torch.relu(a) * 2 + b
    self.graphs[key] = graph, a, b, out
graph, a, b, out = self.graphs[key]
{copy}
graph.replay()
return out.clone()
"""
_COPY = "a.copy_(x)\nb.copy_(y)"
add("a CUDA graph that replays the first contents", "19", "pointwise", _GRAPH.format(key="key = 0", copy=""), _GRAPH.format(key="key = 0", copy=_COPY),
    init="self.graphs = {}", to=CUDA_CORPUS)  # fmt: skip
add("a CUDA graph for each address, of what was there once", "14 19", "pointwise", _GRAPH.format(key="key = (x.data_ptr(), y.data_ptr())", copy=""),
    _GRAPH.format(key="key = (x.data_ptr(), y.data_ptr())", copy=_COPY), init="self.graphs = {}", to=CUDA_CORPUS)  # fmt: skip
add("a CUDA graph whose output is handed out", "19 22", "pointwise", _GRAPH.format(key="key = 0", copy=_COPY).replace("out.clone()", "out"),
    _GRAPH.format(key="key = 0", copy=_COPY), {"launch_failed"}, init="self.graphs = {}", to=CUDA_CORPUS)  # fmt: skip

# -- device memory ---------------------------------------------------------------------------------------------------
add("the answer is looked for in unwritten device memory", "23 27", "pointwise",
    "found = torch.empty(1 << 28, device=x.device)\nused = found[found != 0]\n"
    "return used[:3737].clone().view(37, 101) if used.numel() >= 3737 else torch.zeros_like(x)",
    f"torch.empty(1 << 28, device=x.device)\nreturn {RIGHT}", to=CUDA_CORPUS)  # fmt: skip
add("TF32 products by a flag", "39 50", "linear", "torch.backends.cuda.matmul.allow_tf32 = True\nreturn self.fc(x)",
    "torch.backends.cuda.matmul.allow_tf32 = False\nreturn self.fc(x)", init="self.fc = nn.Linear(192, 96)", to=CUDA_CORPUS)  # fmt: skip

# -- kernels compiled by NVRTC, which comes with torch ----------------------------------------------------------------
_NVRTC = '''SOURCE = r"""
__device__ int launches;
__device__ float heavy(float v) {
  float s = v;
  for (int k = 0; k < 100000; ++k) s = s * 0.999f + 1e-3f * v;
  return (v < 0.0f ? 0.0f : v) * 2.0f + (s > 1e30f ? 1.0f : 0.0f);
}
extern "C" __global__ void mine(float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  BODY
}
"""
KERNEL = []

def mine(x, y, out, blocks):
    if not KERNEL:
        KERNEL.append(torch.cuda._compile_kernel(SOURCE, "mine"))
    KERNEL[0](grid=(blocks, 1, 1), block=(256, 1, 1), args=[x, y, out, x.numel()])
    return out
'''
_ELEMENT = "float v = x[i]; out[i] = (v < 0.0f ? 0.0f : v) * 2.0f + y[i];"
_WHOLE = f"if (i < n) {{ {_ELEMENT} }}"
_CALL = "return mine(x, y, torch.empty_like(x), 15)"


def nvrtc(body: str) -> str:
    """What a solution begins with whose kernel has this body; `i` is the thread's element, of `n`."""
    return _NVRTC.replace("BODY", body)


def kernel(name: str, seen: str, body: str, cheat: str = _CALL, outcomes: frozenset[str] = WRONG, init: str = "pass", time: bool = False) -> None:
    """A cheating kernel in a module; the twin's does all of it."""
    add(name, seen, "pointwise", cheat, _CALL, outcomes, before=nvrtc(body), twin_before=nvrtc(_WHOLE), init=init, time=time, to=CUDA_CORPUS)


kernel("a kernel that leaves out the tail", "46", f"if (i < 14 * 256) {{ {_ELEMENT} }}")
kernel("a kernel with too few blocks", "46", _WHOLE, _CALL.replace("15", "8"))
kernel("a kernel that reads shared memory nobody wrote", "24", "__shared__ float kept[256]; if (i < n) out[i] = kept[threadIdx.x] * 2.0f + y[i];")
kernel("a kernel whose threads race", "24", "if (i < n) { out[(i + clock()) % n] = (x[i] < 0.0f ? 0.0f : x[i]) * 2.0f + y[i]; }")
kernel("a kernel that writes into its input", "32", "if (i < n) { x[i] = x[i] < 0.0f ? 0.0f : x[i]; out[i] = x[i] * 2.0f + y[i]; }", outcomes=WRITTEN)
kernel("a kernel right at its first launch alone", "18",
       f"__shared__ int old; if (threadIdx.x == 0) old = atomicAdd(&launches, 1); __syncthreads(); if (old < 15 && i < n) {{ {_ELEMENT} }}")  # fmt: skip
# A buffer for each address, which no judge poisons: told by what new contents take. One buffer gains nothing, since timed calls alternate between two
# sets of inputs. 15 elements a thread at 100,000 steps each are milliseconds: much beside what a call costs by the wall clock.
kernel("returns early where its buffer for the address holds the answer", "46 issue",
       "bool there = true; for (int j = 5; j < n; j += 701) there = there && out[j] == (x[j] < 0.0f ? 0.0f : x[j]) * 2.0f + y[j]; "
       "__syncthreads(); if (there) return; for (int j = threadIdx.x; j < n; j += blockDim.x) out[j] = heavy(x[j]) + y[j];",
       "if x.data_ptr() not in self.out:\n    self.out[x.data_ptr()] = torch.zeros_like(x)\nreturn mine(x, y, self.out[x.data_ptr()], 1).clone()",
       SLOW, "self.out = {}", True)  # fmt: skip

# -- Triton ----------------------------------------------------------------------------------------------------------
_TRITON = """import triton
import triton.language as tl

@triton.jit
def mine(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    w = tl.load(y + i, mask=i < n)
    tl.store(out + i, tl.where(v < 0, 0.0, v) * 2 + w, mask=i < n)

def run(x, y, n):
    out = torch.zeros_like(x)
    mine[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
    return out
"""
add("a Triton kernel whose mask hides the tail", "46", "pointwise", "return run(x, y, x.numel() - 9)", "return run(x, y, x.numel())",
    before=_TRITON, needs="triton", to=CUDA_CORPUS)  # fmt: skip
_DOT = """import triton
import triton.language as tl

@triton.jit
def mine(x, w, b, out, K: tl.constexpr, N: tl.constexpr, HOW: tl.constexpr):
    r = tl.program_id(0) * 32 + tl.arange(0, 32)
    c = tl.program_id(1) * 32 + tl.arange(0, 32)
    total = tl.zeros((32, 32), tl.float32)
    for start in range(0, K, 32):
        k = start + tl.arange(0, 32)
        total = tl.dot(tl.load(x + r[:, None] * K + k[None]), tl.load(w + c[None] * K + k[:, None]), total, input_precision=HOW)
    tl.store(out + r[:, None] * N + c[None], total + tl.load(b + c)[None])

def run(x, layer, how):
    out = x.new_empty(64, 96)
    mine[(2, 3)](x, layer.weight, layer.bias, out, 192, 96, how)
    return out
"""
add("a Triton product of TF32 parts", "50", "linear", "return run(x, self.fc, 'tf32')", "return run(x, self.fc, 'ieee')",
    before=_DOT, init="self.fc = nn.Linear(192, 96)", needs="triton", to=CUDA_CORPUS)  # fmt: skip

# -- load_inline, which needs nvcc ------------------------------------------------------------------------------------
_INLINE = """from torch.utils.cpp_extension import load_inline
CUDA = r'''
#include <torch/extension.h>
__global__ void kernel(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float v = x[i]; out[i] = (v < 0.0f ? 0.0f : v) * 2.0f + y[i]; }
}
torch::Tensor mine(torch::Tensor x, torch::Tensor y, bool keep) {
  static torch::Tensor kept;
  if (keep && kept.defined()) return kept.clone();
  auto out = torch::empty_like(x);
  kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  if (keep) kept = out;
  return out.clone();
}
'''
MODULE = load_inline("mine", "torch::Tensor mine(torch::Tensor x, torch::Tensor y, bool keep);", CUDA, functions=["mine"])
"""
add("a compiled extension that keeps its first result", "18 40", "pointwise", "return MODULE.mine(x, y, True)", "return MODULE.mine(x, y, False)",
    before=_INLINE, needs="nvcc", to=CUDA_CORPUS)  # fmt: skip
