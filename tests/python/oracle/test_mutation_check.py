"""What passes makes a task degenerate, unless it is a lower precision than eager's own rounding."""

import pytest
from harness import Harness
from planish.oracle import flags
from planish.oracle.data import DataSet

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def program(init, forward, inputs):
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n    def forward(self, x):\n        {forward}\n"
        f"def get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


NET = program("self.c, self.l = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)", "return self.l(F.relu(self.c(x)).mean((2, 3)))", "torch.randn(4, 3, 12, 12)")


def mutation_check(source, folder):
    return Harness(source, folder).service.mutation_check({"region": "task"})


def test_precise_eager_leaves_no_room(tmp_path):
    found = mutation_check(NET, tmp_path)
    assert {"zeros", "constant", "bf16", "tf32 products"} <= set(found["tried"])
    assert found["degenerate"] == [] and found["notes"] == []


def test_convolutions_that_may_be_tf32_make_other_products_a_note(monkeypatch, tmp_path):
    """As on a GPU with torch's own flags: the convolution's rounding is coarser than TF32 in the layer behind it."""
    monkeypatch.setattr(flags, "tf32_operations", lambda device, accuracy: frozenset({"conv2d", "convolution"}))
    convolutions = "self.c, self.l = nn.Sequential(*[nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(12)]), nn.Linear(64, 64, bias=False)"
    found = mutation_check(program(convolutions, "return self.l(self.c(x).flatten(2))", "torch.randn(4, 8, 8, 8)"), tmp_path)
    assert "tf32 products" in found["tried"] and found["degenerate"] == []
    (note,) = found["notes"]
    assert note["kind"] == "coarse_eager" and note["about"] == "tf32 products"
    assert 0 < note["error"] <= 2 * note["eager_error"] < 1e-2
    assert "TF32 products" in note["text"] and f"{note['eager_error']:.1e}" in note["text"]


def test_a_layer_that_rounds_within_is_a_note(tmp_path):
    """f32 outputs behind a bf16 product: eager rounds to bf16 itself."""
    inner = program("self.l = nn.Linear(32, 32).bfloat16()", "return self.l(x.bfloat16()).float()", "torch.randn(16, 32)")
    found = mutation_check(inner, tmp_path)
    assert found["degenerate"] == [] and [n["about"] for n in found["notes"]] == ["bf16"]


@pytest.mark.parametrize(
    ("forward", "inputs", "passes"),
    [
        ("return x * 1.0", "torch.randn(8, 8)", "input x"),
        ("return x * 0", "torch.randn(8, 8)", "zeros"),
        ("return x @ x", "torch.randint(0, 3, (8, 8)).float()", "tf32 products"),  # such data need no precision: no rounding of eager's lets it through
    ],
)
def test_what_takes_no_work_stays_degenerate(forward, inputs, passes, tmp_path):
    found = mutation_check(program("pass", forward, inputs), tmp_path)
    assert passes in found["degenerate"]
    assert passes not in [n["about"] for n in found["notes"]]


@pytest.mark.parametrize("loss", ["nn.HingeEmbeddingLoss()", "nn.HingeEmbeddingLoss(margin=0.5, reduction='none')"])
def test_labels_are_exact(loss, tmp_path):
    """A loss that compares its labels with numbers: moved by a rounding they would be other labels, and everything would pass."""
    source = program(f"self.loss = {loss}", "return self.loss(x[0], x[1])", "(torch.randn(64, 32), torch.randint(0, 2, (64, 32)).float() * 2 - 1)")
    found = mutation_check(source, tmp_path)
    assert {"zeros", "constant", "bf16"} <= set(found["tried"]) and found["degenerate"] == []


def test_a_mask_made_of_integers_is_exact(tmp_path):
    """1 - mask is 0 or 1: moved by a rounding and multiplied by the least number there is, it would be another mask."""
    bias = "(1.0 - x[1][:, None, :].to(torch.float32)) * torch.finfo(torch.float32).min"
    inputs = "(torch.randn(2, 16, 16), (torch.arange(16)[None] < torch.tensor([[16], [11]])).long())"
    found = mutation_check(program("self.l = nn.Linear(16, 16)", f"return self.l(torch.softmax(x[0] + {bias}, -1) @ x[0])", inputs), tmp_path)
    assert {"zeros", "constant", "bf16", "tf32 products"} <= set(found["tried"]) and found["degenerate"] == []


