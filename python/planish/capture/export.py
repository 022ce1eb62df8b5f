"""torch.export, decomposed to core ATen except for the ops that patterns and libraries take whole, and written as a graph document."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from planish import generators
from planish.capture import arguments, channels_last, draws, losses, quantised, row_order
from planish.capture.batch_norm import averaging_as_tensors
from planish.capture.conditions import inline_conditions
from planish.capture.counters import counters
from planish.capture.counts import count_in_places, counts_of_fixed_size
from planish.capture.effects import describe_effects
from planish.capture.flexible_attention import inline_flexible_attention
from planish.capture.fresh_writes import ask_instead_of_writing
from planish.capture.gradients import gradients_refused
from planish.capture.grouped import name_grouped_products, shapes_of_grouped_products
from planish.capture.hidden_state import refuse_hidden_state
from planish.capture.inner_tensors import name_inner_tensors, no_gradients_inside, refuse_as_leaves
from planish.capture.known_masks import take_known_masks
from planish.capture.known_places import count_constants, take_known_places
from planish.capture.known_values import KnownValues
from planish.capture.linear_algebra import checks_as_operators
from planish.capture.loops import unroll_loops
from planish.capture.numbers import Numbers, document
from planish.capture.packed_attention import ATTENTION, name_packed_attention
from planish.capture.ranges import Ranges
from planish.capture.recurrent import shapes_of_recurrent_networks
from planish.capture.refusals import as_refusal, no_strided_tensor, not_strided, of_tensor_class, refusals, refuse_dtype, unsized, without_form
from planish.capture.repeated_heads import share_repeated_heads
from planish.capture.selections import RowsByTensors, select_by_tensors
from planish.capture.sinks import weigh_beside_sinks
from planish.capture.source import line_of, own_lines_kept, source_of
from planish.capture.statistics import add_statistics
from planish.capture.task import answer_of, taken_apart
from planish.errors import first_line, task_error
from planish.ship import holders, wrapped
from planish.wire import report_stage

#: ATen names kept whole (docs/formats/graph.md says why). Decomposed, attention's pieces run 6× slower than the op, and a
#: two-layer GRU over 128 steps is 6,175 nodes. Of norms the forms that give their statistics as well (a kernel may want those alone):
#: what eager calls inside `layer_norm`, `group_norm`, `rms_norm` and, as a batch norm, `instance_norm`.
KEEP = frozenset(
    """linear addmm mm bmm baddbmm matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
    scaled_dot_product_attention lstm gru rnn_tanh rnn_relu native_layer_norm native_group_norm _fused_rms_norm
    logsumexp gelu silu mish softplus hardswish hardsigmoid elu selu celu leaky_relu prelu hardtanh relu6 softsign log_sigmoid glu
    var std var_mean std_mean linalg_vector_norm norm
    max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy cosine_similarity
    roll std_mean logit hardshrink softshrink threshold
    upsample_nearest1d upsample_nearest2d upsample_nearest3d
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    cumsum cumprod topk sort argmax argmin embedding""".split()
)


@dataclass
class Captured:
    """A captured task. `graph` is the document; the rest links it to torch's own objects for the interpreter.

    nodes[i] is the FX node of graph["nodes"][i]. value_of[(node, k)] is the value id of the node's k-th tensor (k is None for an op that
    returns one tensor). inputs are the FX placeholders in the order of graph["inputs"].
    """

    graph: dict[str, Any]
    program: ExportedProgram | None  # of a task without a graph (opaque.py) there is none
    nodes: list[fx.Node]
    inputs: list[fx.Node]
    value_of: dict[tuple[fx.Node, int | None], int]
    model: torch.nn.Module
    constants: dict[str, torch.Tensor] = field(default_factory=dict)

    def flat_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any], model: torch.nn.Module | None = None) -> list[torch.Tensor]:
        """The tensors for graph["inputs"], in order: live parameters and buffers of `model`, constants, user leaves. No copies."""
        model = model or self.model
        leaves = pytree.tree_leaves((args, kwargs))
        params, buffers = wrapped.parameters(model), wrapped.buffers(model)
        found: list[torch.Tensor] = []
        for item in self.graph["inputs"]:
            match item["kind"]:
                case "user":
                    found.append(leaves[item["index"]])
                case "param":
                    found.append(params[item["name"]].detach())
                case "buffer":
                    found.append(buffers[item["name"]])
                case draws.INPUT:
                    found.append(generators.state(device_of((args, kwargs), model)))
                case _:
                    found.append(self.constants[item["name"]])
        return found


def export_program(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], path: Path, known: Numbers | None = None) -> ExportedProgram:
    """torch.export with its many failures named. `known`: numbers of the call that it is captured for. Raises PlanishError (not_exportable)."""
    report_stage("capturing it with torch.export")
    refuse_as_leaves((args, kwargs), "an argument", path)
    with (
        warnings.catch_warnings(record=True) as said, torch.no_grad(), averaging_as_tensors(model), shapes_of_recurrent_networks(),
        shapes_of_grouped_products(), counts_of_fixed_size(), RowsByTensors(), own_lines_kept(), refusals(path),
        draws.seeding_refused(path), _answering(model, known, path),
        taken_apart(path, "an argument or a result"),
    ):  # fmt: skip
        warnings.simplefilter("always")
        try:
            program = torch.export.export(model, args, kwargs, strict=False)
        except Exception as error:
            raise of_tensor_class(as_refusal(error, path), model, path) from error
    refuse_hidden_state(model, program, [str(w.message) for w in said], path)
    return program


@contextmanager
def _answering(model: torch.nn.Module, known: Numbers | None, path: Path) -> Iterator[None]:
    """While this holds, calls of the model return what they do to the objects that they are given as well (watch.Watch)."""
    own = vars(model).get("forward")
    forward = model.forward

    @functools.wraps(forward)
    def answer(*args: Any, **kwargs: Any) -> Any:
        with known.following(args, kwargs) if known is not None else nullcontext():
            found = answer_of(forward, args, kwargs)
        refuse_as_leaves(found, "a result", path)
        holders.register(found)
        return found

    vars(model)["forward"] = answer
    try:
        yield
    finally:
        del vars(model)["forward"]
        if own is not None:
            vars(model)["forward"] = own


def decompose(program: ExportedProgram) -> ExportedProgram:
    """Functional core ATen, with KEEP whole and losses row by row."""
    table = torch.export.default_decompositions()
    for op in [op for op in table if isinstance(op, torch._ops.OpOverload) and op._schema.name.removeprefix("aten::") in KEEP]:
        table.pop(op)
    table.update(losses.DECOMPOSITIONS)
    table.update(quantised.DECOMPOSITIONS)
    table[torch.ops.aten.select_scatter.default] = _select_scatter
    table[torch.ops.prims.copy_strided.default] = _copy_strided
    table[torch.ops.prims.convert_element_type.default] = _convert
    for op in [op for op in table if torch.Tag.nondeterministic_seeded in getattr(op, "tags", ())]:
        table.pop(op)  # another operator draws other numbers
    return program.run_decompositions(table)


def _select_scatter(self: torch.Tensor, src: torch.Tensor, dim: int, index: int) -> torch.Tensor:
    """torch's own decomposition promotes the two dtypes; the operator itself keeps that of what is written into."""
    shape = [1] * self.dim()
    shape[dim] = -1
    here = torch.arange(self.shape[dim], device=self.device).view(shape) == index % self.shape[dim]
    return torch.where(here, src.to(self.dtype).unsqueeze(dim), self)


