"""Decides, call by call, whether a program may stand in for a module's own forward, and runs it.

Copied verbatim with its neighbours (PARTS) into every shipped folder and file, so it depends on torch and the standard library alone. An
`Attachment` belongs to one module instance; it holds no tensor that the module registered, only the dictionaries in which the module keeps
them, so parameters stay live. Whenever anything differs from what was captured, the answer is FALLBACK and the caller runs the original code.

The same checks exist twice: here, complete, and in C (planish_call.so) for the calls that most programs get. Where the C form
cannot say yes at once, or is not there, this one decides.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.utils import _pytree as pytree

#: The files beside this one that it needs, in the order in which they are imported.
PARTS = tuple("names wrapped hooks outside frozen reach signature context trees holders watch apart archive parts deferred".split())

if TYPE_CHECKING:
    from planish.ship import apart, archive, context, deferred, holders, hooks, parts, reach, signature, trees, wrapped
else:
    _, wrapped, hooks, _, _, reach, signature, context, trees, holders, _, apart, archive, parts, deferred = (
        importlib.import_module(__name__.removesuffix("guards") + part) for part in PARTS
    )

Tensor = torch.Tensor
FALLBACK = context.FALLBACK
FallbackWarning = context.FallbackWarning
Folder, Shipped, shipped = archive.Folder, archive.Shipped, archive.shipped
configuration, unlike, name_types = parts.configuration, parts.unlike, trees.name_types
context_is_plain = context.context_is_plain
_NOT_DEFERRED = object()
_PLAIN = (Tensor, nn.Parameter)
_FORMS = 8  # ways of writing one call that the C form knows at once

_default_dtype = torch.get_default_dtype
_grad_enabled = torch.is_grad_enabled


class _Bound:
    """Where one module keeps its tensors, and the executor of its device. Never changed once made: a thread that works with
    one is not disturbed by another that binds anew. The module owns this and is not owned by it, nor is its dictionary: it goes
    when its last reference does, not when the cycle collector finds it."""

    __slots__ = ("copies", "device", "executor", "fast", "homes", "module", "params", "parts", "reached", "sizes", "ties", "tree", "turns", "unused", "users")

    copies: bool  # a tensor that begins at an odd place may be copied: nothing is changed, and no result is an input
    device: torch.device
    executor: Any
    fast: Any  # the C form of this binding, or None
    homes: dict[int, str]  # names of what has parts, by where it keeps these
    module: weakref.ref[nn.Module]
    params: list[tuple[Any, ...]]
    parts: deferred.Parts | None  # where gradients may be asked for later
    reached: reach.Reached  # what forward can reach beside that, as it was
    sizes: list[tuple[dict[str, Any], int]]  # how many submodules each has
    ties: list[tuple[dict[str, Any], str, dict[str, Any], str]]
    tree: list[tuple[dict[str, Any], str, nn.Module, bool | None, tuple[Any, ...], tuple[Any, ...]]]
    turns: _Turns
    unused: list[int]
    users: list[tuple[Any, ...]]


class _Turns:
    """One thread at a time through a program that changes a module's buffers, each of which is to see what the one before left. Where a
    fork happens while a call is under way, the child starts with nobody inside."""

    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Attachment:
    """A program attached to one module. Copies (deepcopy, pickle) start unbound and find their own module's tensors."""

    quiet = False  # another program is asked after this one: whether the module's own code runs is not decided here

    def __init__(self, shipped: archive.Shipped, module: nn.Module, reason: str = "") -> None:
        """To be made when `module` is as it was when captured: its training flags and simple attributes are what later calls
        are compared with. A `reason` disables the program for good."""
        self.shipped = shipped
        self.reason = reason
        self._trains = False
        self._forget_calls()
        state = reach.reach(module)
        modes = {n: state.asks_mode or parts.reads_mode(type(m)) or SpectralNorm in map(type, m._forward_pre_hooks.values())
                 for n, m in module.named_modules()}  # fmt: skip
        self._training = {n: m.training if modes[n] else None for n, m in module.named_modules()}
        self._ties = parts.tied(module)
        self._tokens: dict[str, str] = state.tokens
        self._soft: dict[str, str] = state.soft
        self.reason = self.reason or state.problem
        self._reset()
        self._compare_with_captured(module)
        if not self.reason:
            try:
                self._read_trees()
            except Exception as error:  # a tree of types that this process does not know
                self.reason = f"cannot rebuild the nesting of inputs or outputs: {error}"

    def _compare_with_captured(self, module: nn.Module) -> None:
        """A live module is not constructed here: what the manifest says of it must hold, and its mode is the manifest's."""
        captured = self.shipped.manifest.get("modules")
        self.another = ""  #: how the module is not the one that the program was made for
        if captured is None or self.reason:
            return
        found = parts.configuration(module)
        twin = self.shipped.manifest.get("twin")  # the exported program as a module, which stands in for one that could not be pickled
        if twin is not None and not parts.unlike(twin, found):
            captured = twin
        self.reason = self.another = parts.unlike(captured, found)
        if self.reason:
            return
        for name, then in captured.items():
            if self._training[name] is not None:
                self._training[name] = then["training"]

    def _forget_calls(self) -> None:
        self._differs: reach.Difference | None = None  # another state that was met
        self._ran = 0
        self._refused: dict[str, list[Any]] = {}  # by kind of reason: how often, and the first one in words

    @property
    def ran(self) -> int:
        """Calls of this module that the program answered."""
        plan = getattr(getattr(self, "fast", None), "__self__", None)  # the C form counts its own; that of earlier versions does not
        hits = getattr(plan, "hits", None)
        return self._ran + (hits() if hits is not None else 0)

    @property
    def refused(self) -> dict[str, int]:
        """Calls that the module's own code answered, by reason."""
        found: dict[str, int] = {}
        for count, text in self._refused.values():
            found[text] = found.get(text, 0) + count
        return found

    def _refuse(self, kind: str, say: Callable[[], str] | None = None) -> Any:
        """FALLBACK, counted under `kind`; at the first of a kind the user is told. `say` puts it in words."""
        known = self._refused.get(kind)
        if known is not None:
            known[0] += 1
            self.why = known[1]
            return FALLBACK
        self.why = say() if say is not None else kind
        self._refused[kind] = [1, self.why]
        logging.getLogger("planish.calls").info("the module's own code ran instead of its program: %s", self.why)
        if self.quiet:
            return FALLBACK
        text = f"planish: the module's own code ran instead of its program: {self.why} (said once; planish.status(module) counts)"
        warnings.warn(text, FallbackWarning, stacklevel=_callers_level())
        return FALLBACK

    def _refuse_tensor(self, what: str, t: Any, dtype: torch.dtype | None, shape: tuple[int, ...], grad: bool) -> Any:
        """_refuse() for a tensor that is not as the program takes it."""
        if type(t) not in _PLAIN:
            return self._refuse(f"{what} is a {type(t).__name__}, not a plain tensor")
        if t.dtype is not dtype:
            return self._refuse(f"{what} dtype", lambda: f"{what} is {t.dtype}, the program was made for {dtype}")
        if t.layout is not torch.strided or t.is_nested:
            kind = "nested" if t.is_nested else str(t.layout).removeprefix("torch.")
            return self._refuse(f"{what} is a {kind} tensor, and the program was made for a dense one")
        if t.shape != shape:
            return self._refuse(f"{what} shape", lambda: f"{what} has shape {list(t.shape)}, the program was made for {list(shape)}")
        if grad and t.requires_grad:
            hint = "call it under torch.no_grad() or torch.inference_mode() where none are wanted"
            return self._refuse("gradients", lambda: f"gradients may be asked for ({what} requires them); {hint}")
        if t.is_conj() or t.is_neg():
            return self._refuse(f"{what} has a pending conjugate or negation")
        if not t.data_ptr() and t.numel():
            return self._refuse(f"{what} has no memory of its own")
        if t.data_ptr() & 15:
            return self._refuse(f"{what} does not begin at a multiple of 16 bytes, and the program changes or returns what it is given")
        return self._refuse(f"{what} strides", lambda: f"{what} lies otherwise in memory (strides {t.stride()}) than the program was made for")

    def _reset(self) -> None:
        self._ran = self.ran
        self.why = ""  # the last thing that kept the program from being bound
        self.fast: Any = None  # where there is one: called as fast(module, args, kwargs) in place of the module's own __call__
        self._bound: _Bound | None = None

    def __getstate__(self) -> dict[str, Any]:
        kept = ("reason", "another", "quiet", "_training", "_ties", "_tokens")
        return {"key": self.shipped.key, **{k: v for k, v in vars(self).items() if k in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        key = state.pop("key")
        vars(self).update(state)
        self._trains = False
        self._soft = {}  # of the process that wrote this
        self._forget_calls()
        self._reset()
        if key not in shipped:
            self.reason = self.reason or f"{key} is gone"
            return
        self.shipped = shipped[key]
        if not self.reason:
            self._read_trees()

    def __deepcopy__(self, memo: Any) -> Attachment:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._trains = False
        other._reset()
        other._forget_calls()
        return other

    def changed(self, module: nn.Module, name: str, value: Any) -> None:
        """An attribute of the module was set: if it is not what was captured, the module is looked at afresh."""
        if value is not vars(module).get(name, module):
            self._reset()

    # ---- once ----

    def _read_trees(self) -> None:
        manifest = self.shipped.manifest
        self._in_spec = holders.loads(manifest["input_tree"])
        self._out_spec = holders.loads(manifest["output_tree"])
        # Where objects hold tensors: what takes a call apart, and what puts its result together.
        self._read = apart.reader(self._in_spec, self._out_spec.type is holders.Answer) if holders.has_objects(self._in_spec) else None
        self._build = apart.builder(self._out_spec, self._in_spec) if holders.has_objects(self._out_spec) else None
        self._leaf_count = self._in_spec.num_leaves
        args_spec, kwargs_spec = trees.children(self._in_spec)
        positional = trees.children(args_spec)
        self._keywords: list[str] = list(kwargs_spec.context or [])
        self._plain_positional = not trees.children(kwargs_spec) and all(c.num_leaves == 1 and not trees.children(c) for c in positional)
        self._scalars = [(s["index"], self.shipped.module.read_scalar(s["arg"])) for s in manifest["scalars"]]
        self._tensor_leaves = sorted(set(range(self._leaf_count)) - {i for i, _ in self._scalars})
        self._single_output = self._out_spec.num_leaves == 1 and not trees.children(self._out_spec)
        self._finish = self._build or _unflattened(self._out_spec, self._single_output)  # of results, arguments and keyword arguments
        leaves = iter(range(self._leaf_count))
        scalars = dict(self._scalars)
        # Arguments as the C form reads them; it compares no numbers of tensors.
        self._given: Any = None
        if not any(isinstance(value, Tensor) for value in scalars.values()):
            with contextlib.suppress(KeyError):
                self._given = [apart.nest(spec, leaves, scalars) for spec in (args_spec, kwargs_spec)]
        self._answer = apart.nest(self._out_spec, iter(range(self._out_spec.num_leaves)), {}) if apart.is_plain(self._out_spec) else None
        self._captured_dtype = self.shipped.module.torch_dtype(manifest.get("default_dtype", "f32"))
        self._forms: list[tuple[Any, Any]] = []  # other ways of writing the captured call, as the C form reads them
        self._arguments: list[tuple[int | str, Any]] = [*enumerate(positional), *zip(self._keywords, trees.children(kwargs_spec), strict=True)]
        self._count = len(positional)
        self._signature: signature.Signature | None = None

    def _signed(self, module: nn.Module) -> signature.Signature | None:
        """How arguments are named; None where that cannot be told: then calls must be written as the captured one."""
        if self._signature is not None:
            return self._signature
        plain: dict[int | str, Any] = {}
        leaf, scalars = 0, dict(self._scalars)
        for key, spec in self._arguments:
            leaves = range(leaf, leaf + spec.num_leaves)
            leaf += spec.num_leaves
            # An object without tensors (an empty cache) is no value that a default or another call's could equal.
            if not holders.has_objects(spec) and all(k in scalars and not isinstance(scalars[k], Tensor) for k in leaves):
                plain[key] = pytree.tree_unflatten([scalars[k] for k in leaves], spec)
        try:
            self._signature = signature.Signature(type(module).forward, self._count, self._keywords, plain)
        except (TypeError, ValueError):
            return None
        return self._signature

    def _has_extras(self, module: nn.Module, given: Iterable[str] | None = None) -> bool:
        """Whether keyword arguments are such that forward sees their order: two or more that only its **kwargs takes, and for those of a call,
        in another order."""
        signed = self._signed(module)
        if signed is None:
            return len(self._keywords) > 1
        captured = signed.extras(self._keywords)
        return len(captured) > 1 and (given is None or signed.extras(given) != captured)

    def _bind(self, module: nn.Module, device: torch.device) -> _Bound | None:
        """Finds where the module keeps each tensor. None, with the reason kept, if it no longer looks as captured."""
        self._reset()
        executor = self.shipped.executor(device)
        if isinstance(executor, str):
            self.why = executor
            return None
        modules = dict(module.named_modules())
        if modules.keys() != self._training.keys():
            self.why = "submodules were added or removed"
            return None
        state = self._look(module, [b.name for b in executor.bindings if b.kind != "user"])
        if state is None:
            return None
        bound = _Bound()
        bound.module, bound.device, bound.executor, bound.fast, bound.turns = weakref.ref(module), device, executor, None, _Turns()
        bound.copies = executor.own_results and not executor.effects
        bound.reached = state
        bound.tree = []
        bound.homes = {id(part._modules): name for name, part in modules.items()}
        bound.sizes = [(child._modules, len(child._modules)) for child in modules.values() if child._modules]
        bound.parts = deferred.Parts(modules) if self.shipped.defer_gradients else None
        for name, child in modules.items():
            if name and "forward" in vars(child):
                self.why = f"'{name}' has a forward of its own"
                return None
            if name:
                parent, _, key = name.rpartition(".")
                expected = tuple(hooks.weight_hooks(child).values()), hooks.package_hooks(child)
                bound.tree.append((modules[parent]._modules, key, child, self._training[name], *expected))
        users: list[tuple[int, Any]] = []
        bound.params = []
        for position, b in enumerate(executor.bindings):
            if b.kind == "user":
                users.append((position, b))
                continue
            place = wrapped.place(modules, b.name)
            if place is None:
                self.why = f"the module has no tensor '{b.name}'"
                return None
            bound.params.append((position, *place, b.dtype, b.shape, b.strides))
        bound.ties = []
        for first, *others in self._ties:
            for other in others:
                one, another = wrapped.place(modules, first), wrapped.place(modules, other)
                if one is None or another is None:
                    self.why = f"'{first}' and '{other}' were one tensor"
                    return None
                bound.ties.append((*one, *another))
        if not self._constants_hold(state, executor):
            self.why = "a tensor attribute of the module differs from the captured constant"
            return None
        bound.users = [(p, b.index, b.dtype, b.shape, b.strides) for p, b in users]
        bound.unused = sorted(set(self._tensor_leaves) - {b.index for _, b in users})
        bound.fast = self._direct(bound)
        self._bound, self.fast = bound, bound.fast
        return bound

    def _look(self, module: nn.Module, bound: list[str]) -> reach.Reached | None:
        """What forward can reach, if it is by value what was captured; else None, with the reason kept."""
        state = reach.reach(module, bound)
        self._differs = state.differs(self._tokens, self._soft)
        if self._differs is None:
            return state
        self.why = self._differs.why
        return None

    @staticmethod
    def _constants_hold(state: reach.Reached, executor: Any) -> bool:
        """Tensors that are no parameters or buffers were captured as constants: each that may be one must equal it."""
        for tensor, _ in state.versions:
            alike = [c for _, c in executor._constants if c.shape == tensor.shape and c.dtype is tensor.dtype]
            if alike and not any(torch.equal(c, tensor.detach().to(c.device)) for c in alike):
                return False
        return True

    def _direct(self, bound: _Bound) -> Any:
        """The C form of this binding, which launches programs of kernels alone by itself; None where there is no extension, or where the code asks
        tensors for what it does not compare."""
        extension, module = self.shipped.extension, bound.module()
        if module is None or extension is None or self._given is None or bound.reached.asks_tensors or getattr(extension, "reached", 0) < 5:
            return None
        try:
            return self._plan(extension, bound, module)
        except Exception:  # a torch without the table that the C form reads tensors by, or another one: these checks do it all
            return None

    def _executed(self, bound: _Bound) -> dict[str, Any]:
        """What the C form is told where the executor runs the program: it makes the checks, and gives it the tensors by their place among its bindings."""
        executor, turns, count = bound.executor, bound.turns, len(bound.executor.bindings)

        def in_turn(tensors: list[Tensor]) -> Any:
            with turns:
                return executor.run(tensors)

        device = bound.device
        index = -1 if device.type == "cpu" else torch.cuda.current_device() if device.index is None else device.index
        return {
            **dict.fromkeys(("keep", "allocate", "error", "raise_versions", "threads")),
            **{"table": [0] * count, "fresh": [], "arena": (0, torch.uint8, []), "results": [], "launch": (0, 0, 0), "brief": False, "device": index},
            "execute": in_turn if executor.effects else executor.run,
            "effects": [(e.position, 0, -1) for e in executor.effects],  # what it changes, it counts itself
        }

    def _plan(self, extension: Any, bound: _Bound, module: nn.Module) -> Any:
        root = vars(module)
        direct = bound.executor.direct()
        launches = direct is not None
        direct = self._executed(bound) if direct is None else {"execute": None, **direct}
        buffers = [b.buffer if launches else place for place, b in enumerate(bound.executor.bindings)]
        places = {index: place for place, index in enumerate([*(user[1] for user in bound.users), *bound.unused])}
        given, keywords = (apart.placed(nest, places) for nest in self._given)
        if not self._has_extras(module):
            keywords = ("names", *keywords[1:])
        tensors = [p for p, *_ in bound.users] + [p for p, *_ in bound.params]  # as the C form counts them
        effects = [(tensors.index(position), versions, value) for position, versions, value in direct.pop("effects")]
        return extension.Plan(
            miss=FALLBACK,
            module=bound.module,
            falsy=context.QUESTIONS,
            empty=(*context.HOOKS, *(root[name] for name in context.OWN_HOOKS)),
            absent=("forward", "_compiled_call_impl"),
            default_dtype=(_default_dtype, self._captured_dtype),
            grad=_grad_enabled,
            forward_ad=context.FORWARD_AD,
            plain=_PLAIN,
            root_training=self._training[""],
            tree=[(parent, key, child, vars(child), *more) for parent, key, child, *more in bound.tree],
            sizes=bound.sizes,
            users=[(buffers[p], torch.empty((), dtype=dtype), shape, strides) for p, _, dtype, shape, strides in bound.users],
            unused=len(bound.unused),
            given=given,
            keywords=keywords,
            apart=self._out_spec.type is holders.Answer,
            forms=[tuple(apart.placed(nest, places) for nest in form) for form in self._forms],
            reached=bound.reached.plan(),
            nested=not self._plain_positional,
            attributes=bound.reached.asks_attributes != frozenset(),
            effects=effects,
            answer=self._answer,
            params=[(store, key, buffers[p], torch.empty((), dtype=dtype), shape, strides) for p, store, key, dtype, shape, strides in bound.params],
            ties=bound.ties,
            finish=None if launches and self._answer is not None else self._finish,
            **direct,
        ).run

    # ---- every call ----

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The outputs, or FALLBACK."""
        if self.reason:
            return self._refuse(self.reason)
        if self._differs is not None and self._differs.holds(module):  # a state that was refused before is known again
            return self._refuse(self._differs.why)
        if not context_is_plain(self.shipped.program["target"]):
            return self._refuse(context.describe())
        if _default_dtype() is not self._captured_dtype:
            return self._refuse("default dtype", lambda: f"the default dtype is {_default_dtype()}, captured was {self._captured_dtype}")
        asked = None
        if len(args) != self._count or (kwargs.keys() != set(self._keywords) if kwargs or self._keywords else False):
            names = self._signed(module)
            form = names.form(args, kwargs) if names is not None else None
            if form is None or form.why:
                return self._refuse(form.why if form is not None else "the arguments are named or counted otherwise than in the captured call")
            asked = (args, kwargs) if form.simple else None
            given, args, kwargs = kwargs, form.args, form.kwargs or {}
        else:
            given = kwargs
        if len(given) > 1 and [*given] != self._keywords and self._has_extras(module, given):
            return self._refuse("keyword arguments that forward takes as **kwargs come in another order than in the captured call")
        if self.shipped.defer_gradients and _grad_enabled() and not self._trains:
            result = self._deferred(module, args, kwargs)
            if result is not _NOT_DEFERRED:
                return result
        leaves = self._leaves(module, args, kwargs)
        if leaves is FALLBACK:
            return FALLBACK
        bound = self._bound
        if bound is None or bound.module() is not module:
            if vars(module).get("_is_replica"):  # of nn.DataParallel: it shares this object and keeps no parameters of its own
                return self._refuse("the module is a replica of nn.DataParallel")
            device = self._first_device(module, leaves)
            bound = None if device is None else self._bind(module, device)
            if bound is None:
                return self._refuse(self.why or "the call has no tensor")
        if not self._is_captured(bound, module):
            return FALLBACK
        grad = _grad_enabled()
        if bound.reached.answers and (what := bound.reached.answered_otherwise()):
            return self._refuse(what)
        if not bound.reached.fits(module, grad):
            return self._looked_again(module, args, kwargs, bound.device, grad)
        tensors = self._tensors(bound, module, leaves, grad)
        if tensors is FALLBACK:
            return FALLBACK
        if tensors is None:
            return self._elsewhere(module, args, kwargs, leaves, bound.device)
        if not bound.executor.effects:
            outs = bound.executor.run(tensors)
        elif _overlap([*tensors, *(t for t, _ in bound.reached.versions)], {e.position for e in bound.executor.effects}):
            return self._refuse("what the program updates shares memory with another tensor of the call")
        else:
            with bound.turns:
                outs = bound.executor.run(tensors)
        self._ran += 1
        if asked is not None:
            self._learn(bound, *asked)
        return self._finish(outs, args, kwargs)

    def _leaves(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the call was given, one after the other, with the captured numbers among it; or FALLBACK."""
        if self._read is not None:
            leaves: Any = self._read(args, kwargs)
            if isinstance(leaves, apart.Miss):
                miss = leaves
                return self._refuse(miss.what, lambda: miss.sentence)
        elif self._plain_positional:
            leaves = args
        else:
            if kwargs:
                kwargs = {name: kwargs[name] for name in self._keywords}  # in the captured order
            leaves, spec = pytree.tree_flatten((args, kwargs))
            if spec != self._in_spec:
                return self._refuse(self._nested_otherwise(module, spec))
        for index, value in self._scalars:
            given = leaves[index]
            if not signature.same_scalar(given, value):
                if isinstance(value, Tensor):
                    return self._other_numbers(module, index, given, value)
                return self._refuse(f"argument {self._argument(module, index)} is not {signature.short(value)}, as captured")
        return leaves

    def _is_captured(self, bound: _Bound, module: nn.Module) -> bool:
        """Whether the module's parts, their hooks and modes are as they were; else the call is refused."""
        for parent, key, child, training, before, behind in bound.tree:
            attributes = vars(child)
            if (
                parent.get(key) is not child
                or "forward" in attributes
                or (training is not None and child.training is not training)
                or ((behind or child._forward_hooks) and tuple(child._forward_hooks.values()) != behind)
                or ((before or child._forward_pre_hooks) and tuple(child._forward_pre_hooks.values()) != before)
            ):
                self._reset()  # a replaced submodule is looked at afresh next time
                self._refuse(_how_changed(bound.homes[id(parent)], parent, key, child, training, behind))
                return False
        for submodules, count in bound.sizes:
            if len(submodules) != count:
                self._reset()
                self._refuse("submodules were added or removed")
                return False
        training = self._training[""]
        if training is not None and module.training is not training:
            self._refuse(f"the module is in {'training' if module.training else 'eval'} mode, captured was the other")
            return False
        return True

    def _tensors(self, bound: _Bound, module: nn.Module, leaves: Any, grad: bool) -> Any:
        """The executor's inputs and parameters; FALLBACK where one is not as the program takes it, None where one lies on another device."""
        device = bound.device
        same_layout, aligned = self.shipped.module.same_layout, self.shipped.module.aligned
        tensors: list[Any] = [None] * len(bound.executor.bindings)
        t: Any
        if bound.reached.asks_tensors and (what := self._unlike_captured(module, leaves)):
            return self._refuse(what)
        if bound.reached.asks_attributes != frozenset() and (what := self._has_attributes(leaves, bound.reached.asks_attributes)):
            return self._refuse(what)
        for position, index, dtype, shape, strides in bound.users:
            t = leaves[index]
            if (
                type(t) not in _PLAIN
                or t.dtype is not dtype
                or t.layout is not torch.strided
                or t.is_nested
                or t.shape != shape
                or (t.stride() != strides and not same_layout(t, shape, strides))
                or (grad and t.requires_grad)
                or t.is_conj()
                or t.is_neg()
                or (t.data_ptr() & 15 and not bound.copies)
                or (not t.data_ptr() and t.numel())
            ):
                return self._refuse_tensor(f"input {index}", t, dtype, shape, grad)
            if t.device != device:
                return None
            tensors[position] = aligned(t)
        for index in bound.unused:
            t = leaves[index]
            if not isinstance(t, Tensor) or (grad and t.requires_grad):
                return self._refuse_tensor(f"input {index}", t, getattr(t, "dtype", None), getattr(t, "shape", ()), grad)
        for position, store, key, dtype, shape, strides in bound.params:
            t = store.get(key)
            if (
                type(t) not in _PLAIN
                or t.dtype is not dtype
                or t.layout is not torch.strided
                or t.shape != shape
                or (t.stride() != strides and not same_layout(t, shape, strides))
                or (grad and t.requires_grad)
                or (t.data_ptr() & 15 and not bound.copies)
                or (not t.data_ptr() and t.numel())
            ):
                return self._refuse_tensor(f"parameter '{bound.executor.bindings[position].name}'", t, dtype, shape, grad)
            if t.device != device:
                return None
            tensors[position] = aligned(t)
        for one, key, other, other_key in bound.ties:
            if one.get(key) is not other.get(other_key):
                return self._refuse("parameters that were tied no longer are")
        return tensors

    def _other_numbers(self, module: nn.Module, index: int, given: Any, value: Tensor) -> Any:
        what = f"argument {self._argument(module, index)}"
        if isinstance(given, Tensor) and given.device.type != "cpu":
            return self._refuse(f"{what} lies on {given.device.type}: to compare its numbers would wait for the device; pass it on the CPU")
        if not isinstance(given, Tensor) or given.dtype is not value.dtype or given.shape != value.shape:
            return self._refuse(f"{what} is not a {value.dtype} tensor of shape {list(value.shape)}, as captured")
        return self._refuse(f"{what} holds other numbers than those that the program was made for")

    def _unlike_captured(self, module: nn.Module, leaves: Any) -> str:
        """Where the user's code asks tensors for more than a program looks at: how the inputs are other than those of the captured call were."""
        given = [leaves[index] for index in self._tensor_leaves if isinstance(leaves[index], Tensor)]
        if any(t.requires_grad or t.grad is not None for t in given):
            return "an input requires gradients, forward asks its tensors for that, and those of the captured call did not"
        if any(type(t) is not Tensor for t in given):
            return "an input is a parameter, forward asks its tensors for that, and those of the captured call were none"
        kept = {id(t) for t in (*module.parameters(), *module.buffers())}
        if len({id(t) for t in given} - kept) != len(given):
            return "an input is given twice or belongs to the module, forward compares tensors by what they are, and those of the captured call were apart"
        return ""

    def _has_attributes(self, leaves: Any, asked: frozenset[str] | None) -> str:
        """Where the user's code asks tensors for attributes that torch does not give them: which of these an input has. The captured ones had none."""
        for index in self._tensor_leaves:
            if isinstance(leaves[index], Tensor) and (mine := vars(leaves[index])) and (there := sorted(mine if asked is None else asked.intersection(mine))):
                return f"input {index} has the attribute '{there[0]}', forward asks tensors for that, and those of the captured call had none"
        return ""

    def _argument(self, module: nn.Module, leaf: int) -> str:
        """What a leaf of the captured call belongs to, in words."""
        at = 0
        for key, spec in self._arguments:
            at += spec.num_leaves
            if leaf < at:
                return self._named(module, key)
        return str(leaf)

    def _named(self, module: nn.Module, key: int | str) -> str:
        names = self._signed(module) if isinstance(key, int) else None
        return f"'{key}'" if isinstance(key, str) else f"'{names.name(key)}'" if names is not None else str(key)

    def _nested_otherwise(self, module: nn.Module, given: Any) -> str:
        """The first argument whose form is not the captured one's, in a sentence."""
        forms = [form for side in trees.children(given) for form in trees.children(side)]
        key = next((key for (key, captured), form in zip(self._arguments, forms, strict=False) if captured != form), None)
        what = "the arguments are" if key is None else f"argument {self._named(module, key)} is"
        return f"{what} nested otherwise than in the captured call"

    def _looked_again(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device, grad: bool) -> Any:
        """Something that forward can reach is another object than it was: by value it may be the same."""
        bound = self._bind(module, device)
        if bound is None:
            return self._refuse(self.why or "something that forward reads was changed")
        if not bound.reached.fits(module, grad):
            return self._refuse("gradients may be asked for a tensor that is no parameter of the module")
        return self(module, args, kwargs)

    def _learn(self, bound: _Bound, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The C form, where there is one, takes calls that are written so from now on."""
        if bound.fast is None or self._bound is not bound or len(self._forms) >= _FORMS:
            return
        assert self._signature is not None
        if self._build is not None:  # it finds what it sets in the arguments as the captured call had them
            return
        by_place, by_name = self._signature.placed(args, kwargs)
        nests = [*self._given[0][1], *self._given[1][1]]
        written = ([nests[k] if k is not None else ("scalar", args[at]) for at, k in enumerate(by_place)],
                   [nests[k] if k is not None else ("scalar", kwargs[name]) for name, k in by_name.items()])  # fmt: skip
        form = (("tuple", written[0], tuple), ("dict" if self._signature.extras(by_name) else "names", written[1], list(by_name)))
        if repr(form) in map(repr, self._forms):
            return
        self._forms = [*self._forms, form]
        self._ran = self.ran
        bound.fast = self.fast = self._direct(bound)

    def _deferred(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The outputs where only parameters require gradients, FALLBACK (counted) where the program refuses such a call, and
        _NOT_DEFERRED where it is none."""
        if kwargs or self._build is not None or not all(type(a) in _PLAIN and not a.requires_grad for a in args):
            return _NOT_DEFERRED
        if self._bound is None or self._bound.module() is not module:
            device = None if vars(module).get("_is_replica") else self._first_device(module, args)
            if device is None or self._bind(module, device) is None:
                return _NOT_DEFERRED
        bound = self._bound
        if bound is None or bound.executor.generator is not None:  # the original, run later, would draw other numbers
            return _NOT_DEFERRED
        if bound.reached.wrappers:  # whose gradients are not those of the tensors inside
            return _NOT_DEFERRED
        if not bound.executor.own_results or bound.reached.asks_for_gradients() or any(e.differentiable for e in bound.executor.effects):
            return _NOT_DEFERRED
        changes = {e.position: e.read for e in bound.executor.effects}
        names: tuple[list[str], list[str]] = ([], [])
        tensors: tuple[list[Tensor], list[Tensor]] = ([], [])  # those that require gradients, and the others
        before: dict[str, Tensor | None] = {}  # of what the program changes: what there was, where results depend on it
        for position, store, key, *_ in bound.params:
            t = store.get(key)
            if not isinstance(t, Tensor):
                continue
            name = bound.executor.bindings[position].name
            if position in changes:
                before[name] = t.detach().clone() if changes[position] else None
            else:
                names[not t.requires_grad].append(name)
                tensors[not t.requires_grad].append(t)
        if not tensors[0] or len(before) != len(changes):  # inputs that it changes would have to be saved as they were
            return _NOT_DEFERRED
        result = deferred.defer(self, module, bound.parts, names[0] + names[1], args, before, tensors[1], *tensors[0])
        return result if result is FALLBACK or self._single_output else pytree.tree_unflatten(list(result), self._out_spec)

    def _original(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        """The original's result, ready for gradients. `module` has no program."""
        self._trains = True
        if _default_dtype() is not self._captured_dtype:
            raise RuntimeError("planish: the default dtype was changed between this module's forward and its backward")
        with torch.enable_grad(), torch.autocast(args[0].device.type if args else "cpu", enabled=False):
            return module(*args)

    def _first_device(self, module: nn.Module, leaves: Any) -> torch.device | None:
        given = [leaves[index] for index in self._tensor_leaves if isinstance(leaves[index], Tensor)]
        for tensor in (*given, *module.parameters(), *module.buffers()):
            device: torch.device = tensor.device
            return device
        kind = self.shipped.program["target"]
        return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)

    def _elsewhere(self, module: nn.Module, args: Any, kwargs: Any, leaves: Any, bound_to: torch.device) -> Any:
        """The module or its inputs moved to another device: bind there and try once more, unless they disagree."""
        device = self._first_device(module, leaves)
        if device is None or device == bound_to or self._bind(module, device) is None:
            return self._refuse(self.why or "inputs and parameters are on different devices")
        return self(module, args, kwargs)


def _unflattened(spec: Any, single: bool) -> Callable[[Any, Any, Any], Any]:
    """What makes the outputs of a call's results where no object is among them."""
    if single:
        return lambda results, args, kwargs: results[0]
    return lambda results, args, kwargs: pytree.tree_unflatten(results, spec)


# torch.compile's arguments for each baseline, by its name in ship.json.
COMPILE_OPTIONS: dict[str, dict[str, Any]] = {
    "compile": {},
    "max_autotune_no_cudagraphs": {"mode": "max-autotune-no-cudagraphs"},
    "max_autotune": {"mode": "max-autotune"},
}


def eagers_draws(baseline: str) -> dict[str, Any]:
    """The same for a model that draws random numbers: compiled, it draws eager's. torch.compile's own are others, for the same seed."""
    from torch._inductor import list_mode_options

    mode = COMPILE_OPTIONS[baseline].get("mode")
    return {"options": {**(list_mode_options(mode) if mode else {}), "fallback_random": True}}


class Compiled:
    """Stands in where no candidate beat torch.compile: the original forward, compiled at an instance's first call. Replayed CUDA
    graphs (max_autotune) write every result to the same memory, so the caller gets copies: a result stays what it was.
    What is compiled is the function, and not the function bound to the module: a module that holds itself is freed by the cycle collector alone."""

    def __init__(self, original: type[nn.Module], baseline: str) -> None:
        self._original, self._baseline = original, baseline
        self.quiet = True
        self.fast = None
        self._forward: Any = None

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._forward is None:
            self._forward = torch.compile(self._original.forward, **eagers_draws(self._baseline))
        result = self._forward(module, *args, **kwargs)
        if self._baseline != "max_autotune":
            return result
        own = {id(t) for t in (*pytree.tree_leaves((args, kwargs)), *module.parameters(), *module.buffers())}
        return pytree.tree_map_only(Tensor, lambda t: t.clone() if self._replayed(t) and id(t) not in own else t, result)

    @staticmethod
    def _replayed(tensor: Tensor) -> bool:
        return tensor.is_cuda

    def changed(self, module: nn.Module, name: str, value: Any) -> None:
        """Nothing to do: torch.compile guards on attributes itself."""

    def __deepcopy__(self, memo: Any) -> Compiled:
        return Compiled(self._original, self._baseline)

    def __getstate__(self) -> dict[str, Any]:
        return {"_original": self._original, "_baseline": self._baseline, "quiet": True, "fast": None, "_forward": None}


def attach(shipped: archive.Shipped, module: nn.Module, original: type[nn.Module], reason: str = "") -> Any:
    """What a module's forward asks first: an Attachment, a Compiled, or None where eager itself is shipped."""
    if shipped.mode == "program":
        return Attachment(shipped, module, reason)
    baseline = shipped.manifest["baseline"]
    return None if baseline == "eager" else Compiled(original, baseline)


def _how_changed(home: str, parent: dict[str, Any], key: str, child: nn.Module, training: bool | None, known: tuple[Any, ...]) -> str:
    """In which of the ways that a call asks for a part of a module is no longer as captured."""
    part = f"the module's part '{home}{'.' if home else ''}{key}'"
    if parent.get(key) is not child:
        return f"{part} was replaced"
    if "forward" in vars(child):
        return f"{part} has a forward of its own"
    if training is not None and child.training is not training:
        return f"{part} is in {'training' if child.training else 'eval'} mode, captured was the other"
    for hook in (*child._forward_hooks.values(), *child._forward_pre_hooks.values()):
        if any(hook is one for one in known):
            continue
        return f"{part} has a hook ({getattr(hook, '__qualname__', type(hook).__name__)}), which its program would not run"
    return f"{part} no longer has the hooks that it had when it was captured"


def _callers_level() -> int:
    """The `stacklevel`, in the function that called this one, of the line that called the module: behind us, what asks us, and torch."""
    this = sys.modules[__name__]
    level, frame = 0, sys._getframe()
    while frame.f_back is not None:
        known = frame.f_globals
        asks = known.get("_guards") is this or known.get("__name__") == "planish.ship.live"
        if known is not globals() and known is not vars(nn.modules.module) and not asks:
            break
        level, frame = level + 1, frame.f_back
    return level


def _overlap(tensors: list[Tensor], changed: set[int]) -> bool:
    """Whether memory of the tensors at the places `changed` is also another one's: then the order of reads and writes, of which a program
    has its own, would show."""
    spans = []
    for place, t in enumerate(tensors):
        first = t.data_ptr()
        last = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1 if t.numel() else 0
        spans.append((first, first + last * t.element_size(), place in changed))
    everything = changes = 0
    for first, end, changing in sorted(spans):
        if first < (everything if changing else changes):
            return True
        everything = max(everything, end)
        changes = max(changes, end) if changing else changes
    return False