BUCKETS = "torch.log(torch.arange(1, 25).float() / 4)"


def test_buckets_of_constants_are_what_torch_makes_of_them(tmp_path):
    """By a logarithm that is a whole number, but for its rounding, at powers of the base: in double, and moved by a rounding, others come out."""
    by_log = f"(({BUCKETS} / math.log(16) * 4).long() + 8)"
    source = program("self.e = nn.Embedding(16, 24)", f"return x @ self.e({by_log}).mT", "torch.randn(8, 24)").replace(
        "import torch\n", "import math\nimport torch\n", 1
    )
    found = mutation_check(source, tmp_path)
    assert {"zeros", "constant", "bf16", "tf32 products"} <= set(found["tried"]) and found["degenerate"] == []


def test_what_depends_on_an_input_is_rounded_as_ever(tmp_path):
    """The same buckets of distances that are given: there a rounding decides, and eager's is not the only right one."""
    harness = Harness(
        program("pass", "return (torch.log(x / 4) / 2.772588722239781 * 4).long()", "torch.arange(1, 25).float()"),
        tmp_path,
    )
    harness.make(1)
    exact = harness.region.expected(harness.data)
    assert exact.flips(0, harness.data.input_tensors()).count > 0


def test_a_tolerance_leaves_the_room_that_was_asked_for(tmp_path):
    source = program("self.l = nn.Linear(32, 32)", "return self.l(x)", "torch.randn(16, 32)")
    found = Harness(source, tmp_path, accuracy=1e-2).service.mutation_check({"region": "task"})
    assert found["degenerate"] == [] and [(n["kind"], n["about"]) for n in found["notes"]] == [("coarse_tolerance", "bf16")]
    tight = Harness(source, tmp_path, accuracy=1e-5).service.mutation_check({"region": "task"})
    assert tight["degenerate"] == tight["notes"] == [] and "bf16" in tight["tried"]


def test_what_fails_on_other_data_is_a_note(tmp_path):
    """A ReLU that lets nothing of the task's own data through: zeros pass there, as any rounding does, and fail where signs vary."""
    found = mutation_check(program("self.l = nn.Linear(64, 64)", "return F.relu(self.l(x) - 2)", "torch.rand(16, 64)"), tmp_path)
    assert {"zeros", "constant", "bf16", "tf32 products"} <= set(found["tried"]) and found["degenerate"] == []
    assert {note["about"] for note in found["notes"]} == {"zeros", "constant", "bf16", "tf32 products"}
    assert {note["kind"] for note in found["notes"]} == {"fails_elsewhere"}
    assert any("normal data" in note["text"] or "wide data" in note["text"] for note in found["notes"])


def test_inputs_have_the_names_that_the_task_gives_them(tmp_path):
    """A gate that the task's own data leave open."""
    source = program("self.c = nn.Conv2d(8, 8, 1)", "return torch.where(x > -1, x, self.c(x))", "torch.rand(2, 8, 4, 4)")
    (note,) = (n for n in mutation_check(source, tmp_path)["notes"] if n["about"].startswith("input"))
    assert note["about"] == "input x" and "own data input x, handed back as it is, would pass; on normal data" in note["text"]


def test_other_data_that_a_task_refuses_prove_nothing(tmp_path):
    """An index made of the data: no other data are in its domain, and what passes stays degenerate."""
    source = program(
        "self.e = nn.Embedding(4, 8)\n        nn.init.zeros_(self.e.weight[1])", "return F.relu(self.e((x * 2).long()) - 9)", "torch.full((16,), 0.6)"
    )
    found = mutation_check(source, tmp_path)
    assert "zeros" in found["degenerate"] and found["notes"] == []


def test_inputs_that_cannot_be_the_answer_cost_nothing(monkeypatch, tmp_path):
    """A network's hundreds of parameters: outputs were overwritten, and all guards written anew, for each of them."""
    overwritten = []
    poison = DataSet.poison
    monkeypatch.setattr(DataSet, "poison", lambda data: (overwritten.append(data), poison(data))[1])
    net = program("self.l = nn.Sequential(*[nn.Linear(8, 8) for _ in range(20)])", "return self.l(x)", "torch.randn(4, 8)")
    found = mutation_check(net, tmp_path)
    assert [name for name in found["tried"] if name.startswith("input ")] == ["input x"]  # it alone has the result's shape
    assert len(overwritten) == 1 + len(found["tried"])  # and once when the data are made
