"""Runs a captured graph, or a part of it, node by node: as it is, or promoted to fp64 with controlled roundings.

Values are named by their graph ids. Dead values are dropped at once, so the peak is the graph's own liveness.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch.utils import _pytree as pytree

from planish import float8, generators, rt
from planish.capture import draws
from planish.capture.grouped import grouped_product
from planish.capture.opaque import Module
from planish.capture.packed_attention import ATTENTION, packed_attention
from planish.oracle import layout, module_runs
from planish.oracle.attention_overflow import leave_open
from planish.oracle.promoted import promote, promote_dtype, to_tf32
from planish.oracle.sample import FEW, has_few_values, sample
from planish.oracle.temporaries import temporaries

DTYPES: dict[str, torch.dtype] = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip

# Operations whose f32 products torch may compute in TF32.
MATMULS = {
    "mm", "bmm", "addmm", "baddbmm", "addbmm", "linear", "matmul", "mv", "addmv", "einsum", "dot", "_grouped_mm", "scaled_dot_product_attention",
    "lstm", "gru",
}  # fmt: skip
CONVOLUTIONS = {
    "convolution", "_convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cudnn_convolution",
}  # fmt: skip
# Operations whose result no rounding touches: an integer, or one of their operands (perhaps with another sign).
EXACT = {
    "round", "floor", "ceil", "trunc", "fix", "sign", "sgn", "abs", "neg", "relu", "clamp", "clamp_min", "clamp_max", "hardtanh", "maximum", "minimum",
    "fmax", "fmin", "amax", "amin", "where", "masked_fill", "cat", "flip", "roll", "gather", "index", "index_select", "embedding", "cummax", "cummin",
    "view", "_unsafe_view", "as_strided",
}  # fmt: skip
# Norms whose second result is the mean of what they normalise.
_NORMS = {"native_layer_norm", "native_group_norm", "_native_batch_norm_legit"}
# Activations that end in a division by six: torch's CUDA kernels multiply by a sixth that is rounded to single precision, doubles as well.
_DIVIDED_BY_SIX = {"hardswish", "hardsigmoid"}
# What torch says where an operator cannot work on these strides.
_LAYOUT_WORDS = ("view size is not compatible", "stride", "contiguous")
_WHOLE = 2.0**24  # no float32 sum or product of integers up to this rounds
_PERTURB_CUDA, _PERTURB_CPU = 1 << 25, 1 << 17
_WASTED = 1 << 20  # bytes that a result may hold beside its elements


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of a graph document's name."""
    found = DTYPES.get(name)
    return found if found is not None else getattr(torch, name)


def op_name(node: torch.fx.Node) -> str:
    """`add` for aten.add.Tensor."""
    schema = getattr(node.target, "_schema", None)
    return schema.name.partition("::")[2] if schema is not None else str(node.target)


class Captured(Protocol):
    """What planish.capture returns; see its documentation."""

    graph: dict[str, Any]
    program: Any
    nodes: list[torch.fx.Node]
    value_of: dict[Any, int]

    def flat_inputs(self, args: Any, kwargs: Any) -> list[torch.Tensor]: ...


