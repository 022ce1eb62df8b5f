"""Golden kernels compile for the architectures that they are for: the accepted texts, put together again, by NVRTC, or nvcc, where one is installed."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
GOLDEN, DEVICE = ROOT / "tests" / "golden", ROOT / "src" / "codegen" / "device"
WARPS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")  # whose tensor cores mma.sync asks
KERNELS = {
    "product/linear_gelu_sm80_bf16.cu": WARPS,
    "product/bmm_sm86_bf16.cu": WARPS,
    "attention/causal_sm80_bf16.cu": WARPS,
    "skinny/linear_gelu_sm80_bf16.cu": WARPS,
    "decode_attention/grouped_sm80_bf16.cu": WARPS,
    "product/linear_gelu_bf16.cu": ("sm_90a",),
    "product/int_mm_rows_i8.cu": ("sm_90a",),
    "product/scaled_grouped_mm_float8_e4m3fn.cu": ("sm_90a",),
    "attention/attention_bf16.cu": ("sm_90a",),
    "attention/packed_i32.cu": ("sm_90a",),
    "skinny/linear_gelu_bf16.cu": ("sm_90a", "sm_100a"),
    "decode_attention/grouped_bf16.cu": ("sm_90a", "sm_100a"),
}
LATER = re.compile(r"griddepcontrol|cp\.async\.bulk|wgmma|mbarrier|setmaxnreg|tensormap|cluster")  # than sm_80


def longest_part(text: str) -> str:
    """Of a device file, what the golden sources name it for: the longest part that no file is included into."""
    parts = [""]
    for line in text.splitlines(keepends=True):
        if line.startswith(("#pragma once", '#include "')):
            parts.append("")
        else:
            parts[-1] += line
    return max(parts, key=len)


def expanded(golden: Path) -> str:
    """The first launch's text."""

    def text(found: re.Match[str]) -> str:
        path = ROOT / found[1]
        return longest_part(path.read_text()) if path.is_relative_to(DEVICE) else expanded(path)

    return re.sub(r"^// ---- ((?:src/codegen/device|tests/golden)/\S+) ----\n", text, golden.read_text(), flags=re.MULTILINE)


def nvrtc() -> ctypes.CDLL | None:
    places = [str(Path(p) / "nvidia") for p in sys.path] + ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib"]
    for name in [f for p in places for f in glob.glob(p + "/**/libnvrtc.so.1[23]", recursive=True)]:
        for builtins in glob.glob(str(Path(name).parent / "libnvrtc-builtins.so.*[0-9]")):  # which it looks for by bare name
            with contextlib.suppress(OSError):
                ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


def by_nvrtc(library: ctypes.CDLL, source: str, arch: str) -> str:
    """The PTX; an assertion that fails says what is wrong."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17"]
    code = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert code == 0, log.value.decode()
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, ptx)
    return ptx.value.decode()


def by_nvcc(nvcc: str, source: Path, arch: str) -> str:
    made = {}
    for form in ("ptx", "cubin"):
        made[form] = source.with_suffix(f".{form}")
        done = subprocess.run(
            [nvcc, f"-arch={arch}", "-std=c++17", f"-{form}", "-o", made[form], source], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return made["ptx"].read_text()


@pytest.mark.parametrize("name", KERNELS)
def test_golden_kernels_compile_for_their_architectures(name: str, tmp_path: Path) -> None:
    # NVRTC is what Planish compiles with.
    library, nvcc = nvrtc(), shutil.which("nvcc")
    if library is None and nvcc is None:
        pytest.skip("neither NVRTC nor nvcc is installed")
    source = tmp_path / "k.cu"
    source.write_text(expanded(GOLDEN / name))
    for arch in KERNELS[name]:
        ptx = by_nvcc(str(nvcc), source, arch) if library is None else by_nvrtc(library, source.read_text(), arch)
        assert ".entry planish_kernel" in ptx
        if KERNELS[name] is WARPS:
            assert "mma.sync" in ptx and "cp.async" in ptx
            assert LATER.search(ptx.split(".entry", 1)[1]) is None, f"{arch}: {LATER.search(ptx)}"


def test_texts_of_golden_kernels_are_whole() -> None:
    text = expanded(GOLDEN / "product/linear_gelu_sm80_bf16.cu")
    for each in ("struct MmaProductLayout", "load_matrices_transposed", "product_store", "planish_kernel", "pl_from_bf16"):
        assert each in text, each
    assert "// ---- src/codegen/device" not in text
