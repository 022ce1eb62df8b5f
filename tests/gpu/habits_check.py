"""What users do with modules on a GPU, done to one that `planish optimize` ships here: a folder and a single file.

python tests/gpu/habits_check.py [--budget 10s]      exits 1 if a habit broke, 3 without a GPU
"""

from __future__ import annotations

import argparse
import copy
import functools
import hashlib
import json
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE / "python"), str(HERE / "tests" / "gpu")]

import torch  # noqa: E402
from device_programs import root  # noqa: E402
from torch import nn  # noqa: E402

TASK = HERE / "examples" / "small" / "layer_norm_gelu_residual.py"
ROWS, WIDTH = 1024, 768
CHECKS: list[Callable[[Any], None]] = []


def check(function: Callable[[Any], None]) -> Callable[[Any], None]:
    CHECKS.append(function)
    return function


def planish(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([root() / "bin" / "planish", *arguments], capture_output=True, text=True, check=False)


def data(seed: int = 0, rows: int = ROWS, device: str = "cuda") -> torch.Tensor:
    return torch.randn(rows, WIDTH, device=device, generator=torch.Generator(device).manual_seed(seed))


def original(model: nn.Module, x: torch.Tensor) -> Any:
    return type(model).__mro__[1].forward(model, x)


def ran(model: nn.Module, *args: Any) -> tuple[bool, Any]:
    before = model._planish.shipped.runs()
    result = model(*args)
    return model._planish.shipped.runs() > before, result


def expect(model: nn.Module, program: bool, *args: Any) -> None:
    for _ in range(2):  # the second call may go another way than the first, which binds
        did, result = ran(model, *args)
        assert did is program, f"{'the original' if program else 'the program'} ran: {model._planish.reason or model._planish.why}"
        torch.testing.assert_close(result, original(model, *args), rtol=1e-4, atol=1e-4)


@check
@torch.no_grad()
def moves_and_copies(make: Any) -> None:
    model = make()
    assert not ran(model.cpu(), data().cpu())[0]
    expect(model.cuda(), True, data())
    expect(copy.deepcopy(model), True, data(1))
    expect(model.half(), False, data().half())
    expect(model.float(), True, data())
    with torch.device("cuda"):
        expect(model, True, data())


@check
@torch.no_grad()
def pickles_of_a_folder(make: Any) -> None:
    model = make().cuda()
    if make.__name__ == "folder":
        expect(pickle.loads(pickle.dumps(model)), True, data())


@check
@torch.no_grad()
def state_and_live_parameters(make: Any) -> None:
    model = make().cuda()
    expect(model, True, data())
    model.scale.mul_(3)
    expect(model, True, data())
    model.scale = nn.Parameter(torch.rand(WIDTH, device="cuda"))
    expect(model, True, data())
    other = make().cuda()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(data()), model(data())) and set(other.state_dict()) == set(model.state_dict())


@check
@torch.no_grad()
def other_inputs(make: Any) -> None:
    model = make().cuda()
    expect(model, True, data())
    expect(model, False, data(rows=100))
    expect(model, False, data(rows=2 * ROWS)[::2])
    expect(model, False, torch.randn(WIDTH, ROWS, device="cuda").t())
    memory = torch.randn(ROWS * WIDTH + 1, device="cuda")
    expect(model, True, memory[1:].view(ROWS, WIDTH))  # not 16-byte aligned: the program gets a copy
    expect(model, True, data())


@check
def gradients(make: Any) -> None:
    model = make().cuda()
    x = data()
    wanted = torch.autograd.grad(original(model, x).square().sum(), list(model.parameters()))
    for _ in range(2):
        found = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-2)
    leaf = x.clone().requires_grad_()
    model(leaf).sum().backward()
    assert leaf.grad is not None
    with torch.inference_mode():
        expect(model, True, x)


@check
@torch.no_grad()
def modes(make: Any) -> None:
    model = make().cuda()
    expect(model, True, data())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert not ran(model, data())[0]
    compiled = torch.compile(model)
    did, result = ran(compiled._orig_mod, data())
    assert did
    before = model._planish.shipped.runs()
    torch.testing.assert_close(compiled(data()), result, rtol=1e-4, atol=1e-4)
    assert model._planish.shipped.runs() == before, "torch.compile must see the original"


