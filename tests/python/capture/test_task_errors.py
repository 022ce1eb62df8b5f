"""Every way a task file can be wrong has a kind of its own."""

from pathlib import Path

import pytest
import torch
from planish.capture import capture, check_forward, load_task
from planish.errors import PlanishError

HEAD = "import torch\nimport torch.nn as nn\n"
MODEL = "class Model(nn.Module):\n    def forward(self, x):\n        return x + 1\n"
INPUTS = "def get_inputs():\n    return [torch.randn(2, 3)]\ndef get_init_inputs():\n    return []\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "task.py"
    path.write_text(text)
    return path


LOADING = {
    "not_python": "this is no python",
    "import_exited": HEAD + "raise SystemExit(0)\n",
    "import_failed": HEAD + "raise ValueError('no')\n",
    "missing_import": "import a_package_that_nobody_has\n",
    "no_model": HEAD + INPUTS,
    "no_inputs": HEAD + MODEL,
    "init_failed": HEAD + MODEL + "def get_inputs():\n    return []\ndef get_init_inputs():\n    return [1, 2]\n",
    "init_inputs_failed": HEAD + MODEL + "def get_inputs():\n    return []\ndef get_init_inputs():\n    raise KeyError('x')\n",
}


@pytest.mark.parametrize("kind", LOADING)
def test_loading(kind: str, tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as caught:
        load_task(write(tmp_path, LOADING[kind]))
    assert caught.value.kind == kind
    assert "task.py" in caught.value.message
    assert caught.value.hint


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as caught:
        load_task(tmp_path / "absent.py")
    assert caught.value.kind == "no_such_file"


def test_folder_that_is_no_task(tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as caught:
        load_task(tmp_path)
    assert caught.value.kind == "not_a_task"


@pytest.mark.parametrize("body", ["raise RuntimeError('no data')", "raise SystemExit(3)", "return [torch.randn(2, 3) @ torch.randn(2, 3)]"])
def test_inputs_fail(body: str, tmp_path: Path) -> None:
    task = load_task(write(tmp_path, HEAD + MODEL + f"def get_inputs():\n    {body}\n"))
    with pytest.raises(PlanishError) as caught:
        task.make_inputs(0, "cpu")
    assert caught.value.kind == "inputs_failed"


FORWARD = {
    "forward_failed": "return x @ x",
    "not_tensors": "return 'text'",
}


@pytest.mark.parametrize("kind", FORWARD)
def test_forward(kind: str, tmp_path: Path) -> None:
    text = HEAD + f"class Model(nn.Module):\n    def forward(self, x):\n        {FORWARD[kind]}\n" + INPUTS
    task = load_task(write(tmp_path, text))
    with pytest.raises(PlanishError) as caught:
        check_forward(task.path, task.model, task.make_inputs(0, "cpu"))
    assert caught.value.kind == kind


@pytest.mark.parametrize("taken", ["x[n : n + 2]", "x[int(n) : int(n) + 2]", "torch.narrow(x, 0, n, 2)", "x[:n].sum(0)"])
def test_rows_that_a_tensor_begins_are_refused_with_what_is_taken_instead(taken: str, tmp_path: Path) -> None:
    head = HEAD + "class Model(nn.Module):\n    def forward(self, x, n):\n        return "
    inputs = "\ndef get_inputs():\n    return [torch.randn(5, 3), torch.tensor(1)]\ndef get_init_inputs():\n    return []\n"
    task = load_task(write(tmp_path, head + taken + inputs))
    with pytest.raises(PlanishError) as caught:
        capture(task.model, *task.make_inputs(0, "cpu"), tmp_path / "blobs", task.path)
    assert caught.value.kind == "data_dependent"
    assert caught.value.hint and "x[n + torch.arange(4, device=x.device)]" in caught.value.hint
    instead = load_task(write(tmp_path, head + "x[n + torch.arange(2, device=x.device)]" + inputs))
    graph = capture(instead.model, *instead.make_inputs(0, "cpu"), tmp_path / "others", instead.path).graph
    assert graph["nodes"][-1]["op"] == "aten.index.Tensor"


def test_data_dependent_control_flow(tmp_path: Path) -> None:
    text = HEAD + "class Model(nn.Module):\n    def forward(self, x):\n        return x + 1 if x.sum() > 0 else x - 1\n" + INPUTS
    task = load_task(write(tmp_path, text))
    with pytest.raises(PlanishError) as caught:
        capture(task.model, *task.make_inputs(0, "cpu"), tmp_path / "blobs", task.path)
    assert caught.value.kind == "data_dependent"


def test_the_generator_follows_its_seed(tmp_path: Path) -> None:
    task = load_task(write(tmp_path, HEAD + MODEL + INPUTS))
    first, again, other = (task.make_inputs(seed, "cpu")[0][0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


VARIANTS = HEAD + MODEL + INPUTS + "def get_input_variants():\n    return [[torch.randn(4, 5)], lambda: [torch.randn(1)]]\n"


def test_a_file_may_name_inputs_of_other_shapes(tmp_path: Path) -> None:
    path = write(tmp_path, VARIANTS)
    assert load_task(path).variants and not load_task(write(tmp_path, HEAD + MODEL + INPUTS)).variants
    path = write(tmp_path, VARIANTS)
    shapes = [tuple(load_task(path, n).make_inputs(0, "cpu")[0][0].shape) for n in range(3)]
    assert shapes == [(2, 3), (4, 5), (1,)]
    one = load_task(path, 1)
    (a,), (b,), (c,) = (one.make_inputs(seed, "cpu")[0] for seed in (1, 1, 2))
    assert torch.equal(a, b) and not torch.equal(a, c), "drawn anew for each seed, and the same for the same"


@pytest.mark.parametrize(("text", "kind"), [(VARIANTS, "no_variant"), (HEAD + MODEL + INPUTS, "no_variant"),
                                            (VARIANTS + "def get_input_variants():\n    return 3\n", "inputs_failed"),
                                            (VARIANTS + "def get_input_variants():\n    raise KeyError('x')\n", "inputs_failed")])  # fmt: skip
def test_what_other_shapes_can_be_wrong_in(text: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(PlanishError) as caught:
        load_task(write(tmp_path, text), 3).make_inputs(0, "cpu")
    assert caught.value.kind == kind and "task.py" in caught.value.message
