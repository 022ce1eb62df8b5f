"""Loads what was shipped: a folder as a module of its own, or programs onto a live module.

`load(folder)` gives a `ModelNew` as the folder's own module.py would. `load(folder, module)` puts the program in front of the
forward of a module that the caller already has (the form that `planish.optimize(module, inputs)` ships). A module may carry several
programs, one for each kind of call: they are asked in turn, the newest first.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, overload

import torch
from torch import nn

from planish import executor
from planish.errors import PlanishError
from planish.ship import context, guards
from planish.ship.archive import Shipped
from planish.ship.reach import REMEDY

M = TypeVar("M", bound=nn.Module)

#: What becomes of a call that no program answers.
FALLBACKS = ("original", "compile")


class SourceOnly(importlib.machinery.SourceFileLoader):
    """Compiles what it loads: bytecode beside it is nothing that anybody has looked at."""

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError(path)


def load_module_file(path: Path, prefix: str = "planish_shipped", given: Mapping[str, Any] | None = None) -> ModuleType:
    """Imports a Python file under a name that depends on its path only, so that what it defines can be pickled. `given`: names that it finds there,
    until it defines them itself.

    Raises whatever the file raises."""
    name = f"{prefix}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path, loader=SourceOnly(name, str(path)) if path.suffix == ".py" else None)
    if spec is None or spec.loader is None:
        raise PlanishError("not_python", f"{path}: cannot be imported as Python", "give a .py file or a shipped folder")
    module = importlib.util.module_from_spec(spec)
    vars(module).update({key: value for key, value in (given or {}).items() if not key.startswith("__")})
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@overload
def load(path: str | Path, module: None = None, *, fallback: str = "original", foreign: bool = False) -> nn.Module: ...
@overload
def load(path: str | Path, module: M, *, fallback: str = "original", foreign: bool = False) -> M: ...
def load(path: str | Path, module: nn.Module | None = None, *, fallback: str = "original", foreign: bool = False) -> nn.Module:
    """The shipped model at `path`; with a `module`, that same module with the program attached (changed in place).

    `foreign`: a folder may ship a solution, Python that a coder wrote; it is imported, with your rights, only where you
    say so. `fallback` says what a call runs that the program was not made for: the module's `original` code, or that under torch.compile
    (`compile`; for a module given here). With a module that is not the one that the
    program was made for, in its code or in anything that its forward can reach, it raises another_module.

    Raises PlanishError: not_shipped, altered, already_attached, another_module, not_exportable, bad_request, foreign_code."""
    if not isinstance(path, str | os.PathLike):
        raise PlanishError("bad_request", f"{type(path).__name__} is no path of a folder", "the folder comes first: planish.load(folder, module)")
    folder = Path(path).resolve()
    if not (folder / "ship.json").exists():
        raise PlanishError("not_shipped", f"{folder}: no shipped folder (it has no ship.json)", "give the folder that `planish optimize --out` wrote")
    _refuse_altered(folder)
    if (solution := solution_in(folder)) is not None:
        return _load_solution(folder, solution, module, foreign)
    if module is not None:
        return attach(folder, module, fallback)
    if fallback != "original":
        raise PlanishError("bad_request", "fallback= needs the module", "load it with planish.load(folder, module, fallback=...)")
    if not (folder / "reference.py").exists():
        raise PlanishError("not_shipped", f"{folder}: made from a live module", "call planish.load(folder, module) with that module")
    loaded: nn.Module = load_module_file(folder / "module.py").load()
    return loaded


def _refuse_altered(folder: Path) -> None:
    """What is imported is what was shipped: a file that somebody edited would run unproved. (Who also writes new digests is found by `planish verify`
    alone.) Libraries, program and constants are compared by Shipped, which leaves the original running. Raises PlanishError(altered, not_shipped)."""
    try:
        manifest = json.loads((folder / "ship.json").read_bytes())
        if manifest.get("schema") != "planish.ship/1":
            raise ValueError(f"its schema is {manifest.get('schema')!r}, expected 'planish.ship/1'")
        listed = manifest.get("files")
        if listed is None:  # written by hand: nothing is said of what lies there
            return
        digests = [(str(name), str(digest)) for name, digest in listed.items()]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise PlanishError("not_shipped", f"{folder}: ship.json cannot be read: {error!r}", "ship it again") from error
    for name, digest in digests:
        if not name.endswith(".py"):
            continue
        try:
            file = folder / name
            same = file.is_file() and file.resolve().is_relative_to(folder) and hashlib.sha256(file.read_bytes()).hexdigest() == digest
        except (OSError, ValueError) as error:
            raise PlanishError("altered", f"{folder}: {name!r} cannot be read: {error}", "ship it again") from error
        if not same:
            raise PlanishError("altered", f"{folder}: {name} is not the file that was shipped", "ship it again, or give the folder as it was")
    known = {name for name, _ in digests} | {"ship.json"}
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".py", ".so") and file.relative_to(folder).as_posix() not in known:
            raise PlanishError("altered", f"{folder}: {file.relative_to(folder)} was added", "remove it, or ship it again")


def solution_in(folder: Path) -> Path | None:
    """The file of a folder that ships a solution; None where it ships anything else, or is no shipped folder."""
    try:
        shipped = json.loads((folder / "ship.json").read_text()).get("mode") == "solution"
    except (OSError, ValueError, AttributeError):
        return None
    return folder / "solution.py" if shipped else None


def _load_solution(folder: Path, solution: Path, module: nn.Module | None, foreign: bool) -> nn.Module:
    if module is not None:
        raise PlanishError("bad_request", f"{folder}: ships a solution, which is a module of its own", "load it without a module")
    if not foreign:
        raise PlanishError(
            "foreign_code",
            f"{solution}: Python that a coder wrote; it ran in Planish's sandbox alone",
            "read it, then call planish.load(folder, foreign=True), which imports it with your rights",
        )
    neighbours = folder / "neighbours"
    if neighbours.is_dir() and str(neighbours) not in sys.path:
        sys.path.append(str(neighbours))
        loaders: Any = (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES), (SourceOnly, [".py"])
        for place in (neighbours, *(path for path in neighbours.rglob("*") if path.is_dir())):
            sys.path_importer_cache[str(place)] = importlib.machinery.FileFinder(str(place), *loaders)
    reference = load_module_file(folder / "reference.py")
    made: Any = load_module_file(solution, "planish_solution", vars(reference)).ModelNew
    args, kwargs = constructor_arguments(getattr(reference, "get_init_inputs", list)())
    loaded: nn.Module = made(*args, **kwargs)
    return loaded


def constructor_arguments(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What `get_init_inputs` gives, as arguments: a list, a dict, a list and a dict, or a single one."""
    if isinstance(given, dict):
        return (), given
    if not isinstance(given, list | tuple):
        return (given,), {}
    if len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict):
        return tuple(given[0]), dict(given[1])
    return tuple(given), {}


