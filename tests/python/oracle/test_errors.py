"""Every way in which a task or a message can be unfit has its own kind."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from harness import Harness
from planish.errors import PlanishError
from planish.oracle.service import Service
from planish.oracle.task import Task
from planish.wire import Channel, serve

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "python")}
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def task(forward, inputs="torch.randn(8, 8)", args="x", init="pass"):
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, {args}):\n        {forward}\ndef get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (task("torch.rand(3); return x * 2"), "random_ops"),
        (task("return x + torch.randn(x.shape, generator=torch.Generator())"), "random_ops"),
        (
            task("return x + self.n_calls()", init="self.calls = 0\n    def n_calls(self):\n        self.calls += 1\n        return float(self.calls)"),
            "not_exportable",
        ),
        (task("return torch.log(x)", "-torch.rand(8, 8) - 1"), "reference_nan"),
        (task("return x * 2", "torch.randn(1 << 22, 1 << 20)"), "out_of_memory"),
        (task("return (x.unsqueeze(1) * x).sum()", "torch.randn(1 << 21)"), "out_of_memory"),
        (task("return x @ x", "torch.randn(3, 4)"), "forward_failed"),
        (task("return self.norm(x)", init="self.norm = nn.LazyBatchNorm1d()"), "not_exportable"),
    ],
)
def test_unfit_tasks(source, kind, tmp_path):
    with pytest.raises(PlanishError) as caught:
        Harness(source, tmp_path)
    assert caught.value.kind == kind, caught.value.message
    assert "task_under_test.py" in caught.value.message
    if kind == "out_of_memory":
        assert "byte" in caught.value.message


def test_dropout_that_does_nothing_is_fine(tmp_path):
    harness = Harness(task("return F.dropout(x, 0.5, False) + F.dropout(x, 0.0, True)"), tmp_path)
    harness.make(1)
    assert harness.judge(harness.eager())["ok"]


@pytest.mark.parametrize("accuracy", ["double", 0, -1.0, "nan", None])
def test_bad_accuracy(accuracy, tmp_path):
    with pytest.raises(PlanishError) as caught:
        Harness(task("return x + 1"), tmp_path, accuracy=accuracy)
    assert caught.value.kind == "bad_accuracy"


def test_bad_messages(tmp_path):
    service = Service()
    handlers = service.handlers()
    for method, params in [
        ("make", {"data": "d", "seed": 1}),
        ("hello", {"device": "tpu"}),
        ("hello", {}),
        ("check", {"data": "none"}),
        ("refresh", {"data": "none", "seed": 1}),
        ("mutation_check", {"region": "r"}),
    ]:
        with pytest.raises(PlanishError) as caught:
            handlers[method](params, [])
        assert caught.value.kind == "bad_message", method
    harness = Harness(task("return torch.relu(x + 1).sum(-1)"), tmp_path)
    handlers = harness.service.handlers()
    for nodes, inputs, outputs in [([99], [0], [1]), ([1], [], [2]), ([0], [0], [3])]:
        with pytest.raises(PlanishError) as caught:
            handlers["region"]({"region": "r", "nodes": nodes, "inputs": inputs, "outputs": outputs}, [])
        assert caught.value.kind == "bad_message"
    with pytest.raises(PlanishError, match="regime"):
        handlers["make"]({"region": "task", "data": "d", "seed": 1, "regime": "odd"}, [])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_device():
    with pytest.raises(PlanishError) as caught:
        Service().hello({"device": "cuda"})
    assert caught.value.kind == "no_device" and caught.value.hint


def test_process_answers_over_its_descriptor(tmp_path):
    (tmp_path / "t.py").write_text(task("print('noise'); return x.softmax(-1)"))
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    keep = theirs.fileno()

    def place() -> None:
        os.dup2(keep, 3)

    command = [sys.executable, "-m", "planish.oracle"]
    child = subprocess.Popen(command, preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=ENVIRONMENT)
    theirs.close()
    channel = Channel(mine)
    assert channel.request(1, "hello", {"device": "cpu"})["torch"] == torch.__version__
    opened = channel.request(2, "open", {"task": str(tmp_path / "t.py"), "accuracy": "eager", "blobs": str(tmp_path)})
    assert opened["graph"]["schema"] == "planish.graph/1" and opened["task"]["input_bytes"] == 256
    made = channel.request(3, "make", {"region": "task", "data": "d", "seed": 1, "regime": "task"})
    assert made["_fds"] == 2 and [b["role"] for b in made["buffers"]] == ["input", "output"]
    assert channel.request(4, "check", {"data": "d", "stage": "screen"})["problem"] == "unwritten"
    with pytest.raises(PlanishError, match="no data set"):
        channel.request(5, "check", {"data": "e"})
    channel.close()
    assert child.wait(60) == 0
    assert child.stdout is not None and b"noise" in child.stdout.read()


def test_without_a_descriptor_it_says_so():
    done = subprocess.run([sys.executable, "-m", "planish.oracle"], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 2 and "error:" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "failed"),
    [
        ("CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be asynchronously reported", True),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", True),
        ("CUDA error: an illegal memory access was encountered", False),
        ("The size of tensor a (3) must match the size of tensor b (4)", False),
    ],
)
def test_a_failed_device_has_a_kind_of_its_own(words, failed):
    """Whatever the oracle was asked: nothing that ran on the device is to blame."""
    ours, theirs = socket.socketpair()
    answers = Channel(ours)
    answers.send({"id": 1, "method": "fails"})
    ours.shutdown(socket.SHUT_WR)

    def fails(params, fds):
        raise RuntimeError(words)

    serve(Channel(theirs), {"fails": fails})
    assert answers.receive()["error"]["kind"] == ("device_lost" if failed else "internal")


def test_draws_from_another_generator_are_told_where_and_what_to_do(tmp_path):
    forward = "return x + torch.randn(8, 8, generator=self.own)"
    with pytest.raises(PlanishError) as caught:
        Harness(task(forward, init="self.own = torch.Generator()"), tmp_path)
    assert caught.value.kind == "random_ops" and caught.value.hint.startswith("draw from torch's default generator")
    assert f"task_under_test.py:9: {forward}" in caught.value.message


@pytest.mark.parametrize("init", ["self.a = nn.TransformerEncoderLayer(8, 2, 16)", "self.a = nn.LSTM(8, 8, 2, dropout=0.5)"])
def test_layers_in_training_are_tasks(init, tmp_path):
    harness = Harness(task("return self.a(x)", init=init), tmp_path)
    harness.make(1)
    assert harness.judge(harness.eager(), "full")["ok"]


def test_data_on_which_eager_raises_are_no_regime(tmp_path):
    """The graph holds no check: a module that is right raises there, and is not to be compared."""
    harness = Harness(task("return torch.linalg.cholesky(x @ x.mT + torch.eye(8))"), tmp_path)
    assert len(harness.region.regimes()[0]) >= 5
    (tmp_path / "other").mkdir()
    other = Harness(task("return torch.linalg.cholesky(x)", "(lambda a: a @ a.mT + torch.eye(8))(torch.randn(8, 8))"), tmp_path / "other")
    found, skipped = other.region.regimes()
    assert "task" in found and "normal" not in found and "cholesky_ex fails" in skipped["normal"], skipped
    other.make(3)
    assert other.judge(other.eager())["ok"]


OTHERWISE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        codes = torch.randint(0, 15, (64, 64), dtype=torch.int32)
        self.register_buffer("packed", torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1))
        self.register_buffer("scales", torch.ones(2, 64, 2, dtype=torch.bfloat16))

    def forward(self, x):
        if type(x) is not torch.Tensor:
            x = x.float()
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.packed, 32, self.scales)


def get_inputs():
    return [torch.randn(2, 64, dtype=torch.bfloat16)]
"""


def test_code_that_goes_another_way_while_it_is_traced_is_named(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(OTHERWISE)
    with pytest.raises(PlanishError, match=r"what torch\.export made of it does not run") as refused:
        Task(str(tmp_path / "task.py"), torch.device("cpu"), str(tmp_path / "blobs"))
    assert refused.value.kind == "not_exportable" and "type(x)" in refused.value.hint
