"""What a shipped module's call changes of its caller's: buffers and inputs, as eager does, in each form of the call."""

from __future__ import annotations

import copy
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "executor"))

from planish import executor
from planish.ship import detach, load
from programs import add, aten, buffer, build, kernel, launch, program, state, user
from shipping import program_ran, ship, with_kernels
from training import DOCUMENT, KERNEL, TASK

FORMS = ["in C", "in Python", "operators"]


def made(form: str, where: Path) -> Path:
    where.mkdir(parents=True, exist_ok=True)
    if form == "operators":
        return ship(where, TASK)
    return with_kernels(where, TASK, DOCUMENT, build([KERNEL], where), form == "in C")


@pytest.fixture(scope="module", params=FORMS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(request.param, tmp_path_factory.mktemp("effects"))


def deferring(folder: Path) -> Any:
    """A module as a single file makes it, whose program also runs where parameters alone could be asked for gradients."""
    cls = type(load(folder))
    own = sys.modules[cls.__module__]._guards
    model = cls()
    shipped = own.Shipped(own.Folder(folder), executor, defer_gradients=True)
    object.__setattr__(model, "_planish", own.attach(shipped, model, cls.__mro__[1]))
    return model


def twin_of(model: nn.Module) -> nn.Module:
    twin: nn.Module = type(model).__mro__[1]()
    twin.load_state_dict(model.state_dict())
    return twin


def compare(model: nn.Module, twin: nn.Module) -> None:
    for (name, one), (_, other) in zip(model.named_buffers(), twin.named_buffers(), strict=True):
        torch.testing.assert_close(one, other, msg=name)


@torch.no_grad()
def test_buffers_and_their_versions_are_eagers(folder: Path) -> None:
    model = load(folder)
    twin = twin_of(model)
    for name, given in model.named_buffers():
        assert given.data_ptr() % 16 == 0, name
    for call in range(4):
        x = torch.randn(4, 8)
        mine, theirs = ([b._version for b in m.buffers()] for m in (model, twin))
        kept = [(b, b.data_ptr()) for b in model.buffers()]
        ran, result = program_ran(model, x)
        assert ran
        torch.testing.assert_close(result, twin(x))
        compare(model, twin)
        assert all(b.data_ptr() == at for b, at in kept), "the module's own memory is written"
        raised = [b._version - before for b, before in zip(model.buffers(), mine, strict=True)]
        assert raised == [b._version - before for b, before in zip(twin.buffers(), theirs, strict=True)] == [2, 1, 0, 0, 1]
        assert call == 0 or (model._planish.fast is not None) == (folder / "planish_call.so").exists()


@torch.no_grad()
def test_a_replaced_buffer_is_the_one_that_changes(folder: Path) -> None:
    model, x = load(folder), torch.randn(4, 8)
    model(x)
    old = model.last.clone()
    model.norm.running_mean, model.last = torch.ones(8), torch.zeros(8)
    twin = twin_of(model)
    ran, result = program_ran(model, x)
    assert ran
    torch.testing.assert_close(result, twin(x))
    compare(model, twin)
    assert torch.equal(model.last, old)


def test_kernels_write_into_what_nothing_reads(tmp_path: Path) -> None:
    """`last` is written by a kernel, in place; what kernels read as well is copied there after the last of them."""
    model = load(made("in C", tmp_path))
    with torch.no_grad():
        model(torch.randn(4, 8))
    found = model._planish._bound.executor
    assert [found.bindings[e.position].name for e in found.effects if e.direct] == ["last"]
    assert [e.native for e in found.effects] == [True] * 5 and len(found._copies) == 4


@pytest.mark.parametrize("form", FORMS)
def test_gradients_nobody_asked_for_are_right(form: str, tmp_path: Path) -> None:
    """With gradients on: two calls, then the gradients of both, in either order; the backward changes no buffer."""
    model = deferring(made(form, tmp_path))
    twin = twin_of(model)
    given = [torch.randn(4, 8) for _ in range(3)]
    found = []
    for x in given:
        ran, result = program_ran(model, x)
        assert ran and result.requires_grad
        found.append(result)
    wanted = [twin(x) for x in given]
    compare(model, twin)
    weight = torch.randn(4, 8)
    for k in (1, 2, 0):
        torch.testing.assert_close(found[k], wanted[k])
        for _ in range(2):
            for one, other in zip(
                torch.autograd.grad((found[k] * weight).sum(), list(model.parameters()), retain_graph=True),
                torch.autograd.grad((wanted[k] * weight).sum(), list(twin.parameters()), retain_graph=True),
                strict=True,
            ):
                torch.testing.assert_close(one, other)
        compare(model, twin)
    ran, result = program_ran(model, given[0])
    assert not ran, "it trains"
    torch.testing.assert_close(result, twin(given[0]))
    compare(model, twin)


def test_gradients_after_another_call_of_the_original(folder: Path) -> None:
    """Eager's own graph outlives a call of the program: running statistics keep their version, as eager's do."""
    model, x = load(folder), torch.randn(4, 8)
    result = model(x)  # gradients may be asked for: the original
    with torch.no_grad():
        assert program_ran(model, x)[0]
    result.sum().backward()
    assert model.norm.bias.grad is not None


def test_what_is_not_deferred(tmp_path: Path) -> None:
    """A buffer that autograd's graph goes through, and an input that the call changes: eager's graph cannot be made afterwards."""
    learned = TASK.replace("self.last.copy_(x[0])", "self.last.copy_(y[0])")
    changing = TASK.replace("self.last.copy_(x[0])", "x.add_(1.0)")
    for k, source in enumerate((learned, changing)):
        model = deferring(ship(tmp_path / str(k), source))
        twin = twin_of(model)
        x = torch.randn(4, 8)
        ran, result = program_ran(model, x)
        assert not ran and result.requires_grad
        assert model.last.requires_grad == (source is learned)
        twin(x.clone() if source is learned else x - 1)
        with torch.no_grad():
            other = deferring(ship(tmp_path / f"{k}-again", source))
            assert program_ran(other, torch.randn(4, 8))[0]


def test_without_parameters_that_need_gradients_the_program_runs(folder: Path) -> None:
    model = load(folder).requires_grad_(False)
    twin = twin_of(model)
    assert torch.is_grad_enabled()
    for _ in range(2):
        x = torch.randn(4, 8)
        ran, result = program_ran(model, x)
        assert ran and not result.requires_grad
        torch.testing.assert_close(result, twin(x))
    compare(model, twin)
    x.requires_grad_()
    ran, result = program_ran(model, x)
    assert not ran and result.requires_grad


@torch.no_grad()
def test_shared_memory_runs_the_original(folder: Path) -> None:
    """A program reads and writes in an order of its own: where that could show, it does not run."""
    for share in (
        lambda m: setattr(m.norm, "running_mean", m.last),
        lambda m: setattr(m, "last", torch.zeros(20)[4:12]) or setattr(m, "gain", m.last.as_strided((8,), (1,), 8)),
    ):
        model = load(folder)
        model(torch.randn(4, 8))
        share(model)
        twin = copy.deepcopy(model)
        detached = type(model).__mro__[1].forward
        for _ in range(2):
            x = torch.randn(4, 8)
            ran, result = program_ran(model, x)
            assert not ran
            torch.testing.assert_close(result, detached(twin, x))
            compare(model, twin)
    model = load(folder)
    model(torch.randn(4, 8))
    x = torch.randn(4, 8)
    model.last = x[1]
    assert not program_ran(model, x)[0]
    model.last = torch.zeros(8)
    assert program_ran(model, x)[0]


SLOW = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls

def get_inputs():
    return [torch.randn(64, 1024)]
"""
SLEEPER = kernel(
    "sleeper",
    """
  const float calls = *(const float*)args[1];
  usleep(20000);
  for (int i = 0; i < 64 * 1024; ++i) ((float*)args[2])[i] = ((const float*)args[0])[i] + calls + 1;
  *(float*)args[3] = calls + 1;
""",
)
SLEEPER["source"] = "#include <unistd.h>\n" + SLEEPER["source"]


def slow(folder: Path, extension: bool) -> Any:
    document = program(
        [buffer("input", [64, 1024], user(0)), buffer("state", [], state("calls")), buffer("output", [64, 1024]), buffer("output", [])],
        [launch(0, *[{"buffer": i} for i in range(4)])],
        [{"buffer": 2, "kind": "user"}, {"buffer": 3, "kind": "mutate_buffer", "target": "calls"}],
        [SLEEPER],
    )
    return load(with_kernels(folder, SLOW, document, build([SLEEPER], folder), extension))


@pytest.mark.parametrize("extension", [True, False], ids=["in C", "in Python"])
def test_calls_of_several_threads_see_each_other(extension: bool, tmp_path: Path) -> None:
    """No update is lost, though a kernel works for long between reading and writing; and a child that is forked meanwhile is not stuck."""
    model, x = slow(tmp_path, extension), torch.zeros(64, 1024)
    model(x)
    seen: list[float] = []

    def work() -> None:
        for _ in range(4):
            seen.append(float(model(x)[0, 0]))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    child = os.fork()
    if child == 0:
        model(x)
        os._exit(0)
    for thread in threads:
        thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(seen) == [float(n) for n in range(2, 14)] and float(model.calls) == 13
    assert (model._planish.fast is not None) == extension


@torch.no_grad()
def test_a_call_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In C and in Python: where there is no memory for the results.
    for extension in (True, False):
        with monkeypatch.context() as patched:
            folder = made("in C" if extension else "in Python", tmp_path / str(extension))
            model, x = load(folder), torch.randn(4, 8)
            short = [False]

            def allocate(device: torch.device, short: list[bool] = short) -> Callable[..., torch.Tensor]:
                def empty(shape: Any, strides: Any, dtype: torch.dtype) -> torch.Tensor:
                    if short[0]:
                        raise RuntimeError("no memory")
                    return torch.empty_strided(shape, strides, dtype=dtype)

                return empty

            own = sys.modules[type(model).__module__]._shipped.module
            patched.setattr(own, "_allocator", allocate)
            patched.setattr(own.Executor, "_empty", lambda self, *about, a=allocate: a(self.device)(*about))
            model(x)
            short[0] = True
            before = [(b.clone(), b._version) for b in model.buffers()]
            with pytest.raises(RuntimeError, match="no memory"):
                model(x)
            assert all(torch.equal(b, was) and b._version == version for b, (was, version) in zip(model.buffers(), before, strict=True))
            short[0] = False
            assert program_ran(model, x)[0] and int(model.norm.num_batches_tracked) == 2
    # An operator that raises, behind the first change that eager makes.
    looking = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, i):
        self.calls.add_(1)
        return self.table(i) * self.calls

def get_inputs():
    return [torch.tensor([0, 1, 3])]
"""
    model = load(ship(tmp_path / "looking", looking))
    assert program_ran(model, torch.tensor([0, 1, 3]))[0]
    with pytest.raises(IndexError):
        model(torch.tensor([0, 1, 4]))
    assert float(model.calls) in (1.0, 2.0), "untouched, or as eager leaves it"
    ran, result = program_ran(model, torch.tensor([0, 1, 3]))
    assert ran
    torch.testing.assert_close(result, model.table(torch.tensor([0, 1, 3])) * model.calls)


@torch.no_grad()
def test_values_that_change_places(tmp_path: Path) -> None:
    """Each new value is the other's before: none is overwritten before it is read, by operators or beside kernels."""
    swap = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.zeros(4))
        self.register_buffer("b", torch.ones(4))

    def forward(self, x):
        a = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(a)
        return x + self.a

