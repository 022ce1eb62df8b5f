"""Decides, call by call, whether a program may stand in for a module's own forward, and runs it.

Copied verbatim into every shipped folder and file, so it depends on torch and the standard library alone. A `Shipped` is one
folder or file (thread-safe after construction). An `Attachment` belongs to one module instance; it holds no tensor, only the
dictionaries in which the module keeps them, so parameters stay live. Whenever anything differs from what was captured, the
answer is FALLBACK and the caller runs the original code.

The same checks exist twice: here, complete, and in C (planish_call.so) for the calls that most programs get. Where the C form
cannot say yes at once, or is not there, this one decides.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys
import sysconfig
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm
from torch.utils import _pytree as pytree

Tensor = torch.Tensor
FALLBACK = object()
_NOT_DEFERRED = object()
_PLAIN = (Tensor, nn.Parameter)
_SIMPLE = (bool, int, float, str, tuple, type(None))

_autocast = getattr(torch._C, "_is_any_autocast_enabled", torch.is_autocast_enabled)
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_mode = torch._C._is_torch_function_mode_enabled
_transforms = torch._C._functorch.peek_interpreter_stack
_tracing = torch._C._get_tracing_state
_deterministic = torch._C._get_deterministic_algorithms
_default_dtype = torch.get_default_dtype
_grad_enabled = torch.is_grad_enabled
_module_globals = nn.modules.module
_forward_ad = torch.autograd.forward_ad


class FallbackWarning(UserWarning):
    """A call ran the module's own code where a program is attached. Given once for each reason."""


def context_is_plain() -> bool:
    """False under autocast, vmap and other transforms, tracing, dispatch modes, forward-mode AD, or where a user asked for
    deterministic algorithms: there the original code runs."""
    return not (
        _autocast()
        or _transforms() is not None
        or _dispatch_modes()
        or _tracing() is not None
        or _deterministic()
        or _forward_ad._current_level >= 0
        or _module_globals._global_forward_hooks
        or _module_globals._global_forward_pre_hooks
        or (_function_mode() and not _only_device_modes())
    )


def _context() -> str:
    """What about the context is not plain, in words."""
    found = {
        "autocast is on": _autocast(),
        "a transform such as vmap or grad is active": _transforms() is not None,
        "the call is being traced": _tracing() is not None,
        "a dispatch or function mode is active": _dispatch_modes() or _function_mode(),
        "deterministic algorithms were asked for": _deterministic(),
        "forward-mode AD is active": _forward_ad._current_level >= 0,
    }
    return next((text for text, there in found.items() if there), "global module hooks are registered")


def _same_scalar(given: Any, value: Any) -> bool:
    """Of one type and equal; zeros of one sign, and NaN is NaN."""
    if type(given) is not type(value):
        return False
    if isinstance(value, float):
        return (given == value and (given != 0 or str(given) == str(value))) or (given != given and value != value)
    return bool(given == value)


def _nest(spec: Any, leaves: Iterator[int], scalars: dict[int, Any]) -> Any:
    """A tree of tuples, lists and dictionaries as the C form reads it, with the numbers of its tensor leaves; None for a tree of
    anything else."""
    children = _children(spec)
    if spec.type is None:
        leaf = next(leaves)
        return ("scalar", scalars[leaf]) if leaf in scalars else ("tensor", leaf)
    kind = {tuple: "tuple", list: "list", dict: "dict"}.get(spec.type)
    items = [_nest(child, leaves, scalars) for child in children]
    if kind is None or None in items:
        return None
    return (kind, items, list(spec.context)) if kind == "dict" else (kind, items)


def _placed(nest: Any, places: dict[int, int]) -> Any:
    """The same with a tensor's place among the inputs in place of its number."""
    if nest[0] in ("scalar", "tensor"):
        return nest if nest[0] == "scalar" else ("tensor", places[nest[1]])
    return (nest[0], [_placed(item, places) for item in nest[1]], *nest[2:])


def _only_device_modes() -> bool:
    """`torch.set_default_device` and `with torch.device(…)` are function modes too, and change nothing here."""
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._device import DeviceContext

    return all(isinstance(mode, DeviceContext) for mode in _get_current_function_mode_stack())  # type: ignore[no-untyped-call]


