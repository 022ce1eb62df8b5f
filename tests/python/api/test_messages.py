"""What planish.optimize says: of example inputs that a module does not take, of errors, of results; once, and by the module's name."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import planish
import planish.api
import pytest
import torch
from planish.errors import PlanishError
from test_optimize import IMPROVED, NOTHING, Block, Command, command  # noqa: F401
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.table = nn.Embedding(4, 8)

    def forward(self, x: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        y = self.norm(self.linear(x))
        return y if at is None else y + self.table(at)


def scaled(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return x @ by


def test_a_part_with_a_hook_is_named_before_anything_starts(command: Command) -> None:  # noqa: F811
    def note(*_: Any) -> None: ...

    net = Net().eval()
    net.linear.register_forward_hook(note)
    with pytest.raises(planish.PlanishError) as error:
        planish.optimize(net, torch.ones(2, 8), pieces=False)
    assert error.value.kind == "not_exportable" and "Net: 'linear' has a hook (" in str(error.value) and "note)" in str(error.value)
    assert command.calls == [] and command.left() == []


@pytest.mark.parametrize(
    ("thing", "inputs", "parts"),
    [
        (Net(), torch.ones(2, 5), ["Net: ", "2x5 and 8x8", "test_messages.py:", "self.norm(self.linear(x))", "(float32[2, 5])"]),
        (Net(), (torch.ones(2, 8), torch.ones(3, dtype=torch.int64)), ["Net: ", "test_messages.py:", "self.table(at)", "int64[3]"]),
        (Net(), {"y": torch.ones(2, 8)}, ["Net: ", "'y'", "y=float32[2, 8]"]),
        (Net(), ("words",), ["Net: ", "str", "('words')"]),
        (Net(), [1.0, 2.0, 3.0], ["Net: ", "(1.0, 2.0, 3.0): a tuple or list gives one argument each", "(example,)"]),
        (Net(), {"x": torch.ones(2, 8), "z": 1}, ["Net: ", "'z'", "a dict gives keyword arguments", "(example,)"]),
        (scaled, (torch.ones(2, 3), torch.ones(4)), ["scaled: ", "test_messages.py:", "x @ by", "float32[4]"]),
    ],
)
def test_what_a_module_does_not_take_is_said_before_anything_starts(
    command: Command,  # noqa: F811
    capfd: pytest.CaptureFixture[str],
    thing: Any,
    inputs: Any,
    parts: list[str],
) -> None:
    with pytest.raises(planish.PlanishError) as error:
        planish.optimize(thing, inputs)
    assert error.value.kind == "forward_failed" and all(part in str(error.value) for part in parts), str(error.value)
    assert str(error.value).count("\n") == 1 and "planish/" not in str(error.value)
    assert command.calls == [] and command.left() == [] and capfd.readouterr() == ("", "")
    trace, frames = error.value.__traceback__, 0
    while trace is not None:
        trace, frames = trace.tb_next, frames + 1
    assert frames <= 3  # the caller's, and ours


def test_a_call_without_elements_is_refused_before_anything_starts(command: Command) -> None:  # noqa: F811
    with pytest.raises(planish.PlanishError) as error:
        planish.optimize(Net().eval(), torch.ones(0, 8))
    assert error.value.kind == "no_inputs" and "Net: returns no elements" in str(error.value) and "float32[0, 8]" in str(error.value)
    assert command.calls == [] and command.left() == []


def test_a_training_step_is_told_that_programs_compute_no_gradients(command: Command) -> None:  # noqa: F811
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    before = {k: v.clone() for k, v in net.state_dict().items()}

    def step(x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    with pytest.raises(planish.PlanishError) as error:
        planish.optimize(step, torch.ones(4, 8))
    assert error.value.kind == "forward_failed" and "programs compute no gradients: optimise the model" in error.value.hint
    assert command.calls == [] and all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


def test_what_a_module_prints_of_tensors_without_values_is_not_shown(command: Command, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    def talks(x: torch.Tensor) -> torch.Tensor:
        print("mean", x.mean())
        return x * 2

    command.answers({"result": NOTHING})
    planish.optimize(talks, torch.ones(4, 8))
    assert "FakeTensor" not in capsys.readouterr().out and len(command.calls) == 1


@pytest.mark.parametrize(("net", "said"), [(Net(), "Net is in training mode (BatchNorm1d); call .eval() first"), (Net().eval(), ""), (nn.Linear(8, 8), "")])
def test_a_module_in_training_mode_gets_a_note(command: Command, capsys: pytest.CaptureFixture[str], net: nn.Module, said: str) -> None:  # noqa: F811
    command.answers({"result": NOTHING})
    planish.optimize(net, torch.ones(4, 8))
    text = capsys.readouterr().err
    assert said in text and ("training mode" in text) == bool(said)
    planish.optimize(net, torch.ones(4, 8), progress=False)
    assert "training mode" not in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_to_is_named(command: Command, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "file").touch()
    with pytest.raises(PlanishError, match="file: cannot be written to: ") as raised:
        planish.optimize(nn.Linear(4, 4), torch.randn(2, 4), out=tmp_path / "file")
    assert raised.value.kind == "bad_request" and "out=" in str(raised.value)


def test_a_module_without_values_is_refused(command: Command) -> None:  # noqa: F811
    with pytest.raises(PlanishError, match="the parameter 'weight' has no values: it is on the meta device"):
        planish.optimize(nn.Linear(4, 4, device="meta"), torch.randn(2, 4, device="meta"))


def test_what_is_no_folder_and_what_is_no_module_are_named() -> None:
    with pytest.raises(PlanishError, match=r"^Net is no path of a folder") as error:
        planish.load(Net(), "folder")  # type: ignore[call-overload]
    assert error.value.kind == "bad_request"
    with pytest.raises(PlanishError, match=r"^int is no module"), planish.record(3):  # type: ignore[arg-type]
        pass


def test_hints_of_the_command_are_in_words_of_python(command: Command) -> None:  # noqa: F811
    for hint, said in (
        ("run the file's Model on get_inputs() by hand", "run Net on the example inputs by hand"),
        ("run `planish doctor`, or use --target cpu", 'run `planish doctor`, or use target="cpu"'),
    ):
        command.answers({"code": 2, "result": {"error": {"kind": "no_device", "message": "nothing", "hint": hint}}})
        with pytest.raises(planish.PlanishError) as error:
            planish.optimize(Net().eval(), torch.ones(2, 8))
        assert error.value.hint == said


def test_trying_the_example_changes_nothing(command: Command) -> None:  # noqa: F811
    """Neither where shapes alone say enough, nor where the module has to be called."""

    class Branches(Net):
        def forward(self, x: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
            x.add_(1)
            self.seen = x.sum()
            return super().forward(x) if bool(x.sum() > 0) else super().forward(-x) + torch.rand(8)

    for module in (Net(), Branches()):
        command.answers({"result": NOTHING})
        x, before, random = torch.ones(4, 8), {k: v.clone() for k, v in module.state_dict().items()}, torch.get_rng_state()
        planish.api.example_problem("n", module, (x,), {})
        assert torch.equal(x, torch.ones(4, 8)) and torch.equal(random, torch.get_rng_state()) and "seen" not in vars(module)
        assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
        assert planish.api.example_problem("n", module, (x,), {}) is None


def test_trying_a_function_puts_back_what_its_modules_keep() -> None:
    outer = Net()

    def function(x: torch.Tensor) -> torch.Tensor:
        return outer(x)

    for inputs, fits in ((torch.ones(4, 8), True), (torch.ones(4, 5), False)):
        problem = planish.api.example_problem("function", planish.Function(function).module, (inputs,), {})
        assert (problem is None) == fits and int(outer.norm.num_batches_tracked) == 0


class Uncopied(Net):
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("there is one alone")


def test_what_cannot_be_tried_is_left_to_the_run(command: Command) -> None:  # noqa: F811
    command.answers({"result": NOTHING})
    planish.optimize(Uncopied(), torch.ones(2, 5))
    assert len(command.calls) == 1


FAILED = {"result": {"error": {"kind": "random_ops", "message": "FOLDER: the task is random", "hint": "the task's model in eval mode"}}, "code": 2,
          "says": "error: FOLDER: the task is random\nhint: eval mode"}  # fmt: skip


def test_an_error_is_raised_and_not_printed_too(command: Command, capfd: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    command.answers(FAILED)
    with pytest.raises(planish.PlanishError) as error:
        planish.optimize(Block(), torch.randn(4, 8))
    assert str(error.value) == "FOLDER: Block is random\nhint: Block's model in eval mode"
    assert capfd.readouterr().err == "searching 1 region\n"


def test_an_error_is_said_once_on_a_terminal(command: Command, tmp_path: Path) -> None:  # noqa: F811
    command.answers(FAILED)
    script = tmp_path / "script.py"
    script.write_text("import planish, torch\nfrom torch import nn\nplanish.optimize(nn.Linear(8, 8), torch.randn(4, 8))\n")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(planish.__file__).parents[1]), "FAKE_WIDTH": "1"}
    subprocess.run(["stty", "cols", "93"], stdin=theirs, check=True)
    with subprocess.Popen([sys.executable, str(script)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said = b""
        try:
            while chunk := os.read(ours, 4096):
                said += chunk
        except OSError:  # it has ended
            pass
        os.close(ours)
    assert process.returncode == 1
    text = said.decode()
    assert text.count("is random") == 1 and text.count("Traceback") == 1 and "drawn 93 wide" not in text, text  # what follows an error is part of it
    assert "searching 1 region\r\n" in text


def test_progress_on_a_terminal_is_drawn_as_for_it(command: Command, tmp_path: Path) -> None:  # noqa: F811
    command.answers({"result": NOTHING})
    script = tmp_path / "script.py"
    script.write_text("import planish, torch\nfrom torch import nn\nprint(planish.optimize(nn.Linear(8, 8), torch.randn(4, 8)))\n")
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "cols", "93"], stdin=theirs, check=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(planish.__file__).parents[1]), "FAKE_WIDTH": "1"}
    done = subprocess.run([sys.executable, str(script)], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True, check=True)
    os.close(theirs)
    assert "drawn 93 wide\r\n" in os.read(ours, 1 << 16).decode() and "stays as it is" in done.stdout
    os.close(ours)


def test_the_module_is_called_by_its_name(command: Command) -> None:  # noqa: F811
    command.answers({"result": NOTHING | {"reason": "the task is degenerate: zeros would pass as the task's output"}})
    found = planish.optimize(Block(), torch.randn(4, 8))
    assert found.reason == "Block is degenerate: zeros would pass as Block's output"
    assert Path(command.calls[0]["argv"][1]).name == "Block"  # what progress calls it
    from planish.optimized import named

    assert named("a task file, the task file, the tasks", "Net") == "a task file, the task file, the tasks"


def test_a_notebook_shows_a_table() -> None:
    found = planish.Optimized(None, json.loads(json.dumps(IMPROVED)) | {"task": "A<b>"}, Path("/p"), "module")
    text = found._repr_html_()
    assert "A&lt;b&gt; is 1.50x as fast as compile" in text and "<b>A" in text and "A<b>" not in text
    assert text.count("<tr>") == 3 and "<td>shipped</td><td>1</td>" in text and "<td>2.00x</td>" in text and "of eager&#x27;s own error" in text
    nothing = planish.Optimized(None, NOTHING, None, "module")._repr_html_()
    assert "stays as it is" in nothing and "<table" not in nothing


def test_lines_are_those_of_the_user(tmp_path: Path) -> None:
    from planish.capture import source

    ours, linked = Path(planish.__file__).parent, tmp_path / "link"
    assert [source._is_users(f"{folder}/functions.py") for folder in (ours, ours.resolve(), Path(torch.__file__).parent)] == [False] * 3
    assert [source._is_users(name) for name in ("<string>", "<eval_with_key>.1", "<ipython-input-3-1a2b>", "<stdin>", str(linked / "model.py"))] == [
        False, False, True, True, True,
    ]  # fmt: skip
