"""Memory of shipped modules: results are as free as eager's, errors are torch's, and what is dropped goes at once."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

HERE = Path(__file__).parent
for neighbour in ("executor", "ship"):
    sys.path.insert(0, str(HERE.parent / neighbour))

from planish.ship import detach, guards, load  # noqa: E402
from programs import SCALE, buffer, build, launch, param, program, scale, user  # noqa: E402
from shipping import program_ran, ship, with_kernels  # noqa: E402

SIZE = 1 << 19  # 2 MiB: pooled
TASK = f"""
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Identity(), nn.Identity())
    def forward(self, x):
        return self.inner(x) * 2

def get_inputs():
    return [torch.randn({SIZE})]
"""


@pytest.fixture(scope="module", params=["in C", "in Python"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("memory")
    document = program([buffer("input", [SIZE], user(0)), buffer("output", [SIZE])], [scale(0, 1, SIZE)], [{"buffer": 1, "kind": "user"}], [SCALE])
    return with_kernels(made, TASK, document, build([SCALE], made), request.param == "in C")


@pytest.fixture
def model(folder: Path) -> nn.Module:
    return load(folder)


def test_results_can_be_resized_as_eager_s(model: nn.Module) -> None:
    x = torch.ones(SIZE)
    for _ in range(3):
        ran, result = program_ran(model, x)
        assert ran
        torch.add(torch.ones(2 * SIZE), 1, out=result.resize_(0))  # grows
        assert result.shape == (2 * SIZE,) and bool((result == 2).all())
        del result
        result = model(x)
        address = result.data_ptr()
        result.resize_(SIZE // 2)
        assert result.data_ptr() == address and bool((result == 2).all())
        result.untyped_storage().resize_(0)
        assert result.untyped_storage().nbytes() == 0
        del result
        assert torch.equal(model(x), 2 * x)


def test_what_was_handed_out_is_never_written_to_again(model: nn.Module) -> None:
    x = torch.ones(SIZE)

    def kept() -> Iterator[object]:
        yield model(x).numpy()
        yield model(x).untyped_storage()
        yield model(x)[5:]
        yield model(x).share_memory_()
        yield torch.utils.dlpack.to_dlpack(model(x))
        yield memoryview(model(x).numpy())
        yield model(x).view(torch.int32)

    for thing in kept():
        others = [model(torch.full((SIZE,), float(i))) for i in range(4)]
        gone = [model(torch.full((SIZE,), 9.0)) for _ in range(4)]
        del gone
        more = [model(torch.full((SIZE,), 7.0)) for _ in range(4)]
        assert all(bool((o == 2 * i).all()) for i, o in enumerate(others)) and all(bool((o == 14).all()) for o in more)
        if isinstance(thing, torch.UntypedStorage):
            thing = torch.empty(0).set_(thing)  # type: ignore[call-overload]
        elif not isinstance(thing, torch.Tensor):
            thing = torch.utils.dlpack.from_dlpack(thing) if type(thing).__name__ == "PyCapsule" else torch.tensor(thing)
        assert bool((thing.view(torch.float32) == 2).all())
        del thing, others, more
    after_numpy = model(x)
    after_numpy.resize_(3 * SIZE)  # NumPy's hold on an earlier result did not stay with the memory


def test_memory_stays_flat_whatever_is_kept(model: nn.Module) -> None:
    x = torch.ones(SIZE)
    pool = model._planish.shipped.executor(torch.device("cpu"))._pool
    model(x)
    for _ in range(3):
        results = [model(x) for _ in range(10)]
        views = [r[3:] for r in results]
        del results
        assert sum(len(kept) for kept in pool._kept.values()) <= pool.keep
        del views
        assert sum(len(kept) for kept in pool._kept.values()) <= pool.keep and not pool._lent


def process(folder: Path, script: str, **environment: str) -> str:
    head = f"import sys; sys.path.insert(0, {str(HERE.parents[2] / 'python')!r})\nimport torch\nfrom planish.ship import load\n"
    head += f"model, x = load({str(folder)!r}), torch.ones({SIZE})\n"
    done = subprocess.run(
        [sys.executable, "-c", head + script], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", **environment}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_kernel_without_huge_pages(folder: Path, tmp_path: Path) -> None:
    """There madvise says that it does not know the advice."""
    source = '#include <errno.h>\n#include <stddef.h>\nextern "C" int madvise(void*, size_t, int) { errno = EINVAL; return -1; }\n'
    (tmp_path / "without.cpp").write_text(source)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(tmp_path / "without.so"), str(tmp_path / "without.cpp")], check=True)
    script = "assert torch.equal(model(x), 2 * x) and torch.equal(model(x), 2 * x); print(model._planish.shipped.runs())"
    assert process(folder, script, LD_PRELOAD=str(tmp_path / "without.so")) == "2\n"


def test_no_memory_is_the_error_that_torch_gives(folder: Path) -> None:
    """And the memory that the pool keeps is given up before that is said."""
    script = """
