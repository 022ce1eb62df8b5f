"""Weights in a file of their own: as they are for a GPU, with a CPU's tensors in their place."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from planish.capture import weights
from planish.capture.live import load_live, write_live
from planish.errors import PlanishError
from torch import nn


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3000, 512)
        self.head = nn.Linear(512, 3000, bias=False)
        self.head.weight = self.embedding.weight
        both = torch.randn(2, 700, 512)
        self.register_buffer("first", both[0])
        self.second = both[1].t()  # no buffer, and of the same memory
        self.norm = nn.LayerNorm(512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.head(self.norm(self.embedding(x))) + (self.first @ self.second).sum()
        return made


@pytest.fixture
def own_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "takes", lambda tensor: tensor.untyped_storage().nbytes() >= weights.LARGE)
    monkeypatch.setattr(weights, "_PIECE", 1_000_000)  # not a divisor of anything


@pytest.mark.usefixtures("own_file")
def test_a_module_read_again_is_the_same(tmp_path: Path) -> None:
    module = Tied().eval()
    x = torch.arange(8)
    assert write_live(tmp_path, "it", module, (x,), {}) == "module"
    assert (tmp_path / "weights.bin").stat().st_size >= 4 * (3000 + 1400) * 512
    assert (tmp_path / "module.pt").stat().st_size < 1 << 20
    again = load_live(tmp_path).model
    assert again.head.weight is again.embedding.weight
    assert again.first.untyped_storage().data_ptr() == again.second.untyped_storage().data_ptr()
    assert again.second.stride() == module.second.stride()
    for (name, one), other in zip(module.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(one, other), name
    assert torch.equal(again(x), module(x))


@pytest.mark.usefixtures("own_file")
def test_what_a_reader_writes_is_its_own(tmp_path: Path) -> None:
    module = Tied()
    write_live(tmp_path, "it", module, (torch.arange(8),), {})
    first = load_live(tmp_path)
    with torch.no_grad():
        first.model.head.weight.zero_()
    assert torch.equal(first.rebuild().head.weight, module.head.weight)
    assert torch.equal(load_live(tmp_path).model.head.weight, module.head.weight)


@pytest.mark.usefixtures("own_file")
def test_the_digest_is_of_the_weights_too(tmp_path: Path) -> None:
    module = Tied()
    found = []
    for name, change in (("a", 0.0), ("b", 0.0), ("c", 1.0)):
        with torch.no_grad():
            module.head.weight[2999, 511] += change
        write_live(tmp_path / name, "it", module, (torch.arange(8),), {})
        found.append(load_live(tmp_path / name).source_sha256)
    assert found[0] == found[1] != found[2]


@pytest.mark.usefixtures("own_file")
def test_weights_that_are_gone_are_named(tmp_path: Path) -> None:
    write_live(tmp_path, "it", Tied(), (torch.arange(8),), {})
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(PlanishError) as error:
        load_live(tmp_path)
    assert error.value.kind == "not_importable" and "weights.bin" in error.value.message


def test_weights_on_the_cpu_stay_in_the_pickle(tmp_path: Path) -> None:
    write_live(tmp_path, "it", Tied(), (torch.arange(8),), {})
    assert not (tmp_path / "weights.bin").exists()


def test_a_digest_reads_all_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_PIECE", 1000)
    file = tmp_path / "file"
    text = bytearray(3500)
    file.write_bytes(text)
    before = weights.digest(file)
    for at in (0, 999, 1000, 3499):
        text[at] = 1
        file.write_bytes(text)
        assert weights.digest(file) != before
        text[at] = 0
    file.write_bytes(text)
    assert weights.digest(file, tmp_path / "none") == before