def attach(folder: Path, module: nn.Module, fallback: str = "original") -> nn.Module:
    """Gives `module` a class that asks the program first. The class keeps the original's name; copies and pickles work."""
    if fallback not in FALLBACKS:
        raise PlanishError("bad_request", f"there is no fallback '{fallback}'", f"choose from {', '.join(FALLBACKS)}")
    folders: tuple[str, ...] = getattr(type(module), "_planish_folders", ())
    if str(folder) in folders:
        raise PlanishError("already_attached", f"{type(module).__name__} already has this program", "call planish.detach(module) first")
    try:
        shipped = guards.Shipped(guards.Folder(folder), executor)
    except (OSError, ValueError, KeyError) as error:
        raise PlanishError("not_shipped", f"{folder}: {error}", "ship it again") from error
    original = getattr(type(module), "_planish_original", type(module))
    attachment = guards.attach(shipped, module, original)
    if attachment is None:  # eager itself is shipped
        return module
    _refuse_another(folder, shipped, module, attachment)
    others = attachments(module)
    attachment.quiet = bool(others)
    # Behind the class's back: this is no change of the module that programs are to notice.
    module.__dict__.update(_planish=attachment, _planish_others=tuple(others))
    if fallback == "compile":
        module.__dict__["_planish_compiled"] = guards.Compiled(original, "compile")
    module.__class__ = _attached_class(original, (str(folder), *folders))
    return module


def add(attachment: Any, module: M) -> M:
    """Gives `module` something that is asked behind all its programs, and before its own code."""
    others = attachments(module)
    module.__dict__.update(_planish=(others or [attachment])[0], _planish_others=(*others[1:], *([attachment] if others else ())))
    original: type[nn.Module] = getattr(type(module), "_planish_original", type(module))
    module.__class__ = _attached_class(original, getattr(type(module), "_planish_folders", ()))  # type: ignore[assignment]
    return module


def _refuse_another(folder: Path, shipped: Shipped, module: nn.Module, attachment: Any) -> None:
    """A program is for the module that it was made of: the same code, and the same values of all that its forward can reach. Raises PlanishError
    (another_module, not_exportable)."""
    if shipped.mode != "program":
        return
    another = attachment.another
    if "modules" not in shipped.manifest:
        if not (folder / "reference.py").exists():
            another = "the folder does not say of what it was made"
        elif not attachment.reason:
            another = guards.unlike(guards.configuration(_reference(folder)), guards.configuration(module))
    if another:
        hint = "load it onto a module of the same code and settings, or optimise this one"
        raise PlanishError("another_module", f"{folder}: made for another module: {another}", hint)
    if attachment.reason:
        raise PlanishError("not_exportable", f"{folder}: {attachment.reason}", REMEDY)


