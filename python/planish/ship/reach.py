"""What a module's forward can reach beside its parameters and inputs, frozen as it is now (docs/decisions/0110-what-forward-can-reach.md).

Attributes of every submodule and of what they hold, class attributes, globals, closures and the code itself: found by the names that the
code mentions, and kept as a flat list of cheap comparisons (by identity where a thing cannot change, by structure for containers, by
version for tensors), so that a call can ask in no time whether all is as it was. Beside that stand `tokens`, the same by value: for another
process, for copies, and for a state that was left and came back. What cannot be told is a `problem`, in one sentence.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import builtins
import collections
import decimal
import enum
import functools
import gc
import hashlib
import importlib
import os
import sys
import types
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from planish.ship import hooks, names, outside, wrapped
    from planish.ship.frozen import CACHED, COMPARED, VALUES, Difference, Reached, as_keys, as_text, first_bytes, in_order, length, short_key, tensor_digest
    from planish.ship.frozen import unlike as unlike
else:
    frozen, hooks, names, outside, wrapped = (
        importlib.import_module(__name__.removesuffix("reach") + part) for part in ("frozen", "hooks", "names", "outside", "wrapped")
    )
    CACHED, COMPARED, Difference, Reached = frozen.CACHED, frozen.COMPARED, frozen.Difference, frozen.Reached
    first_bytes, length, unlike, VALUES, in_order = frozen.first_bytes, frozen.length, frozen.unlike, frozen.VALUES, frozen.in_order
    as_keys, short_key, tensor_digest, as_text = frozen.as_keys, frozen.short_key, frozen.tensor_digest, frozen.as_text

__all__ = ["Difference", "Reached", "reach", "unlike"]

Tensor = torch.Tensor
_PLAIN = (Tensor, nn.Parameter)

#: Things of C that never change but in ways that no result depends on, and are known by their names.
_ATOMS = (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
          types.GetSetDescriptorType, types.MemberDescriptorType, types.GenericAlias, types.UnionType)  # fmt: skip
#: Kinds of C whose objects change, or are used up, without a trace that could be compared.
_CHANGES_UNSEEN = frozenset(
    "_io _contextvars _random random array mmap _thread itertools numpy _ctypes ctypes socket _socket select sqlite3".split(),
)
_UNSEEN_TYPES: tuple[type, ...] = (
    *(bytearray, memoryview, collections.deque, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
    *(zip, map, filter, enumerate, reversed, type(iter([])), type(iter(())), type(iter({})), type(iter(set())), type(iter(""))),
)
_UNCHANGING_KINDS = {"lock", "RLock", "dtype", "generic", "ufunc"}  # among them
#: Python classes of the standard library whose own code reads all of their attributes. Of its others only the identity counts.
_HOLD_MORE = ("collections", "weakref", "configparser", "queue", "string")
_CONSTRUCTS = {"__init__", "__new__", "__post_init__"}
_OF_MODULES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_MODULE_FIELDS = frozenset(vars(nn.Module()))
#: What code may ask of a class or a function itself.
_OF_KINDS = ("__name__", "__qualname__", "__module__", "__doc__")
_WHOLE = 1 << 20  # bytes of a tensor on the CPU that are compared where the user's code may write past its version
#: Names by which code may see how many parameters there are, and not only those that it spells out.
_COUNTS = frozenset("parameters named_parameters buffers named_buffers state_dict _parameters _buffers modules named_modules apply".split())
_LOOKS = _COUNTS | {"children", "named_children", "get_parameter", "get_buffer", "get_submodule"}
#: What code may ask of a tensor beside its contents.
_OF_TENSORS = ("requires_grad", "grad", "grad_fn", "is_leaf")
#: What differs between tensors that a program takes for the same. Capture itself refuses code that asks for `data_ptr`.
_OF_MEMORY = frozenset("_version storage_offset untyped_storage _base is_shared is_pinned is_inference requires_grad_ retain_grad".split())
#: Packages of torch whose objects are machinery, and hold caches: known by their names. Of others (distributions, transforms) all attributes count.
_MACHINERY = frozenset("fx jit export library cuda utils autograd func futures multiprocessing package profiler onnx compiler distributed nn".split())
_TENSOR_NAMES = frozenset(dir(Tensor))
_ASKS_CLASSES = ("isinstance", "issubclass")
_TEXT_OF = {"__repr__", "__str__", "__hash__"}  # of the user's classes, where code makes texts or hashes
_CALLS = ("__call__", "_call_impl", "_wrapped_call_impl", "__getattr__")  # of nn.Module, which some replace
#: What to do about what stands in `Reached.problem`.
REMEDY = "leave that part out of forward, or do it before the module is called: a program only runs where all that forward reads is known to be as it was"
_MOST = 20_000  # comparisons; more would cost a call what the program gains
_AS_USUAL = object.__getattribute__  # which torch.export leaves at classes of tensors
_DEEP = 2  # calls inside installed packages that are followed
_LIBRARIES: weakref.WeakSet[type] = weakref.WeakSet()  # classes of modules for which editable packages turned out to be installed ones


def reach(root: nn.Module, bound: Iterable[str] = ()) -> Reached:
    """Freezes what `root`'s forward can reach now. `bound`: names of parameters and buffers that are compared elsewhere. Never raises for what it
    finds: `problem` says what cannot be frozen. Editable packages are the user's code, unless that has a problem: a library from a checkout."""
    if type(root) not in _LIBRARIES:
        with names.editable_is_own() as edited:
            found = _reach(root, set(bound))
        if not (edited and found.problem):
            return found
        _LIBRARIES.add(type(root))
    return _reach(root, set(bound))


