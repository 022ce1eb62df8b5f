"""A graph that dynamo captured, as a module of our own: equal graphs have equal texts, whatever layer or process they came from."""

from __future__ import annotations

import functools
import hashlib
import linecache
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

import planish
from planish.ship.archive import cpu_flags

Tensor = torch.Tensor


@dataclass(frozen=True)
class Graph:
    """`source` is a forward whose parameters and buffers are `self.p0`… and whose constants are `self.c0`…; `state` and `inputs` are places of both
    among the arguments that dynamo calls the graph with. `key`: of the text, what it is called with, torch, Planish and the device."""

    key: str
    source: str
    names: dict[str, Any]
    state: tuple[int, ...]
    inputs: tuple[int, ...]
    constants: tuple[Tensor, ...]

    def module(self, args: Sequence[Any]) -> nn.Module:
        """The piece on the parameters and buffers among `args`, which it shares: changes of their contents are seen, and it keeps none of the
        tensors themselves alive but their memory."""
        made: nn.Module = _class_of(self)()
        for k, place in enumerate(self.state):
            given = args[place]
            own = given.detach()
            if isinstance(given, nn.Parameter):
                made.register_parameter(f"p{k}", nn.Parameter(own, requires_grad=given.requires_grad))
            else:
                made.register_buffer(f"p{k}", own)
        for k, constant in enumerate(self.constants):
            made.register_buffer(f"c{k}", constant)
        return made.eval()


def of(module: fx.GraphModule, args: Sequence[Any]) -> Graph | None:
    """The graph of `module`, which is called with `args`; None where it holds or takes something else than tensors, or returns a parameter as it is."""
    made, known = fx.Graph(), dict[fx.Node, Any]()
    state: list[int] = []
    inputs: list[int] = []
    constants: list[Tensor] = []
    if len(args) != sum(n.op == "placeholder" for n in module.graph.nodes):
        return None
    for count, node in enumerate(module.graph.nodes):
        if node.op == "placeholder":
            place = len(state) + len(inputs)
            if type(args[place]) not in (Tensor, nn.Parameter):
                return None
            if _is_state(node, args[place]):
                known[node] = made.get_attr(f"p{len(state)}")
                state.append(place)
            else:
                known[node] = made.placeholder(f"x{len(inputs)}")
                inputs.append(place)
        elif node.op == "get_attr":
            value = functools.reduce(getattr, str(node.target).split("."), module)
            if not isinstance(value, Tensor):
                return None
            known[node] = made.get_attr(f"c{len(constants)}")
            constants.append(value)
        elif node.op == "call_module" or (node.op == "output" and any(n.op == "placeholder" and known[n].op == "get_attr" for n in node.all_input_nodes)):
            return None
        else:
            arguments = fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
            known[node] = made.create_node(node.op, node.target, *arguments, name=None if node.op == "output" else f"v{count}")
    code = made.python_code("self")
    texts = [code.src, *(f"{name}={_word(value)}" for name, value in sorted(code.globals.items())), *(_signature(x) for x in args), str(state)]
    texts += [hashlib.sha256(c.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()).hexdigest() for c in constants if c.numel()]
    texts += [torch.__version__, planish.__version__, _device(args)]
    key = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return Graph(key, code.src.strip(), code.globals, tuple(state), tuple(inputs), tuple(constants))


def _is_state(node: fx.Node, value: Tensor) -> bool:
    """Whether it lives in a module. A cache's tensors stay where they are too (torch marks them alike), and come and go with the cache."""
    return isinstance(value, nn.Parameter) or (hasattr(value, "_dynamo_static_input_type") and "_buffers_" in node.name)


def _signature(x: Tensor) -> str:
    return f"{x.dtype} {list(x.shape)} {list(x.stride())} {x.device.type}"


def _word(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else repr(value) if not callable(value) else str(value)


def _device(args: Sequence[Any]) -> str:
    for x in args:
        if isinstance(x, Tensor) and x.is_cuda:
            return f"{torch.cuda.get_device_name(x.device)} {torch.cuda.get_device_capability(x.device)} {torch.version.cuda}"
    return f"{_processor()} {torch.get_num_threads()}"


@functools.cache
def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{model} {' '.join(sorted(cpu_flags()))}"


_classes: dict[str, type[nn.Module]] = {}


def _class_of(graph: Graph) -> type[nn.Module]:
    """One a text. Another process gets it by value, as it does a class of a notebook."""
    if graph.key not in _classes:
        file = f"<piece {graph.key[:12]}>"
        linecache.cache[file] = (len(graph.source), None, [line + "\n" for line in graph.source.splitlines()], file)
        space: dict[str, Any] = {**graph.names, "__name__": "pieces_of_models"}
        exec(compile(graph.source, file, "exec"), space)
        body = {"forward": space["forward"], "__module__": "pieces_of_models"}
        _classes[graph.key] = type("Piece", (nn.Module,), body)
    return _classes[graph.key]
