"""Compiles, runs, checks and times what planish-emit-dump printed, on a GPU, each kernel family in a process of its own.

    planish-emit-dump --small --random 8 > small.json && python tests/gpu/emit_check.py small.json
    planish-emit-dump --columns --most 2 --random 1 > columns.json && python tests/gpu/emit_check.py columns.json
    planish-emit-dump --small --windows --with down=4 --random 8 > windows.json && python tests/gpu/emit_check.py windows.json
    planish-emit-dump --small --teams --shared 4096 --random 4 > teams.json && python tests/gpu/emit_check.py teams.json
    planish-emit-dump --large --genomes tests/gpu/cooperative_genomes.txt > ways.json && python tests/gpu/emit_check.py ways.json --time
    planish-emit-dump --large --genomes tests/gpu/math_genomes.txt > math.json && python tests/gpu/emit_check.py math.json --time
    planish-emit-dump --large            > large.json && python tests/gpu/emit_check.py large.json --time
    planish-emit-dump --small --cross --sms 8 --random 8 > both.json && python tests/gpu/emit_check.py both.json
    planish-emit-dump --large --cross --genomes tests/gpu/row_and_column_genomes.txt > ways.json && python tests/gpu/emit_check.py ways.json --time
    planish-emit-dump --small --early --sms 8 --random 6 > early.json && python tests/gpu/emit_check.py early.json
    planish-emit-dump --small --triton --random 4 > triton.json && python tests/gpu/emit_check.py triton.json
    planish-emit-dump --small --orders --random 8 > orders.json && python tests/gpu/emit_check.py orders.json
    planish-emit-dump --large --orders   > orders.json && python tests/gpu/emit_check.py orders.json --time
    python tests/gpu/emit_check.py small.json --compile-only      # no GPU: registers and spills

Outputs are poisoned, lie between canaries, are compared with fp64 (no worse than twice torch's own fp32), and two runs must agree bit for bit.
GB/s counts every input and output once.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import glob
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

MARGIN = 256  # canary bytes on both sides of an output; keeps 16-byte alignment
CANARY = 0xA5
WHOLE = (  # not by dimension 0
    "transpose_add", "softmax_columns", "logsumexp_columns", "batch_standardize", "column_stats", "extremes", "reductions",
    "stored_folds", "stored_moments", "stored_twice", "stored_centred", "stored_position", "gelu_gradient",
    "both_sums", "both_folds", "both_logsumexp", "softmax_sums", "column_sums",
)  # fmt: skip
SLICE_ELEMENTS = 1 << 26  # compared elements of one output at most, from the start and the end of dimension 0


def load_nvrtc() -> ctypes.CDLL:
    places = [str(Path(p) / "nvidia") for p in sys.path] + ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib"]
    found = [f for p in places for f in glob.glob(p + "/**/libnvrtc.so.1[23]", recursive=True)]
    for name in [*found, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]:
        # The compiler looks for its builtins by bare name: having them loaded already is enough.
        for builtins in glob.glob(os.path.join(os.path.dirname(name), "libnvrtc-builtins.so.*[0-9]")) if os.path.dirname(name) else []:
            with contextlib.suppress(OSError):
                ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise SystemExit("error: libnvrtc was not found\nhint: pip install nvidia-cuda-nvrtc, or put the toolkit's lib64 on LD_LIBRARY_PATH")


def resources(report: str) -> tuple[int, int]:
    """Registers and spilled bytes, from ptxas."""
    registers = re.search(r"Used (\d+) registers", report)
    spills = re.search(r"(\d+) bytes spill stores", report)
    stack = re.search(r"(\d+) bytes stack frame", report)
    return int(registers[1]) if registers else 0, max(int(spills[1]) if spills else 0, int(stack[1]) if stack else 0)


def apart(report: str, one: dict[str, Any]) -> str:
    """Of a launch whose blocks wait for each other: why fewer of them run at once than it counts on, as CUDA's occupancy rules for sm_90
    have it; empty where all do. The least blocks a multiprocessor of its launch bounds are what the plan made teams for."""
    bounds = re.search(r"__launch_bounds__\((\d+), (\d+)\)", one["source"])
    used = re.search(r"Used (\d+) registers", report)
    if not one.get("cooperative") or not bounds or not used:
        return ""
    barriers, static = re.search(r"used (\d+) barriers", report), re.search(r"(\d+) bytes smem", report)
    warps, registers = -(-one["block"][0] // 32), -(-int(used[1]) * 32 // 256) * 256
    shared = -(-(one["shared"] + (int(static[1]) if static else 0) + 1024) // 128) * 128
    held = {"registers": 16384 // registers * 4 // warps, "warps": 64 // warps, "shared memory": (228 << 10) // shared, "blocks": 32}
    held["barriers"] = 64 // max(1, int(barriers[1]) if barriers else 0)
    least = min(held, key=lambda name: held[name])
    return "" if held[least] >= int(bounds[2]) else f"{held[least]} blocks a multiprocessor by {least}, {bounds[2]} are counted on"


class Triton:
    """The compile worker's own Python part, started when first needed."""

    def __init__(self) -> None:
        self.channel: Any = None

    def start(self) -> None:
        package = Path(__file__).resolve().parents[2] / "python"
        sys.path.insert(0, str(package))
        from planish.wire import Channel

        ours, theirs = socket.socketpair()
        there = f"import os; os.dup2({theirs.fileno()}, 3); os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'planish.triton_worker'])"
        environment = {**os.environ, "PYTHONPATH": f"{package}:{os.environ.get('PYTHONPATH', '')}"}
        subprocess.Popen([sys.executable, "-c", there], pass_fds=[theirs.fileno()], env=environment)
        theirs.close()
        self.channel = Channel(ours)

    def compile(self, one: dict[str, Any]) -> tuple[bytes, int, int, str]:
        if self.channel is None:
            self.start()
        from planish.errors import PlanishError

        with tempfile.TemporaryDirectory() as folder:
            job = {"source": one["source"], "entry": one["entry"], "flags": one["flags"], "arch": "sm_90a", "folder": folder}
            try:
                self.channel.request(1, "compile", job)
            except PlanishError as error:
                return b"", 0, 0, str(error)
            return (Path(folder) / "kernel.cubin").read_bytes(), *resources((Path(folder) / "kernel.log").read_text()), ""