def _reach(root: nn.Module, bound: set[str]) -> Reached:
    known: set[str] = set()
    asked: set[str] = set()
    others: set[str] = set()
    spelled: set[str] = set()
    wide = formats = False
    while True:
        walk = _Walk(root, frozenset(known), frozenset(asked), wide, bound)
        walk.spelled, walk.may_format, walk.of_tensors = frozenset(spelled), formats, None if wide else frozenset(others) - _TENSOR_NAMES
        try:
            walk.run()
        except RecursionError:
            walk.found.problem = walk.found.problem or "what forward can reach is nested too deeply to be compared"
        found = walk.names <= known and walk.asked <= asked and walk.others <= others and walk.own_names <= spelled
        if found and walk.anything <= wide and walk.formats <= formats:
            walk.found.asks_mode = "training" in known
            walk.found.asks_attributes = walk.of_tensors
            walk.found.asks_tensors = walk.identities or not spelled.isdisjoint((*_OF_TENSORS, "Parameter"))
            if told := sorted(spelled & _OF_MEMORY):
                where = walk.memory_asked.get(told[0])
                asked_for = f"forward asks a tensor for its {told[0]}{f' ({where})' if where else ''}"
                walk.found.problem = walk.found.problem or f"{asked_for}, which a program cannot follow"
            return walk.found
        known |= walk.names
        spelled |= walk.own_names
        formats = formats or walk.formats
        asked |= walk.asked
        others |= walk.others
        wide = wide or walk.anything


