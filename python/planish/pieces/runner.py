"""What stands where torch would run a graph: it runs the graph, watched at first, and then the graph's program."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn

from planish.errors import PlanishError
from planish.pieces import graph as graphs
from planish.pieces.store import Found
from planish.ship.live import load

_REPEATS = 3
_MOST_BOUND = 1024  # modules on parameters of their own: layers alike share a graph


class Runner:
    """One graph of dynamo's. `before(runner)` is called at each call until there is a program, or `settled` says that there will be none."""

    answered = 0  #: calls of all runners that programs answered

    def __init__(self, module: fx.GraphModule, before: Callable[[Runner], None]) -> None:
        self._run: Callable[..., Any] = module.forward
        self._module = module
        self._before = before
        self._bound: dict[tuple[int, ...], nn.Module] = {}
        self._folder: Any = None
        self.graph: graphs.Graph | None = None
        self.looked = False  # at what it is called with
        self.settled = False
        self.found: Found | None = None
        self.example: list[Any] = []  # arguments of the first call, with memory of their own but for parameters and buffers
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        if self._folder is not None:
            return self._program(args)
        if self.settled:
            return self._run(*args)
        if not self.looked:
            self._look(args)
        self._before(self)
        self.calls += 1
        return self._run(*args) if self._folder is None else self._program(args)

    @torch.inference_mode(False)
    def _look(self, args: Sequence[Any]) -> None:
        self.looked = True
        self.graph = graphs.of(self._module, args)
        if self.graph is None:
            self.settled = True
        else:
            self.example = [copied(x) if i in self.graph.inputs else x for i, x in enumerate(args)]

    def settle(self, found: Found | None) -> None:
        """What is run from here on: what was found, or the graph itself."""
        self.settled, self.example, self.found = True, [], found
        self._folder = found.folder if found is not None else None

    def module(self) -> tuple[nn.Module, tuple[Any, ...]]:
        """The piece on the parameters of its first call, and the arguments of that."""
        assert self.graph is not None
        return self.graph.module(self.example), tuple(copied(self.example[i]) for i in self.graph.inputs)

    def milliseconds(self) -> float:
        """Of one run as it is, on its example: the least of a few. Whatever the run writes is written into copies."""
        assert self.graph is not None
        best = float("inf")
        with torch.no_grad():
            for _ in range(_REPEATS):
                args = [x if isinstance(x, nn.Parameter) else copied(x) for x in self.example]
                _wait(args)
                start = time.perf_counter()
                self._run(*args)
                _wait(args)
                best = min(best, (time.perf_counter() - start) * 1e3)
        return best

    def _program(self, args: Sequence[Any]) -> Any:
        graph = self.graph
        assert graph is not None
        # By memory: what is replaced through `.data` is another parameter, and layers alike are called in turn.
        where = tuple([args[i].data_ptr() for i in graph.state])
        module = self._bound.get(where)
        if module is None:
            module = self._bind(where, args)
        Runner.answered += 1
        return module(*[args[i] for i in graph.inputs])

    @torch.inference_mode(False)
    def _bind(self, where: tuple[int, ...], args: Sequence[Any]) -> nn.Module:
        assert self.graph is not None
        module = self.graph.module(args)
        try:
            load(self._folder, module)
        except PlanishError:  # it was removed, or cannot run here
            self._folder = None
        if len(self._bound) >= _MOST_BOUND:
            self._bound.clear()
        self._bound[where] = module
        for i in self.graph.state[:1]:  # a module that is gone takes its pieces with it
            weakref.finalize(args[i], self._bound.pop, where, None)
        return module


def copied(x: Any) -> Any:
    """A tensor of the same layout on memory of its own."""
    if not isinstance(x, torch.Tensor) or not x.numel():
        return x
    x = x.detach()
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.as_strided((extent,), (1,)).clone().as_strided(x.shape, x.stride(), 0)


def _wait(args: Sequence[Any]) -> None:
    for x in args:
        if isinstance(x, torch.Tensor) and x.is_cuda:
            torch.cuda.synchronize(x.device)
            return