class Compiler:
    def __init__(self) -> None:
        self.nvrtc = load_nvrtc()
        self.triton = Triton()
        self.report = ""  # of ptxas, about the CUDA source compiled last

    def compile(self, one: dict[str, Any]) -> tuple[bytes, int, int, str]:
        """Cubin for sm_90a, registers, spilled bytes and the error (empty if it compiled)."""
        return self.triton.compile(one) if one.get("language") == "triton" else self.cuda(one["source"])

    def cuda(self, source: str) -> tuple[bytes, int, int, str]:
        program = ctypes.c_void_p()
        self.nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
        options = [b"--gpu-architecture=sm_90a", b"--std=c++17", b"--ptxas-options=-v"]
        code = self.nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        size = ctypes.c_size_t()
        self.nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.nvrtc.nvrtcGetProgramLog(program, log)
        text = self.report = log.value.decode()
        if code != 0:
            return b"", 0, 0, text
        self.nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        self.nvrtc.nvrtcGetCUBIN(program, cubin)
        self.nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        return cubin.raw, *resources(text), ""


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]  # fmt: skip


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 3), ("rest", ctypes.c_char * 52)]


class Driver:
    """Loads and launches cubins in torch's primary context."""

    def __init__(self) -> None:
        self.cu = ctypes.CDLL("libcuda.so.1")

    def check(self, code: int, what: str) -> None:
        if code != 0:
            text = ctypes.c_char_p()
            self.cu.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{what}: {text.value.decode() if text.value else code}")

    def load(self, cubin: bytes, variant: dict[str, Any]) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.cu.cuModuleLoadData(ctypes.byref(module), cubin), "load")
        self.check(self.cu.cuModuleGetFunction(ctypes.byref(function), module, variant["entry"].encode()), "entry")
        if variant["shared"] > 0:
            self.check(self.cu.cuFuncSetAttribute(function, 8, variant["shared"]), "dynamic shared memory")
        if variant["cluster"][0] > 8:
            self.check(self.cu.cuFuncSetAttribute(function, 14, 1), "non-portable cluster")
        return module, function

    def unload(self, module: ctypes.c_void_p) -> None:
        self.cu.cuModuleUnload(module)

    def launcher(self, function: ctypes.c_void_p, variant: dict[str, Any], pointers: list[int]) -> Any:
        values = [ctypes.c_void_p(p) for p in pointers]
        parameters = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        wanted = [LaunchAttribute(id=4, value=tuple(variant["cluster"]))] if variant["cluster"][0] > 1 else []
        wanted += [LaunchAttribute(id=2, value=(1, 0, 0))] if variant.get("cooperative") else []
        attributes = (LaunchAttribute * 2)(*wanted)
        config = LaunchConfig(grid=(ctypes.c_uint * 3)(*variant["grid"]), block=(ctypes.c_uint * 3)(*variant["block"]), shared=variant["shared"])
        config.attributes, config.count = ctypes.addressof(attributes), len(wanted)
        keep = (values, attributes)

        def launch(stream: int) -> None:
            assert keep
            config.stream = stream
            self.check(self.cu.cuLaunchKernelEx(ctypes.byref(config), function, parameters, None), "launch")

        return launch


