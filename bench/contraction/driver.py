"""CUDA driver and NVRTC through ctypes: just what launching one kernel of a tile plan needs."""

from __future__ import annotations

import ctypes
import functools
import glob
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

SHARED_LIMIT = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


class Attribute(ctypes.Structure):
    """CUlaunchAttribute: an id, and a union of 64 bytes of which three words are used."""

    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    """CUlaunchConfig"""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    ]


def _nvrtc() -> ctypes.CDLL | None:
    names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
    for folder in [*sys.path, "/usr/local/cuda/lib64"]:
        names += glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so.*")) + glob.glob(os.path.join(folder, "libnvrtc.so*"))
    for name in names:
        try:
            for builtins in glob.glob(os.path.join(os.path.dirname(name), "libnvrtc-builtins.so*")) if "/" in name else []:
                ctypes.CDLL(builtins)  # a wheel's folder is on no search path
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


@functools.cache
def architecture() -> str:
    """Of the first GPU, asked without a context of its own; Hopper where there is none."""
    nvidia_smi = shutil.which("nvidia-smi")
    if nvidia_smi is None:
        return "sm_90a"
    answer = subprocess.run([nvidia_smi, "--query-gpu=compute_cap", "--format=csv,noheader"], capture_output=True, text=True, check=False).stdout.split()
    if not answer:
        return "sm_90a"
    major, minor = answer[0].split(".")
    return f"sm_{major}{minor}" + ("a" if int(major) >= 9 else "")


def _nvcc(source: str) -> tuple[bytes, str]:
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "k.cu"), "w") as file:
            file.write(source)
        run = subprocess.run(
            [nvcc, f"-arch={architecture()}", "-cubin", "-Xptxas", "-v", "k.cu", "-o", "k.cubin"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise RuntimeError(run.stderr)
        with open(os.path.join(folder, "k.cubin"), "rb") as binary:
            return binary.read(), run.stderr


def compile_text(source: str) -> tuple[bytes, str]:
    """A cubin for the GPU that is there and what the compiler said; through NVRTC, else nvcc. RuntimeError where the text does not compile."""
    lib = _nvrtc()
    if lib is None:
        return _nvcc(source)
    program = ctypes.c_void_p()
    lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"contraction.cu", 0, None, None)
    options = [f"--gpu-architecture={architecture()}".encode(), b"--ptxas-options=-v"]
    status = lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    lib.nvrtcGetProgramLog(program, log)
    text = log.value.decode(errors="replace")
    if status:
        raise RuntimeError(text)
    lib.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetCUBIN(program, cubin)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw, text


class Driver:
    """libcuda on the context that is current (torch's). One thread."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *args: Any) -> None:
        status = getattr(self.lib, name)(*args)
        if status:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

    def load(self, cubin: bytes, entry: str, shared: int) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        self.call("cuFuncSetAttribute", function, SHARED_LIMIT, shared)
        return function

    def config(self, blocks: int, threads: int, shared: int, stream: int, cluster: int = 1) -> Config:
        config = Config((ctypes.c_uint * 3)(blocks, 1, 1), (ctypes.c_uint * 3)(threads, 1, 1), shared, stream, None, 0)
        if cluster > 1:
            config.attributes = ctypes.pointer(Attribute(CLUSTER, 0, (ctypes.c_uint * 16)(cluster, 1, 1)))
            config.count = 1
        return config

    def launch(self, function: ctypes.c_void_p, config: Config, arguments: list[Any]) -> None:
        places = (ctypes.c_void_p * len(arguments))(*[ctypes.cast(ctypes.pointer(a), ctypes.c_void_p) for a in arguments])
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, places, None)