class Mode:
    """How one operation is run. This one: exactly as torch does."""

    settles: bool = False  # takes integers that come from constants alone as torch gives them

    def begin(self) -> Any:
        return torch.no_grad()

    def value(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """An input of the run, whose dtype in the graph is `dtype`."""
        return tensor

    def call(self, node: torch.fx.Node, args: Any, kwargs: Any, dtypes: Sequence[torch.dtype | None]) -> list[torch.Tensor | None]:
        """The node's results, flattened; `dtypes` are theirs in the graph."""
        if isinstance(node.target, Module):
            return list(module_runs.eager(node.target, args[0]))
        return _flat(_call(node, args, kwargs))

    def draw(self, node: torch.fx.Node, args: Any, kwargs: Any, dtypes: Sequence[torch.dtype | None], state: torch.Tensor) -> list[torch.Tensor | None]:
        """The same of one that draws from torch's generator, and the state that it leaves. Random numbers are the task's own in every mode: in its types,
        drawn from this state, by the order of elements in memory that the graph declares."""
        before = generators.state(state.device)
        generators.restore(state, state.device)
        try:
            results = self.drawn(node, args, kwargs, dtypes)
            return [*results, generators.state(state.device)]
        finally:
            generators.restore(before, state.device)

    def drawn(self, node: torch.fx.Node, args: Any, kwargs: Any, dtypes: Sequence[torch.dtype | None]) -> list[torch.Tensor | None]:
        return self.call(node, args, kwargs, dtypes)


@dataclass
class Double(Mode):
    """Every floating value in fp64, casts and created tensors included.

    `delta`: each floating value that arithmetic made is multiplied by 1 ± delta at random, as one rounding would (fp64
    values of the task: by 1 ± 2^-52), but integers made of integers, which no rounding moves. `step`: a rounding of every floating
    value, given its dtype in the graph. `tf32`: names of operations whose f32 operands are rounded to TF32 first.
    `step_inputs_only`: `step` is for the inputs alone."""

    settles = True

    delta: float = 0.0
    generator: torch.Generator | None = None
    step: Callable[[torch.Tensor, torch.dtype], torch.Tensor] | None = None
    step_inputs_only: bool = False
    tf32: frozenset[str] = frozenset()

    @contextmanager
    def begin(self) -> Iterator[None]:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad():
                yield
        finally:
            torch.set_default_dtype(before)

    def value(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        wide = promote(tensor)
        if not wide.is_floating_point():
            return wide
        if self.step is not None:
            return self.step(wide, dtype)
        if self.delta:
            return _known(wide) if _holds_labels(wide) else self._perturbed(wide.clone() if wide is tensor else wide, dtype)
        return wide

    def call(self, node: torch.fx.Node, args: Any, kwargs: Any, dtypes: Sequence[torch.dtype | None]) -> list[torch.Tensor | None]:
        if isinstance(node.target, Module):
            return list(module_runs.wide(node.target, args[0], module_runs.arithmetic(self.tf32, None if self.step_inputs_only else self.step)))
        if self.tf32 and op_name(node) in self.tf32:
            args, kwargs = self._round_operands(node, args, kwargs)
        results = quantised(self._promoted_call(node, args, kwargs), dtypes)
        if not self.delta and (self.step is None or self.step_inputs_only):
            return results
        operands = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        known = self.step is None and all(_is_known(t) for t in operands)
        if self.step is None and op_name(node) in EXACT:
            return [_known(r) if known and r is not None else r for r in results]
        sources = {t.untyped_storage().data_ptr() for t in operands}
        out: list[torch.Tensor | None] = []
        for result, dtype in zip(results, dtypes, strict=False):
            # A view rounds nothing, and what is quantised is so in every precision.
            if result is None or dtype is None or float8.is_float8(dtype) or not result.is_floating_point() or result.untyped_storage().data_ptr() in sources:
                out.append(_known(result) if known and result is not None else result)
            elif known and _is_whole(result):
                out.append(_known(result))
            elif self.step is not None:
                out.append(self.step(result, dtype))
            else:
                out.append(self._perturbed(result, dtype))
        return out

    def drawn(self, node: torch.fx.Node, args: Any, kwargs: Any, dtypes: Sequence[torch.dtype | None]) -> list[torch.Tensor | None]:
        if isinstance(node.target, Module):
            return self.call(node, args, kwargs, dtypes)
        created = node.target._schema.arguments  # type: ignore[union-attr]
        if any(a.name == "dtype" for a in created) and kwargs.get("dtype") is None and not any(isinstance(t, torch.Tensor) for t in args):
            kwargs = {**kwargs, "dtype": dtypes[0]}  # torch's default is double meanwhile
        results = self._narrow_call(node, args, kwargs, as_declared=True)
        if op_name(node) == "native_dropout" and results[1] is not None:  # which elements stay is drawn, what becomes of them is arithmetic
            results[0] = promote(args[0]) * results[1] / (1.0 - float(draws.bound(node.target, args, kwargs)["p"]))
        if self.step is None or self.step_inputs_only:
            return results
        return [self.step(r, d) if r is not None and d is not None and r.is_floating_point() else r for r, d in zip(results, dtypes, strict=False)]

    def ask(self, question: Callable[[], bool | torch.Tensor]) -> bool:
        """What a call asks of its operands or results, besides computing them."""
        return bool(question())

    def _promoted_call(self, node: torch.fx.Node, args: Any, kwargs: Any) -> list[torch.Tensor | None]:
        target: Any = node.target
        name = op_name(node)
        if name == "view" and target._overloadname == "dtype":
            return self._narrow_call(node, args, kwargs)  # reinterprets bits: only the task's own dtype makes sense
        wide_args, wide_kwargs = pytree.tree_map(promote_dtype, (args, kwargs))
        if name in ("_softmax", "_log_softmax") and len(wide_args) > 2:
            wide_args = (*wide_args[:2], False)  # half_to_float: nothing is half here
        if name == "_fused_rms_norm":
            wide_args, wide_kwargs = (), _with_epsilon(node, _bound(node, wide_args, wide_kwargs))
        if name == "_grouped_mm":  # it has no form in fp64
            return [grouped_product(**_bound(node, wide_args, wide_kwargs))]
        if name == ATTENTION:  # nor has this
            return packed_attention(**_bound(node, wide_args, wide_kwargs))
        if name in _DIVIDED_BY_SIX:
            return [_divided_by_six(name, _bound(node, wide_args, wide_kwargs)["self"])]
        try:
            results = [promote(r) if r is not None else None for r in _flat(_call(node, wide_args, wide_kwargs))]
            if name == "scaled_dot_product_attention" and results[0] is not None:
                call = _bound(node, wide_args, wide_kwargs)
                dtype = _bound(node, node.args, node.kwargs)["query"].meta["val"].dtype
                results[0] = leave_open(results[0], call["query"], call["key"], dtype, self.ask)
            if name in ("var_mean", "std_mean") and results[1] is not None:
                results[1] = _defined_mean(node, wide_args, wide_kwargs, results[1])
            if name == "_native_batch_norm_legit_functional":
                _define_batch_mean(_bound(node, wide_args, wide_kwargs), results)
            elif name in _NORMS and results[1] is not None and not self.ask(partial(_all_finite, results[1])):
                results[1] = _mean_of_norm(name, _bound(node, wide_args, wide_kwargs)).reshape(results[1].shape)
            elif name == "_fused_rms_norm" and results[1] is not None and not self.ask(partial(_all_finite, results[1])):
                results = _defined_rms_norm(wide_kwargs)
            return results
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, NotImplementedError) as error:
            if "not implemented" not in str(error) and "xpect" not in str(error) and "dtype" not in str(error):
                raise
            return self._narrow_call(node, args, kwargs)

    def _narrow_call(self, node: torch.fx.Node, args: Any, kwargs: Any, as_declared: bool = False) -> list[torch.Tensor | None]:
        """For the few operations without an fp64 form: in the graph's dtypes, the result promoted. `as_declared`: operands lie in memory as the graph
        has them."""
        metas = pytree.tree_map(lambda n: n.meta.get("val") if isinstance(n, torch.fx.Node) else None, (node.args, node.kwargs))

        def narrow(value: Any, meta: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not isinstance(meta, torch.Tensor):
                return value
            value = value.to(meta.dtype)
            return layout.as_strides(value, meta.stride()) if as_declared and value.stride() != meta.stride() else value

        flat, spec = pytree.tree_flatten((args, kwargs))
        flat_metas, meta_spec = pytree.tree_flatten(metas)
        if spec == meta_spec:
            args, kwargs = pytree.tree_unflatten([narrow(v, m) for v, m in zip(flat, flat_metas, strict=True)], spec)
        return [promote(r) if r is not None else None for r in _flat(_call(node, args, kwargs))]

    def _round_operands(self, node: torch.fx.Node, args: Any, kwargs: Any) -> tuple[Any, Any]:
        def rounded(source: Any, value: Any) -> Any:
            meta = source.meta.get("val") if isinstance(source, torch.fx.Node) else None
            if isinstance(value, torch.Tensor) and isinstance(meta, torch.Tensor) and meta.dtype == torch.float32 and value.ndim >= 2:
                return to_tf32(value)
            return value

        args = tuple(rounded(s, v) for s, v in zip(node.args, args, strict=True))
        return args, {key: rounded(node.kwargs.get(key), v) for key, v in kwargs.items()}

    def _perturbed(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        delta = 2.0**-52 if dtype == torch.float64 else self.delta
        flat = layout.run_of(tensor)
        if flat is None:
            tensor = tensor.contiguous()
            flat = tensor.view(-1)
        size = _PERTURB_CUDA if tensor.is_cuda else _PERTURB_CPU
        for start in range(0, flat.numel(), size):
            piece = flat[start : start + size]
            words = torch.empty((piece.numel() + 7) // 8, dtype=torch.int64, device=piece.device).random_(generator=self.generator)
            signs = words.view(torch.uint8)[: piece.numel()].bitwise_and_(1)  # one random byte an element is enough, and eight times cheaper
            piece.mul_(signs.to(torch.float64).mul_(2 * delta).add_(1 - delta))
        return tensor


def quantised(results: list[torch.Tensor | None], dtypes: Sequence[torch.dtype | None]) -> list[torch.Tensor | None]:
    """With those rounded that are of 8 bits in the graph: there a rounding is what the program asks for."""
    if not any(d is not None and float8.is_float8(d) for d in dtypes):
        return results
    kinds = [*dtypes, *[None] * (len(results) - len(dtypes))]
    return [
        float8.settled(r, d) if r is not None and d is not None and float8.is_float8(d) and r.is_floating_point() else r
        for r, d in zip(results, kinds, strict=True)
    ]


def _holds_labels(tensor: torch.Tensor) -> bool:
    """Whether an input holds a few values only, as labels and masks do: they are exact, and what compares them with a number would take the
    other branch at the least change. Looks at a sample."""
    return tensor.numel() > FEW and has_few_values(sample(tensor))


def _known(tensor: torch.Tensor) -> torch.Tensor:
    """Marks a tensor that no rounding has moved."""
    tensor._planish_known = True  # type: ignore[attr-defined]
    return tensor


def _is_known(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or hasattr(tensor, "_planish_known")


def _all_finite(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.isfinite().all()


def _is_whole(tensor: torch.Tensor) -> bool:
    return bool(((tensor.abs() <= _WHOLE) & (tensor == tensor.round())).all())


class Interpreter:
    """A set of nodes of a captured graph, ready to run. Not thread-safe; keeps no tensor between runs."""

    def __init__(self, captured: Captured, nodes: Sequence[int]) -> None:
        self.captured = captured
        self.nodes = sorted(nodes)
        values = captured.graph["values"]
        self.dtypes = [dtype_of(v["dtype"]) for v in values]
        self._shapes = [torch.Size([int(d) for d in v["shape"]]) for v in values]
        self._outs: list[list[int | None]] = [captured.graph["nodes"][i]["outs"] for i in self.nodes]
        self._uses = [self._values_used(captured.nodes[i]) for i in self.nodes]
        self._states = [self._state_of(captured.graph["nodes"][i]) for i in self.nodes]
        for uses, state in zip(self._uses, self._states, strict=True):
            if state is not None:
                uses.add(state)
        self._settled = self._settled_values()

    @staticmethod
    def _state_of(entry: dict[str, Any]) -> int | None:
        """The state of torch's generator that a node draws from, by its value; None of a node that draws nothing."""
        return next((arg["value"] for arg in entry["args"] if arg["name"] == draws.ARGUMENT and "value" in arg), None)

    @property
    def states_left(self) -> set[int]:
        """The values that are states of torch's generator behind a node."""
        return {outs[-1] for outs, state in zip(self._outs, self._states, strict=True) if state is not None and outs[-1] is not None}

    @property
    def draws(self) -> bool:
        """Whether it runs something that draws random numbers."""
        return any(state is not None for state in self._states)

    def run(self, inputs: Mapping[int, torch.Tensor], wanted: Sequence[int], mode: Mode) -> dict[int, torch.Tensor]:
        """`wanted` values by id, from `inputs` by id. A wanted value may be an input. Nodes that they do not need are not run."""
        keep = set(wanted)
        steps = self.needed_for(wanted)
        last = self.last_uses(steps)
        made = {o for position in steps for o in self._outs[position]} if mode.settles else set()
        settled = self.run(inputs, sorted(self._settled & made), Mode()) if self._settled & made else {}
        with mode.begin():
            env: dict[int, torch.Tensor] = {}

            def take(values: Iterable[int]) -> None:
                """Inputs become what the mode makes of them where they are first read: all of them at once may not fit."""
                for value in sorted(values):
                    if value in inputs and value not in env:
                        env[value] = mode.value(inputs[value], self.dtypes[value])

            for position in steps:
                take(self._uses[position])
                node = self.captured.nodes[self.nodes[position]]
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self._lookup(n, env))  # type: ignore[misc]
                outs = self._outs[position]
                dtypes, state = [None if o is None else self.dtypes[o] for o in outs], self._states[position]
                results = mode.call(node, args, kwargs, dtypes) if state is None else mode.draw(node, args, kwargs, dtypes[:-1], env[state])
                results = [None if result is None else _without_waste(result, (args, kwargs)) for result in results]
                del args, kwargs
                for out, result in zip(outs, results, strict=False):
                    if out is not None and result is not None and (out in last or out in keep):
                        env[out] = settled.get(out, self._shaped(out, result))
                del results
                for value in self._uses[position]:
                    if last[value] == position and value not in keep:
                        env.pop(value, None)
            take(wanted)
        return {value: env[value] for value in wanted}

    @property
    def module(self) -> Module | None:
        """What it runs, where the task has no graph."""
        targets = [self.captured.nodes[i].target for i in self.nodes]
        return next((t for t in targets if isinstance(t, Module)), None)

    def has(self, operators: Collection[str]) -> bool:
        """Whether it runs one of them. Of a module that is what its runs have shown."""
        own = {op_name(self.captured.nodes[i]) for i in self.nodes}
        return not own.isdisjoint(operators) or (self.module is not None and not self.module.seen.isdisjoint(operators))

    def _shaped(self, value: int, result: torch.Tensor) -> torch.Tensor:
        """As the graph declares it, where a device's kernel gives the same elements other dims."""
        declared = self._shapes[value]
        return result if result.shape == declared or result.numel() != declared.numel() else result.reshape(declared)

    def _settled_values(self) -> set[int]:
        """Integers and booleans computed from floats that depend on constants alone (the bucket of a distance, by its logarithm). They are
        part of what the model is: where a rounding decides them, it is the rounding that torch does there, and no other precision has a say."""
        constant = {i["value"] for i in self.captured.graph["inputs"] if i["kind"] == "const"}
        found: set[int] = set()
        for outs, uses in zip(self._outs, self._uses, strict=True):
            if uses <= constant:
                made = {o for o in outs if o is not None}
                constant |= made
                if any(self.dtypes[v].is_floating_point for v in uses):
                    found |= {v for v in made if not self.dtypes[v].is_floating_point and not self.dtypes[v].is_complex}
        return found

    def values_read(self) -> set[int]:
        """Values that a node of the run reads."""
        return {v for uses in self._uses for v in uses}

    def needed_for(self, wanted: Sequence[int]) -> list[int]:
        """The positions in `nodes` of those that make the values, in order."""
        need = set(wanted)
        found: list[int] = []
        for position in reversed(range(len(self.nodes))):
            if any(o in need for o in self._outs[position] if o is not None):
                need |= self._uses[position]
                found.append(position)
        return found[::-1]

    def last_uses(self, steps: Sequence[int]) -> dict[int, int]:
        """By value that one of the steps reads: the last of them."""
        return {value: position for position in steps for value in self._uses[position]}

    def inputs_needed(self) -> set[int]:
        """Values that the nodes read and none of them makes."""
        made = {o for outs in self._outs for o in outs if o is not None}
        return {v for uses in self._uses for v in uses} - made

    def _values_used(self, node: torch.fx.Node) -> set[int]:
        found: set[int] = set()
        for source in node.all_input_nodes:
            value = self._value(source)
            if value is not None:
                found.add(value)
        return found

    def _value(self, node: torch.fx.Node) -> int | None:
        value = self.captured.value_of.get((node, None))
        if value is None and node.op == "call_function" and node.target is operator.getitem:
            base, item = node.args
            value = self.captured.value_of.get((base, item))
        if value is None:
            value = self.captured.value_of.get((node, 0))
        return value

    def _lookup(self, node: torch.fx.Node, env: Mapping[int, torch.Tensor]) -> Any:
        value = self._value(node)
        if value is not None:
            return env[value]
        if node.op == "get_attr":
            return operator.attrgetter(str(node.target))(self.captured.program.graph_module)
        raise KeyError(f"{node} has no value in the graph")


def ancestors(captured: Captured, wanted: Sequence[int]) -> list[int]:
    """The nodes, in order, that `wanted` values need."""
    return Interpreter(captured, range(len(captured.nodes))).needed_for(wanted)


def _without_waste(result: torch.Tensor, operands: Any) -> torch.Tensor:
    """The result in memory of its size, unless it is a view of an operand. torch's losses make the one number that they return as large as
    what they read, and shrink it: it would keep gigabytes for as long as it is kept itself."""
    if result.layout is not torch.strided or result.untyped_storage().nbytes() <= _WASTED:
        return result
    memory = result.untyped_storage()
    if memory.nbytes() - rt.extent_bytes(result.element_size(), result.shape, result.stride()) <= _WASTED:
        return result
    if any(isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() == memory.data_ptr() for t in pytree.tree_leaves(operands)):
        return result
    own = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=result.device)
    layout.copy_into(own, result)
    return _known(own) if hasattr(result, "_planish_known") else own


def peak_bytes(captured: Captured, nodes: Sequence[int], inputs: Sequence[int], wanted: Sequence[int], itemsize: int = 8) -> int:
    """The most bytes alive at once in a run whose floating values take `itemsize` bytes: each from its first reader to its last, and what
    operations take beside their operands and results."""
    values = captured.graph["values"]

    def size(value: int) -> int:
        dtype = dtype_of(values[value]["dtype"])
        return math.prod(int(dim) for dim in values[value]["shape"]) * (itemsize if dtype.is_floating_point else dtype.itemsize)

    program = Interpreter(captured, nodes)
    steps = program.needed_for(wanted)
    last = program.last_uses(steps)
    wide = {4: torch.float32, 2: torch.float16}.get(itemsize, torch.float64)

    def operand(node: torch.fx.Node) -> torch.Tensor:
        value = program._value(node)
        if value is None:
            raise ValueError(f"{node} has no value in the graph")
        dtype = dtype_of(values[value]["dtype"])
        return torch.empty(program._shapes[value], dtype=wide if dtype.is_floating_point else dtype, device="meta")

    given, live, peak = set(inputs), set[int](), 0
    for position in steps:
        uses, outs = program._uses[position], {o for o in program._outs[position] if o is not None}
        live |= (uses & given) | outs
        largest = max((size(v) for v in uses | outs), default=0)
        beside = temporaries(captured.nodes[program.nodes[position]], largest, sum(size(v) for v in outs), operand)
        peak = max(peak, sum(size(v) for v in live) + beside)
        live -= {v for v in uses | outs if last.get(v, -1) <= position and v not in wanted}
    return max(peak, sum(size(v) for v in live | (given & set(wanted))))


def _defined_mean(node: torch.fx.Node, args: Any, kwargs: Any, found: torch.Tensor) -> torch.Tensor:
    """The mean by its definition. torch's own comes from an update of running means, which makes NaN of an infinity that other values
    follow, and keeps it where none does: no property of the data, so nothing to hold a kernel to."""
    bound = _bound(node, args, kwargs)
    dims = bound.get("dim")
    source: torch.Tensor = bound["self"]
    if dims is None or isinstance(dims, bool) or (isinstance(dims, (list, tuple)) and not dims):
        dims = list(range(source.ndim))
    return source.mean(dim=dims).reshape(found.shape)


def _define_batch_mean(bound: dict[str, Any], results: list[torch.Tensor | None]) -> None:
    """The same for the statistics of a batch norm in training: what it keeps of the mean, and what the running one becomes."""
    saved, running = results[1], results[3]
    if not bound["training"] or saved is None or running is None or bound["running_mean"] is None:
        return
    source: torch.Tensor = bound["input"]
    mean = source.mean(dim=[d for d in range(source.ndim) if d != 1])
    results[1] = mean.reshape(saved.shape)
    results[3] = bound["running_mean"] * (1 - bound["momentum"]) + mean * bound["momentum"]


def _mean_of_norm(name: str, bound: dict[str, Any]) -> torch.Tensor:
    """The same for the mean that other norms keep (a batch norm's is that of the batch, where it has no running statistics)."""
    source: torch.Tensor = bound["input"]
    if name == "native_layer_norm":
        return source.mean(dim=list(range(source.ndim - len(bound["normalized_shape"]), source.ndim)))
    if name == "native_group_norm":
        return source.reshape(source.shape[0], bound["group"], -1).mean(dim=-1)
    return source.mean(dim=[d for d in range(source.ndim) if d != 1])


def _with_epsilon(node: torch.fx.Node, bound: dict[str, Any]) -> dict[str, Any]:
    """An RMS norm without one takes the machine's, of the type that it computes in: in double it would be another one than in the task."""
    if bound.get("eps") is not None:
        return bound
    dtype = node.args[0].meta["val"].dtype  # type: ignore[union-attr]
    return bound | {"eps": torch.finfo(torch.float64 if dtype is torch.float64 else torch.float32).eps}


def _defined_rms_norm(bound: dict[str, Any]) -> list[torch.Tensor | None]:
    """An RMS norm by its definition, for rows with infinities: in double torch's own on CUDA goes by a mean and a variance, and makes
    NaN of whole rows, where the square of the infinity alone would make zeros of the others, as it does in single precision."""
    source: torch.Tensor = bound["input"]
    dims = list(range(source.ndim - len(bound["normalized_shape"]), source.ndim))
    rstd = torch.rsqrt(source.square().mean(dim=dims, keepdim=True) + bound["eps"])
    result, weight = source * rstd, bound.get("weight")
    return [result if weight is None else result * weight, rstd]


def _divided_by_six(name: str, source: torch.Tensor) -> torch.Tensor:
    """hardswish or hardsigmoid by its definition. On CUDA torch's own are off by 3e-8 in double, which is single precision and no reference:
    it would refuse a kernel that divides, as torch's does on the CPU."""
    result = (source + 3).clamp_(0, 6)
    return (result.mul_(source) if name == "hardswish" else result).div_(6)


def _bound(node: torch.fx.Node, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by name; those left at their defaults are absent."""
    names = [a.name for a in node.target._schema.arguments]  # type: ignore[union-attr]
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def _flat(result: Any) -> list[torch.Tensor | None]:
    if isinstance(result, torch.Tensor) or result is None:
        return [result]
    out: list[torch.Tensor | None] = []
    for item in result:
        out.extend(_flat(item) if isinstance(item, (list, tuple)) else [item if isinstance(item, torch.Tensor) else None])
    return out


def _call(node: torch.fx.Node, args: Any, kwargs: Any) -> Any:
    """The operator on these values. In double, and on some devices, kernels give their results other strides than the graph declares, which
    no later view expects: a view becomes a copy then, and whatever else minds gets its operands as they were declared."""
    target: Any = node.target
    if op_name(node) == "as_strided":  # would read other elements, and not complain
        return target(*_as_declared(node, args), **kwargs)
    try:
        return target(*args, **kwargs)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or not any(word in str(error) for word in _LAYOUT_WORDS):
            raise
        if op_name(node) in ("view", "_unsafe_view") and target._overloadname != "dtype":
            return args[0].reshape(args[1])
        return target(*_as_declared(node, args), **kwargs)


def _as_declared(node: torch.fx.Node, args: Sequence[Any]) -> tuple[Any, ...]:
    """Positional tensors with the strides that the graph declares for them."""

    def lay(source: Any, value: Any) -> Any:
        meta = source.meta.get("val") if isinstance(source, torch.fx.Node) else None
        return layout.as_strides(value, meta.stride()) if isinstance(value, torch.Tensor) and isinstance(meta, torch.Tensor) else value

    return tuple(lay(s, v) for s, v in zip(node.args, args, strict=True))
