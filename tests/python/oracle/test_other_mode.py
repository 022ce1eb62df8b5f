"""Whether a task's own model gives the same in its other mode, so that a solution is asked for it there."""

import pytest
import torch
from planish.oracle.service import Service

TASK = """
import torch
from torch import nn
class Rarely(nn.Module):
    def forward(self, x):
        return x * 2 if self.training and torch.rand(()) < 1e-9 else x
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.between = BETWEEN
        self.eval()
    def forward(self, x):
        return self.between(self.linear(x))
def get_inputs():
    return [torch.randn(8, 16)]
def get_init_inputs():
    return []
"""


def opened(tmp_path, between):
    path = tmp_path / "task.py"
    path.write_text(TASK.replace("BETWEEN", between))
    (tmp_path / "blobs").mkdir()
    service = Service()
    service.hello({"device": "cpu"})
    service.open({"task": str(path), "blobs": str(tmp_path / "blobs")})
    service.make({"data": "d", "region": "task", "seed": 3})
    return service


@pytest.mark.parametrize(("between", "same"), [("nn.ReLU()", True), ("nn.Dropout(0.1)", False), ("nn.BatchNorm1d(16)", False), ("Rarely()", False)])
def test_a_model_that_is_another_in_its_other_mode(tmp_path, between, same):
    service = opened(tmp_path, between)
    model = service.task.model
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    assert service.other_mode({"data": "d"}) == {"same": same}
    assert not any(module.training for module in model.modules())
    service.drop({"data": "d"})
    assert all(torch.equal(b, buffers[name]) for name, b in model.named_buffers())
