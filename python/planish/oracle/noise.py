"""The reference with eager's roundings drawn again: what an honest program may differ by, element by element (docs/accuracy.md).

Inputs stay as they are: nobody rounds them. What an operator computes in steps (a softmax, a norm, a loss) is taken apart by torch's own
decompositions, so that each step has its noise; what has none is run on operands that are one rounding off, as a backward-stable algorithm is.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import Any, ClassVar

import torch
from torch._decomp import decomposition_table
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from planish.capture.opaque import Module
from planish.capture.packed_attention import ATTENTION
from planish.oracle import erring, layout
from planish.oracle.gate import is_narrow
from planish.oracle.interpret import CONVOLUTIONS, EXACT, MATMULS, Double, op_name, quantised
from planish.oracle.promoted import accumulates
from planish.oracle.sample import sample

SINGLE, DOUBLE_UNIT = 2.0**-24, 2.0**-53
LIBRARY = 4.0  # two units in the last place: what a library function may err by, in roundings
TF32_UNIT = 2.0**-11
_SHARE = 0.25
_PICKED = 5
#: Of roundings of a row's largest number: what is below is lost to who multiplies parts of 16 bits (2^-47 in all), though nothing larger may be beside it
#: in the sum: behind a softmax whose choice is a zero.
_FAINT = 2.0**-23
LANES = 1024  # terms that one lane of a sum adds in turn
ATTENTIONS = {"scaled_dot_product_attention", "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention", ATTENTION}
_ADDS = {"add", "sub", "rsub"}
_HUGE = 2.0**60  # beside such a number what is usual is nothing, in double too
_ROUNDED_ONCE = {"add", "sub", "rsub", "mul", "div", "sqrt", "square", "reciprocal", "lerp", "addcmul", "addcdiv", "leaky_relu", "_to_copy"}
PICKS = EXACT | {
    "clone", "copy", "contiguous", "constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "slice_scatter",
    "select_scatter", "scatter", "index_put", "masked_scatter", "tril", "triu", "repeat", "stack", "nan_to_num", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "adaptive_max_pool2d", "max", "min", "sort", "topk", "median", "mode", "kthvalue", "aminmax", "take", "take_along_dim",
    "unfold", "im2col", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "threshold", "relu6", "hardtanh", "copysign", "real", "imag", "conj",
    "diag_embed", "convert_element_type", "broadcast_in_dim", "view_of", "repeat_interleave", "squeeze", "detach", "alias", "heaviside", "frexp", "ldexp",
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "where", "searchsorted", "bucketize", "argmax", "argmin", "argsort", "nonzero",
}  # fmt: skip
_PRODUCTS = {"mm", "bmm", "mv", "dot", "vdot", "addmm", "baddbmm", "addmv"}
_SOFTMAXES = {"softmax": torch.ops.aten._softmax.default, "log_softmax": torch.ops.aten._log_softmax.default}
_SPREADS = {"var", "std", "var_mean", "std_mean"}
_SCATTERED = {"scatter_add", "scatter_reduce", "index_add", "index_put", "_embedding_bag", "embedding_bag", "segment_reduce", "col2im"}


@cache
def _bank(device: torch.device) -> int:
    """Values that are given noise at once: on a GPU by its memory, of which the numbers take a hundredth at most."""
    if device.type != "cuda":
        return 1 << 18
    return max(1 << 21, min(1 << 25, torch.cuda.get_device_properties(device).total_memory >> 12))


class Bank:
    """Random numbers between -1 and 1, and of the normal distribution: [2 * size] each, read from any place."""

    _known: ClassVar[dict[str, Bank]] = {}

    def __init__(self, device: torch.device) -> None:
        self.size = _bank(device)
        self.uniform, self.normal = (torch.empty(2 * self.size, dtype=torch.float64, device=device) for _ in range(2))
        self._generator = torch.Generator(device)

    @classmethod
    def of(cls, device: torch.device) -> Bank:
        """The device's, drawn once, which nobody writes into."""
        key = str(device)
        if key not in cls._known:
            cls._known[key] = cls(device)
            cls._known[key].fill(15485863)
        return cls._known[key]

    @classmethod
    def copy(cls, device: torch.device) -> Bank:
        """One with the same numbers, to be filled with others."""
        found, known = cls(device), cls.of(device)
        found.uniform.copy_(known.uniform)
        found.normal.copy_(known.normal)
        return found

    @staticmethod
    def bytes(device: torch.device) -> int:
        return 4 * 8 * _bank(device)

    def fill(self, seed: int) -> None:
        self._generator.manual_seed(seed)
        self.uniform.uniform_(-1, 1, generator=self._generator)
        self.normal.normal_(generator=self._generator)