def _copy_strided(a: torch.Tensor, stride: list[int]) -> torch.Tensor:
    """What torch's own decompositions (of `lerp`, say) end with where operands of different layouts meet: a copy whose dims lie in memory
    in the order of these strides. In core ATen, which is all that a program may hold."""
    order = sorted(range(a.ndim), key=lambda d: -stride[d])
    back = [order.index(d) for d in range(a.ndim)]
    return a.permute(order).clone(memory_format=torch.contiguous_format).permute(back)


def _convert(a: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What some of torch's own decompositions (of `renorm`) leave of a cast."""
    return torch.ops.aten._to_copy.default(a, dtype=dtype)


def capture(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], blobs: Path, path: Path = Path("task"), numbers: Sequence[int] = ()
) -> Captured:
    """Captures `model` on these inputs, and where Python reads them for the numbers that these leaves hold.
    Constants go to `blobs` as <sha256>. The model and the inputs are not changed.
    Raises PlanishError (not_exportable, data_dependent, unsupported_op)."""
    with taken_apart(path, "an argument"), holders.registered(args, kwargs), no_gradients_inside(model):
        return _captured(model, args, kwargs, blobs, path, Numbers(numbers, (args, kwargs), path) if numbers else None)


def _captured(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], blobs: Path, path: Path, known: Numbers | None) -> Captured:
    exported = export_program(model, args, kwargs, path, known)
    inlined = inline_flexible_attention(exported)
    with (
        shapes_of_recurrent_networks(), shapes_of_grouped_products(), counts_of_fixed_size(), checks_as_operators(), refusals(path),
        gradients_refused(exported, path),
    ):  # fmt: skip
        program = decompose(exported)
    name_inner_tensors(program, model, path)
    for holder in (exported, program):  # torch keeps the inputs as examples for as long as the program lives: they may be 13 GB
        holder._example_inputs = None
    graph_module = program.graph_module
    select_by_tensors(graph_module.graph)
    _refuse_unsized(graph_module, path)
    known_values = KnownValues.of(program)
    while inline_conditions(graph_module, path) or unroll_loops(graph_module, known_values):
        pass
    if inlined:
        graph_module.graph.eliminate_dead_code()
    _drop_assertions(graph_module)
    name_grouped_products(graph_module.graph)
    name_packed_attention(graph_module.graph, path)
    weigh_beside_sinks(graph_module.graph)
    count_in_places(graph_module.graph, Ranges(known_values), path)
    ask_instead_of_writing(graph_module.graph)
    take_known_places(graph_module.graph, known_values)
    take_known_masks(graph_module.graph, known_values)
    share_repeated_heads(graph_module.graph)
    known_values.erase_unread(graph_module.graph)
    count_constants(graph_module.graph, known_values)
    device = device_of((args, kwargs), model)
    draws.write_dropouts(graph_module.graph, device.type == "cpu")
    draws.draw_where_they_lie(graph_module.graph)
    add_statistics(graph_module.graph)
    graph_module.recompile()
    writer = _Writer(program, model, path, device, {leaf: known.values[leaf] for leaf in sorted(known.read)} if known is not None else {})
    document = writer.document(blobs)
    row_order.lay_out(document, writer.nodes)
    channels_last.lay_out(document, writer.nodes)
    describe_effects(document, program, model, args, kwargs)
    document["input_tree"] = holders.counting(document["input_tree"], counters(program, model, args, kwargs))
    return Captured(document, program, writer.nodes, writer.placeholders, writer.value_of, model, writer.constants)