def cpu_flags() -> set[str]:
    """The instruction sets of this CPU as the kernel names them."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    except OSError:
        pass
    return set()


class Folder:
    """Where a shipped folder keeps what it consists of. (A shipped file brings a class of its own with the same four members.)"""

    def __init__(self, folder: Path) -> None:
        self.key = str(folder)
        self._folder = folder

    def read(self, name: str) -> bytes:
        """Raises OSError."""
        return (self._folder / name).read_bytes()

    def path(self, name: str) -> str:
        """A path under which this process can open the file."""
        return str(self._folder / name)

    def __contains__(self, name: str) -> bool:
        return (self._folder / name).exists()


shipped: dict[str, Shipped] = {}  # by key, so that an unpickled attachment finds what it belongs to


class Shipped:
    """One shipped folder or file in memory: manifest, program, and an executor a device, made when first needed."""

    def __init__(self, files: Any, executor_module: Any, defer_gradients: bool = False) -> None:
        """`files` is a Folder, or like one. With `defer_gradients` the program also runs where parameters alone could be asked for
        gradients (_Deferred). Raises OSError or ValueError if it is not a shipped one."""
        self.files = files
        self.defer_gradients = defer_gradients
        self.key: str = files.key
        self.manifest: dict[str, Any] = json.loads(files.read("ship.json"))
        if self.manifest.get("schema") != "planish.ship/1":
            raise ValueError(f"ship.json: schema is {self.manifest.get('schema')!r}, expected 'planish.ship/1'")
        self.mode: str = self.manifest["mode"]
        self.program: dict[str, Any] = {}
        if self.mode == "program":
            self.program = json.loads(files.read("program.json"))
        self.module = executor_module
        self.extension = load_extension(files) if self.mode == "program" else None
        self._executors: dict[torch.device, Any] = {}
        shipped[self.key] = self

    def executor(self, device: torch.device) -> Any:
        """The executor of a device, or the reason (str) why the program cannot run there."""
        found = self._executors.get(device)
        if found is None:
            found = self._why_not(device)
            if found is None:
                try:
                    native = any(step["kind"] != "aten" for step in self.program["steps"])
                    binaries = [self.files.path(name) for name in self.manifest["binaries"]]
                    runtime = self.files.path("libplanish_rt.so") if native else None
                    found = self.module.Executor(
                        self.program, binaries, lambda blob: self.files.read(f"blobs/{blob}"), runtime, device, self.manifest.get("effects", [])
                    )
                except AttributeError as error:  # of a library: a live module's folder is run by the installed version
                    found = f"made by Planish {self.manifest.get('planish', 'of another version')}, which this one cannot run ({error}); optimise it again"
                except (OSError, self.module.ExecutorError) as error:
                    found = f"{getattr(error, 'kind', 'load_failed')}: {error}"
            found = self._executors.setdefault(device, found)  # another thread may have been faster
        return found

    def runs(self) -> int:
        """Calls that the program answered, of all modules that this is attached to."""
        direct: int = 0 if self.extension is None else self.extension.hits()  # counted for the whole process
        return direct + sum(getattr(e, "runs", 0) for e in self._executors.values())

    def _why_not(self, device: torch.device) -> str | None:
        if device.type != self.program["target"]:
            return f"made for {self.program['target']}, called on {device.type}"
        if device.type == "cuda":
            major, minor = torch.cuda.get_device_capability(device)
            wanted = self.program["arch"].rstrip("abcdefghijklmnopqrstuvwxyz")
            if wanted and wanted != f"sm_{major}{minor}":
                return f"compiled for {self.program['arch']}, this GPU is sm_{major}{minor}"
        elif self.program["kernels"]:
            missing = set(self.manifest.get("cpu_flags", [])) - cpu_flags()
            if missing:
                return f"compiled for a CPU with {', '.join(sorted(missing))}"
        return None


def load_extension(files: Any) -> Any:
    """The C form of the checks, or None where it is missing or not for this interpreter: it counts references as an interpreter
    with a global lock does, so a free-threaded one must not load it."""
    if "planish_call.so" not in files or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    try:
        loader = importlib.machinery.ExtensionFileLoader("planish_call", files.path("planish_call.so"))
        spec = importlib.util.spec_from_loader("planish_call", loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (ImportError, OSError):
        return None
    return module


def weight_hooks(module: nn.Module) -> dict[str, Any]:
    """Hooks of torch's own that compute an attribute anew before each call, by its name: what they do is part of what was captured."""
    hooks = [h for h in module._forward_pre_hooks.values() if isinstance(h, SpectralNorm | WeightNorm | BasePruningMethod)]
    return {vars(hook).get("name") or vars(hook)["_tensor_name"]: hook for hook in hooks}


