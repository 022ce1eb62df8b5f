"""Shipped modules inside torch's wrappers for training on several processes: right results and gradients, whoever runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from planish.ship import load
from shipping import program_ran
from test_changes import original, shipped
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shipped(tmp_path_factory.mktemp("wrapped"), True)


@pytest.fixture(scope="module", autouse=True)
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def in_place(model: nn.Module) -> nn.Module:
    fully_shard(model, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (1,)))
    return model


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "DDP": DistributedDataParallel,
    "FSDP": lambda m: FullyShardedDataParallel(m, use_orig_params=True, device_id=torch.device("cpu")),
    "FSDP2": in_place,
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_wrapped_modules_train_and_answer(folder: Path, wrap: Callable[[Any], Any]) -> None:
    plain, model, x = load(folder), load(folder), torch.randn(4, 8)
    with torch.no_grad():
        assert program_ran(model, x)[0]  # bound before it is wrapped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about single processes
        wrapped = wrap(model)
        for _ in range(2):
            with torch.no_grad():
                torch.testing.assert_close(wrapped(x), original(plain, x))
            wrapped(x).square().sum().backward()
            original(plain, x).square().sum().backward()
    found = [getattr(p.grad, "full_tensor", lambda p=p: p.grad)() for p in wrapped.parameters()]
    for one, other in zip(found, plain.parameters(), strict=True):
        torch.testing.assert_close(one.reshape(other.shape), other.grad)


@torch.no_grad()
def test_the_program_runs_inside_ddp(folder: Path) -> None:
    wrapped, x = DistributedDataParallel(load(folder)), torch.randn(4, 8)
    wrapped(x)
    ran, result = program_ran(wrapped, x)
    assert ran
    torch.testing.assert_close(result, original(wrapped.module, x))
