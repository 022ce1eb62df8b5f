"""Tries libplanish_rt and planish-runner on a real GPU: sharing, read-only inputs, faults, clusters, timing.

    python tests/gpu/runtime_smoke.py build/lib/libplanish_rt.so build/bin/planish-runner

Needs torch with CUDA and NVRTC (torch's own packages or a toolkit). Prints one line a step; exits 1 if any step failed, 3 without a GPU.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

CANARY_KERNELS = r"""
extern "C" __global__ void affine(const float4* __restrict__ x, float4* __restrict__ y, long long n4) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n4) {
    float4 v = x[i];
    y[i] = make_float4(2 * v.x + 1, 2 * v.y + 1, 2 * v.z + 1, 2 * v.w + 1);
  }
}
extern "C" __global__ void scalars(float* y, int a, long long b, float c, double d) {
  y[0] = a; y[1] = (float)b; y[2] = c; y[3] = (float)d;
}
extern "C" __global__ void write_input(float* x, float* y, long long n4) { x[threadIdx.x] = 1.0f; }
extern "C" __global__ void far_away(const float* x, float* y, long long n4) { y[n4 * 4 + threadIdx.x] = 1.0f; }
extern "C" __global__ void one_past(float* y, int n) { y[n] = 1.0f; }
extern "C" __global__ void trap(const float* x, float* y, long long n4) { asm volatile("trap;"); }
extern "C" __global__ void empty(const float* x, float* y, long long n4) {}
extern "C" __global__ void neighbours(float* y, int words) {
  extern __shared__ float room[];
  unsigned rank, size, remote;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  for (int i = threadIdx.x; i < words; i += blockDim.x) room[i] = (float)rank;
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
  unsigned local = (unsigned)__cvta_generic_to_shared(room + words - 1);
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"((rank + 1) % size));
  float theirs;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(theirs) : "r"(remote));
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) y[blockIdx.x] = theirs + 100.0f * size;
}
"""


class Error(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char * 32), ("message", ctypes.c_char * 2016)]


class DeviceInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 128), ("arch", ctypes.c_char * 16), ("uuid", ctypes.c_char * 48), ("sms", ctypes.c_int64),
        ("l2_bytes", ctypes.c_int64), ("shared_bytes_optin", ctypes.c_int64), ("memory_bytes", ctypes.c_int64), ("driver_version", ctypes.c_int64),
    ]  # fmt: skip


class Timing(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64 if n == "runs" else ctypes.c_double) for n in ("runs", "median_ms", "lo_ms", "hi_ms", "host_us")]


class RuntimeFailure(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Library:
    """The C functions of libplanish_rt with failures as exceptions."""

    def __init__(self, path: str) -> None:
        self.c = ctypes.CDLL(os.path.abspath(path))
        for name in ("data",):
            getattr(self.c, f"prt_buffer_{name}").restype = ctypes.c_void_p
        for name in ("offset", "map_bytes", "guard_bytes"):
            getattr(self.c, f"prt_buffer_{name}").restype = ctypes.c_uint64
        for name in ("data", "offset", "map_bytes", "guard_bytes", "fd", "free"):
            getattr(self.c, f"prt_buffer_{name}").argtypes = [ctypes.c_void_p]
        self.c.prt_program_free.argtypes = [ctypes.c_void_p]

    def call(self, name: str, *args: Any) -> None:
        error = Error()
        if getattr(self.c, f"prt_{name}")(*args, ctypes.byref(error)) != 0:
            raise RuntimeFailure(error.kind.decode(), error.message.decode())


class Buffer:
    def __init__(self, lib: Library, n_bytes: int, seal: bool = False) -> None:
        self.lib, self.bytes, self.handle = lib, n_bytes, ctypes.c_void_p()
        lib.call("buffer_create", 0, ctypes.c_uint64(n_bytes), int(seal), ctypes.byref(self.handle))
        self.pointer: int = lib.c.prt_buffer_data(self.handle)
        self.fd: int = lib.c.prt_buffer_fd(self.handle)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.bytes // 4,), "typestr": "<f4", "data": (self.pointer, False), "version": 3}

    def intact(self) -> bool:
        ok = ctypes.c_int()
        self.lib.call("buffer_guards", self.handle, ctypes.byref(ok))
        return ok.value == 1

    def describe(self, index: int, writable: bool) -> dict[str, Any]:
        return {
            "buffer": index, "dtype": "f32", "shape": [self.bytes // 4], "strides": [1], "bytes": self.bytes, "device": "cuda", "writable": writable,
            "offset": self.lib.c.prt_buffer_offset(self.handle), "map_bytes": self.lib.c.prt_buffer_map_bytes(self.handle),
        }  # fmt: skip

    def free(self) -> None:
        self.lib.c.prt_buffer_free(self.handle)


class Runner:
    def __init__(self, path: str, *options: str) -> None:
        self.ours, theirs = socket.socketpair()
        command = ["bash", "-c", f'exec "$@" 3<&{theirs.fileno()}', "runner", os.path.abspath(path), "--device", "cuda:0", *options]
        self.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
        theirs.close()
        self.ours.settimeout(60)
        self.text = b""
        self.id = 0

    def call(self, method: str, params: dict[str, Any], fds: list[int] | None = None) -> dict[str, Any]:
        self.id += 1
        message: dict[str, Any] = {"id": self.id, "method": method, "params": params}
        if fds:
            message["fds"] = len(fds)
        data = json.dumps(message).encode() + b"\n"
        sent = socket.send_fds(self.ours, [data], fds or [])
        self.ours.sendall(data[sent:])
        while b"\n" not in self.text:
            chunk = self.ours.recv(1 << 16)
            if not chunk:
                raise RuntimeFailure("gone", f"the runner ended with {self.process.wait()}")
            self.text += chunk
        line, self.text = self.text.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeFailure(answer["error"]["kind"], answer["error"]["message"])
        if "result" not in answer:
            raise RuntimeFailure("event", line.decode())
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        self.ours.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeFailure("hang", "the runner did not end with its socket") from None


def find_nvrtc() -> ctypes.CDLL:
    """NVRTC from the nvidia packages beside torch, else from a toolkit; its builtins must be loaded first."""
    import importlib.util

    folders = []
    for package in ("nvidia", "torch"):
        spec = importlib.util.find_spec(package)
        for root in spec.submodule_search_locations or [] if spec else []:
            folders += [os.path.dirname(p) for p in glob.glob(f"{root}/**/libnvrtc.so*", recursive=True)]
    folders += ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/lib/x86_64-linux-gnu"]
    for folder in folders:
        libraries = sorted(glob.glob(f"{folder}/libnvrtc.so*"))
        if libraries:
            for builtins in sorted(glob.glob(f"{folder}/libnvrtc-builtins.so*"))[:1]:
                ctypes.CDLL(builtins)
            return ctypes.CDLL(libraries[0])
    raise RuntimeError(f"no libnvrtc in {folders}")


def compile_cubin(source: str, arch: str) -> bytes:
    nvrtc = find_nvrtc()
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"smoke.cu", 0, None, None)
    options = [f"--gpu-architecture={arch}".encode()]
    code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if code != 0:
        raise RuntimeError(f"NVRTC error {code}: {log.value.decode()}")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    return cubin.raw


def buffer(role: str, shape: list[int], dtype: str = "f32", strides: list[int] | None = None) -> dict[str, Any]:
    if strides is None:
        strides = [1] * len(shape)
        for i in range(len(shape) - 2, -1, -1):
            strides[i] = strides[i + 1] * shape[i + 1]
    return {"role": role, "dtype": dtype, "shape": shape, "strides": strides}


def launch(args: list[Any], grid: int = 1, block: int = 32, cluster: int = 1, shared: int = 0) -> dict[str, Any]:
    return {"kind": "launch", "kernel": 0, "grid": [grid, 1, 1], "block": [block, 1, 1], "cluster": [cluster, 1, 1], "shared": shared, "args": args}


def program(arch: str, entry: str, buffers: list[Any], steps: list[Any]) -> dict[str, Any]:
    return {
        "schema": "planish.program/1", "target": "cuda", "arch": arch, "buffers": buffers, "steps": steps, "outputs": [],
        "kernels": [{"language": "cuda", "entry": entry, "flags": [], "source": ""}],
    }  # fmt: skip


class Smoke:
    def __init__(self, library: str, runner: str) -> None:
        self.lib, self.runner_path = Library(library), runner
        self.rows: list[tuple[str, float, str, str]] = []
        self.arch, self.flush = "sm_90a", 0
        self.folder = tempfile.mkdtemp(prefix="planish-smoke-")
        self.cubin = os.path.join(self.folder, "smoke.cubin")

    def step(self, name: str, body: Callable[[], str | None]) -> bool:
        start = time.perf_counter()
        try:
            verdict, detail = "ok", body() or ""
        except Exception as error:  # reports everything and goes on
            verdict, detail = "FAIL", f"{type(error).__name__}: {error}"
            if not isinstance(error, (RuntimeFailure, AssertionError)):
                traceback.print_exc()
        self.rows.append((name, 1e3 * (time.perf_counter() - start), verdict, detail))
        print(f"{verdict:4}  {self.rows[-1][1]:9.2f} ms  {name:44}  {detail}", flush=True)
        return verdict == "ok"

    def local(self, document: dict[str, Any]) -> ctypes.c_void_p:
        text = json.dumps(document).encode()
        handle = ctypes.c_void_p()
        paths = (ctypes.c_char_p * 1)(self.cubin.encode())
        self.lib.call("program_load", 0, text, ctypes.c_size_t(len(text)), paths, 1, ctypes.byref(handle))
        return handle

    def run_local(self, document: dict[str, Any], pointers: list[int | None], stream: int = 0) -> None:
        handle = self.local(document)
        table = (ctypes.c_void_p * len(pointers))(*pointers)
        self.lib.call("synchronize", 0)  # torch filled the tensors on a stream of its own
        try:
            self.lib.call("program_run", handle, table, len(pointers), 0, len(document["steps"]), ctypes.c_void_p(stream))
            self.lib.call("synchronize", 0)
        finally:
            self.lib.c.prt_program_free(handle)

    # ---- steps ----
    def device(self) -> str:
        info = DeviceInfo()
        self.lib.call("device_info_get", 0, ctypes.byref(info))
        self.arch, self.flush = info.arch.decode(), 2 * info.l2_bytes
        assert info.sms > 0 and info.uuid.startswith(b"GPU-") and info.shared_bytes_optin > 48 << 10
        return f"{info.name.decode()} {self.arch} {info.uuid.decode()} {info.sms} SMs, L2 {info.l2_bytes >> 20} MiB, driver {info.driver_version}"

    def context(self) -> None:
        Buffer(self.lib, 1).free()

    def create(self) -> str:
        self.x, self.y = Buffer(self.lib, 256 << 20, seal=True), Buffer(self.lib, 256 << 20)
        assert self.x.pointer % 256 == 0 and self.y.pointer % 256 == 0
        return f"x at {self.x.pointer:#x}, map {self.lib.c.prt_buffer_map_bytes(self.x.handle)}, guard {self.lib.c.prt_buffer_guard_bytes(self.x.handle)}"

    def wrap(self) -> str:
        import torch

        self.tx, self.ty = torch.as_tensor(self.x, device="cuda"), torch.as_tensor(self.y, device="cuda")
        assert self.tx.data_ptr() == self.x.pointer and self.ty.data_ptr() == self.y.pointer, "torch copied"
        self.tx.normal_()
        self.ty.fill_(float("nan"))
        torch.cuda.synchronize()
        return f"torch {torch.__version__}"

    def compile(self) -> str:
        cubin = compile_cubin(CANARY_KERNELS, self.arch)
        with open(self.cubin, "wb") as file:
            file.write(cubin)
        return f"{len(cubin)} bytes"

    def big(self, entry: str) -> dict[str, Any]:
        n = self.x.bytes // 4
        args = [{"buffer": 0}, {"buffer": 1}, {"i64": n // 4}]
        grid = n // 4 // 256 if entry == "affine" else 1
        return program(self.arch, entry, [buffer("input", [n]), buffer("output", [n])], [launch(args, grid=grid, block=256)])

    def start(self, *options: str) -> str:
        self.runner = Runner(self.runner_path, *options)
        start = time.perf_counter()
        hello = self.runner.call("hello", {"device": "cuda"})
        self.handle = 0
        return f"hello after {1e3 * (time.perf_counter() - start):.1f} ms: {hello['sandbox']}"

    def load(self, entry: str) -> str:
        result = self.runner.call("load", {"program": self.big(entry), "binaries": [self.cubin], "blobs": ""})
        self.handle = result["handle"]
        return str(result["kernels"])

    def bind(self) -> None:
        buffers = [self.x.describe(0, False), self.y.describe(1, True)]
        self.runner.call("bind", {"handle": self.handle, "data": f"d{self.handle}", "buffers": buffers}, [self.x.fd, self.y.fd])

    def run(self) -> str:
        return f"{self.runner.call('run', {'handle': self.handle, 'data': f'd{self.handle}'})['ms']:.3f} ms by the runner's clock"

    def check(self) -> str:
        import torch

        torch.cuda.synchronize()
        wrong = int((self.ty != 2 * self.tx + 1).sum())
        assert wrong == 0, f"{wrong} wrong elements"
        assert self.x.intact() and self.y.intact(), "guards"
        return "every element, guards intact"

    def time(self, what: str, flush: int) -> str:
        params = {"handle": self.handle, "data": [f"d{self.handle}"], "min_runs": 20, "max_runs": 500, "max_seconds": 5, "interval": 0.01, "flush_bytes": flush}
        r = self.runner.call("time", params)
        moved = self.x.bytes + self.y.bytes if what == "affine" else 0
        rate = f", {moved / r['median_ms'] / 1e6:.0f} GB/s" if moved else ""
        assert r["median_ms"] > 0 and r["lo_ms"] <= r["median_ms"] <= r["hi_ms"]
        return f"{1e3 * r['median_ms']:.2f} us [{1e3 * r['lo_ms']:.2f}, {1e3 * r['hi_ms']:.2f}] of {len(r['samples_ms'])}, host {r['host_us']:.2f} us{rate}"

    def refused(self, entry: str, kinds: tuple[str, ...]) -> str:
        """The kernel must fail by name, in the runner alone: our own context goes on."""
        import torch

        before = self.tx[:64].clone()
        self.start()
        try:
            self.load(entry)
            self.bind()
            try:
                self.run()
            except RuntimeFailure as failure:
                assert failure.kind in kinds, f"reported as {failure}"
                said = str(failure)
            else:
                raise AssertionError("it ran")
        finally:
            self.runner.close()
        torch.cuda.synchronize()
        assert torch.equal(before, self.tx[:64]), "the input changed"
        return said

    def slack(self) -> str:
        y = Buffer(self.lib, 1000)
        assert y.intact()
        document = program(self.arch, "one_past", [buffer("output", [250])], [launch([{"buffer": 0}, {"i32": 250}], block=1)])
        self.run_local(document, [y.pointer])
        assert not y.intact(), "an overwritten canary was not seen"
        y.free()
        return "one element past the end is seen"

    def cluster(self) -> str:
        import torch

        size, shared = 16, 200 << 10
        out = torch.zeros(size * 4, device="cuda")
        steps = [launch([{"buffer": 0}, {"i32": shared // 4}], grid=size * 4, block=256, cluster=size, shared=shared)]
        self.run_local(program(self.arch, "neighbours", [buffer("output", [size * 4])], steps), [out.data_ptr()])
        expected = [(i % size + 1) % size + 100.0 * size for i in range(size * 4)]
        assert out.tolist() == expected, f"{out.tolist()}"
        return f"clusters of {size} with {shared >> 10} KiB each read their neighbour's shared memory"

    def scalars(self) -> str:
        import torch

        out = torch.zeros(4, device="cuda")
        args = [{"buffer": 0}, {"i32": -7}, {"i64": 1 << 40}, {"f32": "0x1.8p+1"}, {"f64": "-0x1p-3"}]
        self.run_local(program(self.arch, "scalars", [buffer("output", [4])], [launch(args, block=1)]), [out.data_ptr()])
        assert out.tolist() == [-7.0, float(1 << 40), 3.0, -0.125], f"{out.tolist()}"
        try:
            self.local(program(self.arch, "scalars", [buffer("output", [4])], [launch(args[:3], block=1)]))
        except RuntimeFailure as failure:
            assert failure.kind == "bad_program"
            return f"too few: {failure}"
        return "WARNING: this driver cannot tell that arguments are missing"

    def memory_steps(self) -> str:
        import torch

        dtypes = {"f64": torch.float64, "i64": torch.int64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "u8": torch.uint8}
        for name, dtype in dtypes.items():
            a, b = torch.zeros(6, 10, dtype=dtype, device="cuda"), torch.zeros(6, 10, dtype=dtype, device="cuda")
            buffers = [buffer("output", [6, 8], name, [10, 1]), buffer("temp", [6, 8], name), buffer("output", [6, 8], name, [10, 1])]
            steps = [{"kind": "set", "buffer": 0, "value": "0x1.4p+2"}, {"kind": "set", "buffer": 1, "value": "0x1.8p+1"}, {"kind": "copy", "from": 1, "to": 2}]
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call,unused-ignore]
            self.run_local(program(self.arch, "empty", buffers, steps), [a.data_ptr(), None, b.data_ptr()], stream.cuda_stream)
            assert a[:, :8].eq(5).all() and a[:, 8:].eq(0).all(), f"set {name}: {a}"
            assert b[:, :8].eq(3).all() and b[:, 8:].eq(0).all(), f"copy {name}: {b}"
        return "set, copy and a temp in 6 dtypes, strided, on another stream"

    def free(self) -> None:
        self.x.free()
        self.y.free()

    def all(self) -> bool:
        go = self.step("device", self.device)
        go = go and self.step("context and a first buffer", self.context)
        go = go and self.step("create 2 x 256 MB, map, export", self.create)
        go = go and self.step("import torch, wrap without a copy, fill", self.wrap)
        go = go and self.step("compile with NVRTC", self.compile)
        if go:
            go = self.step("start a runner, hello", self.start)
            go = go and self.step("runner: context, load", lambda: self.load("affine"))
            go = go and self.step("runner: import and map 2 x 256 MB", self.bind)
            go = go and self.step("runner: first run", self.run)
            go = go and self.step("compare with torch", self.check)
        if go:
            self.step("runner: second run", self.run)
            self.step("time, cold L2", lambda: self.time("affine", self.flush))
            self.step("time, no flush", lambda: self.time("affine", 0))
            self.step("load an empty kernel", lambda: self.load("empty"))
            self.step("bind again", self.bind)
            self.step("time an empty kernel, cold L2", lambda: self.time("empty", self.flush))
            self.step("time an empty kernel, no flush", lambda: self.time("empty", 0))
            self.step("runner ends with its socket", self.runner.close)
            self.step("a kernel that writes its input", lambda: self.refused("write_input", ("illegal_address", "launch_failed")))
            self.step("a kernel that writes behind its output", lambda: self.refused("far_away", ("illegal_address", "launch_failed")))
            self.step("a kernel that traps", lambda: self.refused("trap", ("launch_failed", "illegal_address")))
            self.step("a write into the slack", self.slack)
            self.step("cluster of 16, 200 KB shared", self.cluster)
            self.step("scalar arguments", self.scalars)
            self.step("set and copy", self.memory_steps)
            limits = ("--no-network", "--max-rss", str(8 << 30))
            if self.step("a runner with limits", lambda: self.start(*limits)):
                self.step("  load", lambda: self.load("affine"))
                self.step("  bind", self.bind)
                self.step("  run", self.run)
                self.step("  compare with torch", self.check)
                self.step("  end", self.runner.close)
            self.step("free 2 x 256 MB", self.free)
        failed = [name for name, _, verdict, _ in self.rows if verdict != "ok"]
        print(f"{len(self.rows) - len(failed)} of {len(self.rows)} steps ok" + (f"; failed: {', '.join(failed)}" if failed else ""))
        return not failed


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    smoke = Smoke(sys.argv[1], sys.argv[2])
    count = ctypes.c_int()
    smoke.lib.call("device_count", ctypes.byref(count))
    if count.value == 0:
        print("no CUDA device", file=sys.stderr)
        return 3
    return 0 if smoke.all() else 1


if __name__ == "__main__":
    sys.exit(main())