def _reference(folder: Path) -> nn.Module:
    """The model of a folder that was made from a task file, as the task constructs it. The caller's random numbers go on from where they were."""
    from planish.capture.variation import INIT_SEED  # which imports this package

    reference = load_module_file(folder / "module.py")._reference
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(INIT_SEED)
        args, kwargs = constructor_arguments(getattr(reference, "get_init_inputs", list)())
        torch.manual_seed(INIT_SEED)
        made: nn.Module = reference.Model(*args, **kwargs)
    return made


def detach(module: M) -> M:
    """Takes all programs off again, and gives the module back. One without a program stays as it is."""
    original = getattr(type(module), "_planish_original", None)
    if original is not None:
        module.__class__ = original
        for name in [name for name in vars(module) if name.startswith("_planish")]:
            del module.__dict__[name]
    return module


def attachments(module: nn.Module) -> list[Any]:
    """The programs of a module, in the order in which they are asked."""
    known = vars(module)
    return [a for a in (known.get("_planish"), *known.get("_planish_others", ())) if a is not None]


def _by_the_c_form(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of the first program that has such a form for the call, or FALLBACK."""
    if torch.compiler.is_compiling():
        return guards.FALLBACK
    known = module.__dict__
    for program in (known.get("_planish"), *known.get("_planish_others", ())):
        fast = getattr(program, "fast", None)
        if fast is not None:
            result = fast(module, args, kwargs)
            if result is not guards.FALLBACK:
                return result
    return guards.FALLBACK


def _by_a_program(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of the first program that is made for the call, or FALLBACK. The module's hooks are the caller's matter."""
    if torch.compiler.is_compiling():
        return guards.FALLBACK
    for program in attachments(module):
        result = program(module, args, kwargs)
        if result is not guards.FALLBACK:
            return result
    return guards.FALLBACK


def _programs_before(asked: Callable[..., Any]) -> Callable[..., Any]:
    """A method that gives a compiled form of a module, of which calls that a program is made for are the program's."""

    @functools.wraps(asked)
    def compiled_call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        compiled = asked(self, *args, **kwargs)

        @functools.wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = _by_the_c_form(self, args, kwargs)
            if result is guards.FALLBACK and not context.has_hooks(self):
                result = _by_a_program(self, args, kwargs)
            return compiled(*args, **kwargs) if result is guards.FALLBACK else result

        return call

    return compiled_call


_classes: dict[tuple[type, tuple[str, ...]], type] = {}


def _attached_class(original: type[nn.Module], folders: tuple[str, ...]) -> type[nn.Module]:
    key = (original, folders)
    if key in _classes:
        return _classes[key]

    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        result = _by_the_c_form(self, args, kwargs)
        return original.__call__(self, *args, **kwargs) if result is guards.FALLBACK else result

    @functools.wraps(original.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        result = _by_a_program(self, args, kwargs)
        if result is not guards.FALLBACK:
            return result
        compiled = self.__dict__.get("_planish_compiled")
        if compiled is not None and not torch.compiler.is_compiling():
            return compiled(self, args, kwargs)
        return original.forward(self, *args, **kwargs)

    def set_attribute(self: nn.Module, name: str, value: Any) -> None:
        if name != "training":
            for planish in attachments(self):
                planish.changed(self, name, value)
        original.__setattr__(self, name, value)

    def reduce(self: nn.Module, protocol: Any) -> Any:
        return _unpickle, (original, folders), dict(vars(self))

    body = {"__call__": call, "forward": forward, "__setattr__": set_attribute, "__reduce_ex__": reduce, "_planish_folders": folders,
            "_planish_original": original, "__module__": original.__module__, "__qualname__": original.__qualname__,
            "__doc__": original.__doc__}  # fmt: skip
    if callable(asked := getattr(original, "get_compiled_call", None)):
        # How `generate` of transformers asks for the model compiled for steps of one shape, which it does by itself on a GPU.
        body["get_compiled_call"] = _programs_before(asked)
    made = type(original.__name__, (original,), body)
    _classes[key] = made
    return made


def _unpickle(original: type[nn.Module], folders: tuple[str, ...]) -> nn.Module:
    """An empty module of the attached class; its state follows. A folder that is gone leaves the original code running."""
    for folder in folders:
        if folder not in guards.shipped and (Path(folder) / "ship.json").exists():
            guards.Shipped(guards.Folder(Path(folder)), executor)
    attached = _attached_class(original, folders)
    module: nn.Module = attached.__new__(attached)
    return module