@check
@torch.no_grad()
def streams(make: Any) -> None:
    """Calls queued on several streams at once, inputs made on the stream just before and dropped just after."""
    model = make().cuda()
    inputs = [data(k) for k in range(4)]
    wanted = [original(model, x) for x in inputs]
    torch.cuda.synchronize()
    found: list[list[torch.Tensor]] = [[] for _ in inputs]
    lanes = [torch.cuda.Stream() for _ in inputs]
    for _ in range(30):
        for k, lane in enumerate(lanes):
            with torch.cuda.stream(lane):
                found[k].append(model(inputs[k] * 1.0))
    torch.cuda.synchronize()
    for k, results in enumerate(found):
        for result in results:
            torch.testing.assert_close(result, wanted[k], rtol=1e-4, atol=1e-4)
    assert len({r.data_ptr() for results in found for r in results}) == 120, "two results share memory"


@check
def threads(make: Any) -> None:
    model = make().cuda()
    wrong: list[int] = []

    @torch.no_grad()
    def work(k: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            x = data(k)
            wanted = original(model, x)
            for _ in range(50):
                if not torch.allclose(model(x), wanted, rtol=1e-4, atol=1e-4):
                    wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@check
@torch.no_grad()
def captured_in_a_cuda_graph(make: Any) -> None:
    model = make().cuda()
    x = data()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    before = model._planish.shipped.runs()
    # torch's own capture stream stays on the device that captured first.
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        y = model(x)
    assert model._planish.shipped.runs() == before + 1
    for k in range(3):
        x.copy_(data(50 + k))
        model(data(80 + k))
        graph.replay()
        torch.testing.assert_close(y, original(model, x), rtol=1e-4, atol=1e-4)


def on_two_devices(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """A check that needs a second GPU, and says where there is none."""

    @functools.wraps(function)
    def tried(make: Any) -> None:
        if torch.cuda.device_count() < 2:
            print(f"     (one GPU: {function.__name__} not tried)")
            return
        function(make)

    return check(tried)


DEVICES = ("cuda:0", "cuda:1")


@on_two_devices
@torch.no_grad()
def a_module_a_device(make: Any) -> None:
    """Whichever device is current: kernels, outputs and workspace are those of the module's own."""
    models = {device: make().to(device) for device in DEVICES}
    for current in DEVICES:
        with torch.cuda.device(current):
            for device, model in models.items():
                x = data(1, device=device)
                expect(model, True, x)
                before = torch.cuda.memory_allocated(next(d for d in DEVICES if d != device))
                y = model(x)
                assert y.device == x.device
                torch.cuda.synchronize(x.device)
                assert torch.cuda.memory_allocated(next(d for d in DEVICES if d != device)) == before, "memory was taken on the other device"
                del y  # or it would go in the middle of the next turn
                with torch.device(device):
                    expect(model, True, x)


@on_two_devices
@torch.no_grad()
def a_module_that_moves_between_devices(make: Any) -> None:
    model = make().to("cuda:0")
    expect(model, True, data(device="cuda:0"))
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        expect(model.to(device), True, data(2, device=device))
    made = [e for e in model._planish.shipped._executors.values() if not isinstance(e, str)]  # a string says why there is none (the CPU)
    assert len(made) == 2, "kernels are loaded once a device"
    other = copy.deepcopy(model).to("cuda:0")  # the first stays where it is
    expect(other, True, data(3, device="cuda:0"))
    expect(model, True, data(3, device="cuda:1"))
    moved = pickle.loads(pickle.dumps(model)) if make.__name__ == "folder" else model
    expect(moved, True, data(4, device="cuda:1"))


@on_two_devices
@torch.no_grad()
def inputs_on_the_other_device(make: Any) -> None:
    """An error, as eager's is, and no wrong memory read."""
    model = make().to("cuda:1")
    expect(model, True, data(device="cuda:1"))
    try:
        model(data(device="cuda:0"))
    except RuntimeError as error:
        assert "same device" in str(error), error
    else:
        raise AssertionError("an input on another device went through")
    expect(model, True, data(5, device="cuda:1"))


@on_two_devices
@torch.no_grad()
def streams_of_the_device_that_is_not_current(make: Any) -> None:
    for current, device in (DEVICES, DEVICES[::-1]):
        with torch.cuda.device(current):
            model = make().to(device)
            x = data(6, device=device)
            wanted = original(model, x)
            torch.cuda.synchronize(device)
            lanes = [torch.cuda.Stream(device) for _ in range(3)]
            found = []
            for _ in range(20):
                for lane in lanes:
                    with torch.cuda.stream(lane):
                        found.append(model(x * 1.0))
            torch.cuda.synchronize(device)
        for result in found:
            torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-4)
        assert model._planish.shipped.runs() >= 60


@on_two_devices
def a_thread_a_device(make: Any) -> None:
    """Threads that share what was loaded. Their current device is the first, wherever their module is."""
    start = make()
    models = [copy.deepcopy(start).to(device) for device in DEVICES * 2]
    before = start._planish.shipped.runs()
    faults: list[str] = []

    @torch.no_grad()
    def work(model: nn.Module, device: str, seed: int) -> None:
        try:
            x = data(seed, device=device)
            wanted = original(model, x)
            for _ in range(50):
                torch.testing.assert_close(model(x), wanted, rtol=1e-4, atol=1e-4)
        except Exception:
            faults.append(f"{device}: {traceback.format_exc()}")

    workers = [threading.Thread(target=work, args=(m, d, k)) for k, (m, d) in enumerate(zip(models, DEVICES * 2, strict=True))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not faults, faults[0]
    assert start._planish.shipped.runs() - before == 200, "an original ran in place of the program"


@on_two_devices
@torch.no_grad()
def a_cuda_graph_on_the_second_device(make: Any) -> None:
    with torch.cuda.device(1):
        captured_in_a_cuda_graph(make)


@check
@torch.no_grad()
def memory_does_not_grow(make: Any) -> None:
    model = make().cuda()
    x = data()
    for _ in range(5):
        model(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(200):
        model(x)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


def another_architecture(shipped: Path, scratch: Path) -> None:
    """A folder for a GPU that is not this one does its work by the original."""
    from planish.ship import load

    other = scratch / "other_gpu"
    shutil.copytree(shipped, other)
    text = json.dumps(json.loads((other / "program.json").read_text()) | {"arch": "sm_80"})
    (other / "program.json").write_text(text)
    manifest = json.loads((other / "ship.json").read_text())
    manifest["files"]["program.json"] = hashlib.sha256(text.encode()).hexdigest()  # else it were a folder that somebody changed
    (other / "ship.json").write_text(json.dumps(manifest))
    model = load(other).cuda()
    with torch.no_grad():
        expect(model, False, data())
    assert "sm_80" in model._planish.why


def broken_binary(shipped: Path, scratch: Path) -> None:
    from planish.ship import load

    other = scratch / "broken"
    shutil.copytree(shipped, other)
    for cubin in other.glob("kernels/*.cubin"):
        cubin.write_bytes(b"\x7fELF" + bytes(300))
    model = load(other).cuda()
    with torch.no_grad():
        expect(model, False, data())


def attempt(name: str, body: Callable[[], None]) -> bool:
    try:
        body()
        torch.cuda.synchronize()
    except Exception:
        print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
        return False
    print(f"ok   {name}", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="10s")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: no CUDA device that torch can use", file=sys.stderr)
        return 3
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        store = ["--store", scratch / "store.db"]
        done = planish("optimize", TASK, "--target", "cuda", "--budget", options.budget, "--baselines", "none", "--out", scratch / "out", "--json", *store)
        if done.returncode not in (0, 1) or json.loads(done.stdout)["form"] != "program":
            print(f"FAIL no program was shipped\n{done.stdout}{done.stderr}")
            return 1
        shipped = scratch / "out" / "shipped"
        exported = planish("export", shipped, "--form", "file", "--out", scratch / "file.py")
        if exported.returncode != 0:
            print(f"FAIL not exported\n{exported.stderr}")
            return 1
        from planish.ship import load

        space: dict[str, Any] = {}
        exec((scratch / "file.py").read_text(), space)

        def folder_form() -> nn.Module:
            return load(shipped)

        def file_form() -> nn.Module:
            model: nn.Module = space["load"]()
            return model

        folder_form.__name__, file_form.__name__ = "folder", "file"
        for make in (folder_form, file_form):
            for habit in CHECKS:
                failed += not attempt(f"{make.__name__}: {habit.__name__}", lambda habit=habit, make=make: habit(make))  # type: ignore[misc]
        failed += not attempt("another architecture", lambda: another_architecture(shipped, scratch))
        failed += not attempt("a binary that does not load", lambda: broken_binary(shipped, scratch))
    print(f"{failed} habits failed on {torch.cuda.device_count()} device(s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
