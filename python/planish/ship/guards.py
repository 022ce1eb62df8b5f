"""Decides, call by call, whether a program may stand in for a module's own forward, and runs it.

Copied verbatim into every shipped folder, so it depends on torch and the standard library alone. A `Shipped` is one folder
(thread-safe after construction). An `Attachment` belongs to one module instance; it holds no tensor, only the dictionaries
in which the module keeps them, so parameters stay live. Whenever anything differs from what was captured, the answer is
FALLBACK and the caller runs the original code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

Tensor = torch.Tensor
FALLBACK = object()
_PLAIN = (Tensor, nn.Parameter)

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


folders: dict[str, Shipped] = {}  # so that an unpickled attachment finds its folder


class Shipped:
    """One shipped folder in memory: manifest, program, and an executor a device, made when first needed."""

    def __init__(self, folder: Path, executor_module: Any) -> None:
        """Raises OSError or ValueError if the folder is not a shipped one."""
        self.folder = folder
        self.manifest: dict[str, Any] = json.loads((folder / "ship.json").read_text())
        if self.manifest.get("schema") != "planish.ship/1":
            raise ValueError(f"{folder / 'ship.json'}: schema is {self.manifest.get('schema')!r}, expected 'planish.ship/1'")
        self.mode: str = self.manifest["mode"]
        self.program: dict[str, Any] = {}
        if self.mode == "program":
            self.program = json.loads((folder / "program.json").read_text())
        self.module = executor_module
        self._executors: dict[torch.device, Any] = {}
        folders[str(folder)] = self

    def executor(self, device: torch.device) -> Any:
        """The executor of a device, or the reason (str) why the program cannot run there."""
        found = self._executors.get(device)
        if found is None:
            found = self._why_not(device)
            if found is None:
                binaries = [str(self.folder / path) for path in self.manifest["binaries"]]
                try:
                    found = self.module.Executor(self.program, binaries, self.folder / "blobs", self.folder / "libplanish_rt.so", device)
                except self.module.ExecutorError as error:
                    found = f"{error.kind}: {error}"
            self._executors[device] = found
        return found

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


def plain_attributes(module: nn.Module) -> dict[str, Any]:
    """What a module was configured with: its own simple attributes, by name."""
    return {k: v for k, v in vars(module).items() if not k.startswith("_") and k != "training" and isinstance(v, bool | int | float | str | tuple | type(None))}


class Attachment:
    """A program attached to one module. Copies (deepcopy, pickle) start unbound and find their own module's tensors."""

    def __init__(self, shipped: Shipped, module: nn.Module, reason: str = "") -> None:
        """To be made when `module` is as it was when captured: its training flags and simple attributes are what later calls
        are compared with. A `reason` disables the program for good."""
        self.shipped = shipped
        self.reason = reason
        training = shipped.manifest.get("training")
        self._training = {n: m.training if training is None else training for n, m in module.named_modules()}
        self._attributes = {n: plain_attributes(m) for n, m in module.named_modules()}
        self._ties = _tied(module)
        self._reset()
        if not reason:
            try:
                self._read_trees()
            except Exception as error:  # a tree of types that this process does not know
                self.reason = f"cannot rebuild the nesting of inputs or outputs: {error}"

    def _reset(self) -> None:
        self.why = ""  # the last thing that kept the program from being bound
        self._module: nn.Module | None = None
        self._device: torch.device | None = None
        self._executor: Any = None

    def __getstate__(self) -> dict[str, Any]:
        kept = ("reason", "_training", "_attributes", "_ties")
        return {"folder": str(self.shipped.folder), **{k: v for k, v in vars(self).items() if k in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        folder = state.pop("folder")
        vars(self).update(state)
        self._reset()
        if folder not in folders:
            self.reason = self.reason or f"{folder} is gone"
            return
        self.shipped = folders[folder]
        if not self.reason:
            self._read_trees()

    def __deepcopy__(self, memo: Any) -> Attachment:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._reset()
        return other

    def changed(self, module: nn.Module, name: str, value: Any) -> None:
        """An attribute of the module was set: if it is not what was captured, the module is looked at afresh."""
        if value is not vars(module).get(name, module):
            self._reset()

    # ---- once ----

    def _read_trees(self) -> None:
        manifest, program = self.shipped.manifest, self.shipped.program
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
        self._mutates = any(o["kind"] == "mutate_input" for o in program["outputs"])
        self._captured_dtype = self.shipped.module.torch_dtype(manifest.get("default_dtype", "f32"))

    def _bind(self, module: nn.Module, device: torch.device) -> bool:
        """Finds where the module keeps each tensor. False, with the reason kept, if it no longer looks as captured."""
        self._reset()
        executor = self.shipped.executor(device)
        if isinstance(executor, str):
            self.why = executor
            return False
        modules = dict(module.named_modules())
        if modules.keys() != self._training.keys():
            self.why = "submodules were added or removed"
            return False
        tree: list[tuple[dict[str, Any], str, nn.Module, bool]] = []
        for name, child in modules.items():
            if plain_attributes(child) != self._attributes[name] or (name and "forward" in vars(child)):
                self.why = f"attributes of '{name}' differ from the captured ones"
                return False
            if name:
                parent, _, key = name.rpartition(".")
                tree.append((modules[parent]._modules, key, child, self._training[name]))
        users: list[tuple[int, Any]] = []
        params: list[tuple[int, dict[str, Any], str, Any]] = []
        for position, b in enumerate(executor.bindings):
            if b.kind == "user":
                users.append((position, b))
                continue
            owner, _, key = b.name.rpartition(".")
            store = self._store(modules.get(owner), key)
            if store is None:
                self.why = f"the module has no tensor '{b.name}'"
                return False
            params.append((position, store, key, b))
        ties: list[tuple[dict[str, Any], str, dict[str, Any], str]] = []
        for first, *others in self._ties:
            for other in others:
                pair = [(self._store(modules.get(o), k), k) for o, _, k in (n.rpartition(".") for n in (first, other))]
                if pair[0][0] is None or pair[1][0] is None:
                    self.why = f"'{first}' and '{other}' were one tensor"
                    return False
                ties.append((pair[0][0], pair[0][1], pair[1][0], pair[1][1]))
        loose = self._loose_tensors(modules, executor)
        if loose is None:
            self.why = "a tensor attribute of the module differs from the captured constant"
            return False
        self._tree, self._ties_bound, self._loose = tree, ties, loose
        self._users = [(p, b.index, b.dtype, b.shape, b.strides) for p, b in users]
        self._unused = sorted(set(self._tensor_leaves) - {b.index for _, b in users})
        self._params = [(p, store, key, b.dtype, b.shape, b.strides) for p, store, key, b in params]
        self._slots = len(executor.bindings)
        self._executor, self._device, self._module = executor, device, module
        return True

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
                if not isinstance(value, Tensor):
                    continue
                alike = [c for c in constants if c.shape == value.shape and c.dtype is value.dtype]
                if alike and not any(torch.equal(c, value.detach().to(c.device)) for c in alike):
                    return None
                if alike:
                    found.append((vars(child), key, value, value._version))
        return found

    # ---- every call ----

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The outputs, or FALLBACK."""
        if self.reason or not context_is_plain() or _default_dtype() is not self._captured_dtype:
            return FALLBACK
        if self._plain_positional and not kwargs and len(args) == self._leaf_count:
            leaves: Any = args
        else:
            if kwargs.keys() == set(self._keywords):
                kwargs = {name: kwargs[name] for name in self._keywords}  # in the captured order
            leaves, spec = pytree.tree_flatten((args, kwargs))
            if spec != self._in_spec:
                return FALLBACK
        for index, value in self._scalars:
            given = leaves[index]
            if type(given) is not type(value) or (given != value and given == given):
                return FALLBACK
        device = self._device
        if self._module is not module:
            device = self._first_device(module, leaves)
            if device is None or not self._bind(module, device):
                return FALLBACK
        for parent, key, child, training in self._tree:
            if parent.get(key) is not child or child.training is not training or child._forward_hooks or child._forward_pre_hooks:
                self._reset()  # a replaced submodule is looked at afresh next time
                return FALLBACK
        if module.training is not self._training[""]:
            return FALLBACK
        grad = _grad_enabled()
        tensors: list[Any] = [None] * self._slots
        t: Any
        for position, index, dtype, shape, strides in self._users:
            t = leaves[index]
            if (
                type(t) not in _PLAIN
                or t.dtype is not dtype
                or t.shape != shape
                or (t.stride() != strides and not self.shipped.module.same_layout(t, shape, strides))
                or t.data_ptr() & 15
                or (grad and t.requires_grad)
                or t.is_conj()
                or t.is_neg()
            ):
                return FALLBACK
            if t.device != device:
                return self._elsewhere(module, args, kwargs, leaves)
            tensors[position] = t
        for index in self._unused:
            t = leaves[index]
            if not isinstance(t, Tensor) or (grad and t.requires_grad):
                return FALLBACK
        for position, store, key, dtype, shape, strides in self._params:
            t = store.get(key)
            if (
                type(t) not in _PLAIN
                or t.dtype is not dtype
                or t.shape != shape
                or (t.stride() != strides and not self.shipped.module.same_layout(t, shape, strides))
                or t.data_ptr() & 15
                or (grad and t.requires_grad)
            ):
                return FALLBACK
            if t.device != device:
                return self._elsewhere(module, args, kwargs, leaves)
            tensors[position] = t
        for one, key, other, other_key in self._ties_bound:
            if one.get(key) is not other.get(other_key):
                return FALLBACK
        for owner, key, value, version in self._loose:
            if owner.get(key) is not value or value._version != version:
                self._reset()
                return FALLBACK
        if self._mutates and _overlap([tensors[u[0]] for u in self._users]):
            return FALLBACK
        outs = self._executor.run(tensors)
        return outs[0] if self._single_output else pytree.tree_unflatten(outs, self._out_spec)

    def _first_device(self, module: nn.Module, leaves: Any) -> torch.device | None:
        given = [leaves[index] for index in self._tensor_leaves if isinstance(leaves[index], Tensor)]
        for tensor in (*given, *module.parameters(), *module.buffers()):
            device: torch.device = tensor.device
            return device
        kind = self.shipped.program["target"]
        return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)

    def _elsewhere(self, module: nn.Module, args: Any, kwargs: Any, leaves: Any) -> Any:
        """The module or its inputs moved to another device: bind there and try once more, unless they disagree."""
        device = self._first_device(module, leaves)
        if device is None or device == self._device or not self._bind(module, device):
            return FALLBACK
        return self(module, args, kwargs)


# torch.compile's arguments for each baseline, by its name in ship.json.
COMPILE_OPTIONS: dict[str, dict[str, Any]] = {
    "compile": {},
    "max_autotune_no_cudagraphs": {"mode": "max-autotune-no-cudagraphs"},
    "max_autotune": {"mode": "max-autotune"},
}


class Compiled:
    """Stands in where no candidate beat torch.compile: the original forward, compiled at an instance's first call."""

    def __init__(self, original: type[nn.Module], baseline: str) -> None:
        self._original, self._baseline = original, baseline
        self._module: nn.Module | None = None
        self._forward: Any = None

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._module is not module:
            bound = self._original.forward.__get__(module)
            self._forward, self._module = torch.compile(bound, **COMPILE_OPTIONS[self._baseline]), module
        return self._forward(*args, **kwargs)

    def changed(self, module: nn.Module, name: str, value: Any) -> None:
        """Nothing to do: torch.compile guards on attributes itself."""

    def __deepcopy__(self, memo: Any) -> Compiled:
        return Compiled(self._original, self._baseline)

    def __getstate__(self) -> dict[str, Any]:
        return {"_original": self._original, "_baseline": self._baseline, "_module": None, "_forward": None}


def attach(shipped: Shipped, module: nn.Module, original: type[nn.Module], reason: str = "") -> Any:
    """What a module's forward asks first: an Attachment, a Compiled, or None where eager itself is shipped."""
    if shipped.mode == "program":
        return Attachment(shipped, module, reason)
    baseline = shipped.manifest["baseline"]
    return None if baseline == "eager" else Compiled(original, baseline)


def _children(spec: Any) -> list[Any]:
    """A treespec's children under the name of whichever torch this is."""
    found = spec.children() if callable(getattr(spec, "children", None)) else spec.children_specs
    return list(found)


def _tied(module: nn.Module) -> list[list[str]]:
    """Groups of names under which a module keeps one and the same tensor."""
    names: dict[int, list[str]] = {}
    for name, tensor in [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]:
        names.setdefault(id(tensor), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _overlap(tensors: list[Tensor]) -> bool:
    """Whether two inputs may share memory: then writing one back would change the other."""
    bases = [t.untyped_storage().data_ptr() for t in tensors if t.numel()]
    return len(set(bases)) != len(bases)