def get_inputs():
    return [torch.randn(4)]
"""
    model = load(ship(tmp_path / "operators", swap))
    document = program(
        [buffer("input", [4], user(0)), *[buffer("state", [4], state(n)) for n in "ab"], buffer("output", [4])],
        [launch(0, *[{"buffer": i} for i in (0, 2, 3)])],
        [{"buffer": 3, "kind": "user"}, *[{"buffer": b, "kind": "mutate_buffer", "target": n} for b, n in ((2, "a"), (1, "b"))]],
        [ADD],
    )
    native = load(with_kernels(tmp_path / "kernels", swap, document, build([ADD], tmp_path)))
    for k in range(4):
        for one in (model, native):
            ran, result = program_ran(one, torch.zeros(4))
            assert ran and float(one.a[0]) == (k + 1) % 2 and float(one.b[0]) == k % 2
            torch.testing.assert_close(result, one.a)


ADD = kernel("add4", "for (int i = 0; i < 4; ++i) ((float*)args[2])[i] = ((const float*)args[0])[i] + ((const float*)args[1])[i];")


@torch.no_grad()
def test_operators_and_kernels_together(tmp_path: Path) -> None:
    """What an operator makes is written back by the runtime where there is one, whatever its layout."""
    source = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.zeros(4))
        self.register_buffer("turned", torch.zeros(4, 2))

    def forward(self, x):
        y = x[:, 0] + x[:, 0]
        self.sum.add_(y)
        self.turned.copy_(torch.relu(x.t().contiguous()).t())
        return y + self.sum

def get_inputs():
    return [torch.randn(4, 2)]
"""
    model = load(ship(tmp_path, source))
    shipped = model._planish.shipped
    found = [(e.native, e.versions) for e in executor.Executor(shipped.program, [], "", None, "cpu", shipped.manifest["effects"]).effects]
    assert found == [(False, 1), (False, 1)]
    twin = twin_of(model)
    for _ in range(2):
        x = torch.randn(4, 2)
        ran, result = program_ran(model, x)
        assert ran
        torch.testing.assert_close(result, twin(x))
        compare(model, twin)
    mixed = program(
        [buffer("input", [4], user(0)), buffer("state", [4], state("sum")), buffer("output", [4]), buffer("output", [4])],
        [launch(0, *[{"buffer": i} for i in (0, 0, 2)]), add(2, 1, 3), aten("aten.relu.default", [{"name": "self", "buffer": 3}], [None])],
        [{"buffer": 2, "kind": "user"}, {"buffer": 3, "kind": "mutate_buffer", "target": "sum"}],
        [ADD],
    )
    from planish import rt

    ran_by = executor.Executor(mixed, build([ADD], tmp_path), "", rt.find_library(), "cpu", [{"kind": "mutate_buffer", "target": "sum", "versions": 3}])
    assert [e.native for e in ran_by.effects] == [True]
    x, total = torch.randn(4), torch.zeros(4)
    for _ in range(2):
        (doubled,) = ran_by.run([x, total])
    torch.testing.assert_close(doubled, 2 * x)
    torch.testing.assert_close(total, 4 * x)
    assert total._version == 6
    assert torch.equal(ran_by.execute([x, total])[2], 2 * x) and total._version == 6


