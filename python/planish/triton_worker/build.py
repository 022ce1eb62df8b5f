"""Compiles one Triton kernel to a cubin that the runtime can launch with what the program says alone."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

STATIC_SHARED_LIMIT = 48 << 10
_SETTINGS = ("TRITON_CACHE_DIR", "TRITON_ALWAYS_COMPILE", "TMPDIR")


class Unsupported(Exception):
    """The kernel compiles, but cannot be launched as a step of a program."""


_WARM_UP = """import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def planish_kernel(x):
    i = tl.arange(0, 128)
    tl.store(x + i, libdevice.exp(tl.load(x + i)))
"""


def warm_up() -> None:
    """Compiles a kernel of ours in this process, so that children forked from it find everything loaded."""
    kept = {name: os.environ.get(name) for name in _SETTINGS}
    try:
        with tempfile.TemporaryDirectory(prefix="planish-triton-") as folder:
            build(_WARM_UP, "planish_kernel", ["--signature=*fp32:16"], "sm_90a", Path(folder))
    finally:
        tempfile.tempdir = None
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def build(source: str, entry: str, flags: list[str], arch: str, folder: Path) -> None:
    """Leaves kernel.cubin, kernel.ptx and kernel.log (ptxas' report) in `folder`, which also holds all that Triton writes.

    Raises what Triton raises; Unsupported; ValueError for flags and architectures that are none."""
    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    capability = re.fullmatch(r"sm_(\d+)a?", arch)
    if capability is None:
        raise ValueError(f"`{arch}` is no architecture that Triton knows")
    options, signature = _read_flags(flags)
    kernel = getattr(_load(source, folder), entry, None)
    if not isinstance(kernel, triton.runtime.JITFunction):
        raise ValueError(f"the source has no @triton.jit function `{entry}`")
    if len(kernel.arg_names) != len(signature):
        raise ValueError(f"`{entry}` takes {len(kernel.arg_names)} arguments, the signature names {len(signature)}")
    types, constants, attributes = {}, {}, {}
    for i, (name, text) in enumerate(zip(kernel.arg_names, signature, strict=True)):
        kind, _, hint = text.partition(":")
        constant = _constant(kind)
        types[name] = kind if constant is None else "constexpr"
        if constant is not None:
            constants[(i,)] = constant
        elif hint:
            attributes[(i,)] = [["tt.divisibility", int(hint)]]
    target = GPUTarget("cuda", int(capability[1]), 32)
    _make_self_contained(entry, options["num_warps"], folder)
    # Denormal numbers as everywhere else: not flushed in libdevice's functions.
    wanted = {**options, "enable_reflect_ftz": False}
    made = triton.compile(ASTSource(kernel, types, constants, attributes), target=target, options=wanted)
    (folder / "kernel.ptx").write_text(made.asm["ptx"])
    (folder / "kernel.cubin").write_bytes(made.asm["cubin"])


def _read_flags(flags: list[str]) -> tuple[dict[str, int], list[str]]:
    options = {"num_warps": 4, "num_stages": 3}
    signature: list[str] = []
    for flag in flags:
        name, _, value = flag.partition("=")
        if name == "--signature":
            signature = [part.strip() for part in value.split(",")]
        elif name in ("--num-warps", "--num-stages"):
            options[name[2:].replace("-", "_")] = int(value)
        else:
            raise ValueError(f"`{flag}` is no flag of a Triton kernel")
    return options, signature


def _constant(text: str) -> int | float | None:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None


def _load(source: str, folder: Path) -> Any:
    """Runs the source as a module. It must lie in a file, where Triton reads it again."""
    path = folder / "kernel.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("planish_triton_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_stages_of: Any = None  # Triton's own


def _make_self_contained(entry: str, warps: int, folder: Path) -> None:
    """Has Triton write shared memory into the kernel, where its own launcher would be told to give it at launch, and keeps ptxas' report."""
    from triton.backends.nvidia.compiler import CUDABackend

    global _stages_of
    if _stages_of is None:
        _stages_of = CUDABackend.add_stages
    stages_of = _stages_of

    def add_stages(self: Any, stages: dict[str, Any], options: Any, *rest: Any) -> None:
        stages_of(self, stages, options, *rest)
        to_ptx = stages["ptx"]
        stages["ptx"] = lambda source, metadata: with_static_shared(to_ptx(source, metadata), entry, warps, metadata)
        stages["cubin"] = lambda ptx, metadata: _assemble(ptx, folder, _ptxas(self.target.arch), options.enable_fp_fusion)

    CUDABackend.add_stages = add_stages


def with_static_shared(ptx: str, entry: str, warps: int, metadata: dict[str, Any]) -> str:
    """The PTX with its shared memory declared in full. Raises Unsupported where a launch would have to bring more than arguments."""
    if metadata.get("name") != entry:
        raise Unsupported(f"the compiled kernel is called `{metadata.get('name')}`, not `{entry}`")
    for scratch in ("global_scratch_size", "profile_scratch_size"):
        if metadata.get(scratch):
            raise Unsupported(f"the kernel needs {metadata[scratch]} bytes of {scratch.split('_')[0]} scratch a program, which a program step cannot give")
    if metadata.get("num_warps", warps) != warps:
        raise Unsupported(f"the kernel runs {metadata['num_warps']} warps a program, its flags say {warps}")
    shared = int(metadata.get("shared") or 0)
    if shared > STATIC_SHARED_LIMIT:
        raise Unsupported(f"the kernel needs {shared} bytes of shared memory a program; {STATIC_SHARED_LIMIT} can be had")
    text, count = re.subn(r"\.extern (\.shared \.align \d+ \.b8 global_smem)\[\];", rf"\1[{max(shared, 1)}];", ptx)
    if shared and count != 1:
        raise Unsupported("this version of Triton declares shared memory in a way that is not known here")
    return text


def _ptxas(arch: int) -> str:
    try:
        from triton.backends.nvidia.compiler import get_ptxas

        return str(get_ptxas(arch).path)
    except (ImportError, AttributeError, TypeError):
        import triton.backends.nvidia as nvidia

        return str(Path(nvidia.__file__ or ".").parent / "bin" / "ptxas")


def _assemble(ptx: str, folder: Path, ptxas: str, fusion: bool) -> bytes:
    target = re.search(r"^\.target (sm_\w+)", ptx, flags=re.MULTILINE)
    assert target is not None
    text, cubin = folder / "static.ptx", folder / "static.cubin"
    text.write_text(ptx)
    command = [ptxas, "-v", "-lineinfo", *([] if fusion else ["--fmad=false"]), f"--gpu-name={target[1]}", str(text), "-o", str(cubin)]
    done = subprocess.run(command, capture_output=True, text=True, close_fds=False)
    (folder / "kernel.log").write_text(done.stderr)
    if done.returncode != 0:
        raise Unsupported(f"ptxas refuses what Triton wrote:\n{done.stderr}")
    return cubin.read_bytes()