class Noise:
    """Random numbers, drawn once a device and read from another place each time: one pass over the values is all that noise costs."""

    def __init__(self, device: torch.device, seed: int, scale: float = 1.0) -> None:
        self._where = random.Random(seed)
        self._scale = scale
        self.read(Bank.of(device))

    def read(self, bank: Bank) -> None:
        """From here on from this one."""
        self._uniform, self._normal, self._size = bank.uniform, bank.normal, bank.size

    def _part(self, bank: torch.Tensor, count: int) -> torch.Tensor:
        start = self._where.randrange(2 * self._size - count)
        return bank[start : start + count]

    def _along(self, tensor: torch.Tensor, bank: torch.Tensor, step: Callable[[torch.Tensor, torch.Tensor, slice], torch.Tensor]) -> torch.Tensor:
        """`step` of the values, noise from `bank` and where the values lie, one-dimensional and in storage order; in place or not."""
        flat = layout.run_of(tensor)
        if flat is None:
            tensor = tensor.contiguous()
            flat = tensor.view(-1)
        count = flat.numel()
        if count <= self._size:
            return step(flat, self._part(bank, count), slice(0, count)).as_strided(tensor.shape, tensor.stride())
        for start in range(0, count, self._size):
            where = slice(start, min(count, start + self._size))
            piece = flat[where]
            made = step(piece, self._part(bank, piece.numel()), where)
            if made.data_ptr() != piece.data_ptr():
                piece.copy_(made)
        return tensor

    def relative(self, tensor: torch.Tensor, unit: float) -> torch.Tensor:
        """Each element times 1 ± at most `unit`. The tensor itself may be written into, as in the following."""
        return self._along(tensor, self._uniform, lambda values, noise, _: erring.scaled(values, noise, unit * self._scale))

    def normal(self, tensor: torch.Tensor, deviation: torch.Tensor) -> torch.Tensor:
        """Adds noise of these deviations, of the tensor's shape."""
        tensor, spread = tensor.contiguous(), deviation.expand(tensor.shape).reshape(-1)
        return self._along(tensor, self._normal, lambda values, noise, where: erring.shifted(values, noise, spread[where], self._scale))

    def summed(self, tensor: torch.Tensor, squares: torch.Tensor, terms: float | torch.Tensor, alike: bool, unit: float) -> torch.Tensor:
        """Adds the noise of sums of so many terms (erring.summed); `squares`, and `terms` if they are a tensor, can be expanded to the tensor's shape."""
        tensor, squares = tensor.contiguous(), squares.expand(tensor.shape).reshape(-1)
        if isinstance(terms, torch.Tensor):
            terms = terms.expand(tensor.shape).reshape(-1)

        def step(values: torch.Tensor, noise: torch.Tensor, where: slice) -> torch.Tensor:
            count = terms[where] if isinstance(terms, torch.Tensor) else terms
            return erring.summed(values, noise, squares[where], count, LANES, alike, unit, self._scale)

        return self._along(tensor, self._normal, step)

    def rounding(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Moves each element by at most half the distance of its neighbours in `dtype`."""
        return self._along(tensor, self._uniform, lambda values, noise, _: erring.rounded(values, noise, dtype, 0.5 * self._scale))


Answer = bool | torch.Tensor  # one that holds a boolean
Question = Callable[[], Answer]


class Replay(Double):
    """An interpretation in fp64 in which every step errs as eager's may. `tf32`: operations whose fp32 operands are rounded to TF32."""

    def __init__(
        self, device: torch.device, seed: int, read: frozenset[torch.fx.Node], tf32: frozenset[str] = frozenset(), scale: float = 1.0,
        known: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """`read`: the nodes whose results others of the same run read (what eager stores, and rounds, in between). `scale`: of the noise.
        `known`: what replays on the same inputs may share."""
        super().__init__()
        self._known = known if known is not None else {}
        self.noise = Noise(device, seed, scale)
        self._read = read
        self._rounded = tf32
        self._steps: Steps | None = None  # of the call under way
        self._called: Counter[str] = Counter()  # a node of a part that is computed in pieces comes several times

    def call(self, node: torch.fx.Node, args: Any, kwargs: Any, dtypes: Sequence[torch.dtype | None]) -> list[torch.Tensor | None]:
        if isinstance(node.target, Module):
            from planish.oracle.module_noise import replay  # which is made of what is here

            return list(replay(node.target, args[0], self.noise, bool(self._rounded), self._known))
        name = op_name(node)
        narrow = next((d for d in dtypes if d is not None and is_narrow(d)), None)
        unit = DOUBLE_UNIT if torch.float64 in dtypes else SINGLE
        products = name in self._rounded and name in MATMULS | CONVOLUTIONS and narrow is None and unit == SINGLE
        attention = name in ATTENTIONS
        self._called[node.name] += 1
        asked = Known(self._known, f"{node.name}.{self._called[node.name]}")
        steps = self._steps = Steps(self.noise, unit, products, narrow if attention else None, asked, narrow is None and unit == SINGLE)
        with steps, sdpa_kernel(SDPBackend.MATH) if attention else nullcontext():
            results = self._promoted_call(node, args, kwargs)
        results = quantised(results, dtypes)
        if narrow is None or name in EXACT or node not in self._read:
            return results
        operands = list(_tensors((*args, *kwargs.values())))
        sources = {t.untyped_storage().data_ptr() for t in operands}

        def stored(r: torch.Tensor | None, d: torch.dtype | None) -> torch.Tensor | None:
            if r is None or d is None or not _stored(r, d, sources) or asked.ask(*_of_some_and_all(r)):
                return r
            if name in _ADDS and asked.ask(partial(_is_huge, r)):
                return _within_least(self.noise.rounding(r.clone(), d), r, operands)
            return self.noise.rounding(r, d)

        return [stored(r, d) for r, d in zip(results, dtypes, strict=False)] + results[len(dtypes) :]

    def ask(self, question: Question) -> bool:
        assert self._steps is not None
        return self._steps.ask(question)

    def drawn(self, node: torch.fx.Node, args: Any, kwargs: Any, dtypes: Sequence[torch.dtype | None]) -> list[torch.Tensor | None]:
        """Numbers that are drawn are what they are; a dropout that is one kernel rounds what it multiplies."""
        results = super().drawn(node, args, kwargs, dtypes)
        if op_name(node) == "native_dropout" and results[0] is not None:
            results[0] = self.noise.relative(results[0], 2 * (DOUBLE_UNIT if torch.float64 in dtypes else SINGLE))
            if dtypes[0] is not None and is_narrow(dtypes[0]) and node in self._read:
                results[0] = self.noise.rounding(results[0], dtypes[0])
        return results


def _tensors(arguments: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Those among an operator's arguments, which nest no deeper than lists."""
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _tensors(argument)


def _stored(result: torch.Tensor | None, dtype: torch.dtype | None, sources: set[int]) -> bool:
    return result is not None and dtype is not None and is_narrow(dtype) and result.is_floating_point() and result.untyped_storage().data_ptr() not in sources


def _is_huge(result: torch.Tensor) -> Answer:
    """Whether some finite element is so large that others vanish beside it: the least number of a type, as a mask adds it."""
    return result.numel() > 0 and result.abs().nan_to_num_(0, 0, 0).max() > _HUGE


def _within_least(moved: torch.Tensor, result: torch.Tensor, operands: Sequence[torch.Tensor]) -> torch.Tensor:
    """A sum of two that is rounded once is off by no more than the lesser of them: either is a number of the type. So what vanishes beside the least
    number of a type is the same number throughout, and no noise of that size chooses among such."""
    if len(operands) != 2 or not all(t.is_floating_point() for t in operands):
        return moved
    least = torch.minimum(*(t.abs().expand(result.shape) for t in operands)).to(result.dtype)
    return torch.where(torch.isfinite(least), torch.clamp(moved, result - least, result + least), moved)


def _needs_no_rounding(result: torch.Tensor) -> Answer:
    """Whether every element has 8 significant bits or fewer, as edges of bins and powers of two have: arithmetic that rounds once leaves it as it is,
    and what it is compared with may not lie on its other side."""
    return result.is_floating_point() and (result == result.bfloat16().to(result.dtype)).all()


def _of_some_and_all(result: torch.Tensor) -> tuple[Question, Question]:
    return lambda: _needs_no_rounding(sample(result)), lambda: _needs_no_rounding(result)


class Known:
    """What is asked of a node's operands in each replay on the same inputs, in the same order, and answered once: noise changes none of it, and each answer
    waits for the device."""

    def __init__(self, answers: dict[str, Any], node: str) -> None:
        self._answers, self._node, self._asked = answers, node, 0

    def ask(self, *questions: Question) -> bool:
        """Whether all are answered with yes."""
        key = f"{self._node}?{self._asked}"
        self._asked += 1
        if isinstance(self._answers, Assumed):
            return self._answers.take(key, questions)
        if key not in self._answers:
            self._answers[key] = all(bool(question()) for question in questions)
        return bool(self._answers[key])


class Assumed(dict[str, Any]):
    """Answers that a run takes as given. Whether they are right is left on the device, so that a recorded run tells whether it is one of its data."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        super().__init__(answers)
        self._right: list[torch.Tensor] = []

    def take(self, key: str, questions: Sequence[Question]) -> bool:
        assumed, answers = bool(self[key]), [question() for question in questions]
        known = all(answer for answer in answers if isinstance(answer, bool))
        told = [answer for answer in answers if isinstance(answer, torch.Tensor)]
        if known and told:
            self._right.append(torch.stack(told).all() == assumed)
        elif known is not assumed:
            raise RuntimeError("another answer than is assumed")
        return assumed

    def hold(self, device: torch.device) -> torch.Tensor:
        """Whether all of them are right."""
        return torch.stack(self._right).all() if self._right else torch.ones((), dtype=torch.bool, device=device)


class Steps(TorchDispatchMode):
    """Gives the results of each operator that runs under it the noise of its arithmetic."""

    def __init__(self, noise: Noise, unit: float, tf32: bool, probabilities: torch.dtype | None, known: Known, parts: bool = False) -> None:
        """`parts`: products may be computed by parts of their factors in 16 bits."""
        super().__init__()
        self.parts = parts
        self.noise, self.unit, self.tf32, self.probabilities, self.known = noise, unit, tf32, probabilities, known
        self._asking = False

    def ask(self, question: Question) -> bool:
        """The answer of a question that operators under this mode are to answer without noise, none of which is drawn."""
        self._asking = True
        try:
            return self.known.ask(question)
        finally:
            self._asking = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._asking:
            return func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        operands = [t for t in _tensors((*args, *kwargs.values())) if t.is_floating_point()]
        if not operands or func._schema.is_mutable or func.is_view or (name in PICKS and not accumulates(name, args, kwargs)):
            return func(*args, **kwargs)
        if any(t.layout is not torch.strided for t in operands):
            return self._sparse(func, args, kwargs)
        if name in _PRODUCTS:
            return self._product(func, name, args, kwargs)
        if name == "convolution":
            return self._convolution(func, args, kwargs)
        if name in ("sum", "mean", "nansum"):
            return self._sum(func, name, args, kwargs)
        if name == "cumsum":
            return self._running_sum(func, args, kwargs)
        if name in ("prod", "cumprod"):
            result = func(*args, **kwargs)
            count = max(1, operands[0].numel() // max(1, result.numel())) if name == "prod" else operands[0].shape[args[1]] if operands[0].ndim else 1
            return self.noise.normal(result, _finite(result.abs() * (self.unit * min(count, LANES) ** 0.5)))
        if name in _SPREADS:
            return self._variance(func, name, args, kwargs)
        tags = getattr(func, "tags", ())
        pointwise = torch.Tag.pointwise in tags or name in _ROUNDED_ONCE
        if pointwise and (name not in _COMPOSED or func not in decomposition_table):
            result, once = func(*args, **kwargs), name in _ROUNDED_ONCE
            if once and isinstance(result, torch.Tensor) and self.known.ask(*_of_some_and_all(result)):
                return result
            if name in _ADDS and isinstance(result, torch.Tensor) and self.known.ask(lambda: _is_huge(result)):
                return _within_least(self._each(result.clone(), operands, self.unit), result, operands)
            return self._each(result, operands, self.unit * (1 if once else LIBRARY))
        if func in decomposition_table:
            return self._apart(func, name, args, kwargs)
        if name in _SOFTMAXES and kwargs.get("dtype") is None and len(args) < 3:  # as attention calls it
            with self:
                return decomposition_table[_SOFTMAXES[name]](args[0], args[1], False)
        return self._backward(func, args, kwargs, 4.0 if name in _SCATTERED else 2.0)

    def _sparse(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What has a dense result errs as the same operator does with zeros in place of what is not there; what stays sparse is left as it is."""
        result = func(*args, **kwargs)
        if not isinstance(result, torch.Tensor) or result.layout is not torch.strided or not result.is_floating_point():
            return result
        try:
            dense_args, dense_kwargs = pytree.tree_map(_dense, (args, kwargs))
            with self:
                dense = func(*dense_args, **dense_kwargs)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # an operator of sparse tensors alone
            return self._each(result, [], 2.0 * self.unit)
        return dense if isinstance(dense, torch.Tensor) and dense.shape == result.shape else result

    def _each(self, result: Any, operands: Sequence[torch.Tensor], unit: float) -> Any:
        sources = {t.untyped_storage().data_ptr() for t in operands}

        def moved(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.layout is not torch.strided:
                return value
            if value.untyped_storage().data_ptr() in sources:
                return value
            return self.noise.relative(value, unit)

        return moved(result) if isinstance(result, torch.Tensor) else pytree.tree_map(moved, result)

    def _apart(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        try:
            with self:
                result = decomposition_table[func](*args, **kwargs)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # a decomposition that cannot take these: as if there were none
            return self._backward(func, args, kwargs, 2.0)
        if result is NotImplemented:
            return self._backward(func, args, kwargs, 2.0)
        if self.probabilities is not None and name in ("_softmax", "softmax", "_safe_softmax"):
            result = self.noise.rounding(result, self.probabilities)
        return result

    def _backward(self, func: Any, args: Any, kwargs: Any, units: float) -> Any:
        def moved(value: Any) -> Any:
            return self.noise.relative(value.clone(), units * self.unit) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        args, kwargs = pytree.tree_map(moved, (args, kwargs))
        return self._each(func(*args, **kwargs), [], self.unit)

    def _reduced(self, result: torch.Tensor, squares: torch.Tensor, terms: float | torch.Tensor, alike: bool) -> torch.Tensor:
        """A sum with the noise of its partial sums. A sum of floats that is asked for as an integer has none."""
        if not result.is_floating_point():
            return result
        return self.noise.summed(result, squares, terms, alike, self.unit)

    def _sum(self, func: Any, name: str, args: Any, kwargs: Any) -> torch.Tensor:
        source: torch.Tensor = args[0]
        result = func(*args, **kwargs)
        dims = args[1] if len(args) > 1 and not isinstance(args[1], bool) else kwargs.get("dim")
        keep = bool(args[2]) if len(args) > 2 else bool(kwargs.get("keepdim", False))
        along = None if dims is None or (isinstance(dims, (list, tuple)) and not dims) else dims
        if source.numel() == 0:
            return result
        squares = torch.linalg.vector_norm(source, dim=along, keepdim=keep and along is not None).square_().reshape(result.shape)
        count = source.numel() / max(1, result.numel())
        if name == "mean":
            squares = squares / count**2
        return self._reduced(result, squares, count, self.known.ask(lambda: _alike_along(source, along)))

    def _variance(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """By its definition, in two passes."""
        bound = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
        bound |= dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
        source: torch.Tensor = bound["self" if "self" in bound else "inp"]
        dims = bound.get("dim", bound.get("dims"))
        dims = [dims] if isinstance(dims, int) else list(dims or range(source.ndim))
        correction = bound.get("correction", 1 if bound.get("unbiased", True) else 0)
        correction = 1 if correction is None else correction
        keep, count = bool(bound.get("keepdim", False)), math.prod(source.shape[d] for d in dims)
        with self:
            mean = torch.ops.aten.mean.dim(source, dims, True)
            spread = torch.ops.aten.sum.dim_IntList(torch.ops.aten.square(source - mean), dims, keep) / max(0.0, count - float(correction))
            spread = torch.ops.aten.sqrt(spread) if name.startswith("std") else spread
        return (spread, mean if keep else mean.reshape(spread.shape)) if name.endswith("_mean") else spread

    def _running_sum(self, func: Any, args: Any, kwargs: Any) -> torch.Tensor:
        source, dim = args[0], args[1]
        result = func(*args, **kwargs)
        if source.ndim == 0 or source.numel() == 0:
            return result
        terms = torch.arange(1, source.shape[dim] + 1, dtype=torch.float64, device=source.device)
        terms = terms.view([-1 if d == dim % source.ndim else 1 for d in range(source.ndim)])
        return self._reduced(result, source.square().cumsum(dim), terms, self.known.ask(lambda: _alike_along(source, dim)))

    def _product(self, func: Any, name: str, args: Any, kwargs: Any) -> torch.Tensor:
        first = 1 if name in ("addmm", "baddbmm", "addmv") else 0
        args = list(args)
        if self.tf32:
            args[first], args[first + 1] = (self.noise.relative(t.clone(), TF32_UNIT) for t in args[first : first + 2])
        a, b = args[first], args[first + 1]
        result = func(*args, **kwargs)
        squares = _of_squares(a, b, {"mm": torch.mm, "addmm": torch.mm, "bmm": torch.bmm, "baddbmm": torch.bmm}.get(name, torch.matmul), self.known)
        if self.parts and a.ndim > 1 and b.ndim > 1:
            squares.addcmul_(_norm(a, math.inf, -1).mul_(_FAINT).square_(), _norm(b, 2, -2).square_())
            squares.addcmul_(_norm(a, 2, -1).square_(), _norm(b, math.inf, -2).mul_(_FAINT).square_())
        if first:
            squares = squares + args[0].square() if kwargs.get("alpha", 1) == 1 else squares * kwargs["alpha"] ** 2
        return self._reduced(result, squares.expand(result.shape), float(a.shape[-1] + bool(first)), self.known.ask(lambda: _alike(a), lambda: _alike(b)))

    def _convolution(self, func: Any, args: Any, kwargs: Any) -> torch.Tensor:
        args = list(args)
        if self.tf32:
            args[0], args[1] = (self.noise.relative(t.clone(), TF32_UNIT) for t in args[:2])
        source, weight, bias = args[0], args[1], args[2]
        result = func(*args, **kwargs)
        squares = _of_squares(source, weight, lambda a, b: func(a, b, None, *args[3:], **kwargs), self.known)
        if bias is not None:
            squares = squares + bias.square().view(-1, *[1] * (result.ndim - 2))
        transposed = bool(args[6])
        terms = weight.numel() / max(1, weight.shape[1] if transposed else weight.shape[0])
        return self._reduced(result, squares, terms, self.known.ask(lambda: _alike(source), lambda: _alike(weight)))


#: Pointwise operators that are computed in steps; of all others torch's decompositions are another spelling.
_COMPOSED = {
    "gelu", "silu", "mish", "softplus", "elu", "celu", "selu", "hardswish", "hardsigmoid", "softshrink", "log_sigmoid_forward", "logit", "sinc", "xlogy",
    "logaddexp", "logaddexp2", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "soft_margin_loss", "kl_div", "glu", "softsign",
}  # fmt: skip


def _dense(value: Any) -> Any:
    return value.to_dense() if isinstance(value, torch.Tensor) and value.layout is not torch.strided else value


def _of_squares(a: torch.Tensor, b: torch.Tensor, product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], known: Known) -> torch.Tensor:
    """The product of the squares, in fp64, to two digits."""
    enough = torch.bfloat16 if a.is_cuda and torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    (x, largest), (y, largest_of_b) = (_squares(t, enough, known) for t in (a, b))
    return product(x, y).to(torch.float64).mul_((largest * largest_of_b).square())


def _norm(tensor: torch.Tensor, order: float, dim: int) -> torch.Tensor:
    """Of each row or column, read once; of one with what is not finite 0."""
    return torch.linalg.vector_norm(tensor, order, dim, keepdim=True).nan_to_num_(0.0, 0.0, 0.0)


def _squares(tensor: torch.Tensor, dtype: torch.dtype, known: Known) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the elements over the largest, and that one. What is not finite counts as 0."""
    if tensor.is_cuda and tensor.numel() and known.ask(lambda: torch.isfinite(torch.linalg.vector_norm(tensor, math.inf))):
        # Weights of a large model are all that such a replay reads: two passes over the doubles, not ten.
        largest = torch.linalg.vector_norm(tensor, math.inf).clamp_min(1e-300)
        return torch.div(tensor, largest, out=torch.empty_like(tensor, dtype=dtype)).square_(), largest
    largest = tensor.abs().nan_to_num_(0.0, 0.0, 0.0).amax().clamp_min(1e-300) if tensor.numel() else tensor.new_ones(())
    return tensor.div(largest).nan_to_num_(0.0, 0.0, 0.0).square_().to(dtype), largest


def _alike(tensor: torch.Tensor) -> Answer:
    """Whether a large part of what is summed is one number other than zero."""
    return tensor.numel() > 1 and _share(sample(tensor)[:4096]) >= _SHARE


def _share(some: torch.Tensor) -> torch.Tensor:
    """That part, of a sample: as much as is equal, but for rounding, to one of its quartiles."""
    ordered, count = some.reshape(-1).sort().values, some.numel()
    # Not by a list of places: it would be copied to the device, which a recorded run may not.
    usual = torch.stack([ordered[count // 4], ordered[count // 2], ordered[3 * count // 4]])
    equal = ((ordered - usual[:, None]).abs() <= erring.EQUAL * usual.abs()[:, None]) & (usual != 0)[:, None]
    return equal.double().mean(-1).max()


def _alike_along(source: torch.Tensor, dims: Any) -> Answer:
    """The same of what most single sums add up, by a few of them."""
    along = {d % max(1, source.ndim) for d in ([dims] if isinstance(dims, int) else dims or range(source.ndim))}
    kept = [d for d in range(source.ndim) if d not in along]
    if not kept:
        return _alike(source)
    shares = []
    for pick in range(_PICKED):
        place: list[Any] = [slice(None)] * source.ndim
        for d in kept:
            place[d] = (pick * 2654435761 + 40503 * d) % source.shape[d]
        shares.append(_share(source[tuple(place)].reshape(-1)[:LANES]))
    return torch.stack(shares).median() >= _SHARE


def _finite(deviation: torch.Tensor) -> torch.Tensor:
    return deviation.nan_to_num_(0.0, 0.0, 0.0)