@torch.no_grad()
def test_new_values_that_nobody_else_sees_are_temporaries(tmp_path: Path) -> None:
    from planish import rt

    targets = 20
    buffers = [buffer("input", [4], user(0)), buffer("output", [4])]
    steps = [launch(0, *[{"buffer": i} for i in (0, 0, 1)])]
    outputs = [{"buffer": 1, "kind": "user"}]
    for k in range(targets):  # each reads its target where it writes the new value, which is copied therefore
        buffers += [buffer("state", [4], state(f"s{k}")), buffer("output", [4])]
        steps.append(launch(0, *[{"buffer": i} for i in (0, 2 * k + 2, 2 * k + 3)]))
        outputs.append({"buffer": 2 * k + 3, "kind": "mutate_buffer", "target": f"s{k}"})
    outputs.append({"buffer": 3, "kind": "user"})  # the first one is seen as well
    made = executor.Executor(program(buffers, steps, outputs, [ADD]), build([ADD], tmp_path), "", rt.find_library(), "cpu", [])
    assert all(e.native and not e.direct for e in made.effects)
    direct = made.direct()
    assert direct is not None and [f[0] for f in direct["fresh"]] == [1, 3]
    x, sums = torch.randn(4), [torch.full((4,), float(k)) for k in range(targets)]
    for call in range(1, 4):
        doubled, first = made.run([x, *sums])
        torch.testing.assert_close(doubled, 2 * x)
        for k, total in enumerate(sums):
            torch.testing.assert_close(total, k + call * x)
        torch.testing.assert_close(first, sums[0])
        assert first.data_ptr() != sums[0].data_ptr()