def device_of(call: Any, model: torch.nn.Module) -> torch.device:
    """Where the task lies: on the GPU if anything does."""
    found = [t.device for t in (*pytree.tree_leaves(call), *model.parameters(), *model.buffers()) if isinstance(t, torch.Tensor)]
    return next((device for device in found if device.type == "cuda"), torch.device("cpu"))


def _refuse_unsized(graph_module: fx.GraphModule, path: Path) -> None:
    """Raises for the first node that gives a number, or a tensor of a size, that only values decide."""
    for node in graph_module.graph.nodes:
        results = pytree.tree_leaves(node.meta.get("val")) if node.op == "call_function" else []
        numbers = [n for r in results for n in (r.shape if isinstance(r, torch.Tensor) else [r])]
        if any(isinstance(n, torch.SymInt | torch.SymFloat) for n in numbers):
            raise unsized(node, path)


def _drop_assertions(graph_module: fx.GraphModule) -> None:
    """Metadata assertions have no result and hold by construction once shapes are guarded. Those on values (of `torch._assert_async`, of a
    factorisation) go as well: a program has no way to raise."""
    for node in list(graph_module.graph.nodes):
        if node.op == "call_function" and not node.users and ("assert" in str(node.target) or node.target is torch.ops.aten._linalg_check_errors.default):
            graph_module.graph.erase_node(node)
    graph_module.recompile()


