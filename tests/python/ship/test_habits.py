"""What users do with modules, done to a shipped one that runs a compiled kernel: with the checks in C and with those in Python."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

for neighbour in ("executor", "ship"):
    sys.path.insert(0, str(Path(__file__).parents[1] / neighbour))

from live_program import attached  # noqa: E402
from planish.counts import status  # noqa: E402
from planish.executor import aligned  # noqa: E402
from planish.ship import load  # noqa: E402
from programs import buffer, build, kernel, launch, param, program, user  # noqa: E402
from shipping import program_ran, runs, with_kernels  # noqa: E402

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(x) * self.weight

def get_inputs():
    return [torch.randn(4, 8)]

def get_init_inputs():
    return [8]
"""

# out[i] = max(x[i], 0) * w[i mod 8]; NaN stays NaN, as with torch.relu
RELU_SCALE = kernel(
    "relu_scale",
    "auto* x = (const float*)args[0]; auto* w = (const float*)args[1]; auto* out = (float*)args[2]; auto n = *(const int64_t*)args[3];"
    "for (int64_t i = 0; i < n; ++i) out[i] = (x[i] < 0 ? 0 : x[i]) * w[i % 8];",
)
PROGRAM = program(
    [buffer("input", [4, 8], user(0)), buffer("param", [8], param("weight")), buffer("output", [4, 8])],
    [launch(0, {"buffer": 0}, {"buffer": 1}, {"buffer": 2}, {"i64": 32})],
    [{"buffer": 2, "kind": "user"}],
    [RELU_SCALE],
)

PAIR = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, a, b):
        return {"sum": a + b, "scale": 3, "rest": [a - b]}

def get_inputs():
    return [torch.randn(5, 6), torch.randn(5, 6)]
"""
SUM_AND_DIFFERENCE = kernel(
    "sum_and_difference",
    "auto* a = (const float*)args[0]; auto* b = (const float*)args[1]; auto* t = (float*)args[2]; auto* s = (float*)args[3]; auto* d = (float*)args[4];"
    "for (int i = 0; i < 30; ++i) t[i] = -b[i]; for (int i = 0; i < 30; ++i) { s[i] = a[i] + b[i]; d[i] = a[i] + t[i]; }",
)
PAIR_PROGRAM = program(
    [buffer("input", [5, 6], user(0)), buffer("input", [5, 6], user(1)), buffer("temp", [5, 6]), buffer("output", [5, 6]), buffer("output", [5, 6])],
    [launch(0, *({"buffer": b} for b in range(5)))],
    # In the order of the dictionary.
    [{"buffer": 3, "kind": "user"}, {"kind": "scalar", "arg": {"int": 3}}, {"buffer": 4, "kind": "user"}],
    [SUM_AND_DIFFERENCE],
)

# Arguments in tuples, lists and dictionaries, with scalars among them.
NESTED = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, pair, options, factor=1.0):
        a, (b,) = pair
        total = a + b * options["scale"] if options["add"] else a
        return {"sum": (total, [a - b]), "factor": factor}

def get_inputs():
    return [(torch.randn(5, 6), [torch.randn(5, 6)]), {"scale": 1, "add": True}], {"factor": 0.0}
"""
NESTED_PROGRAM = program(
    PAIR_PROGRAM["buffers"],
    PAIR_PROGRAM["steps"],
    [{"buffer": 3, "kind": "user"}, {"buffer": 4, "kind": "user"}, {"kind": "scalar", "arg": {"float": "0x0p+0"}}],
    [SUM_AND_DIFFERENCE],
)


