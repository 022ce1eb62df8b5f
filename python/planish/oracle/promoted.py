"""Runs Python that has no graph with every floating value in double as it reaches torch.

Two modes do it. One promotes operands, dtypes and created tensors of each operator; the other answers what the program asks of a tensor's
type with the one that it would have (a branch on `x.dtype`, `finfo`, `x.to(y.dtype)` that makes no copy). So each value carries the type that
it stands for, and `Arithmetic` can do to it what the task's own arithmetic does: round it, or err as it may.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from planish.capture import draws
from planish.capture.grouped import grouped_product, scaled_grouped_product
from planish.capture.packed_attention import is_wrapped, lacking, packed_attention, unwrapped
from planish.oracle import layout

aten = torch.ops.aten
_STANDS_FOR = "_planish_stands_for"
_MOVE_IN_PLACE = {"copy", "fill", "zero", "index_copy", "index_fill", "set", "resize", "masked_fill", "masked_scatter", "scatter", "index_put"}
_CONVERSIONS = {"to", "float", "half", "bfloat16", "double", "type", "type_as"}
_TO = {"float": torch.float32, "half": torch.float16, "bfloat16": torch.bfloat16, "double": torch.float64}
_ANSWERS = {torch.Tensor.dtype: lambda t: stands_for(t), torch.Tensor.itemsize: lambda t: stands_for(t).itemsize}  # type: ignore[attr-defined]
_READS_MEMORY = {"data_ptr", "__dlpack__", "untyped_storage", "storage"}
_READS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
_NO_DOUBLE = ("not implemented", "xpect", "dtype", "scalar type")
_ATTENTION = functional.scaled_dot_product_attention

#: Operators that make memory and leave what lies there.
UNINITIALIZED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})

Read = Any


class Undecided(Exception):
    """The program cannot be run in double precision."""


def promote(tensor: torch.Tensor) -> torch.Tensor:
    """In double where it is floating or complex; the tensor itself otherwise, or where it is so already."""
    wide = torch.float64 if tensor.is_floating_point() else torch.complex128 if tensor.is_complex() else None
    if wide is None or tensor.dtype is wide:
        return tensor
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
        return layout.distinct(tensor).to(wide).expand(tensor.shape)  # what is expanded stays it: it may be a thousand times smaller
    return tensor.to(wide)


def promote_dtype(value: Any) -> Any:
    """Double for a floating dtype; anything else as it is."""
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else torch.complex128 if value.is_complex else value
    return value


def to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """An fp64 tensor rounded to TF32 (10 bits of mantissa, halves away from zero, as cvt.rna does)."""
    bits = tensor.to(torch.float32).view(torch.int32)
    rounded = ((bits + 0x1000) & -0x2000).view(torch.float32)
    return torch.where(torch.isfinite(tensor), rounded.to(torch.float64), tensor)


def stands_for(tensor: torch.Tensor) -> torch.dtype:
    """The type that torch would have given it. What nobody has named is in single precision."""
    found = getattr(tensor, _STANDS_FOR, None)
    if found is not None:
        return found  # type: ignore[no-any-return]
    with torch._C.DisableTorchFunction():
        real = tensor.dtype
    return {torch.float64: torch.float32, torch.complex128: torch.complex64}.get(real, real)


def named(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same tensor, which stands for one of this type."""
    setattr(tensor, _STANDS_FOR, dtype)
    return tensor


def has_16_bits(dtype: torch.dtype) -> bool:
    """Whether torch rounds to it what it computes in more. Of 8 bits the program's own roundings are part of the reference."""
    return dtype.is_floating_point and dtype.itemsize == 2