def slices(kernel: dict[str, Any]) -> list[slice]:
    """Parts of dimension 0 to compare: everything, or a piece at both ends."""
    shape = kernel["outputs"][0]["shape"]
    if not shape:
        return [slice(None)]
    total = 1
    for n in shape:
        total *= n
    if total <= SLICE_ELEMENTS or kernel["family"] in WHOLE:
        return [slice(None)]
    rows = max(1, SLICE_ELEMENTS // 2 // (total // shape[0]))
    return [slice(0, rows), slice(shape[0] - rows, shape[0])]


def work(document: dict[str, Any], number: int, options: argparse.Namespace) -> int:
    import torch
    from emit_references import DTYPES, compare, make_inputs, reference

    kernel = document["kernels"][number]
    label = f"{kernel['family']} {kernel['parameters']}"
    compiler, driver = Compiler(), Driver()
    inputs = make_inputs(kernel, "cuda")
    rows = kernel["outputs"][0]["shape"][0] if kernel["outputs"][0]["shape"] else -1
    bytes_moved = sum(t.numel() * t.element_size() for t in inputs)
    parts = slices(kernel)
    expected = []
    for part in parts:
        rank = len(kernel["outputs"][0]["shape"])
        cut = [t[part] if kernel["family"] not in WHOLE and t.ndim and t.shape[0] == rows and t.ndim >= rank else t for t in inputs]
        if kernel["family"] == "integers":
            cut = [inputs[0][part], inputs[1][part]]
        with torch.no_grad():
            expected.append((part, reference(kernel, cut, torch.float64), reference(kernel, cut, torch.float32)))
    buffers, outputs = [], []
    for declared in kernel["outputs"]:
        dtype = DTYPES[declared["dtype"]]
        count = 1
        for n in declared["shape"]:
            count *= n
        size = count * torch.empty((), dtype=dtype).element_size()
        bytes_moved += size
        raw = torch.full((size + 2 * MARGIN + 16,), CANARY, dtype=torch.uint8, device="cuda")
        buffers.append((raw, size))
        outputs.append(raw[MARGIN : MARGIN + size].view(dtype).view(declared["shape"]))
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda") if options.time else None
    failures = 0
    for variant in kernel.get("variants", []):
        if "error" in variant:
            print(f"FAIL {label} [{variant['genome']}]: {variant['error']}", flush=True)
            failures += 1
            continue
        compiled = [(one, *compiler.compile(one)) for one in [variant, *variant.get("after", [])]]
        error = next((c[4] for c in compiled if c[4]), "")
        registers, spilled = max(c[2] for c in compiled), max(c[3] for c in compiled)
        if error:
            print(f"FAIL {label} [{variant['genome']}]: {error[:800]}", flush=True)
            failures += 1
            continue
        # Poisoned once: what no launch wrote must not be merged.
        scratch = [torch.full((max(size, 1),), 255, dtype=torch.uint8, device="cuda") for size in variant.get("scratch_bytes", [])]
        buffer_of = {"input": inputs, "output": outputs, "scratch": scratch}
        try:
            modules, launches = [], []
            for one, cubin, *_ in compiled:
                module, function = driver.load(cubin, one)
                modules.append(module)
                pointers = [buffer_of[kind][index].data_ptr() for kind, index in one["args"]]
                if one.get("language") == "triton":
                    pointers += [0, 0]  # its two scratch pointers, unused
                launches.append(driver.launcher(function, one, pointers))

            zeroed = [scratch[index] for index in variant.get("zeroed", [])]

            def launch(stream: int, launches: list[Any] = launches, zeroed: list[torch.Tensor] = zeroed) -> None:
                for one in zeroed:
                    one.zero_()
                for one in launches:
                    one(stream)

            stream = torch.cuda.current_stream().cuda_stream
            sums = []
            for _ in range(2):
                for raw, _size in buffers:
                    raw.fill_(CANARY)
                torch.cuda.synchronize()
                launch(stream)
                torch.cuda.synchronize()
                sums.append([raw.clone() if raw.numel() < 1 << 28 else raw[: 1 << 28].clone() for raw, _size in buffers])
            wrong = ""
            for part, exact, plain in expected:
                wrong = wrong or compare(kernel, [o[part] if o.ndim else o for o in outputs], exact, plain)
            for raw, size in buffers:
                if not (bool((raw[:MARGIN] == CANARY).all()) and bool((raw[MARGIN + size :] == CANARY).all())):
                    wrong = wrong or "wrote outside an output"
            if not all(torch.equal(a, b) for a, b in zip(*sums, strict=True)):
                wrong = wrong or "two runs differ"
            del sums
        except RuntimeError as problem:  # the context is probably gone: the parent goes on with the next family
            print(f"FAIL {label} [{variant['genome']}]: {problem}", flush=True)
            return 1
        speed = ""
        if options.time:
            times = []
            started = time.monotonic()
            while len(times) < 25 and time.monotonic() - started < 3:
                flush.zero_()
                a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                a.record()
                launch(stream)
                b.record()
                torch.cuda.synchronize()
                times.append(a.elapsed_time(b))
            median = sorted(times)[len(times) // 2]
            speed = f" {median:9.4f} ms {bytes_moved / median / 1e6:7.0f} GB/s"
        for module in modules:
            driver.unload(module)
        failures += bool(wrong)
        guess = variant["estimated_registers"]
        print(
            f"{'FAIL' if wrong else 'ok  '}{speed} {label} [{variant['genome']}] registers {registers} (estimated {guess})"
            f"{f' SPILLS {spilled}' if spilled else ''} {wrong}",
            flush=True,
        )
    return 1 if failures or not kernel.get("variants") else 0


def compile_only(document: dict[str, Any], only: str) -> int:
    compiler = Compiler()
    failures = 0
    for kernel in document["kernels"]:
        if only and kernel["family"] != only:
            continue
        for variant in kernel.get("variants", []):
            if "error" in variant:
                print(f"FAIL {kernel['family']} {kernel['parameters']} [{variant['genome']}]: {variant['error']}")
                failures += 1
                continue
            started = time.monotonic()
            compiled = [compiler.compile(one) for one in [variant, *variant.get("after", [])]]
            error = next((c[3] for c in compiled if c[3]), "") or apart(compiler.report, variant)
            registers, spilled = max(c[1] for c in compiled), max(c[2] for c in compiled)
            bad = bool(error) or (variant["seed"] and spilled > 0)
            failures += bad
            print(
                f"{'FAIL' if bad else 'ok  '} {time.monotonic() - started:5.2f} s {kernel['family']} {kernel['parameters']} [{variant['genome']}] "
                f"registers {registers} (estimated {variant['estimated_registers']}){f' SPILLS {spilled}' if spilled else ''} {error[:600]}",
                flush=True,
            )
    print(f"{failures} failures")
    return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump")
    parser.add_argument("--family", default="")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="kernels checked at the same time, each in a process of its own")
    parser.add_argument("--timeout", type=float, default=240, help="seconds for one kernel with all its variants")
    parser.add_argument("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    document = json.loads(Path(options.dump).read_text())
    if options.compile_only:
        return compile_only(document, options.family)
    if options.worker >= 0:
        return work(document, options.worker, options)
    failed = []

    def one(number: int) -> None:
        kernel = document["kernels"][number]
        command = [sys.executable, os.path.abspath(__file__), options.dump, "--worker", str(number)] + (["--time"] if options.time else [])
        try:
            done = subprocess.run(command, timeout=options.timeout, capture_output=options.jobs > 1, text=True)
            code = done.returncode
            if options.jobs > 1:
                print(done.stdout + ("" if code == 0 else done.stderr[-2000:]), end="", flush=True)
        except subprocess.TimeoutExpired:
            code = -1
            print(f"FAIL {kernel['family']} {kernel['parameters']}: took more than {options.timeout} s", flush=True)
        if code != 0:
            failed.append(f"{kernel['family']} {kernel['parameters']} (exit {code})")

    if options.time and options.jobs > 1:
        raise SystemExit("error: kernels are timed one after the other\nhint: leave --jobs out")
    wanted = [n for n, kernel in enumerate(document["kernels"]) if not options.family or kernel["family"] == options.family]
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, wanted))
    print(f"{len(failed)} kernels failed" + "".join(f"\n  {name}" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
