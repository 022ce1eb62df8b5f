"""Capture for these numbers: integers of a call that Python reads are part of what is captured (docs/decisions/0201-captured-for-these-numbers.md).

While the module is traced, each tensor that is made of such integers alone has its real twin. What Python asks of one (a number, a truth, a list) is
answered by the twin, and it is noted of whose integers it was made: the program is for calls that give these again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from planish.capture.arguments import dtype_name
from planish.errors import PlanishError, task_error

MOST = 1 << 16  # elements of a tensor whose numbers are followed
_TWIN = "_planish_twin"
_READS = frozenset("item tolist numpy __int__ __bool__ __index__ __float__ __array__ __contains__ equal allclose is_nonzero".split())
_SIZED_BY_VALUES = frozenset("nonzero argwhere unique unique_consecutive masked_select repeat_interleave bincount where histc combinations".split())
_FACTORIES = frozenset("arange zeros ones full empty linspace eye rand randn randint randperm tril_indices triu_indices".split())
_INDEXING = frozenset(("__getitem__", "__setitem__"))
_LOOK_LIKE_IN_PLACE = frozenset(("__index__", "__int__", "__invert__", "__iter__"))


def is_numbers(leaf: Any) -> bool:
    """Whether a leaf of a call is a tensor whose numbers may be part of a program: of integers or truths, and not large."""
    plain = type(leaf) is torch.Tensor and leaf.layout is torch.strided and not leaf.is_nested
    return plain and leaf.numel() <= MOST and not (leaf.is_floating_point() or leaf.is_complex())


def leaves_of(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], wanted: bool | Sequence[str], name: str) -> list[int]:
    """Which leaves of a call `wanted` names: arguments of forward, or (True) all that hold numbers on the CPU. Raises PlanishError(bad_request)."""
    leaves = pytree.tree_leaves((args, dict(kwargs)))
    if wanted is True:
        return [k for k, leaf in enumerate(leaves) if is_numbers(leaf) and leaf.device.type == "cpu"]
    if isinstance(wanted, str) or not isinstance(wanted, Iterable) or not all(isinstance(one, str) for one in wanted):
        raise PlanishError("bad_request", f"{name}: specialize={wanted!r} names no arguments", 'give True, or names of arguments: specialize=["lengths"]')
    numbered = pytree.tree_unflatten(range(len(leaves)), pytree.tree_structure((args, dict(kwargs))))
    bound = inspect.signature(forward).bind(*numbered[0], **numbered[1]).arguments
    spread = next((p.name for p in inspect.signature(forward).parameters.values() if p.kind is p.VAR_KEYWORD), None)
    bound |= bound.pop(spread, {}) if spread else {}
    found: list[int] = []
    for one in wanted:
        if one not in bound:
            raise PlanishError("bad_request", f"{name}: forward was given no argument {one!r} to specialize", f"it was given {', '.join(bound) or 'none'}")
        held = [k for k in pytree.tree_leaves(bound[one]) if is_numbers(leaves[k])]
        if not held:
            text = f"{name}: {one!r} holds no tensor of integers or truths (of at most {MOST} elements) to specialize"
            raise PlanishError("bad_request", text, "numbers that are no tensors are part of a program anyway; floats never are")
        if any(leaves[k].device.type != "cpu" for k in held):
            text = f"{name}: {one!r} lies on a GPU: to compare its numbers at each call would wait for the device"
            raise PlanishError("bad_request", text, f"pass {one!r} on the CPU, where its numbers come from")
        found += held
    return sorted(set(found))


class Numbers(TorchFunctionMode):
    """Follows the numbers of these leaves through a traced call. `read`: those that Python asked for."""

    def __init__(self, leaves: Sequence[int], call: Any, path: Path) -> None:
        super().__init__()
        given = pytree.tree_leaves(call)
        self.values = {leaf: given[leaf].detach().clone() for leaf in leaves}
        self.path = path
        self.read: set[int] = set()

    @contextmanager
    def following(self, args: Any, kwargs: Any) -> Iterator[None]:
        """While the call's own code runs on these arguments, which stand for the real ones."""
        for leaf, traced in enumerate(pytree.tree_leaves((args, kwargs))):
            if leaf in self.values:
                with _untraced():
                    twin = self.values[leaf].clone()
                _followed(traced, twin, frozenset({leaf}))
        with self:
            yield

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        tensors = _tensors((args, kwargs), name in _INDEXING)
        twins = [twin for t in tensors if (twin := getattr(t, _TWIN, None)) is not None]
        if not twins or name == "__get__":
            return func(*args, **kwargs)
        if name in _INDEXING:
            args = (args[0], self._index(args[1]), *args[2:])
        elif name in _FACTORIES:
            args, kwargs = pytree.tree_map(self._number, (args, kwargs))
        elif name in ("split", "tensor_split", "split_with_sizes") and len(args) > 1:
            args = (args[0], pytree.tree_map(self._listed, args[1]), *args[2:])
        whole = len(twins) == len(tensors) and name not in _FACTORIES
        writes = (name.endswith("_") and not name.endswith("__")) or (name.startswith("__i") and name not in _LOOK_LIKE_IN_PLACE) or name == "__setitem__"
        if not whole:
            if (writes and hasattr(args[0], _TWIN)) or any(hasattr(t, _TWIN) for t in pytree.tree_leaves(kwargs.get("out"))):
                message = f"writes what is computed into numbers that it is captured for ({name})"
                raise task_error("not_exportable", self.path, message, "work on a copy of them")
            return self._repeated(func, args, kwargs) if name == "repeat_interleave" else func(*args, **kwargs)
        found = self._really(func, args, kwargs)
        sources = frozenset().union(*(source for _, source in twins))
        if found is None or name in _READS:
            return func(*args, **kwargs) if found is None else self._told(found[0], sources)
        if name in _SIZED_BY_VALUES and not (name == "where" and len(tensors) > 1):
            self.read |= sources
            return pytree.tree_map_only(torch.Tensor, lambda t: _followed(torch.tensor(t.tolist(), dtype=t.dtype).reshape(t.shape), t, sources), found[0])
        result = func(*args, **kwargs)
        ours, theirs = pytree.tree_leaves(result), pytree.tree_leaves(found[0])
        if len(ours) == len(theirs):
            for traced, real in zip(ours, theirs, strict=True):
                if isinstance(traced, torch.Tensor) and isinstance(real, torch.Tensor) and traced.shape == real.shape and real.numel() <= MOST:
                    _followed(traced, real, sources)
        return result

    def _told(self, answer: Any, sources: frozenset[int]) -> Any:
        self.read |= sources
        return answer

    def _really(self, func: Any, args: Any, kwargs: Any) -> tuple[Any] | None:
        """What the twins give; None where they give nothing, or random numbers."""
        try:
            with _untraced():
                args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: getattr(t, _TWIN)[0], (args, kwargs))
                before = torch.get_rng_state()
                found = func(*args, **kwargs)
                if torch.equal(torch.get_rng_state(), before):
                    return (found,)
                torch.set_rng_state(before)
        except Exception:  # the traced call says it better
            pass
        return None

    def _number(self, value: Any) -> Any:
        """A number where a tensor of one stands for it."""
        twin = getattr(value, _TWIN, None) if isinstance(value, torch.Tensor) and value.ndim == 0 else None
        return value if twin is None else self._told(self._plain(twin[0]), twin[1])

    def _listed(self, value: Any) -> Any:
        twin = getattr(value, _TWIN, None) if isinstance(value, torch.Tensor) else None
        return value if twin is None else self._told(self._plain(twin[0]), twin[1])

    @staticmethod
    def _plain(real: torch.Tensor) -> Any:
        with _untraced():
            return real.tolist()

    def _index(self, index: Any) -> Any:
        """An index with numbers for the bounds of slices, and places for masks."""
        parts = index if isinstance(index, tuple) else (index,)
        found: list[Any] = []
        for part in parts:
            twin = getattr(part, _TWIN, None) if isinstance(part, torch.Tensor) else None
            if isinstance(part, slice):
                found.append(slice(*(self._number(bound) for bound in (part.start, part.stop, part.step))))
            elif twin is not None and twin[0].dtype in (torch.bool, torch.uint8):
                with _untraced():
                    places = [place.tolist() for place in twin[0].nonzero(as_tuple=True)]
                self.read |= twin[1]
                found += [torch.tensor(place, dtype=torch.int64, device=part.device) for place in places]
            else:
                found.append(part)
        return tuple(found) if isinstance(index, tuple) or len(found) != 1 else found[0]

    def _repeated(self, func: Any, args: Any, kwargs: Any) -> Any:
        """repeat_interleave() by places, where how often is known."""
        given = dict(zip(("input", "repeats", "dim"), args, strict=False)) | kwargs
        twin = getattr(given.get("repeats"), _TWIN, None)
        if twin is None:
            return func(*args, **kwargs)
        source, dim = given.get("input", given.get("self")), given.get("dim")
        source, dim = (source.reshape(-1), 0) if dim is None else (source, dim)
        with _untraced():
            places = torch.arange(source.shape[dim]).repeat_interleave(twin[0].cpu()).tolist()
        self.read |= twin[1]
        return torch.index_select(source, dim, torch.tensor(places, dtype=torch.int64, device=source.device))


def _tensors(call: Any, indexing: bool) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(call)
    if indexing:  # bounds of slices are no leaves
        leaves += [bound for leaf in leaves if isinstance(leaf, slice) for bound in (leaf.start, leaf.stop, leaf.step)]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


@contextmanager
def _untraced() -> Iterator[None]:
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


def _followed(tensor: torch.Tensor, real: torch.Tensor, sources: frozenset[int]) -> torch.Tensor:
    setattr(tensor, _TWIN, (real, sources))
    return tensor


def document(tensor: torch.Tensor) -> dict[str, Any]:
    """Numbers of a call as a plain argument (executor.read_scalar)."""
    return {"numbers": {"dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape), "ints": [int(n) for n in tensor.reshape(-1).tolist()]}}