def plain_attributes(module: nn.Module) -> dict[str, Any]:
    """What a module was configured with: its own simple attributes, by name, and the settings of its weight_hooks()."""
    found = {k: v for k, v in vars(module).items() if not k.startswith("_") and k != "training" and isinstance(v, _SIMPLE)}
    hooks = {n: (type(h).__name__, *sorted((k, v) for k, v in vars(h).items() if isinstance(v, _SIMPLE[:4]))) for n, h in weight_hooks(module).items()}
    return found | {f"hook of {name}": settings for name, settings in hooks.items()}


def configuration(module: nn.Module) -> dict[str, Any]:
    """What every submodule is, as it travels in the manifest of a live module: class, mode and simple attributes."""
    return {
        name: {"type": type(child).__qualname__, "training": child.training, "attributes": {k: repr(v) for k, v in sorted(plain_attributes(child).items())}}
        for name, child in module.named_modules()
    }


def _unlike(captured: dict[str, Any], found: dict[str, Any]) -> str:
    """How a module's configuration differs from a captured one but for its mode; empty if it does not."""
    for name in sorted(captured.keys() | found.keys()):
        what = f"the module's part '{name}'" if name else "the module"
        then, now = captured.get(name), found.get(name)
        if then is None or now is None:
            return f"{what} was not there when it was captured" if then is None else f"{what} is gone since it was captured"
        if then["type"] != now["type"]:
            return f"{what} is a {now['type']}, captured was a {then['type']}"
        for key in sorted(then["attributes"].keys() | now["attributes"].keys()):
            was, given = then["attributes"].get(key, "absent"), now["attributes"].get(key, "absent")
            if was != given:
                return f"{what} has {key} = {given}, captured was {was}"
    return ""


_reads_mode: dict[type, bool] = {}


def reads_mode(cls: type) -> bool:
    """Whether the code of a module's class asks for its `training` flag anywhere; if not, train() and eval() change nothing.
    Functions that it calls by a global name count, unless they are torch's own (these get the flag as an argument)."""
    if cls not in _reads_mode:
        plain = not issubclass(cls, torch.jit.ScriptModule)
        ours = [base for base in cls.__mro__ if any(name.startswith("_planish") for name in vars(base))]
        functions = [f for base in cls.__mro__ if base not in (nn.Module, object, *ours) for f in vars(base).values()]
        _reads_mode[cls] = not plain or "training" in _names_in([_function(f) for f in functions])
    return _reads_mode[cls]


_SETUP = {"__init__", "__setstate__", "__repr__", "extra_repr", "reset_parameters", "_load_from_state_dict"}  # never part of a call
_read_names: dict[type, set[str]] = {}


def _configures(cls: type) -> set[str]:
    """Names that the code of a module's class mentions where it may be part of a call."""
    if cls not in _read_names:
        bases = [base for base in cls.__mro__ if base not in (nn.Module, object)]
        _read_names[cls] = _names_in([_function(f) for base in bases for name, f in vars(base).items() if name not in _SETUP])
    return _read_names[cls]


def _watched(child: nn.Module) -> tuple[tuple[str, Any], ...]:
    """A submodule's simple attributes that its calls may depend on, to be compared by identity at each call."""
    every = isinstance(child, torch.jit.ScriptModule)
    return tuple((name, value) for name, value in plain_attributes(child).items() if every or name in _configures(type(child)))


def _function(member: Any) -> Any:
    """The Python function inside a method, property or decorated function; None for anything else."""
    member = getattr(member, "fget", None) or getattr(member, "__func__", member)
    while hasattr(member, "__wrapped__"):
        member = member.__wrapped__
    return member if isinstance(member, FunctionType) else None


def _names_in(functions: list[Any]) -> set[str]:
    """Names and strings in the code of functions, and of those that they call by a global name but for torch's own."""
    names: set[str] = set()
    seen: set[CodeType] = set()
    todo = [(f.__code__, f.__globals__) for f in functions if f is not None]
    while todo:
        code, known = todo.pop()
        if code in seen:
            continue
        seen.add(code)
        names.update(code.co_names, (c for c in code.co_consts if isinstance(c, str)))
        todo += [(c, known) for c in code.co_consts if isinstance(c, CodeType)]
        called = [_function(known.get(name)) for name in code.co_names]
        todo += [(f.__code__, f.__globals__) for f in called if f is not None and not f.__module__.startswith("torch.")]
    return names