class _Writer:
    """Writes one exported program as a graph document."""

    def __init__(self, program: ExportedProgram, model: torch.nn.Module, path: Path, device: torch.device, numbers: dict[int, torch.Tensor]) -> None:
        """`numbers`: what leaves hold that the graph was made for."""
        self.numbers = numbers
        self.device = device
        self.program = program
        self.model = model
        self.path = path
        self.values: list[dict[str, Any]] = []
        self.value_of: dict[tuple[fx.Node, int | None], int] = {}
        self.nodes: list[fx.Node] = []
        self.placeholders: list[fx.Node] = []
        self.constants: dict[str, torch.Tensor] = {}

    def document(self, blobs: Path) -> dict[str, Any]:
        inputs, scalars = self._inputs(blobs)
        nodes = [node for node in self.program.graph.nodes if node.op == "call_function"]
        for node in nodes:
            draws.refuse_generators(node, self.path)
        self.drawing = frozenset(node for node in nodes if draws.draws(node))
        if self.drawing:
            self.state = self._add_state()
            inputs.append({"value": self.state, "kind": draws.INPUT, "name": "generator"})
        written = [entry for node in nodes if (entry := self._node(node)) is not None]
        return {
            "schema": "planish.graph/1",
            "torch": torch.__version__,
            "values": self.values,
            "inputs": inputs,
            "nodes": written,
            "outputs": self._outputs(),
            "input_tree": self._tree(self.program.call_spec.in_spec),
            "output_tree": self._tree(self.program.call_spec.out_spec),
            "scalars": scalars,
        }

    def _tree(self, spec: Any) -> str:
        try:
            return holders.dumps(spec)
        except NotImplementedError as error:
            message = f"arguments or results are nested in a type that has no name in a document: {first_line(error)}"
            hint = "use tuples, lists, dicts, or a dataclass registered with torch.export.register_dataclass"
            raise task_error("not_exportable", self.path, message, hint) from error

    def _add_value(self, node: fx.Node, position: int | None, meta: torch.Tensor) -> int:
        if not all(isinstance(d, int) for d in meta.shape):
            raise unsized(node, self.path)
        if kind := no_strided_tensor(meta):
            raise not_strided(node, kind, self.path)
        self.values.append(
            {
                "dtype": arguments.dtype_name(meta.dtype),
                "shape": [int(d) for d in meta.shape],
                "strides": [int(s) for s in meta.stride()],
                "device": meta.device.type,
            }
        )
        self.value_of[(node, position)] = len(self.values) - 1
        return len(self.values) - 1

    def _add_state(self) -> int:
        """A further state of torch's generator."""
        self.values.append({"dtype": "u8", "shape": [generators.state(self.device).numel()], "strides": [1], "device": self.device.type})
        return len(self.values) - 1

    def _inputs(self, blobs: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        by_name = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        written: list[dict[str, Any]] = []
        scalars: list[dict[str, Any]] = []
        leaf = 0
        for spec in self.program.graph_signature.input_specs:
            node = by_name[spec.arg.name]
            if spec.kind == InputKind.USER_INPUT:
                index, leaf = leaf, leaf + 1
                if isinstance(spec.arg, ConstantArgument):
                    scalars.append({"index": index, "arg": arguments.encode_plain(spec.arg.value, self.path)})
                    continue
                if index in self.numbers:
                    scalars.append({"index": index, "arg": document(self.numbers[index])})
                    if node.users:
                        written.append(self._constant(node, f"numbers of {spec.arg.name}", self.numbers[index], blobs))
                    continue
                written.append({"value": self._add_value(node, None, node.meta["val"]), "kind": "user", "index": index, "name": spec.arg.name})
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
                kind = "param" if spec.kind == InputKind.PARAMETER else "buffer"
                written.append({"value": self._add_value(node, None, node.meta["val"]), "kind": kind, "name": spec.target})
            elif spec.kind == InputKind.CONSTANT_TENSOR:
                written.append(self._constant(node, str(spec.target), self.program.constants[str(spec.target)].detach(), blobs))
                continue
            elif "Generator" in str(getattr(spec.arg, "class_fqn", "")):
                where = next((line_of(user) for user in node.users), "")
                raise draws.own_generator(f"draws from a torch.Generator of its own{where}", self.path)
            else:
                raise task_error("not_exportable", self.path, f"uses an input of kind {spec.kind.name}", "pass tensors instead")
            refuse_dtype(node.meta["val"].dtype, f"the {spec.kind.name.lower().replace('user_', '')} '{spec.target or spec.arg.name}' is", self.path)
            self.placeholders.append(node)
        return written, scalars

    def _constant(self, node: fx.Node, name: str, tensor: torch.Tensor, blobs: Path) -> dict[str, Any]:
        self.constants[name] = tensor
        refuse_dtype(node.meta["val"].dtype, f"the constant '{name}' is", self.path)
        self.placeholders.append(node)
        return {"value": self._add_value(node, None, node.meta["val"]), "kind": "const", "name": name, "blob": arguments.store_blob(tensor, blobs)}

    def _node(self, node: fx.Node) -> dict[str, Any] | None:
        if str(node.target) == "<built-in function getitem>":
            source, position = node.args
            assert isinstance(source, fx.Node) and isinstance(position, int)
            self.value_of[(node, None)] = self.value_of[(source, position)]
            return None
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
            raise without_form(node, self.path)
        args = arguments.encode_call(node, self.value_of, self.path)
        result = node.meta["val"]
        outs: list[int | None]
        if isinstance(result, torch.Tensor):
            outs = [self._add_value(node, None, result)]
        elif isinstance(result, Iterable):
            read = {user.args[1] for user in node.users} if node.target._schema.name == f"aten::{ATTENTION}" else None
            outs = [self._add_value(node, k, t) if isinstance(t, torch.Tensor) and (read is None or k in read) else None for k, t in enumerate(result)]
        else:
            raise unsized(node, self.path)
        self.nodes.append(node)
        if node in self.drawing:
            args.append({"name": draws.ARGUMENT, "value": self.state})
            self.state = self._add_state()
            outs.append(self.state)
        written = {"op": f"{node.target.namespace}.{node.target._schema.name.split('::')[1]}.{node.target._overloadname}", "args": args, "outs": outs}
        place = source_of(node)
        return written | ({"source": place} if place else {})

    def _outputs(self) -> list[dict[str, Any]]:
        output_node = next(node for node in self.program.graph.nodes if node.op == "output")
        user: list[dict[str, Any]] = []
        effects: list[dict[str, Any]] = []
        leaf_of = self._user_leaves()
        for spec, source in zip(self.program.graph_signature.output_specs, output_node.args[0], strict=True):
            if spec.kind == OutputKind.USER_OUTPUT:
                if isinstance(source, fx.Node) and isinstance(spec.arg, TensorArgument):
                    refuse_dtype(source.meta["val"].dtype, f"a result{line_of(source)} is", self.path, result=True)
                    user.append({"value": self.value_of[(source, None)], "kind": "user"})
                else:
                    user.append({"kind": "scalar", "arg": arguments.encode_plain(getattr(spec.arg, "value", source), self.path)})
            elif spec.kind == OutputKind.BUFFER_MUTATION:
                effects.append({"value": self.value_of[(source, None)], "kind": "mutate_buffer", "target": spec.target})
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                if leaf_of[str(spec.target)] in self.numbers:
                    message = f"changes '{spec.target}', whose numbers it is captured for"
                    raise task_error("not_exportable", self.path, message, "work on a copy of it, or leave it out of specialize")
                effects.append({"value": self.value_of[(source, None)], "kind": "mutate_input", "target": leaf_of[str(spec.target)]})
            else:
                raise task_error("not_exportable", self.path, f"has an effect of kind {spec.kind.name}", "make forward free of it")
        if self.drawing:
            effects.append({"value": self.state, "kind": draws.OUTPUT})
        return user + effects

    def _user_leaves(self) -> dict[str, int]:
        names = [spec.arg.name for spec in self.program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
        return {name: index for index, name in enumerate(names)}
