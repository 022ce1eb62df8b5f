"""Deep networks amplify rounding: graph and model are compared in double before a task is refused."""

import pytest
import torch
from harness import Harness
from planish.errors import PlanishError
from planish.oracle import agreement
from planish.oracle.agreement import in_double
from planish.oracle.promoted import Undecided

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def program(init, steps, result="return x"):
    body = "".join(f"        {line}\n" for line in (*steps, result))
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n    def forward(self, x):\n{body}"
        "def get_inputs():\n    return [torch.rand(64)]\ndef get_init_inputs():\n    return []\n"
    )


# 34 steps of the logistic map turn one rounding into another number.
CHAOS = ("for _ in range(34):", "    x = 3.99 * x * (1 - x)")
ONCE = "self.calls = 0"
FIRST = ("self.calls += 1", "x = x * (1 + (self.calls == 1) * 2 ** -23)")


@pytest.fixture
def rounded_first_run(monkeypatch):
    """The model's own run, moved by one rounding at its input, as another kernel would."""
    from planish.oracle import task as module

    real = module.check_forward

    def check_forward(path, model, call):
        return real(path, model, (tuple(x * (1 + 2.0**-23) for x in call[0]), call[1]))

    monkeypatch.setattr(module, "check_forward", check_forward)


def test_amplified_rounding_is_no_mismatch(rounded_first_run, tmp_path):
    harness = Harness(program("pass", CHAOS), tmp_path)
    assert len(harness.graph["nodes"]) > 60


def test_where_the_model_does_not_run_in_double_its_response_decides(rounded_first_run, tmp_path):
    looks_at_bits = "x = x + (x.view(torch.int32) & 0).float()"
    short = ("for _ in range(18):", "    x = 3.99 * x * (1 - x)")
    harness = Harness(program("pass", (looks_at_bits, *short)), tmp_path)
    assert len(harness.graph["nodes"]) > 30
    with pytest.raises(PlanishError) as caught:  # chaos: nothing can be told, so it is refused
        Harness(program("pass", (looks_at_bits, *CHAOS)), tmp_path)
    assert caught.value.kind == "capture_mismatch"


def test_state_that_export_does_not_see_is_a_mismatch_whatever_amplifies(tmp_path):
    with pytest.raises(PlanishError) as caught:
        Harness(program(ONCE, (*FIRST, *CHAOS)), tmp_path)
    assert caught.value.kind == "not_exportable" and "register_buffer" in caught.value.hint


@pytest.mark.parametrize("draw", ["random.random()", "1e-4 * random.random()", "float(numpy.random.rand())"])
def test_numbers_drawn_outside_of_torch_are_random(draw, tmp_path):
    with pytest.raises(PlanishError) as caught:
        Harness("import random\nimport numpy\n" + program("pass", (f"x = x + {draw}",)), tmp_path)
    assert caught.value.kind == "random_ops", caught.value.message


def test_a_draw_that_changes_nothing_is_none(tmp_path):
    Harness("import random\n" + program("pass", ("unused = random.random()", "x = x * 2")), tmp_path)


class Casting(torch.nn.Module):
    """Creates tensors and casts, as models that do not survive .double()."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.table = torch.linspace(0, 1, 4)  # a plain attribute

    def forward(self, x):
        y = self.a(x.float()) * torch.ones(4, dtype=torch.float32) / 3 + self.table
        return F_softmax(y.half().float()), torch.full((2,), 0.1)


def F_softmax(x):
    return torch.nn.functional.softmax(x, -1, dtype=torch.float32)


def test_a_model_runs_in_double_throughout():
    model = Casting()
    x = torch.randn(3, 4)
    weight, bias = model.a.weight.detach().double(), model.a.bias.detach().double()
    found, tenth = in_double(model, (x,), {})
    assert found.dtype == torch.float64 and tenth.tolist() == [0.1, 0.1]
    assert torch.allclose(found, ((x.double() @ weight.t() + bias) / 3 + model.table.double()).softmax(-1), rtol=1e-14)


def test_what_cannot_run_in_double_says_so():
    class Writes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.h = torch.zeros(4)

        def forward(self, x):
            return self.h.add_(x)

    with pytest.raises(Undecided, match="not promoted"):
        in_double(Writes(), (torch.ones(4),), {})


def test_agreement_has_its_limits():
    a = torch.randn(1000)
    assert agreement.agree(a, a * 1.001) and not agreement.agree(a, a * 1.1) and not agreement.agree(a, a * 1.001, 1e-4)
    assert not agreement.agree(a, a.double()) and not agreement.agree(torch.arange(10), torch.arange(10) + 1)
    nan = torch.full((3,), torch.nan)
    assert agreement.agree(nan, nan.clone()) and not agreement.agree(nan, a[:3])


def test_large_parameters_become_doubles_where_they_are_used(monkeypatch):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 8)).bfloat16()
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    [all_at_once] = in_double(agreement.twin_of(model, lambda: model), (x,), {})
    monkeypatch.setattr(agreement, "_LARGE", 1000)
    twin = agreement.twin_of(model, lambda: model)
    assert twin[0].weight is model[0].weight and twin[3].weight is not model[3].weight
    [found] = in_double(twin, (x,), {})
    assert found.dtype is torch.float64 and torch.equal(found, all_at_once)
    assert all(p.dtype is torch.bfloat16 for p in model.parameters())


def test_a_model_that_cannot_be_copied_is_made_anew():
    class Uncopied(torch.nn.Linear):
        def __deepcopy__(self, memo):
            raise TypeError("not me")

    other = torch.nn.Linear(4, 4)
    assert agreement.twin_of(Uncopied(4, 4), lambda: other) is other