@torch.no_grad()
def test_a_new_value_of_two_buffers_is_there_for_both(tmp_path: Path) -> None:
    """One the runtime copies, the other, which lies otherwise, torch does."""
    from planish import rt

    buffers = [buffer("input", [4], user(0)), buffer("state", [4], state("a")), buffer("state", [4], state("b"), strides=[2]), buffer("output", [4])]
    steps = [launch(0, *[{"buffer": i} for i in (0, 1, 3)])]
    outputs = [{"buffer": 3, "kind": "mutate_buffer", "target": name} for name in ("a", "b")]
    made = executor.Executor(program(buffers, steps, outputs, [ADD]), build([ADD], tmp_path), "", rt.find_library(), "cpu", [])
    assert [e.native for e in made.effects] == [True, False]
    x, a, b = torch.randn(4), torch.zeros(4), torch.zeros(8)[::2]
    for call in range(1, 4):
        made.run([x, a, b])
        torch.testing.assert_close(a, call * x)
        torch.testing.assert_close(b, call * x)


@torch.no_grad()
def test_what_the_programs_own_copies_make_is_no_temporary(tmp_path: Path) -> None:
    from planish import rt

    buffers = [buffer("input", [4], user(0)), buffer("temp", [4]), buffer("output", [4]), buffer("output", [4]), buffer("state", [4], state("s"))]
    steps = [launch(0, *[{"buffer": i} for i in (0, 0, 1)]), {"kind": "copy", "from": 1, "to": 2}, {"kind": "copy", "from": 0, "to": 3}]
    outputs = [{"buffer": 2, "kind": "user"}, {"buffer": 3, "kind": "mutate_buffer", "target": "s"}]
    made = executor.Executor(program(buffers, steps, outputs, [ADD]), build([ADD], tmp_path), "", rt.find_library(), "cpu", [])
    direct = made.direct()
    assert direct is not None and 3 not in [b for b, _ in direct["arena"][2]]
    x, total = torch.randn(4), torch.zeros(4)
    (doubled,) = made.run([x, total])
    torch.testing.assert_close(doubled, 2 * x)
    torch.testing.assert_close(total, x)


@torch.no_grad()
def test_a_live_module_keeps_its_buffers(tmp_path: Path) -> None:
    folder = made("in C", tmp_path)
    live = type(load(folder)).__mro__[1]()
    twin = copy.deepcopy(live)
    load(folder, live)
    for _ in range(3):
        x = torch.randn(4, 8)
        ran, result = program_ran(live, x)
        assert ran
        torch.testing.assert_close(result, twin(x))
        compare(live, twin)
    assert detach(live) is live and not program_ran(live, x)[0]
