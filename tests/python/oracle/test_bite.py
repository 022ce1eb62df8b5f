"""What passes makes a task degenerate, unless it is a lower precision than eager's own rounding."""

import pytest
from harness import Harness
from planish.oracle import flags

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def program(init, forward, inputs):
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n    def forward(self, x):\n        {forward}\n"
        f"def get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


NET = program("self.c, self.l = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)", "return self.l(F.relu(self.c(x)).mean((2, 3)))", "torch.randn(4, 3, 12, 12)")


def bite(source, folder):
    return Harness(source, folder).service.bite({"region": "task"})


def test_precise_eager_leaves_no_room(tmp_path):
    found = bite(NET, tmp_path)
    assert {"zeros", "constant", "bf16", "tf32 products"} <= set(found["tried"])
    assert found["degenerate"] == [] and found["notes"] == []


def test_convolutions_that_may_be_tf32_make_other_products_a_note(monkeypatch, tmp_path):
    """As on a GPU with torch's own flags: the convolution's rounding is coarser than TF32 in the layer behind it."""
    monkeypatch.setattr(flags, "tf32_operations", lambda device, accuracy: frozenset({"conv2d", "convolution"}))
    convolutions = "self.c, self.l = nn.Sequential(*[nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(12)]), nn.Linear(64, 64, bias=False)"
    found = bite(program(convolutions, "return self.l(self.c(x).flatten(2))", "torch.randn(4, 8, 8, 8)"), tmp_path)
    assert "tf32 products" in found["tried"] and found["degenerate"] == []
    (note,) = found["notes"]
    assert note["kind"] == "coarse_eager" and note["about"] == "tf32 products"
    assert 0 < note["error"] <= 2 * note["eager_error"] < 1e-2
    assert "TF32 products" in note["text"] and f"{note['eager_error']:.1e}" in note["text"]


def test_a_layer_that_rounds_within_is_a_note(tmp_path):
    """f32 outputs behind a bf16 product: eager rounds to bf16 itself."""
    inner = program("self.l = nn.Linear(32, 32).bfloat16()", "return self.l(x.bfloat16()).float()", "torch.randn(16, 32)")
    found = bite(inner, tmp_path)
    assert found["degenerate"] == [] and [n["about"] for n in found["notes"]] == ["bf16"]


@pytest.mark.parametrize(
    ("forward", "inputs", "passes"),
    [
        ("return x * 1.0", "torch.randn(8, 8)", "input in0"),
        ("return x * 0", "torch.randn(8, 8)", "zeros"),
        ("return x @ x", "torch.randint(0, 3, (8, 8)).float()", "tf32 products"),  # such data need no precision: no rounding of eager's lets it through
    ],
)
def test_what_takes_no_work_stays_degenerate(forward, inputs, passes, tmp_path):
    found = bite(program("pass", forward, inputs), tmp_path)
    assert passes in found["degenerate"]
    assert passes not in [n["about"] for n in found["notes"]]


@pytest.mark.parametrize("loss", ["nn.HingeEmbeddingLoss()", "nn.HingeEmbeddingLoss(margin=0.5, reduction='none')"])
def test_labels_are_exact(loss, tmp_path):
    """A loss that compares its labels with numbers: moved by a rounding they would be other labels, and everything would pass."""
    source = program(f"self.loss = {loss}", "return self.loss(x[0], x[1])", "(torch.randn(64, 32), torch.randint(0, 2, (64, 32)).float() * 2 - 1)")
    found = bite(source, tmp_path)
    assert {"zeros", "constant", "bf16"} <= set(found["tried"]) and found["degenerate"] == []