class Arithmetic:
    """What else happens to values: here nothing."""

    moves: frozenset[str] = frozenset()  # operators that compute nothing

    def call(self, func: Any, args: Any, kwargs: Any, dtype: torch.dtype) -> Any:
        """An operator on promoted operands; its result would be of the dtype."""
        return func(*args, **kwargs)

    def made(self, value: torch.Tensor, dtype: torch.dtype, name: str) -> torch.Tensor:
        """A value that the operator computed, or that a copy brought to a smaller type, and that torch stores in the dtype."""
        return value

    def narrow(self, value: torch.Tensor) -> torch.Tensor:
        """A result of an operator that runs in the task's types alone."""
        return value

    def moved(self, to: torch.Tensor, sources: Sequence[torch.Tensor], fresh: bool = False) -> None:
        """Elements of the sources are elements of the tensor now; where it is fresh it has no others."""

    def reads(self, operands: Sequence[torch.Tensor]) -> None:
        """An operator computes with these."""

    def whole(self, function: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Attention, which keeps what it computes in between in single precision."""
        return function()


class Reads(TorchDispatchMode):
    """Notes what Python learns of values: numbers, truths and sizes. It changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Read] = []
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.saw(func, result)
        return result

    def saw(self, func: Any, result: Any) -> None:
        self.names.add(_name(func))
        if any(tag in func.tags for tag in _READS):
            # A number that is no integer differs by its rounding; how often one was asked for does not.
            self.found.append([tuple(x.shape) if isinstance(x, torch.Tensor) else None if isinstance(x, float) else x for x in pytree.tree_leaves(result)])


