"""torch's own softmaxes and attentions put NaN in other places than each other: there the places are no verdict. Elsewhere they are."""

import pytest
import torch
from harness import Harness

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
MASK = torch.ones(12, 12).tril().bool()
MASKED = "torch.ones(12, 12, device=q.device).tril().bool()"


def program(forward, inputs, args):
    return (
        f"{HEAD}class Model(nn.Module):\n    def forward(self, {args}):\n        {forward}\n"
        f"def get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


ATTENTION = program(
    f"return torch.softmax((q @ k.transpose(-1, -2) / 8 ** 0.5).masked_fill(~{MASKED}, float('-inf')), -1) @ v",
    "*(torch.randn(6, 4, 12, 8) for _ in range(3))",
    "q, k, v",
)
NAIVE = program("e = torch.exp(x)\n        return e / e.sum(-1, keepdim=True)", "torch.randn(64, 33)", "x")


def fused(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=MASK)


@pytest.mark.parametrize(("source", "other"), [(ATTENTION, fused), (NAIVE, lambda x: x.softmax(-1))], ids=["attention", "softmax"])
def test_a_fused_form_passes_on_special_values(source, other, tmp_path):
    harness = Harness(source, tmp_path)
    for seed in range(4):
        assert "skipped" not in harness.make(100 + seed, "special")
        right = other(*harness.inputs().values())
        assert harness.judge([right])["ok"], harness.judge([right])["message"]
        rows = harness.judge([right])["outputs"]
        assert 0 < rows[0]["skipped"] < 0.5 * right.numel()  # most of it is judged all the same
        finite = torch.isfinite(harness.eager()[0]) & torch.isfinite(right)
        assert not harness.judge([torch.where(finite, right * (1 + 1e-3), right)])["ok"]
        spoilt = right.clone()
        blocks = spoilt.flatten(0, 1).flatten(1) if right.ndim == 4 else spoilt
        calm = torch.isfinite(blocks).all(1)  # what no special value reaches must stay finite
        assert bool(calm.any())
        blocks[int(calm.int().argmax()), 0] = torch.nan
        assert harness.judge([spoilt])["problem"] == "nan"


def test_places_count_where_nothing_is_folded(tmp_path):
    harness = Harness(program("return torch.exp(x) * 2", "torch.randn(64, 33)", "x"), tmp_path)
    harness.make(3, "special")
    right = torch.exp(harness.inputs()["x"]) * 2
    assert harness.judge([right])["ok"]
    assert harness.judge([torch.nan_to_num(right, 0.0)])["problem"] in ("nan", "mismatch")