import resource
assert torch.equal(model(x), 2 * x)
held = [model(x) for _ in range(2)]
del held
with open("/proc/self/statm") as statm:
    pages = int(statm.read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (1 << 20),) * 2)
def error(make):
    kept = []
    try:
        for _ in range(1000):
            kept.append(make())
    except Exception as error:
        return type(error).__name__, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 2097152 bytes" in str(error), len(kept)
eager, ours = error(lambda: x + 1), error(lambda: model(x))
assert ours[:2] == eager[:2] == ("RuntimeError", True), (eager, ours)
assert ours[2] >= 2, "what the pool kept came first"
print("the same")
"""
    assert process(folder, script) == "the same\n"


WEIGHTED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((64,), 2.0))
        self.inner = nn.Sequential(nn.Identity())
    def forward(self, x):
        return {"twice": [self.inner(x) * self.weight]}

def get_inputs():
    return [torch.randn(64)]
"""
MULTIPLY = {
    "language": "cpp",
    "entry": "multiply",
    "flags": [],
    "source": '#include <cstdint>\nextern "C" void multiply(void** args) { auto* x = (const float*)args[0]; auto* w = (const float*)args[1];'
    "auto* out = (float*)args[2]; for (int i = 0; i < 64; ++i) out[i] = x[i] * w[i]; }\n",
}


@pytest.mark.parametrize("extension", [True, False], ids=["in C", "in Python"])
def test_a_dropped_module_goes_without_the_cycle_collector(extension: bool, tmp_path: Path) -> None:
    document = program(
        [buffer("input", [64], user(0)), buffer("param", [64], param("weight")), buffer("output", [64])],
        [launch(0, {"buffer": 0}, {"buffer": 1}, {"buffer": 2})],
        [{"buffer": 2, "kind": "user"}],
        [MULTIPLY],
    )
    folder = with_kernels(tmp_path, WEIGHTED, document, build([MULTIPLY], tmp_path), extension)
    x = torch.randn(64)
    gc.collect()
    gc.disable()
    try:
        for attach in (False, True):
            model = load(folder)
            if attach:
                model = load(folder, type(model).__mro__[1]())
            with torch.no_grad():
                for _ in range(3):
                    ran, result = program_ran(model, x)
                    assert ran and torch.equal(result["twice"][0], 2 * x)
            model(x)  # under gradients the original runs
            watched = [weakref.ref(t) for t in (model, model.weight, model.inner, model._planish)]
            del model, result
            assert [ref() for ref in watched] == [None] * 4
        other = load(folder, type(load(folder)).__mro__[1]())
        with torch.no_grad():
            other(x)
        gone = weakref.ref(other._planish)
        detach(other)
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("attached", [False, True], ids=["shipped", "as fallback"])
def test_a_module_under_torch_compile_goes_without_the_cycle_collector(attached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With torch's own tracing, which must not hold it either."""
    real, options = torch.compile, []

    def without_a_compiler(function: Callable[..., Any], **given: Any) -> Any:
        options.append(given)
        return real(function, backend="eager", dynamic=False)

    monkeypatch.setattr(torch, "compile", without_a_compiler)
    folder = ship(tmp_path, WEIGHTED, **({} if attached else {"mode": "baseline", "baseline": "compile"}))
    model = load(folder)
    if attached:
        model = load(folder, type(model).__mro__[1](), fallback="compile")
    x = torch.randn(3, 64)  # other sizes than the program is for
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", guards.FallbackWarning)
            result = [model(x)["twice"][0] for _ in range(3)][-1]
        assert torch.equal(result, 2 * x) and len(options) == 1
        watched = [weakref.ref(t) for t in (model, model.weight, model.inner, model._planish)]
        del model
        assert [ref() for ref in watched] == [None] * 4
    finally:
        gc.enable()