class Promoting(Reads):
    def __init__(self, arithmetic: Arithmetic | None = None, default: torch.dtype = torch.float32) -> None:
        """`default`: torch's default type outside."""
        super().__init__()
        self.how = arithmetic or Arithmetic()
        self.default = default

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            result = self._run(func, args, kwargs or {})
            self.saw(func, result)
        return result

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = _name(func)
        if func is aten.view.dtype:
            raise Undecided("it looks at the bits of floats")
        if draws.call_draws(func, args, kwargs):
            return self._drawn(func, name, args, kwargs)
        if func._schema.is_mutable:
            _refuse_narrow_targets(func, args, kwargs)
            twin = _twin(func, name, args, kwargs)
            if twin is not None:
                return self._store(args[0], self._run(twin, args, kwargs))
            if name == "copy_" and isinstance(args[1], torch.Tensor):
                return self._store(args[0], _wide(args[1]))
        operands = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        dtype = _result_type(func, name, args, kwargs, operands)
        wide_args, wide_kwargs = pytree.tree_map(_wide, (args, kwargs))
        if name in ("_softmax", "_log_softmax") and len(wide_args) > 2:
            wide_args = (*wide_args[:2], False)  # half_to_float: nothing is half here
        moves = func.is_view or func._schema.is_mutable or (name in self.how.moves and not accumulates(name, args, kwargs))
        if not moves:
            self.how.reads([t for t in pytree.tree_leaves((wide_args, wide_kwargs)) if isinstance(t, torch.Tensor)])
        result = self._call(func, args, kwargs, wide_args, wide_kwargs, dtype)
        memory = {t.untyped_storage()._cdata: t for t in pytree.tree_leaves((wide_args, wide_kwargs)) if isinstance(t, torch.Tensor) and _is_dense(t)}

        def settled(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
                return value
            value = promote(value)
            source = memory.get(value.untyped_storage()._cdata) if _is_dense(value) else None
            if name in UNINITIALIZED:
                value.fill_(torch.nan)  # what nobody writes then shows
            kind = _as_kind(dtype, value) if source is None else stands_for(source)
            if source is not None:
                return named(value, kind)
            if moves:
                self.how.moved(value, [t for t in memory.values() if t.is_floating_point()], fresh=True)
                return named(self._narrowed(value, operands, kind), kind)
            return named(self.how.made(_in_eight_bits(value, kind), kind, name), kind)

        return pytree.tree_map(settled, result)

    def _drawn(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Random numbers are those that the program draws: in its own types."""
        narrow_args, narrow_kwargs = pytree.tree_map(_as_it_was, (args, kwargs))
        wider = torch.get_default_dtype()
        torch.set_default_dtype(self.default)
        try:
            result = func(*narrow_args, **narrow_kwargs)
        finally:
            torch.set_default_dtype(wider)
        if func._schema.is_mutable:
            return args[0] if args[0] is narrow_args[0] else self._store(args[0], _wide(result))
        result = pytree.tree_map_only(torch.Tensor, _wide, result)
        if name == "native_dropout":  # which elements stay is drawn, what becomes of them is arithmetic
            kept = _wide(args[0]) * result[1] / (1.0 - float(draws.bound(func, args, kwargs)["p"]))
            return named(self.how.made(kept, stands_for(args[0]), name), stands_for(args[0])), result[1]
        return result

    def _call(self, func: Any, args: Any, kwargs: Any, wide_args: Any, wide_kwargs: Any, dtype: torch.dtype) -> Any:
        if func is aten._grouped_mm.default:  # it has no form in fp64
            func = grouped_product
        if func is aten._scaled_grouped_mm.default:
            given = draws.bound(func, wide_args, wide_kwargs)
            if given["self"].ndim == 2 and given["mat2"].ndim == 3 and given["scale_a"].ndim == 1 and given["scale_a"].dtype != torch.float8_e8m0fnu:
                return self.how.call(scaled_grouped_product, (), given, dtype)
        if func is aten._flash_attention_forward.default or is_wrapped(func):  # nor have these
            given = draws.bound(func, wide_args, wide_kwargs)
            call = unwrapped(given) if is_wrapped(func) else given
            if call is not None and not lacking(call):
                return tuple(self.how.call(packed_attention, (), call, dtype)[: len(func._schema.returns)])
        try:
            return self.how.call(func, wide_args, wide_kwargs, dtype)
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            if func._schema.is_mutable or (func.namespace == "aten" and not any(words in str(error) for words in _NO_DOUBLE)):
                raise
            # One that has no form for doubles, as somebody's own kernels: in the types that it is written for.
            narrow_args, narrow_kwargs = pytree.tree_map(_as_it_was, (args, kwargs))
            return pytree.tree_map(lambda x: self.how.narrow(_wide(x)) if isinstance(x, torch.Tensor) else x, func(*narrow_args, **narrow_kwargs))

    def _store(self, target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        kind = stands_for(target)
        if target.is_floating_point() and value.is_floating_point():
            value = self._narrowed(value, [value], kind)
            self.how.moved(target, [value])
        target.copy_(value)
        return target

    def _narrowed(self, value: torch.Tensor, sources: Sequence[torch.Tensor], kind: torch.dtype) -> torch.Tensor:
        """A copy into a type that cannot hold what it was."""
        wider = any(t.is_floating_point() and stands_for(t).itemsize > kind.itemsize for t in sources)
        return self.how.made(_in_eight_bits(value.clone(), kind), kind, "_to_copy") if wider and kind.is_floating_point else value


class _Types(TorchFunctionMode):
    """Answers for the types that values stand for."""

    def __init__(self, how: Arithmetic) -> None:
        super().__init__()
        self.how = how

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__":
            answer = _ANSWERS.get(getattr(func, "__self__", None))
            if answer is not None:
                return answer(args[0])
            result = func(*args, **kwargs)
            return named(result, stands_for(args[0])) if isinstance(result, torch.Tensor) and result.dtype is args[0].dtype else result
        if name in _READS_MEMORY and args[0].is_floating_point() and not _asked_by_torch():
            raise Undecided(f"it reads the memory of floats ({name})")
        if name in _CONVERSIONS and args and isinstance(args[0], torch.Tensor):
            return self._convert(func, name, args, kwargs)
        if func is _ATTENTION:
            kind = stands_for(args[0] if args else kwargs["query"])
            return named(self.how.made(self.how.whole(lambda: func(*args, **kwargs)), kind, "attention"), kind)
        if func in (functional.rms_norm, torch.rms_norm) and kwargs.get("eps", args[3] if len(args) > 3 else None) is None:
            return func(*args[:3], **{k: v for k, v in kwargs.items() if k != "eps"}, eps=torch.finfo(stands_for(args[0])).eps)
        return func(*args, **kwargs)

    def _convert(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        asked = [x for x in (*args[1:], *kwargs.values()) if isinstance(x, torch.dtype | torch.Tensor)]
        dtype = _TO.get(name) or next((stands_for(x) if isinstance(x, torch.Tensor) else x for x in asked), None)
        before, source = stands_for(args[0]), args[0]
        result = func(*args, **kwargs)
        if dtype is None or not dtype.is_floating_point:
            return result
        with torch._C.DisableTorchFunction():
            if dtype is before and not kwargs.get("copy", False) and result.device == source.device:
                return source  # torch makes no copy here
            return named(result.clone() if result is source else result, dtype)


@contextmanager
def in_double(arithmetic: Arithmetic | None = None, types: bool = True, drawn_in: torch.dtype | None = None) -> Iterator[Promoting]:
    """What runs in the body, torch's default dtype included. Its tensors must be promoted, and named, where it writes into them. `types`: Python sees
    the types that values stand for; torch's modules (the fast path of nn.TransformerEncoder) go another way while somebody answers for them. `drawn_in`: the
    type of random numbers that are asked for without one, where torch's default is no longer the task's."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    promoting = Promoting(arithmetic, drawn_in or before)
    try:
        with torch.no_grad(), _Types(promoting.how) if types else nullcontext(), promoting:
            yield promoting
    finally:
        torch.set_default_dtype(before)


def _name(func: Any) -> str:
    return str(func._schema.name).partition("::")[2]


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided


def accumulates(name: str, args: Any, kwargs: Any) -> bool:
    """Whether the operator adds to elements that it otherwise only moves."""
    return name.startswith("index_put") and bool(args[3] if len(args) > 3 else kwargs.get("accumulate", False))


def _twin(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """The operator that computes what this one writes into its first operand; None of those that only move elements."""
    base = name.removesuffix("_")
    if base == name or func.namespace != "aten" or torch.Tag.inplace_view in func.tags:
        return None
    if base in _MOVE_IN_PLACE and not accumulates(name, args, kwargs):
        return None
    return getattr(getattr(aten, base, None), func._overloadname, None)


def _wide(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return promote_dtype(value)
    wide = promote(value)
    return wide if wide is value else named(wide, value.dtype)


def _as_it_was(value: Any) -> Any:
    return value.to(stands_for(value)) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _refuse_narrow_targets(func: Any, args: Any, kwargs: Any) -> None:
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        target = kwargs.get(argument.name, args[position] if position < len(args) else None)
        for tensor in pytree.tree_leaves(target):
            if isinstance(tensor, torch.Tensor) and promote(tensor) is not tensor:
                raise Undecided(f"{func} writes into a tensor that was not promoted")


def _result_type(func: Any, name: str, args: Any, kwargs: Any, operands: Sequence[torch.Tensor]) -> torch.dtype:
    """By torch's rules: what is asked for, else what the operands promote to, else single precision."""
    asked = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.dtype) and (x.is_floating_point or x.is_complex)]
    if asked:
        return asked[0]
    floats = [t for t in operands if t.is_floating_point() or t.is_complex()]
    floats = [t for t in floats if t.ndim] or floats
    if not floats:
        return torch.float32
    found = stands_for(floats[0])
    for tensor in floats[1:]:
        found = torch.promote_types(found, stands_for(tensor)) if max(found.itemsize, stands_for(tensor).itemsize) > 1 else found
    return found


def _as_kind(dtype: torch.dtype, value: torch.Tensor) -> torch.dtype:
    if dtype.is_complex == value.is_complex():
        return dtype
    return dtype.to_complex() if value.is_complex() else dtype.to_real()


def _in_eight_bits(value: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """Rounded as the program says, where that is to a type whose numbers are its own: of 8 bits. Casts to wider ones are arithmetic."""
    return value.to(kind).to(torch.float64) if kind.is_floating_point and kind.itemsize == 1 else value


def _asked_by_torch() -> bool:
    frame = sys._getframe(2)
    return str(frame.f_globals.get("__name__", "")).startswith("torch.")