@pytest.fixture(scope="module", params=["in C", "in Python"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return build([RELU_SCALE, SUM_AND_DIFFERENCE], tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def folder(form: str, binaries: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_kernels(tmp_path_factory.mktemp("habits"), TASK, PROGRAM, binaries[:1], form == "in C")


@pytest.fixture
def model(folder: Path) -> nn.Module:
    return load(folder)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(4, 8)


def original(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return type(model).__mro__[1].forward(model, *args, **kwargs)


def expect(model: nn.Module, ran: bool, *args: Any, **kwargs: Any) -> None:
    """Twice: the second call may take another way than the first, which binds."""
    for _ in range(2):
        did, result = program_ran(model, *args, **kwargs)
        assert did is ran
        torch.testing.assert_close(result, original(model, *args, **kwargs))


@torch.no_grad()
def test_the_form_under_test_is_the_one_that_runs(model: nn.Module, x: torch.Tensor, form: str) -> None:
    model(x)
    with runs() as seen:
        model(x)
    assert seen == ["direct" if form == "in C" else "run"]


@torch.no_grad()
def test_dict_outputs_and_keywords(form: str, binaries: list[str], tmp_path: Path) -> None:
    model = load(with_kernels(tmp_path, PAIR, PAIR_PROGRAM, binaries[1:], form == "in C"))
    a, b = torch.randn(5, 6), torch.randn(5, 6)
    expect(model, True, a, b)
    assert list(model(a, b)) == ["sum", "scale", "rest"] and model(a, b)["scale"] == 3
    expect(model, True, a, a)  # the same tensor twice
    memory = torch.randn(60)
    expect(model, True, memory[:30].view(5, 6), memory[16:46].view(5, 6))  # and two that overlap
    expect(model, True, a, b=b)  # captured as positional arguments
    expect(model, True, b=b, a=a)
    first, second = model(a, b), model(b, a)
    torch.testing.assert_close(first["rest"][0], -second["rest"][0])  # results are never the same memory
    with pytest.raises(TypeError):
        model(a)


@torch.no_grad()
def test_nested_arguments_and_scalars(form: str, binaries: list[str], tmp_path: Path) -> None:
    model = load(with_kernels(tmp_path, NESTED, NESTED_PROGRAM, binaries[1:], form == "in C"))
    a, b = torch.randn(5, 6), torch.randn(5, 6)
    options = {"scale": 1, "add": True}
    expect(model, True, (a, [b]), options, factor=0.0)
    with runs() as seen:
        result = model((a, [b]), options, factor=0.0)
    assert seen == ["direct" if form == "in C" else "run"]
    assert type(result["sum"]) is tuple and type(result["sum"][1]) is list and result["factor"] == 0.0
    for pair in ((a, (b,)), [a, [b]], (a, [b.double()]), (a, [b.t().contiguous().t()])):
        expect(model, False, pair, options, factor=0.0)
    for other in ({"scale": 2, "add": True}, {"scale": 1, "add": False}, {"scale": 1.0, "add": True}, {"scale": 1, "add": 1}):
        expect(model, False, (a, [b]), other, factor=0.0)
    expect(model, False, (a, [b]), options | {"more": 1}, factor=0.0)
    for factor in (-0.0, 1.0, float("nan"), 0, None):
        did, result = program_ran(model, (a, [b]), options, factor=factor)
        assert not did and (result["factor"] is factor)
    expect(model, False, (a, [b]), options)
    expect(model, True, (a, [b]), options, factor=0.0)  # and nothing of that stays
    with pytest.raises((TypeError, ValueError)):
        model((a, []), options, factor=0.0)


@torch.no_grad()
def test_moves_copies_pickles_and_state(model: nn.Module, folder: Path, x: torch.Tensor, tmp_path: Path) -> None:
    expect(model, True, x)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        expect(twin, True, x)
        expect(model, True, x)
    twin = copy.deepcopy(model)
    twin.weight.fill_(0.25)
    expect(twin, True, x)
    assert not torch.equal(twin(x), model(x))
    model.load_state_dict(twin.state_dict())
    assert torch.equal(twin(x), model(x)) and list(model.state_dict()) == ["weight"]
    torch.save(model.state_dict(), tmp_path / "state.pt")
    fresh = load(folder)
    fresh.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert torch.equal(fresh(x), model(x))
    expect(model.double(), False, x.double())
    expect(model.half(), False, x.half())
    expect(model.float(), True, x)
    meta = copy.deepcopy(model).to("meta")
    ran, result = program_ran(meta, x.to("meta"))
    assert not ran and result.shape == (4, 8)


@torch.no_grad()
def test_parameters_are_live(model: nn.Module, x: torch.Tensor) -> None:
    expect(model, True, x)
    model.weight.mul_(2)
    expect(model, True, x)
    model.weight.data = torch.randn(8)
    expect(model, True, x)
    model.weight = nn.Parameter(torch.randn(8))
    expect(model, True, x)
    model.weight = nn.Parameter(torch.randn(1))
    expect(model, False, x)
    model.weight = nn.Parameter(torch.randn(16)[::2])
    expect(model, False, x)


@torch.no_grad()
def test_inputs_of_another_kind(model: nn.Module, x: torch.Tensor) -> None:
    expect(model, True, x)
    expect(model, False, torch.randn(3, 8))
    expect(model, False, torch.randn(8))
    expect(model, False, torch.randn(8, 4).t())
    expect(model, False, torch.randn(8, 8)[::2])
    expect(model, True, torch.randn(33)[1:].view(4, 8))  # begins at an odd place: copied
    expect(model, False, x.int())
    expect(model, False, x._neg_view())  # as of a conjugate's imaginary part: the values are not those in memory
    expect(model, True, nn.Parameter(x, requires_grad=False))
    with pytest.raises((TypeError, AttributeError)):
        model([1.0])
    expect(model, True, x)


def test_gradients(model: nn.Module, x: torch.Tensor) -> None:
    ran, result = program_ran(model, x)
    assert not ran and result.requires_grad
    result.sum().backward()
    torch.testing.assert_close(model.weight.grad, torch.relu(x).sum(0))
    with torch.no_grad():
        expect(model, True, x)
    with torch.inference_mode():
        expect(model, True, torch.randn(4, 8))
    model.requires_grad_(False)
    expect(model, True, x)
    expect(model, False, x.clone().requires_grad_())
    _, tangent = torch.func.jvp(lambda v: model(v), (x,), (torch.ones_like(x),))
    torch.testing.assert_close(tangent, (x > 0) * model.weight)


class Tagged(torch.Tensor):
    pass


@torch.no_grad()
def test_modes_around_the_call(model: nn.Module, x: torch.Tensor) -> None:
    expect(model, True, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expect(model, False, x)
    ran, result = program_ran(model, x.as_subclass(Tagged))
    assert not ran and type(result) is Tagged
    batch = torch.randn(2, 4, 8)
    ran, result = program_ran(torch.vmap(model), batch)
    assert not ran
    torch.testing.assert_close(result, torch.stack([original(model, b) for b in batch]))
    torch.use_deterministic_algorithms(True)
    try:
        expect(model, False, x)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.set_default_dtype(torch.float64)
    try:
        expect(model, False, x)
    finally:
        torch.set_default_dtype(torch.float32)
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        assert not program_ran(model, x)[0]
    with torch.device("cpu"):
        expect(model, True, x)
    expect(model, True, x)


@torch.no_grad()
def test_compile_export_and_trace_see_the_original(model: nn.Module, x: torch.Tensor) -> None:
    model(x)
    ran, result = program_ran(torch.compile(model, backend="eager", fullgraph=True), x)
    assert not ran
    torch.testing.assert_close(result, original(model, x))
    exported = torch.export.export(model, (x,))
    assert any("relu" in str(n.target) for n in exported.graph.nodes)
    torch.testing.assert_close(exported.module()(x), original(model, x))
    traced = torch.jit.trace(model, x, check_trace=False)
    assert "relu" in str(traced.inlined_graph)


@torch.no_grad()
def test_arguments_keep_their_names(model: nn.Module, x: torch.Tensor) -> None:
    assert str(inspect.signature(model.forward)) == "(x)"
    rows = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(model, (x,), dynamic_shapes={"x": {0: rows}})
    assert exported.module()(torch.randn(9, 8)).shape == (9, 8)
    traced = torch.fx.symbolic_trace(model)
    assert [n.name for n in traced.graph.nodes if n.op == "placeholder"] == ["x"]
    torch.testing.assert_close(traced(x), original(model, x))


@torch.no_grad()
def test_a_part_is_named_by_its_whole_name(tmp_path: Path) -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([nn.Sequential(nn.Dropout(0.5))])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.blocks[0](x) * 2

    module, x = Deep().eval(), torch.ones(3)
    attached(module, tmp_path, x)
    module.blocks[0][0].train()
    module(x)
    assert list(status(module).fell_back) == ["the module's part 'blocks.0.0' is in training mode, captured was the other"]


@torch.no_grad()
def test_hooks(model: nn.Module, x: torch.Tensor) -> None:
    seen: list[str] = []
    with_hook = model.register_forward_hook(lambda m, i, out: out + 1)
    before = model.register_forward_pre_hook(lambda m, i: seen.append("pre"))
    ran, result = program_ran(model, x)
    assert ran and seen == ["pre"]  # hooks of the module itself are torch's own business
    torch.testing.assert_close(result, original(model, x) + 1)
    with_hook.remove()
    before.remove()
    expect(model, True, x)
    inner = model.act.register_forward_hook(lambda m, i, out: out * 0 + 5)
    ran, result = program_ran(model, x)
    assert not ran
    torch.testing.assert_close(result, 5 * model.weight.expand(4, 8))
    assert "the module's part 'act' has a hook (test_hooks.<locals>.<lambda>), which its program would not run" in status(model).fell_back
    inner.remove()
    expect(model, True, x)
    everywhere = nn.modules.module.register_module_forward_hook(lambda m, i, out: seen.append(type(m).__name__))
    try:
        assert not program_ran(model, x)[0] and "ReLU" in seen
    finally:
        everywhere.remove()
    model.act = nn.Tanh()
    expect(model, False, x)


@torch.no_grad()
def test_a_wrapped_forward_and_an_own_compile(model: nn.Module, x: torch.Tensor) -> None:
    """Libraries wrap forward on the instance; both ways must be gone through, also after calls that took the short one."""
    expect(model, True, x)
    inner, seen = model.forward, []

    def wrapper(*args: Any) -> Any:
        seen.append(len(args))
        return inner(*args) + 1

    model.forward = wrapper
    ran, result = program_ran(model, x)
    assert ran and seen == [1]
    torch.testing.assert_close(result, original(model, x) + 1)
    del model.forward
    expect(model, True, x)
    model.compile(backend="eager", fullgraph=True)
    ran, result = program_ran(model, x)
    assert not ran
    torch.testing.assert_close(result, original(model, x))


@torch.no_grad()
def test_train_and_eval(model: nn.Module, x: torch.Tensor) -> None:
    expect(model.eval(), True, x)
    expect(model.train(), True, x)


@torch.no_grad()
def test_replicas_run_the_original(model: nn.Module, x: torch.Tensor) -> None:
    """What nn.DataParallel makes for each device: it shares attributes, and its parameters are no parameters."""
    expect(model, True, x)
    replica = model._replicate_for_data_parallel()
    replica.weight = model.weight.detach() * 2
    ran, result = program_ran(replica, x)
    assert not ran
    torch.testing.assert_close(result, torch.relu(x) * model.weight * 2)
    expect(model, True, x)


@torch.no_grad()
def test_threads(model: nn.Module) -> None:
    """Several callers at once, while another thread changes what makes the module bind anew."""
    inputs = [torch.full((4, 8), float(k + 1)) for k in range(3)]
    wanted = [original(model, x) for x in inputs]
    wrong: list[int] = []
    stop = threading.Event()

    def call(k: int) -> None:
        for _ in range(400):
            if not torch.equal(model(inputs[k]), wanted[k]):
                wrong.append(k)

    def disturb() -> None:
        while not stop.is_set():
            model.unrelated = object()
            model.act = nn.ReLU()
            model.weight = nn.Parameter(model.weight.clone())

    other = threading.Thread(target=disturb)
    other.start()
    threads = [threading.Thread(target=call, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    other.join()
    assert not wrong
    expect(model, True, inputs[0])


@torch.no_grad()
def test_calls_leak_nothing(model: nn.Module, x: torch.Tensor) -> None:
    for _ in range(3):
        model(x)
    before = sys.getrefcount(x), sys.getrefcount(model.weight), len(gc.get_objects())
    for _ in range(200):
        model(x)
        model(x[:2])
    assert (sys.getrefcount(x), sys.getrefcount(model.weight)) == before[:2]
    assert len(gc.get_objects()) < before[2] + 50


@torch.no_grad()
def test_a_torch_that_the_extension_cannot_read(model: nn.Module, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**fields: Any) -> Any:
        raise AttributeError("__dlpack_c_exchange_api__")

    monkeypatch.setattr(model._planish.shipped, "extension", types.SimpleNamespace(Plan=refuse, hits=lambda: 0))
    expect(model, True, x)
    assert model._planish.fast is None


def test_a_copy_that_begins_where_programs_want_it_has_the_same_strides() -> None:
    for odd in (torch.randn(65)[1:], torch.randn(65)[1:].expand(3, 64), torch.randn(129)[1:].view(8, 16).t(), torch.randn(7)[1:2].expand(4, 5)):
        copy = aligned(odd)
        assert torch.equal(copy, odd) and copy.stride() == odd.stride() and copy.data_ptr() % 16 == 0 and odd.data_ptr() % 16 != 0