class _Walk:
    """One look at everything, with the names that are known so far."""

    def __init__(self, root: nn.Module, known: frozenset[str], asked: frozenset[str], wide: bool, bound: set[str]) -> None:
        self.root, self.known, self.may_ask, self.wide, self.bound = root, known, asked, wide, bound
        self.names: set[str] = set()
        self.own_names: set[str] = set()  # in the user's code
        self.memory_asked: dict[str, str] = {}  # names of _OF_MEMORY, with the lines of the user's that spell them out
        self.spelled: frozenset[str] = frozenset()  # the same, as the last look found them
        self.texts: set[str] = set()  # whole constants of the user's code
        self.formats = self.may_format = self.identities = False
        self.asked: set[str] = set()
        self.others: set[str] = set()  # asked of something else than a method's own object
        self.of_tensors: frozenset[str] | None = frozenset()  # the same as the last look found it, what torch's tensors have aside; None: any
        self.files: set[str] = set()  # of the user's code
        self.partly: list[tuple[str, Tensor]] = []  # tensors that are not compared whole
        self.anything = False
        self.found = Reached()
        self._seen: dict[tuple[int, bool], tuple[str, Any]] = {}  # by id, and whether in a package: the first path, and the thing, which must not go
        self._codes: set[types.CodeType] = set()
        self._classes: set[tuple[type, bool]] = set()
        self._pairs: set[tuple[int, Any]] = set()
        self._at: tuple[dict[Any, Any] | None, Any, Any] | None = None  # the entry that was looked at last
        self.modules = dict(root.named_modules())
        self._module_names = {id(m): n for n, m in self.modules.items()}
        stores = [(f"{n}." if n else "", vars(m)[s]) for n, m in self.modules.items() for s in ("_parameters", "_buffers")]
        tensors = [(prefix + key, t) for prefix, store in stores for key, t in store.items() if t is not None]
        self._live = {id(t): name for name, t in tensors} | {id(t): path for name, outer in tensors for path, t in wrapped.inside(outer, name)}
        self._hooks = {id(m): hooks.weight_hooks(m) for m in self.modules.values()}
        self._variables: dict[int, outside.Question] = {}  # of the context, that hooks read
        self._lenient = 0  # inside what belongs to a package
        self._soft = 0  # inside what may be there or not
        self._deep = 0  # calls from one function of a package to the next

    # ---- notes ----

    def _say(self, path: str, token: str) -> None:
        notes = self.found.soft if self._lenient or self._soft else self.found.tokens
        while path in notes and notes[path] != token:
            path += "'"
        notes[path] = token

    def _cannot(self, sentence: str) -> None:
        if not self._lenient and not self.found.problem:
            self.found.problem = sentence

    def _item(self, holder: dict[Any, Any] | None, key: Any, value: Any) -> None:
        self._at = (holder, key, value)
        pair = (id(holder) if holder is not None else 0, key)
        if pair not in self._pairs:
            self._pairs.add(pair)
            self.found.items.append((holder, key, value))

    def _missing(self, holder: dict[Any, Any] | None, key: Any) -> None:
        pair = (id(holder) if holder is not None else 0, key)
        if pair not in self._pairs:
            self._pairs.add(pair)
            self.found.absent.append((holder, key))

    def _field(self, thing: Any, name: str, value: Any) -> None:
        pair = (id(thing), name)
        if pair not in self._pairs:
            self._pairs.add(pair)
            self.found.fields.append((thing, name, value))

    def _order(self, thing: dict[Any, Any]) -> None:
        if len(keys := tuple(in_order(thing))) > 1:
            ordered = isinstance(thing, collections.OrderedDict)  # which keeps an order of its own
            self.found.orders.append((thing, keys, collections.OrderedDict.__iter__ if ordered else None))

    # ---- the walk ----

    def run(self) -> None:
        owners = self.found.owners
        for name, module in self.modules.items():
            parent, _, key = name.rpartition(".")
            owners[id(vars(module))] = (vars(self.modules[parent])["_modules"], key, module) if name and parent in self.modules else None
            owners[id(vars(module)["_modules"])] = owners[id(vars(module))]
            owners |= {id(names.dictionary_of(base)): None for base in type(module).__mro__ if base not in (nn.Module, object)}
        self._patched(nn.Module, _CALLS)
        self._patched(Tensor, self.known)
        self.found.sizes.append((names.dictionary_of(Tensor), len(vars(Tensor))))
        for name, module in self.modules.items():
            self._module(module, name)
        seen: set[int] = set()
        for path, module in self.root.named_modules(remove_duplicate=False):  # further places of shared ones; the first is looked at elsewhere
            parent, _, key = path.rpartition(".")
            owner = self.modules.get(parent)
            if id(module) in seen and owner is not None:
                self._item(vars(owner)["_modules"], key, module)
                self._say(path, f"the module '{self._module_names[id(module)]}' as well")
            seen.add(id(module))
        self._memory()
        if self.found.count() > _MOST:
            self._cannot(f"forward can reach {self.found.count()} values, too many to compare at each call")

    def _memory(self) -> None:
        """What lies in tensors that are no parameters or buffers: `.data` and NumPy leave no version behind, so that their first bytes are compared.
        Where the user's code has words by which tensors of their kind of device are written so, all bytes are, and what is too large for that, or on
        another device, is a problem."""
        sizes = [(path, tensor, tensor.device.type == "cpu", outside.span(tensor)) for path, tensor in self.partly]
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        files = sorted({*self.files, main} if main and names.whose(main) == "own" else self.files)
        kinds = {here for _, _, here, size in sizes if not here or size > COMPARED}
        words = {here: next((found for file in files if (found := outside.writes_unseen(file, here))), "") for here in kinds}
        for path, tensor, here, size in sizes:
            told = words.get(here, "")
            if here:
                self.found.contents.append((tensor, first_bytes(tensor, _WHOLE if told else COMPARED)))
            if told and tensor.device.type != "meta" and (not here or size > _WHOLE):
                why = f"is a tensor of {size} bytes that is no buffer, and {told} may change it unseen ({'.data, NumPy' if here else '.data, DLPack'})"
                self._cannot(f"'{path}' {why}; register it as a buffer")

    def _patched(self, cls: type, mentioned: Iterable[str]) -> None:
        """Methods of torch's own classes that somebody replaced, and those that are mentioned."""
        place = names.dictionary_of(cls)
        for key in sorted(set(mentioned).intersection(place)):
            if isinstance(place[key], types.FunctionType):
                self._item(place, key, place[key])
        for key, value in list(place.items()):
            if isinstance(value, types.FunctionType) and names.whose(value.__code__.co_filename) == "own":
                self._visit(value, f"{cls.__name__}.{key}")

    def _dict_of(self, module: nn.Module) -> dict[str, Any] | None:
        return None if module is self.root else vars(module)

    def _module(self, module: nn.Module, name: str, registered: bool = True) -> None:
        """A module of the tree, or one that a plain attribute holds: that one's mode, hooks, parameters and children count too."""
        self._mark(module, name)
        attributes = vars(module)
        self.found.hooks.append(module._forward_pre_hooks)
        holder = self._dict_of(module)
        prefix = f"{name}." if name else ""
        if module is not self.root:  # no reference to what owns all this
            self.found.types.append((module, type(module), attributes))
        if isinstance(module, torch.jit.ScriptModule):
            self._cannot(f"{self._called(name)} is a scripted module, whose attributes can change unseen")
        cls_wide = self._class(type(module), name or type(module).__name__)
        if len(attributes["_modules"]) > 1:
            self._order(attributes["_modules"])
            self._say(f"{prefix}(order)", ", ".join(attributes["_modules"]))
        counted = self.wide or cls_wide or not registered or not _COUNTS.isdisjoint(self.known)
        for store in ("_parameters", "_buffers"):
            if counted:
                self.found.sizes.append((attributes[store], len(attributes[store])))
                self._order(attributes[store])
            for key, value in attributes[store].items():
                path = prefix + key
                if key in self.may_ask:
                    self._say(f"{path} (asked for)", "there")
                if value is not None:
                    self._asked_of_tensor(value, path, attributes[store], key)
                if value is None:
                    self._item(attributes[store], key, None)
                    self._say(path, "None")
                elif not registered:
                    self._item(attributes[store], key, value)
                    self._visit(value, path)
                elif path not in self.bound:
                    self._item(attributes[store], key, value)
                    if wrapped.holds_others(value):
                        self._wrapper(value, path)
        if not registered:
            self.found.sizes += [(attributes[kind], 0) for kind in _HOOKS if not attributes[kind]]
            if any(attributes[kind] for kind in _HOOKS):
                self._cannot(f"{self._called(name)} is no registered submodule, and has hooks")
            self._item(holder, "training", module.training)
            self._say(f"{prefix}training", str(module.training))
            self.found.sizes.append((attributes["_modules"], len(attributes["_modules"])))
            for key, child in attributes["_modules"].items():
                self._item(attributes["_modules"], key, child)
                if child is not None:
                    self._visit(child, prefix + key)
        wide = self.wide or cls_wide
        mine = set(attributes) if wide else (self.known | self._mentions(type(module))).intersection(attributes)
        skipped = set(self._hooks.get(id(module), ()))
        for key in sorted(k for k in mine if isinstance(k, str)):
            if key in _MODULE_FIELDS or key.startswith("_planish") or key in skipped:
                continue
            self._item(holder, key, attributes[key])
            self._visit(attributes[key], prefix + key)
        if names.of_package(type(module)):
            self._extra({k: v for k, v in attributes.items() if k not in mine and k not in _MODULE_FIELDS and k not in skipped}, holder, prefix)
        for key in sorted(self.may_ask.difference(attributes)):
            if not hasattr(type(module), key) and not any(key in attributes[store] for store in _OF_MODULES):
                self._missing(holder, key)
                for store in _OF_MODULES:
                    self._missing(attributes[store], key)
        for hook_name, hook in self._hooks.get(id(module), {}).items():
            self._say(f"{prefix}{hook_name} (its hook)", f"{type(hook).__name__} {as_text(sorted(vars(hook).items()))}")
            self.found.items += [(vars(hook), k, v) for k, v in vars(hook).items()]
        for number, hook in enumerate(hooks.package_hooks(module) if registered else ()):
            self._say(f"{prefix}(hook {number})", f"{hook.__module__}.{hook.__qualname__}")
            self._visit(hook, f"{prefix}(hook {number})")
            for variable in outside.context_variables(hook):
                self._ask(self._variables.setdefault(id(variable), outside.whether_set(variable)), f"context variable {variable.name}")
        self._shadows(type(module), holder, attributes)
        bases = [names.dictionary_of(base) for base in type(module).__mro__ if base not in (object, nn.Module)]
        for key in sorted((self.known | self._mentions(type(module))).intersection(key for store in _OF_MODULES for key in attributes[store])):
            if key not in attributes:
                self._missing(holder, key)  # it would come before the module's own
            for place in bases:
                if key not in place:
                    self._missing(place, key)
        self.found.sizes.append((holder, len(attributes)))

    def _wrapper(self, tensor: Tensor, path: str) -> None:
        """A parameter or buffer that holds others: its class, and what it has beside them, on which its arithmetic may depend."""
        cls, attributes = type(tensor), vars(tensor)
        self._mark(tensor, path)
        self._say(path, f"a {names.short_name(cls)} {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}")
        self.found.wrappers.append(tensor)
        self.found.types.append((tensor, cls, attributes))
        self._class(cls, names.short_name(cls))
        inner = dict.fromkeys(tensor.__tensor_flatten__()[0])  # type: ignore[attr-defined]
        for key, value in sorted(attributes.items()):
            if key not in inner:
                self._item(attributes, key, value)
                self._visit(value, f"{path}.{key}")
            elif f"{path}.{key}" not in self.bound:
                self._item(attributes, key, value)
                if wrapped.holds_others(value):
                    self._wrapper(value, f"{path}.{key}")
        self.found.sizes.append((attributes, len(attributes)))

    def _asked_of_tensor(self, tensor: Tensor, path: str, holder: dict[Any, Any] | None = None, key: str = "") -> None:
        """What the code reads of a tensor that is not in its memory: attributes that somebody gave it, and whether it requires gradients."""
        attributes = vars(tensor)
        mine = sorted(attributes if self.wide else self.known.intersection(attributes)) if not wrapped.holds_others(tensor) else []  # _wrapper() looks at all
        asked = self.spelled.intersection(_OF_TENSORS)
        if not mine and not asked and self.of_tensors == frozenset():
            return
        if holder is not None:
            self._item(holder, key, tensor)
        if self.of_tensors != frozenset():
            self.found.sizes.append((attributes, len(attributes)))  # none appears
        for name in mine:
            self._item(attributes, name, attributes[name])
            self._visit(attributes[name], f"{path}.{name}")
        for name in sorted(asked):
            self._field(tensor, name, value := getattr(tensor, name))
            self._say(f"{path}.{name}", as_text(value) if type(value) in VALUES else "there")

    def _called(self, path: str) -> str:
        return f"'{path}'" if path else "the module"

    def _mentions(self, cls: type) -> frozenset[str]:
        """Attributes that torch's own code of a module's class reads."""
        return names.mentioned_by_torch(cls)

    def _shadows(self, cls: type, holder: dict[str, Any] | None, attributes: dict[str, Any]) -> None:
        """What the class has and the code reads must not appear on the object, before which it would come."""
        for base in cls.__mro__:
            if names.whose_class(base) != "own" or names.own_of_planish(base):
                continue
            for key in self.known.intersection(vars(base)):
                if key not in attributes and not key.startswith("__") and not isinstance(vars(base)[key], property):
                    self._missing(holder, key)

    def _mark(self, thing: Any, path: str) -> None:
        self._seen[(id(thing), bool(self._lenient))] = (path, thing)

    def _met(self, thing: Any) -> tuple[str, Any] | None:
        """Where a thing was met before. What was met inside a package alone is looked at again where it belongs to the user."""
        return self._seen.get((id(thing), False)) or (self._seen.get((id(thing), True)) if self._lenient else None)

    def _visit(self, value: Any, path: str) -> None:
        cls = type(value)
        if cls in VALUES or isinstance(value, enum.Enum | torch.finfo | torch.iinfo) or _is_numpy_number(cls):
            self._say(path, f"{names.short_name(cls)} {as_text(value)}" if isinstance(value, enum.Enum) else as_text(value))
            if self._at is not None and self._at[2] is value:
                self.found.places[path] = self._at
            if isinstance(value, enum.Enum):
                self._value_of_enum(value, path)
            return
        if isinstance(value, types.ModuleType):
            self._say(path, f"module {value.__name__}" if names.whose_module(value) != "own" else "module")
            self._python_module(value)
            return
        if cls is tuple and all(type(entry) in VALUES for entry in value):
            self._container(value, path)  # one that two places share is no other than two of the same values
            return
        if self._at is not None and self._at[2] is value:
            inner = value if isinstance(value, dict) else value.__globals__ if isinstance(value, types.FunctionType) else names.instance_dictionary(value)
            if inner is not None:
                self.found.owners.setdefault(id(inner), self._at)
        before = self._met(value)
        if before is not None:
            self._say(path, f"the same as '{before[0]}'")
            return
        self._mark(value, path)
        if isinstance(value, weakref.ProxyTypes):
            self._cannot(f"'{path}' is a weak proxy, behind which what it stands for can change unseen; use the object, or a weakref.ref")
        elif self._asks(value, path):
            return
        elif outside.variables(value) is not None:
            self._environment()
        elif isinstance(value, Tensor):
            self._tensor(value, path)
        elif isinstance(value, nn.Module):
            if id(value) in self._module_names:
                self._say(path, f"the module '{self._module_names[id(value)]}'")
            else:
                self._say(path, f"a {type(value).__name__}")
                self._module(value, path, registered=False)
        elif isinstance(value, types.FunctionType):
            self._function(value, path)
        elif isinstance(value, types.MethodType):
            self._say(path, f"a method {value.__func__.__name__}" if isinstance(value.__func__, types.FunctionType) else "a method")
            self._visit(value.__func__, f"{path}.__func__")
            self._visit(value.__self__, f"{path}.__self__")
        elif isinstance(value, type):
            self._say(path, f"class {names.short_name(value)}")
            if not self._lenient:
                self._class(value, names.short_name(value), construct=True)
                if not self.spelled.isdisjoint(_ASKS_CLASSES) and (question := outside.registered(value)) is not None:
                    self._ask(question, f"{path} (registered)")
                if value is decimal.Decimal:
                    self._ask(outside.DECIMAL_CONTEXT, outside.DECIMAL_CONTEXT.told)
        elif isinstance(value, functools.partial):
            self._say(path, "a partial")
            self._visit(value.func, f"{path}.func")
            self._container(value.args, f"{path}.args")
            self._container(value.keywords, f"{path}.keywords")
            self._visit_instance(value, path, plain=True)
        elif outside.is_cache(value):
            self._cache(value, path)
        elif isinstance(value, property | functools.cached_property | staticmethod | classmethod):
            self._say(path, f"a {cls.__name__}")
            for part in ("fget", "func", "__func__", "__wrapped__"):
                if callable(inner := getattr(value, part, None)):
                    self._visit(inner, path)
        elif callable(inner := (names.instance_dictionary(value) or {}).get("__wrapped__")):
            self._visit_instance(value, path)
            self._visit(inner, f"{path}.__wrapped__")
        elif isinstance(value, _ATOMS):
            self._say(path, f"{cls.__name__} {names.short_name(value)}")
        elif isinstance(value, types.MappingProxyType):
            self._say(path, "a mappingproxy")
            for inner in gc.get_referents(value):
                self._visit(inner, path)
        else:
            self._visit_instance(value, path)

    def _asks(self, function: Any, path: str, direct: bool = False) -> bool:
        """Notes a function that asks the process for something, where the user's own code has it: `direct`, or at this place."""
        if not callable(function) or (self._lenient and not direct):
            return False
        if word := outside.unseen(function):
            self._cannot(f"'{path}' reads {word}, which a program cannot follow; give forward what it needs as an argument")
            return True
        if function is decimal.getcontext or function is decimal.localcontext:
            self._ask(outside.DECIMAL_CONTEXT, outside.DECIMAL_CONTEXT.told)
        known, answer = outside.question(function)
        if known:
            self.found.answers.append((function, answer))
            self._say(f"{path}()", as_text(answer))
        return known

    def _ask(self, question: outside.Question, path: str) -> None:
        """Notes what is asked of the process at each call."""
        if (id(question), None) in self._pairs:
            return
        self._pairs.add((id(question), None))
        self.found.answers.append((question, answer := question()))
        self._say(path, as_text(answer))

    def _environment(self) -> None:
        """Environment variables: those that the user's code spells out, by value; all of them, by identity."""
        values = outside.variables(os.environ) or {}
        self.found.sizes.append((values, len(values)))
        for key, value in list(values.items()):
            self._item(values, key, value)
        for name in sorted(self.texts):
            if (value := values.get(outside.variable_key(name))) is not None:
                self._say(f"environment variable {name}", hashlib.sha256(value if isinstance(value, bytes) else value.encode()).hexdigest()[:12])

    def _cache(self, wrapper: Any, path: str) -> None:
        """A function with functools.lru_cache, and the results that it would give again. Which calls it has met is no part of what it is."""
        self._say(path, "a cache")
        self._visit(wrapper.__wrapped__, path)
        if self._lenient:
            return
        self._soft += 1
        for kept, key, held, result in outside.cached(wrapper):
            self._item(kept, key, held)
            self._visit(result, f"{path}{CACHED}{short_key(key)}]")
        self._soft -= 1

    def _value_of_enum(self, value: enum.Enum, path: str) -> None:
        """An Enum's members stay; methods of its class may read globals."""
        if names.whose_class(type(value)) not in ("own", "installed"):
            return
        if self._met(type(value)) is None:
            self._mark(type(value), path)
            self._class(type(value), names.short_name(type(value)))
        if self._met(value) is None:
            self._mark(value, path)
            attributes = vars(value)
            for key in sorted(k for k in self.known.intersection(attributes) if not k.startswith("_")):
                self._item(attributes, key, attributes[key])
                self._visit(attributes[key], f"{path}.{key}")

    def _tensor(self, tensor: Tensor, path: str) -> None:
        live = self._live.get(id(tensor))
        if live is not None:
            self._say(path, f"the tensor '{live}'")
            return
        if type(tensor) not in _PLAIN or tensor.layout is not torch.strided:
            self._cannot(f"'{path}' is a {type(tensor).__name__} ({tensor.layout}) that is no buffer, and can change unseen; register it as a buffer")
            return
        if tensor.is_inference():
            self._cannot(f"'{path}' was made in inference mode and counts no changes; make it outside, or register it as a buffer")
            return
        small = tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.numel() * tensor.element_size() <= COMPARED
        if isinstance(tensor, nn.Parameter) and not small:
            self._cannot(f"'{path}' is a parameter of no registered module, which .data can change unseen; register it (nn.ModuleList, nn.ParameterList)")
            return
        if self._lenient:
            return
        self._asked_of_tensor(tensor, path)
        content = tensor_digest(tensor) if tensor.device.type != "meta" else "meta"
        self._say(path, f"a tensor {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)} with contents {content}")
        self.found.versions.append((tensor, tensor._version))
        self.partly.append((path, tensor))

    def _container(self, value: Any, path: str) -> None:
        """The entries of a tuple, list, dictionary or set."""
        if length(value) > _MOST:
            self._cannot(f"'{path}' has {length(value)} entries, too many to compare at each call")
            return
        if isinstance(value, dict):
            if self._lenient and length(value) > 1000:
                return
            if not self._lenient:
                self.found.sizes.append((value, length(value)))
                self._say(path, f"a {type(value).__name__} with {as_keys(value)}")
                self._order(value)
            if isinstance(value, collections.defaultdict):
                self._field(value, "default_factory", value.default_factory)
                self._visit(value.default_factory, f"{path}.default_factory")
            for key, entry in list(dict.items(value)):
                if not self._key_is_plain(key, path):
                    return
                self._item(value, key, entry)
                self._visit(entry, f"{path}[{short_key(key)}]")
        elif isinstance(value, list):
            if self._lenient and length(value) > 1000:
                return
            self.found.sizes.append((value, length(value)))
            self._say(path, f"a {type(value).__name__} of {length(value)}")
            for index, entry in enumerate(list.__iter__(value)):
                self.found.elements.append((value, index, entry))
                self._visit(entry, f"{path}[{index}]")
        elif isinstance(value, tuple):
            self._say(path, f"a {type(value).__name__} of {length(value)}")
            for index, entry in enumerate(tuple.__iter__(value)):
                self._visit(entry, f"{path}[{index}]")
        else:
            entries = sorted((set if isinstance(value, set) else frozenset).__iter__(value), key=repr)
            self._say(path, f"a {type(value).__name__} of {len(entries)}")
            if isinstance(value, set):
                self.found.sizes.append((value, length(value)))
                self.found.members += [(value, entry) for entry in entries]
            for index, entry in enumerate(entries):
                if not self._key_is_plain(entry, path):
                    return
                self._visit(entry, f"{path}{{{index}}}")

    def _key_is_plain(self, key: Any, path: str) -> bool:
        """Whether a key is found by what never changes: a value, or its identity."""
        cls = type(key)
        if cls in VALUES or isinstance(key, enum.Enum | type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType):
            return True
        if isinstance(key, tuple | frozenset):
            return all(self._key_is_plain(part, path) for part in key)
        if isinstance(key, nn.Module | Tensor) or "__hash__" not in {name for base in cls.__mro__[:-1] for name in vars(base)}:
            return True
        self._cannot(f"'{path}' has a key of the class {cls.__name__}, which decides itself what it equals")
        return False

    def _visit_instance(self, value: Any, path: str, plain: bool = False) -> None:
        cls = type(value)
        home = names.whose_class(cls)
        container = isinstance(value, dict | list | tuple | set | frozenset)
        if container:
            self._container(value, path)
            if cls in (dict, list, tuple, set, frozenset):
                return
        elif not plain:
            base = next((k for k in (bool, int, float, complex, str, bytes) if isinstance(value, k)), None)
            self._say(path, f"a {cls.__name__}" + (f" {base.__repr__(value)}" if base is not None else ""))
        if isinstance(value, _UNSEEN_TYPES) or self._changes_unseen(value, cls, container):
            hint = "hold what forward needs of it as a number, a tensor or a buffer"
            self._cannot(f"'{path}' is a {cls.__module__}.{cls.__name__}, which can change unseen; {hint}")
            return
        if outside.reads_files(cls, self.spelled):
            self._cannot(f"'{path}' is a path, and forward may read what lies there, which a program cannot follow; give it as an argument")
        attributes = names.instance_dictionary(value)
        if home == "torch":
            self._object_of_torch(value, cls, attributes, path)
            return
        self.found.types.append((value, cls, attributes))
        if isinstance(value, BaseException):
            self._exception(value, path)
        if isinstance(value, decimal.Decimal) and not self._lenient:
            self._ask(outside.DECIMAL_CONTEXT, outside.DECIMAL_CONTEXT.told)
        if isinstance(value, weakref.ref) and (target := value()) is not None:
            self._visit(target, f"{path}()")
        holds_more = any(base.__module__ in _HOLD_MORE for base in cls.__mro__)
        wide = (home != "stdlib" and self._class(cls, names.short_name(cls))) or holds_more or self.wide
        if attributes is not None and not (home == "stdlib" and not holds_more and cls.__module__ not in ("types", "argparse", "functools")):
            self._attributes(cls, attributes, path, wide)
        self._slots(value, cls, path, wide)
        if home == "stdlib" and not container and attributes is None:
            made = outside.parts(value)
            for index, part in enumerate(made or ()):
                self._visit(part, f"{path} (part {index})")
            if made is not None and not self._lenient and (question := outside.compared(value)) is not None:
                self._ask(question, f"{path} (its parts)")

    def _exception(self, value: BaseException, path: str) -> None:
        """What compiled code keeps in an exception: its arguments, and what its class has beside them (errno, code, value)."""
        kept = {key for base in type(value).__mro__ for key, member in vars(base).items()
                if isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType) and key in self.spelled}  # fmt: skip
        for key in sorted({"args", *kept} - {"__dict__"}):
            self._field(value, key, entry := getattr(value, key))
            self._visit(entry, f"{path}.{key}")

    def _object_of_torch(self, value: Any, cls: type, attributes: dict[str, Any] | None, path: str) -> None:
        """A distribution, a transform: all that it holds."""
        package = f"{cls.__module__}.".split(".")[1]
        if attributes is None or self._lenient or package.startswith("_") or package in _MACHINERY or not package:
            return
        self.found.types.append((value, cls, attributes))
        for key in sorted(k for k in attributes if isinstance(k, str)):
            if type(getattr(cls, key, None)).__name__ == "lazy_property":
                continue  # computed of the others when it is asked for
            self._item(attributes, key, attributes[key])
            self._visit(attributes[key], f"{path}.{key}")

    def _attributes(self, cls: type, attributes: dict[str, Any], path: str, wide: bool) -> None:
        mine = set(attributes) if wide else self.known.intersection(attributes)
        for key in sorted(k for k in mine if isinstance(k, str)):
            self._item(attributes, key, attributes[key])
            self._visit(attributes[key], f"{path}.{key}")
        if names.of_package(cls) and not self._lenient:
            self._extra({k: v for k, v in attributes.items() if k not in mine}, attributes, f"{path}.")
        for key in sorted(self.may_ask.difference(attributes)):
            if not hasattr(cls, key):
                self._missing(attributes, key)
        self._shadows(cls, attributes, attributes)
        if not self._lenient:
            self.found.sizes.append((attributes, len(attributes)))

    def _extra(self, more: dict[str, Any], holder: dict[str, Any] | None, prefix: str) -> None:
        """Attributes of an object of a package's class that no code met so far mentions: helpers deep in the package may read them. They are
        compared, and what of them cannot be is no reason to decline."""
        for key, value in more.items():
            if not isinstance(key, str) or key.startswith("_planish"):
                continue
            self._item(holder, key, value)
            if type(value) in VALUES or isinstance(value, enum.Enum):
                self._visit(value, prefix + key)
                continue
            self._lenient += 1
            self._deep += _DEEP
            self._visit(value, prefix + key)
            self._deep -= _DEEP
            self._lenient -= 1

    def _slots(self, value: Any, cls: type, path: str, wide: bool) -> None:
        for base in cls.__mro__:
            if names.whose_class(base) in ("torch", "stdlib"):
                continue
            for key, member in list(vars(base).items()):
                if isinstance(member, types.MemberDescriptorType) and (wide or key in self.known):
                    try:
                        entry = member.__get__(value, cls)
                    except AttributeError:
                        self._cannot(f"'{path}.{key}' is an empty slot, which can be filled unseen")
                        continue
                    self._field(value, key, entry)
                    self._visit(entry, f"{path}.{key}")

    @staticmethod
    def _changes_unseen(value: Any, cls: type, container: bool) -> bool:
        """Whether an object has a state of compiled code, which leaves no trace."""
        for base in cls.__mro__[:-1]:
            top = base.__module__.partition(".")[0] if isinstance(base.__module__, str) else ""
            if top in _CHANGES_UNSEEN:
                return not _UNCHANGING_KINDS.intersection(b.__name__ for b in cls.__mro__)
            if names.whose_class(base) in ("own", "installed"):
                file = getattr(sys.modules.get(base.__module__), "__file__", "") if isinstance(base.__module__, str) else ""
                if file is None or str(file).endswith((".so", ".pyd")):
                    return True
        if names.whose_class(cls) not in ("own", "installed") or container or names.instance_dictionary(value) is not None:
            return False
        return not any("__slots__" in vars(base) for base in cls.__mro__)

    def _class(self, cls: type, path: str, construct: bool = False) -> bool:
        """What the code reads of a class, its bases included. True where its objects answer to names that cannot be told."""
        wide = self._answers_anything(cls, path)
        if names.whose_class(type(cls)) in ("own", "installed") and not self._lenient and (type(cls), False) not in self._classes:
            self._class(type(cls), names.short_name(type(cls)))
        if (cls, construct) in self._classes:
            return wide
        self._classes.add((cls, construct))
        earlier: list[dict[str, Any]] = []
        for base in cls.__mro__:
            if base is nn.Module:
                self._override(cls, base, earlier)
            if base in (object, nn.Module):
                continue
            home = names.whose_class(base)
            if names.own_of_planish(base):
                earlier.append(names.dictionary_of(base))
                continue
            if home in ("torch", "stdlib"):
                self._override(cls, base, earlier)
                if "forward" in vars(base) and issubclass(base, nn.Module):
                    self._item(names.dictionary_of(base), "forward", vars(base)["forward"])
                    self._forward_of_torch(vars(base)["forward"], path)
                continue
            place = names.dictionary_of(base)
            self._lenient += home == "installed"
            if home == "own":
                self._field(base, "__mro__", base.__mro__)
                self._of_kind(base, names.short_name(base))
            try:
                self._class_attributes(base, place, earlier, construct)
            finally:
                self._lenient -= home == "installed"
            earlier.append(place)
        return wide

    def _override(self, cls: type, base: type, earlier: list[dict[str, Any]]) -> None:
        """What the code, or torch's, reads of a class of torch's must not appear on those of the user's that derive from it."""
        if self._lenient or not issubclass(base, nn.Module):
            return
        read = self.known & _LOOKS if base is nn.Module else self.known | self._mentions(cls) | {"forward"}
        for key in read.intersection(vars(base)):
            for before in earlier:
                if key not in before:
                    self._missing(before, key)

    def _forward_of_torch(self, forward: Any, path: str) -> None:
        """The code of graphs that torch writes (GraphModule) is the user's; torch's own is known by its name."""
        own = isinstance(forward, types.FunctionType) and names.whose(forward.__code__.co_filename) == "own"
        if not own:
            self._functions_of_torch(forward)
        self._lenient += not own
        self._visit(forward, f"{path}.forward")
        self._lenient -= not own

    def _functions_of_torch(self, forward: Any) -> None:
        """What a forward of torch's calls of torch's modules (`F.gelu`), which some replace."""
        if not isinstance(forward, types.FunctionType):
            return
        read, known = names.reads(forward.__code__), forward.__globals__
        for module in [known[name] for name in sorted(read.loaded.intersection(known)) if isinstance(known[name], types.ModuleType)]:
            for key in sorted(read.names.intersection(vars(module))):
                if isinstance(vars(module)[key], types.FunctionType | types.BuiltinFunctionType):
                    self._item(vars(module), key, vars(module)[key])
                    self._visit(vars(module)[key], f"{module.__name__}.{key}")

    def _class_attributes(self, base: type, place: dict[str, Any], earlier: list[dict[str, Any]], construct: bool) -> None:
        for key in sorted(k for k in place if isinstance(k, str)):
            implicit = key.startswith("__") and key.endswith("__")
            constructs = construct and key in _CONSTRUCTS
            if key in names.SETUP and not constructs and not (key in _TEXT_OF and self.may_format and not issubclass(base, nn.Module)):
                continue
            if key == "forward" and issubclass(base, nn.Module):
                implicit = True
            if not (implicit or constructs or key in self.known):
                continue
            value = place[key]
            if isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType) or value is _AS_USUAL:
                continue
            self._item(place, key, value)
            for before in earlier if not self._lenient else ():
                if key not in before and key not in ("__call__", "__setattr__", "forward", "__reduce_ex__"):
                    self._missing(before, key)
            self._visit(value, f"{names.short_name(base)}.{key}")
        for key in ("__call__", "__getattr__", "__getattribute__") if not self._lenient else ():
            if key not in place:
                self._missing(place, key)

    def _of_kind(self, thing: Any, path: str) -> None:
        """What the code may ask of a class or a function itself, such as its name."""
        for key in _OF_KINDS:
            if key in self.spelled and (value := getattr(thing, key, None)) is not None:
                self._field(thing, key, value)
                self._visit(value, f"{path}.{key}")

    def _answers_anything(self, cls: type, path: str) -> bool:
        """Whether a class has its own way of finding attributes: then all of its objects' attributes count. Code that cannot be read is a problem."""
        for hook in ("__getattribute__", "__getattr__"):
            owner = next((base for base in cls.__mro__ if vars(base).get(hook, _AS_USUAL) is not _AS_USUAL), object)
            if owner in (object, nn.Module) or names.whose_class(owner) in ("torch", "stdlib"):
                continue
            if not isinstance(vars(owner)[hook], types.FunctionType):
                self._cannot(f"the class {cls.__name__} of '{path}' finds attributes by compiled code")
            return True
        return False

    # ---- code ----

    def _function(self, function: types.FunctionType, path: str) -> None:
        home = names.whose(function.__code__.co_filename)
        code = function.__code__
        if home in ("torch", "stdlib"):
            self._say(path, f"function {function.__module__}.{function.__qualname__}")
            if function in (os.getenv, os.getenvb) and not self._lenient:
                self._environment()
            self._closure(function, path)
            return
        self._lenient += home == "installed"
        try:
            self._say(path, f"function {names.short_name(function)} with code {names.digest(code, function.__doc__)}")
            if home == "installed" and self._deep >= _DEEP:
                return
            (self.found.functions if home == "own" else self.found.packaged)[path] = function
            if home == "own":
                for name in ("__code__", "__defaults__", "__kwdefaults__"):
                    self._field(function, name, getattr(function, name))
                self._of_kind(function, path)
            self._code(function, path)
            for index, value in enumerate(function.__defaults__ or ()):
                self._visit(value, f"{path} (default {index})")
            for name, value in (function.__kwdefaults__ or {}).items():
                self._item(function.__kwdefaults__, name, value)
                self._visit(value, f"{path} (default {name})")
            self._closure(function, path)
            attributes = vars(function)
            for key in sorted(self.known.intersection(attributes)):
                self._item(attributes, key, attributes[key])
                self._visit(attributes[key], f"{path}.{key}")
        finally:
            self._lenient -= home == "installed"

    def _closure(self, function: types.FunctionType, path: str) -> None:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            if name != "__class__":
                self._field(cell, "cell_contents", value)
                self._visit(value, f"{path} ({name})")

    def _code(self, function: types.FunctionType, path: str) -> None:
        code, known = function.__code__, function.__globals__
        read = names.reads(code)
        self.names |= read.names
        if self._lenient:
            self._code_of_package(read, known)
            return
        self.own_names |= read.names
        for name in sorted(_OF_MEMORY & read.names - self.memory_asked.keys()):
            self.memory_asked[name] = names.line_of(code, name)
        self.texts |= {text for text in read.texts if text.isidentifier()}
        self.formats = self.formats or read.formats
        self.identities = self.identities or read.identities
        self.asked |= read.asked
        self.others |= read.asked_of_others
        self.files.add(code.co_filename)
        hook = function.__name__ in ("__getattr__", "__getattribute__")
        self.anything = self.anything or (read.as_hook if hook else read.anything)
        if read.everything:
            self._cannot(f"{path} uses {read.everything}: what it reads cannot be told")
        for name in sorted(read.loaded):
            if name in known:
                self._item(known, name, known[name])
                self._global(known[name], name)
            else:
                self._missing(known, name)  # a builtin, until somebody defines it
                if name in vars(builtins):
                    self._item(vars(builtins), name, vars(builtins)[name])
                    self._asks(vars(builtins)[name], name)
        by_text = read.texts if "import_module" in read.names or "__import__" in read.loaded else set()
        for name in sorted(read.imported | by_text):
            package = known.get("__package__")
            for full in (name, f"{package}.{name}" if package else name):
                if full in sys.modules:
                    self._python_module(sys.modules[full])

    def _code_of_package(self, read: Any, known: dict[str, Any]) -> None:
        """Of what installed code loads: functions and objects, and functions of torch. Its classes and modules stay what they are, and its objects
        are watched whole (`_extra`), so that what it reads by names that are made when it runs counts too."""
        for name in sorted(read.loaded.intersection(known)):
            value = known[name]
            if isinstance(value, types.ModuleType):
                if names.whose(getattr(value, "__file__", None)) == "torch":
                    self._python_module(value)
            elif not isinstance(value, type):
                self._item(known, name, value)
                self._deep += 1
                self._global(value, name)
                self._deep -= 1

    def _global(self, value: Any, name: str) -> None:
        if isinstance(value, types.FunctionType | type):
            if self._met(value) is None:
                self._visit(value, names.short_name(value))
        else:
            self._visit(value, f"global {name}")

    def _python_module(self, module: types.ModuleType) -> None:
        """What is read of a module of Python: of torch's and the standard library's by identity alone."""
        if (id(module), False) in self._seen:
            return
        self._seen[(id(module), False)] = (module.__name__, module)
        home = names.whose_module(module)
        place = vars(module)
        if not self._lenient:
            self._asked_of_module(module, home, place)
        lenient = home != "own"
        self._lenient += lenient
        try:
            for key in sorted(self.known.intersection(place)):
                value = place[key]
                if home == "installed" and isinstance(value, type | types.ModuleType):
                    continue
                if home == "stdlib" or (home == "torch" and (isinstance(value, type) or not (callable(value) or isinstance(value, types.ModuleType)))):
                    continue
                self._item(place, key, value)
                self._deep += lenient
                self._visit(value, f"global {key}" if home == "own" else f"{module.__name__}.{key}")
                self._deep -= lenient
        finally:
            self._lenient -= lenient

    def _asked_of_module(self, module: types.ModuleType, home: str, place: dict[str, Any]) -> None:
        """Of a module that the user's code reads by itself: settings, the environment, and a way of its own to find names."""
        for key in sorted(self.spelled.intersection(place)) if home in ("torch", "stdlib") else ():
            self._asks(place[key], f"{module.__name__}.{key}", direct=True)
        if home == "torch":
            for key in sorted(self.spelled.intersection(place)):
                inner = place[key]
                if isinstance(inner, types.ModuleType) and (id(inner), None) not in self._pairs and names.whose_module(inner) == "torch":
                    self._pairs.add((id(inner), None))
                    self._asked_of_module(inner, home, vars(inner))
        if home == "torch" and type(module) is not types.ModuleType:
            for key in sorted(self.spelled):
                if (getter := outside.flag(module, key)) is not None:
                    self.found.answers.append((getter, getter()))
                    self._say(f"{module.__name__}.{key}", as_text(getter()))
        if module is decimal:
            self._ask(outside.DECIMAL_CONTEXT, outside.DECIMAL_CONTEXT.told)
        if module is os and not self.spelled.isdisjoint(("environ", "environb", "getenv", "getenvb")):
            self._environment()
        if module is sys and "argv" in self.spelled:
            self._item(place, "argv", sys.argv)
            self._visit(sys.argv, "sys.argv")
        if module is sys and "modules" in self.spelled:
            self._cannot("forward reads sys.modules, and what it finds there cannot be told; import what it needs at the top of its file")
        if home == "own" and isinstance(finder := place.get("__getattr__"), types.FunctionType):
            self._item(place, "__getattr__", finder)
            self._visit(finder, f"{module.__name__}.__getattr__")


def _is_numpy_number(cls: type) -> bool:
    return cls.__module__ == "numpy" and any(base.__name__ == "generic" for base in cls.__mro__)