class _Bound:
    """Where one module keeps its tensors, and the executor of its device. Never changed once made: a thread that works with
    one is not disturbed by another that binds anew. The module owns this and is not owned by it, nor is its dictionary: it goes
    when its last reference does, not when the cycle collector finds it."""

    __slots__ = ("copies", "device", "executor", "fast", "loose", "module", "params", "parts", "sizes", "ties", "tree", "turns", "unused", "users")

    copies: bool  # a tensor that begins at an odd place may be copied: nothing is changed, and no result is an input
    device: torch.device
    executor: Any
    fast: Any  # the C form of this binding, or None
    loose: list[tuple[Any, ...]]  # (attributes, or None for the module's own; name; tensor; version)
    module: weakref.ref[nn.Module]
    params: list[tuple[Any, ...]]
    parts: _Parts | None  # where gradients may be asked for later
    sizes: list[tuple[dict[str, Any], int]]  # how many submodules each has
    ties: list[tuple[dict[str, Any], str, dict[str, Any], str]]
    tree: list[tuple[dict[str, Any], str, nn.Module, bool | None, tuple[tuple[str, Any], ...], tuple[Any, ...]]]
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


class _Parts:
    """What a module consists of when a program is bound to it, but for its tensors: enough to run its own code later as it was."""

    def __init__(self, modules: dict[str, nn.Module]) -> None:
        """`modules` by qualified name, the whole one under the empty name."""
        self._parts = {name: (child, type(child), self._copied(child)) for name, child in modules.items() if name}
        self._root = (type(modules[""]), self._copied(modules[""]))

    @staticmethod
    def _copied(child: nn.Module) -> dict[str, Any]:
        kept = {key: value for key, value in vars(child).items() if key not in ("_parameters", "_buffers") and not key.startswith("_planish")}
        return {key: value.copy() if key.startswith("_") and isinstance(value, dict) else value for key, value in kept.items()}

    def rebuild(self, module: nn.Module, tensors: dict[str, Tensor]) -> nn.Module:
        """A module as it was then, of these tensors (by qualified name), with `module`'s own where the program used none."""
        made: dict[int, nn.Module] = {}
        for name, child, cls, attributes in [("", module, *self._root), *((n, *part) for n, part in self._parts.items())]:
            twin = made[id(child)] = object.__new__(cls)
            prefix = name + "." if name else ""
            vars(twin).update(self._fresh(attributes))
            for kind in ("_parameters", "_buffers"):
                vars(twin)[kind] = {key: tensors.get(prefix + key, value) for key, value in vars(child)[kind].items()}
        for twin in made.values():
            vars(twin)["_modules"] = {key: made.get(id(child), child) for key, child in vars(twin)["_modules"].items()}
        return made[id(module)]

    @staticmethod
    def _fresh(attributes: dict[str, Any]) -> dict[str, Any]:
        return {key: value.copy() if key.startswith("_") and isinstance(value, dict) else value for key, value in attributes.items()}


class _Deferred(torch.autograd.Function):
    """The program's outputs, with the original's gradients: whoever asks for them makes the original run then, on what was given
    and as it was: later changes of attributes and replaced tensors do not count, and a tensor changed in place is an error, as
    with torch's own operators.

    Many callers time or use a model without no_grad and never ask. Whoever does ask, trains: from then on the attachment leaves
    such calls to the original, which would have run anyway."""

    @staticmethod
    def forward(
        ctx: Any,
        attachment: Attachment,
        module: nn.Module,
        parts: _Parts,
        names: list[str],
        args: tuple[Any, ...],
        before: dict[str, Tensor | None],
        fixed: list[Tensor],
        *parameters: Tensor,
    ) -> Any:
        """`names` are those of `parameters`, which require gradients, and then of `fixed`, which do not. `before`: by name, what the
        program changes, as it is now; None where that says nothing about the outputs. Gradients are off in here."""
        result = FALLBACK if attachment.fast is None else attachment.fast(module, args, {})
        if result is FALLBACK:
            result = attachment(module, args, {})
        if result is FALLBACK:
            return FALLBACK
        ctx.before = before
        ctx.attachment, ctx.module, ctx.parts, ctx.names, ctx.count = attachment, module, parts, names, len(parameters)
        ctx.save_for_backward(*parameters, *fixed, *args)
        leaves = [result] if attachment._single_output else pytree.tree_leaves(result)
        ctx.mark_non_differentiable(*(t for t in leaves if isinstance(t, Tensor) and not t.is_floating_point()))
        return leaves[0] if attachment._single_output else tuple(leaves)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        saved = ctx.saved_tensors
        tensors, args = dict(zip(ctx.names, saved, strict=False)), saved[len(ctx.names) :]
        # The original changes its buffers once more: copies of them.
        now = dict(ctx.module.named_buffers(remove_duplicate=False)) if ctx.before else {}
        tensors |= {name: (now[name] if then is None else then).detach().clone() for name, then in ctx.before.items()}
        result = ctx.attachment._original(ctx.parts.rebuild(ctx.module, tensors), args)
        pairs = [(t, g) for t, g in zip(pytree.tree_leaves(result), gradients, strict=True) if isinstance(t, Tensor) and t.requires_grad and g is not None]
        found: Any = [None] * ctx.count
        if pairs:
            outputs, given = zip(*pairs, strict=True)
            found = torch.autograd.grad(outputs, saved[: ctx.count], given, allow_unused=True, create_graph=_grad_enabled())
        return None, None, None, None, None, None, None, *found


# What apply() comes to where no transform of torch.func is active, which was asked before: its own look at every argument takes 5 µs.
_defer = super(torch.autograd.Function, _Deferred).apply


class Attachment:
    """A program attached to one module. Copies (deepcopy, pickle) start unbound and find their own module's tensors."""

    quiet = False  # another program is asked after this one: whether the module's own code runs is not decided here

    def __init__(self, shipped: Shipped, module: nn.Module, reason: str = "") -> None:
        """To be made when `module` is as it was when captured: its training flags and simple attributes are what later calls
        are compared with. A `reason` disables the program for good."""
        self.shipped = shipped
        self.reason = reason
        self._trains = False
        self._forget_calls()
        modes = {n: reads_mode(type(m)) or SpectralNorm in map(type, m._forward_pre_hooks.values()) for n, m in module.named_modules()}
        self._training = {n: m.training if modes[n] else None for n, m in module.named_modules()}
        self._attributes = {n: plain_attributes(m) for n, m in module.named_modules()}
        self._ties = _tied(module)
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
        if captured is None or self.reason:
            return
        found = configuration(module)
        twin = self.shipped.manifest.get("twin")  # the exported program as a module, which stands in for one that could not be pickled
        if twin is not None and not _unlike(twin, found):
            captured = twin
        self.reason = _unlike(captured, found)
        if self.reason:
            return
        for name, then in captured.items():
            if self._training[name] is not None:
                self._training[name] = then["training"]

    def _forget_calls(self) -> None:
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
        if t.shape != shape:
            return self._refuse(f"{what} shape", lambda: f"{what} has shape {list(t.shape)}, the program was made for {list(shape)}")
        if grad and t.requires_grad:
            hint = "call it under torch.no_grad() or torch.inference_mode() where none are wanted"
            return self._refuse("gradients", lambda: f"gradients may be asked for ({what} requires them); {hint}")
        if t.is_conj() or t.is_neg():
            return self._refuse(f"{what} has a pending conjugate or negation")
        if t.data_ptr() & 15:
            return self._refuse(f"{what} does not begin at a multiple of 16 bytes, and the program changes or returns what it is given")
        return self._refuse(f"{what} strides", lambda: f"{what} lies otherwise in memory (strides {t.stride()}) than the program was made for")

    def _reset(self) -> None:
        self._ran = self.ran
        self.why = ""  # the last thing that kept the program from being bound
        self.fast: Any = None  # where there is one: called as fast(module, args, kwargs) in place of the module's own __call__
        self._bound: _Bound | None = None

    def __getstate__(self) -> dict[str, Any]:
        kept = ("reason", "quiet", "_training", "_attributes", "_ties")
        return {"key": self.shipped.key, **{k: v for k, v in vars(self).items() if k in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        key = state.pop("key")
        vars(self).update(state)
        self._trains = False
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
        name_types()
        self._in_spec = pytree.treespec_loads(manifest["input_tree"])
        self._out_spec = pytree.treespec_loads(manifest["output_tree"])
        self._leaf_count = self._in_spec.num_leaves
        args_spec, kwargs_spec = _children(self._in_spec)
        positional = _children(args_spec)
        self._keywords: list[str] = list(kwargs_spec.context or [])
        self._plain_positional = not _children(kwargs_spec) and all(c.num_leaves == 1 and not _children(c) for c in positional)
        self._scalars = [(s["index"], self.shipped.module.read_scalar(s["arg"])) for s in manifest["scalars"]]
        self._tensor_leaves = sorted(set(range(self._leaf_count)) - {i for i, _ in self._scalars})
        self._single_output = self._out_spec.num_leaves == 1 and not _children(self._out_spec)
        leaves = iter(range(self._leaf_count))
        scalars = dict(self._scalars)
        nests = [_nest(spec, leaves, scalars) for spec in (args_spec, kwargs_spec)]
        self._given: Any = None if None in nests else nests
        self._answer = _nest(self._out_spec, iter(range(self._out_spec.num_leaves)), {})
        self._captured_dtype = self.shipped.module.torch_dtype(manifest.get("default_dtype", "f32"))

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
        bound = _Bound()
        bound.module, bound.device, bound.executor, bound.fast, bound.turns = weakref.ref(module), device, executor, None, _Turns()
        bound.copies = executor.own_results and not executor.effects
        bound.tree = []
        bound.sizes = [(child._modules, len(child._modules)) for child in modules.values() if child._modules]
        bound.parts = _Parts(modules) if self.shipped.defer_gradients else None
        for name, child in modules.items():
            if (now := plain_attributes(child)) != self._attributes[name] or (name and "forward" in vars(child)):
                then, what = self._attributes[name], f"'{name}'" if name else "the module"
                changed = [k for k in sorted(now.keys() | then.keys()) if k not in now or k not in then or now[k] != then[k]] or ["forward"]
                self.why = f"attributes of {what} differ from the captured ones: {', '.join(changed)}"
                return None
            if name:
                parent, _, key = name.rpartition(".")
                bound.tree.append((modules[parent]._modules, key, child, self._training[name], _watched(child), tuple(weight_hooks(child).values())))
        users: list[tuple[int, Any]] = []
        bound.params = []
        for position, b in enumerate(executor.bindings):
            if b.kind == "user":
                users.append((position, b))
                continue
            owner, _, key = b.name.rpartition(".")
            store = self._store(modules.get(owner), key)
            if store is None:
                self.why = f"the module has no tensor '{b.name}'"
                return None
            bound.params.append((position, store, key, b.dtype, b.shape, b.strides))
        bound.ties = []
        for first, *others in self._ties:
            for other in others:
                pair = [(self._store(modules.get(o), k), k) for o, _, k in (n.rpartition(".") for n in (first, other))]
                if pair[0][0] is None or pair[1][0] is None:
                    self.why = f"'{first}' and '{other}' were one tensor"
                    return None
                bound.ties.append((pair[0][0], pair[0][1], pair[1][0], pair[1][1]))
        loose = self._loose_tensors(modules, executor)
        if loose is None:
            self.why = "a tensor attribute of the module differs from the captured constant"
            return None
        bound.loose = loose
        bound.users = [(p, b.index, b.dtype, b.shape, b.strides) for p, b in users]
        bound.unused = sorted(set(self._tensor_leaves) - {b.index for _, b in users})
        bound.fast = self._direct(bound)
        self._bound, self.fast = bound, bound.fast
        return bound

    @staticmethod
    def _store(owner: nn.Module | None, key: str) -> dict[str, Any] | None:
        if owner is None:
            return None
        return owner._parameters if key in owner._parameters else owner._buffers if key in owner._buffers else None

    def _loose_tensors(self, modules: dict[str, nn.Module], executor: Any) -> list[tuple[Any, ...]] | None:
        """Tensors kept as plain attributes were captured as constants: each that may be one must still equal it. Returns where
        they are, for a look at identity and version at each call; None if one differs."""
        constants = [t for _, t in executor._constants]
        found: list[tuple[Any, ...]] = []
        for child in modules.values():
            for key, value in vars(child).items():
                if not isinstance(value, Tensor) or key in weight_hooks(child):
                    continue
                alike = [c for c in constants if c.shape == value.shape and c.dtype is value.dtype]
                if alike and not any(torch.equal(c, value.detach().to(c.device)) for c in alike):
                    return None
                if alike:
                    found.append((None if child is modules[""] else vars(child), key, value, value._version))
        return found

    def _direct(self, bound: _Bound) -> Any:
        """The C form of this binding: None where there is no extension, or the program or call is not of its simple kind
        (arguments nested in tuples, lists and dictionaries, all of them used; kernels only)."""
        extension, direct = self.shipped.extension, bound.executor.direct()
        simple = self._given is not None and not (bound.unused or bound.ties or bound.loose)
        if extension is None or direct is None or not simple or (direct["effects"] and not getattr(extension, "effects", 0)):
            return None
        buffers = [b.buffer for b in bound.executor.bindings]
        module = bound.module()
        try:
            return self._plan(extension, bound, direct, buffers, vars(module))
        except Exception:  # a torch without the table that the C form reads tensors by, or another one: these checks do it all
            return None

    def _plan(self, extension: Any, bound: _Bound, direct: dict[str, Any], buffers: list[int], root: dict[str, Any]) -> Any:
        out_spec = self._out_spec
        places = {user[1]: place for place, user in enumerate(bound.users)}
        given, keywords = (_placed(nest, places) for nest in self._given)
        tensors = [p for p, *_ in bound.users] + [p for p, *_ in bound.params]  # as the C form counts them
        effects = [(tensors.index(position), versions, value) for position, versions, value in direct.pop("effects")]
        return extension.Plan(
            miss=FALLBACK,
            module=bound.module,
            falsy=(_autocast, _transforms, _dispatch_modes, _tracing, _deterministic, _function_mode),
            empty=(
                *(_module_globals._global_forward_hooks, _module_globals._global_forward_pre_hooks),
                *(_module_globals._global_backward_hooks, _module_globals._global_backward_pre_hooks),
                *(root[name] for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")),
            ),
            absent=("forward", "_compiled_call_impl"),
            default_dtype=(_default_dtype, self._captured_dtype),
            grad=_grad_enabled,
            forward_ad=vars(_forward_ad),
            plain=_PLAIN,
            root_training=self._training[""],
            tree=[(parent, key, child, vars(child), *more) for parent, key, child, *more in bound.tree],
            sizes=bound.sizes,
            users=[(buffers[p], torch.empty((), dtype=dtype), shape, strides) for p, _, dtype, shape, strides in bound.users],
            given=given,
            keywords=keywords,
            nested=not self._plain_positional,
            effects=effects,
            answer=self._answer,
            params=[(store, key, buffers[p], torch.empty((), dtype=dtype), shape, strides) for p, store, key, dtype, shape, strides in bound.params],
            finish=None if self._answer is not None else lambda leaves: pytree.tree_unflatten(leaves, out_spec),
            **direct,
        ).run

    # ---- every call ----

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The outputs, or FALLBACK."""
        if self.reason:
            return self._refuse(self.reason)
        if not context_is_plain():
            return self._refuse(_context())
        if _default_dtype() is not self._captured_dtype:
            return self._refuse("default dtype", lambda: f"the default dtype is {_default_dtype()}, captured was {self._captured_dtype}")
        if self.shipped.defer_gradients and _grad_enabled() and not self._trains:
            result = self._deferred(module, args, kwargs)
            if result is not _NOT_DEFERRED:
                return result
        if self._plain_positional and not kwargs and len(args) == self._leaf_count:
            leaves: Any = args
        else:
            if kwargs.keys() == set(self._keywords):
                kwargs = {name: kwargs[name] for name in self._keywords}  # in the captured order
            leaves, spec = pytree.tree_flatten((args, kwargs))
            if spec != self._in_spec:
                return self._refuse("the arguments are nested, named or counted otherwise than in the captured call")
        for index, value in self._scalars:
            given = leaves[index]
            if not _same_scalar(given, value):
                return self._refuse(f"argument {index} is not {_short(value)}, as captured")
        bound = self._bound
        if bound is None or bound.module() is not module:
            if vars(module).get("_is_replica"):  # of nn.DataParallel: it shares this object and keeps no parameters of its own
                return self._refuse("the module is a replica of nn.DataParallel")
            device = self._first_device(module, leaves)
            bound = None if device is None else self._bind(module, device)
            if bound is None:
                return self._refuse(self.why or "the call has no tensor")
        for parent, key, child, training, watched, hooks in bound.tree:
            attributes = vars(child)
            if (
                parent.get(key) is not child
                or "forward" in attributes
                or any(attributes.get(name, FALLBACK) is not value for name, value in watched)
                or (training is not None and child.training is not training)
                or child._forward_hooks
                or ((hooks or child._forward_pre_hooks) and tuple(child._forward_pre_hooks.values()) != hooks)
            ):
                self._reset()  # a replaced submodule is looked at afresh next time
                return self._refuse(f"the module's part '{key}' was replaced or changed, has hooks, or is in another mode than captured (train or eval)")
        for submodules, count in bound.sizes:
            if len(submodules) != count:
                self._reset()
                return self._refuse("submodules were added or removed")
        training = self._training[""]
        if training is not None and module.training is not training:
            return self._refuse(f"the module is in {'training' if module.training else 'eval'} mode, captured was the other")
        device = bound.device
        same_layout, aligned = self.shipped.module.same_layout, self.shipped.module.aligned
        grad = _grad_enabled()
        tensors: list[Any] = [None] * len(bound.executor.bindings)
        t: Any
        for position, index, dtype, shape, strides in bound.users:
            t = leaves[index]
            if (
                type(t) not in _PLAIN
                or t.dtype is not dtype
                or t.shape != shape
                or (t.stride() != strides and not same_layout(t, shape, strides))
                or (grad and t.requires_grad)
                or t.is_conj()
                or t.is_neg()
                or (t.data_ptr() & 15 and not bound.copies)
            ):
                return self._refuse_tensor(f"input {index}", t, dtype, shape, grad)
            if t.device != device:
                return self._elsewhere(module, args, kwargs, leaves, device)
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
                or t.shape != shape
                or (t.stride() != strides and not same_layout(t, shape, strides))
                or (grad and t.requires_grad)
                or (t.data_ptr() & 15 and not bound.copies)
            ):
                return self._refuse_tensor(f"parameter '{bound.executor.bindings[position].name}'", t, dtype, shape, grad)
            if t.device != device:
                return self._elsewhere(module, args, kwargs, leaves, device)
            tensors[position] = aligned(t)
        for one, key, other, other_key in bound.ties:
            if one.get(key) is not other.get(other_key):
                return self._refuse("parameters that were tied no longer are")
        for owner, key, held, version in bound.loose:
            if held._version != version or (vars(module) if owner is None else owner).get(key) is not held:
                self._reset()
                return self._refuse(f"the tensor attribute '{key}' was changed")
        if not bound.executor.effects:
            outs = bound.executor.run(tensors)
        elif _overlap(tensors, {e.position for e in bound.executor.effects}):
            return self._refuse("what the program updates shares memory with another tensor of the call")
        else:
            with bound.turns:
                outs = bound.executor.run(tensors)
        self._ran += 1
        return outs[0] if self._single_output else pytree.tree_unflatten(outs, self._out_spec)

    def _deferred(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The outputs where only parameters require gradients, FALLBACK (counted) where the program refuses such a call, and
        _NOT_DEFERRED where it is none."""
        if kwargs or not all(type(a) in _PLAIN and not a.requires_grad for a in args):
            return _NOT_DEFERRED
        if self._bound is None or self._bound.module() is not module:
            device = None if vars(module).get("_is_replica") else self._first_device(module, args)
            if device is None or self._bind(module, device) is None:
                return _NOT_DEFERRED
        bound = self._bound
        if bound is None or not bound.executor.own_results or any(e.differentiable for e in bound.executor.effects):
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
        result = _defer(self, module, bound.parts, names[0] + names[1], args, before, tensors[1], *tensors[0])
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


# torch.compile's arguments for each baseline, by its name in ship.json.
COMPILE_OPTIONS: dict[str, dict[str, Any]] = {
    "compile": {},
    "max_autotune_no_cudagraphs": {"mode": "max-autotune-no-cudagraphs"},
    "max_autotune": {"mode": "max-autotune"},
}


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
            self._forward = torch.compile(self._original.forward, **COMPILE_OPTIONS[self._baseline])
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


def attach(shipped: Shipped, module: nn.Module, original: type[nn.Module], reason: str = "") -> Any:
    """What a module's forward asks first: an Attachment, a Compiled, or None where eager itself is shipped."""
    if shipped.mode == "program":
        return Attachment(shipped, module, reason)
    baseline = shipped.manifest["baseline"]
    return None if baseline == "eager" else Compiled(original, baseline)


def _callers_level() -> int:
    """The `stacklevel`, in the function that called this one, of the line that called the module: behind us, what asks us, and torch."""
    this = sys.modules[__name__]
    level, frame = 0, sys._getframe()
    while frame.f_back is not None:
        known = frame.f_globals
        asks = known.get("_guards") is this or known.get("__name__") == "planish.ship.live"
        if known is not globals() and known is not vars(_module_globals) and not asks:
            break
        level, frame = level + 1, frame.f_back
    return level


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def name_types() -> None:
    """Gives names in documents to nestings that torch knows without one: the named tuples of its own operators (of `max` with a dim, say),
    and dataclasses registered without a `serialized_type_name`."""
    nameless = getattr(pytree, "NO_SERIALIZED_TYPE_NAME_FOUND", None)
    for cls, about in list(getattr(pytree, "SUPPORTED_SERIALIZED_TYPES", {}).items()):
        if about.serialized_type_name != nameless or not isinstance(cls, type):
            continue
        if cls.__module__ == "torch.return_types" or hasattr(cls, "__dataclass_fields__"):
            name = f"{cls.__module__}.{cls.__qualname__}"
            pytree.SUPPORTED_SERIALIZED_TYPES[cls] = about._replace(serialized_type_name=name)
            pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def _children(spec: Any) -> list[Any]:
    """A treespec's children under the name of whichever torch this is."""
    return list(spec.children() if callable(getattr(spec, "children", None)) else spec.children_specs)


def _tied(module: nn.Module) -> list[list[str]]:
    """Groups of names under which a module keeps one and the same tensor."""
    names: dict[int, list[str]] = {}
    for name, tensor in [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]:
        names.setdefault(id(tensor), []).append(name)
    return [group for group in names.values() if len(group) > 1]


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
