"""What a piece of Python code can read: names, globals, constants; whose it is; and a digest by which it is known again.

Copied into every shipped folder and file beside guards.py: torch and the standard library alone.
"""

from __future__ import annotations

import ast
import contextlib
import contextvars
import dis
import functools
import gc
import hashlib
import importlib.metadata
import inspect
import itertools
import json
import os
import re
import sys
import sysconfig
import textwrap
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

_FOLDERS = {
    "torch": (os.path.dirname(torch.__file__) + os.sep,),
    "stdlib": tuple({os.path.realpath(sysconfig.get_path(p)) + os.sep for p in ("stdlib", "platstdlib")} | {sysconfig.get_path("stdlib") + os.sep}),
    "installed": tuple({sysconfig.get_path(p) + os.sep for p in ("purelib", "platlib")}),
}
#: What asks for attributes by names that no code spells out. Whoever mentions one may read anything of an object it holds.
_READS_ANY = {"vars", "__dict__", "attrgetter", "methodcaller", "__getattribute__", "asdict", "astuple", "deepcopy", "__getstate__", "__reduce_ex__", "dir"}
#: What makes names of text: nothing can be told of it.
_READS_ALL = {"eval", "exec", "globals", "locals", "_getframe", "currentframe"}

#: What calls `__repr__`, `__str__`, `__format__` or `__hash__`.
_FORMATS = {"str", "repr", "format", "hash", "ascii", "join", "print"}
_FORMATTING = {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"}
_FIELDS = re.compile(r"\{([^{}:!]+)")  # of a text for str.format
_WORDS = re.compile(r"[^\W\d]\w*")

#: Never part of a call; `__init__` is, where a class is called.
SETUP = frozenset(
    """__init__ __new__ __post_init__ __setstate__ __repr__ __str__ extra_repr reset_parameters _load_from_state_dict __init_subclass__ __del__
    __dir__ __doc__ __module__ __qualname__ __dict__ __weakref__ __annotations__ __firstlineno__ __static_attributes__ __reduce__ __reduce_ex__
    __getstate__ __deepcopy__ __copy__ __slots__ __hash__ __dataclass_params__ __match_args__ __parameters__ __orig_bases__ __abstractmethods__
    _abc_impl __dataclass_fields__ __annotate__ __annotate_func__ __annotations_cache__ __slotnames__ __type_params__ __final__""".split()
)
_MADE_BY_A_STATEMENT = 1 << 9  # in a class's flags: it lies on the heap
_KINDS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR  # of functions


#: While code of editable packages is taken for the user's: the files of theirs that were asked for. None: it is taken for installed.
_edited: contextvars.ContextVar[set[str] | None] = contextvars.ContextVar("_edited", default=None)


@contextlib.contextmanager
def editable_is_own() -> Iterator[set[str]]:
    """Within it, what `pip install --editable` points to is the user's, who may be working on it. The set says which of its files were asked for."""
    met: set[str] = set()
    token = _edited.set(met)
    try:
        yield met
    finally:
        _edited.reset(token)


def whose(file: str | None) -> str:
    """`torch`, `stdlib`, `installed` (another package) or `own` (the user's), by the file that code or a module comes from."""
    home = _home(file)
    if home != "editable":
        return home
    met = _edited.get()
    if met is None:
        return "installed"
    met.add(str(file))
    return "own"


@functools.cache
def _home(file: str | None) -> str:
    if not file or file.startswith("<"):
        return "stdlib" if file and file.startswith("<frozen") else "own"
    if "/site-packages/" in file or "/dist-packages/" in file or file.startswith(_FOLDERS["installed"]):
        return "torch" if file.startswith(_FOLDERS["torch"]) else "installed"
    for owner in ("torch", "stdlib"):
        if file.startswith(_FOLDERS[owner]):
            return owner
    folder, part = os.path.split(file)
    while part:
        if part in _packages_in(folder):
            return "installed"
        folder, part = os.path.split(folder)
    return "editable" if (_package_of(file) + os.sep).startswith(_editable_roots()) else "own"


def _package_of(file: str) -> str:
    """The folder of the outermost package that a file belongs to; empty of a script."""
    folder, found = os.path.dirname(os.path.realpath(file)), ""
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, found = os.path.dirname(folder), folder
    return found


@functools.cache
def _editable_roots() -> tuple[str, ...]:
    """The projects that stand in for installed packages (`pip install --editable`): packages inside them are such, scripts beside those are not."""
    found: set[str] = set()
    for distribution in importlib.metadata.distributions():
        try:
            told = json.loads(distribution.read_text("direct_url.json") or "{}")
            if told.get("dir_info", {}).get("editable"):
                found.add(os.path.realpath(urllib.parse.unquote(urllib.parse.urlsplit(told["url"]).path)) + os.sep)
        except (OSError, ValueError, KeyError, AttributeError):
            continue
    for folder in sys.path:
        try:
            links = [entry.path for entry in os.scandir(folder or ".") if entry.name.endswith(".egg-link")]  # of older versions of pip
            found.update(os.path.realpath(text.splitlines()[0]) + os.sep for link in links if (text := _text_of(link)))
        except OSError:
            continue
    return tuple(sorted(found))


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


@functools.cache
def _packages_in(folder: str) -> frozenset[str]:
    """What was installed into the folder (`pip install --target`), by the lists of files that lie beside it: what somebody is working on stands in none."""
    found: set[str] = set()
    try:
        for name in os.listdir(folder):
            if name.endswith(".dist-info"):
                with open(os.path.join(folder, name, "RECORD"), encoding="utf-8") as record:
                    found.update(re.split("[/,]", line, maxsplit=1)[0] for line in record)
    except (OSError, UnicodeDecodeError):
        pass
    return frozenset(found - {"..", ""})


def whose_module(module: Any) -> str:
    """The same of a module of Python. One without a file is compiled into the interpreter, or somebody made it by hand."""
    if type(module) is not ModuleType:
        return whose_class(type(module))
    file = _told(module, "__file__")
    made = file is None and _told(module, "__spec__") is None and str(_told(module, "__name__")).partition(".")[0] not in sys.stdlib_module_names
    return "own" if made else whose(file) if file else "stdlib"


def _told(module: Any, key: str) -> Any:
    """What a module itself says: one with a `__getattr__` of its own may answer to any name, or raise what it likes."""
    return getattr(module, "__dict__", {}).get(key)


def whose_class(cls: type) -> str:
    """The same of a class, by the module that it says it is from."""
    name = cls.__module__ if isinstance(cls.__module__, str) else ""
    top = name.partition(".")[0]
    module = sys.modules.get(name)
    file = _told(module, "__file__")
    if top == "torch":
        return "torch"
    if name == "__main__":
        return "own"  # also in another process, whose own main program is a file of an installed package
    if top in sys.stdlib_module_names:
        # A file of the user's may have such a name (test.py); what is executed in a namespace without one says that it is a builtin.
        made_by_a_statement = bool(cls.__flags__ & _MADE_BY_A_STATEMENT) and _told(module, cls.__name__) is not cls
        return whose(file) if file is not None else "own" if (made_by_a_statement and name in ("builtins", "")) or module is None else "stdlib"
    if module is not None and file is None and _told(module, "__spec__") is not None:
        return "installed"  # compiled into something
    return whose(file)


@dataclass(frozen=True)
class Reads:
    """What code, with the code inside it, mentions."""

    names: frozenset[str]  #: of attributes, and texts that could be such
    loaded: frozenset[str]  #: of globals
    asked: frozenset[str]  #: attributes that may be absent: getattr and hasattr ask for them, `try` catches it, or a pattern
    asked_of_others: frozenset[str]  #: those among them that are asked of something else than a method's own object
    imported: frozenset[str]  #: modules imported inside
    anything: bool  #: attributes by names that are made when it runs
    as_hook: bool  #: the same where it is a `__getattr__`, to whose object everything is known to matter, and whose callers spell out names
    everything: str  #: a word such as eval, with its line, or nothing
    texts: frozenset[str]  #: whole constants
    formats: bool  #: what makes a text of an object, or its hash, and so calls methods that no name stands for
    identities: bool  #: `a is b` of two variables


_known: dict[CodeType, Reads] = {}


def reads(code: CodeType) -> Reads:
    """What a code object mentions. Cached."""
    found = _known.get(code)
    if found is None:
        found = _known[code] = _read(code)
    return found


def _read(code: CodeType) -> Reads:
    inner = [reads(c) for c in code.co_consts if isinstance(c, CodeType)]
    loaded, asked, others, imported = set(), set(), set(), set()
    parts, more = set(), set()  # of patterns
    anything, everything, as_hook = bool(_READS_ANY.intersection(code.co_names)), "", False
    own_name = code.co_varnames[1] if code.co_argcount > 1 else ""
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    own_object = _own_object(code)
    for name, receiver in _tried(code, instructions):
        asked.add(name)
        others.update([name] if receiver != own_object or not own_object else [])
    for at, instruction in enumerate(instructions):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            loaded.add(word := str(instruction.argval))
            if word in ("getattr", "hasattr"):
                name, value = _asked_for(instructions, at)
                if name == "constant":
                    asked.add(value)
                    others.update([value] if _receiver(instructions, at) != own_object or not own_object else [])
                else:
                    anything = True
                    as_hook = as_hook or name != "variable" or value != own_name
            if word in _READS_ALL and not everything:
                everything = f"{word} at {os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        elif instruction.opname == "IMPORT_NAME":
            imported.add(str(instruction.argval))
        elif instruction.opname == "MATCH_CLASS":  # the names lie in a tuple before it; places of a pattern are `__match_args__`
            parts |= set(before.argval) if (before := instructions[at - 1]).opname == "LOAD_CONST" else set()
            anything = anything or bool(instruction.arg)
            more.add("isinstance")  # which it is
    asked |= parts
    others |= parts
    constants = frozenset(c for c in code.co_consts if isinstance(c, str) and len(c) < 200)
    texts = {part for c in constants for part in c.split(".") if part.isidentifier()}
    texts.update(word for c in constants for field in _FIELDS.findall(c) for word in _WORDS.findall(field))
    formats = not _FORMATS.isdisjoint(code.co_names) or any(i.opname in _FORMATTING for i in instructions)
    return Reads(
        frozenset(texts.union(code.co_names, parts, more, *(r.names for r in inner))),
        frozenset(loaded.union(*(r.loaded for r in inner))),
        frozenset(asked.union(*(r.asked for r in inner))),
        frozenset(others.union(*(r.asked_of_others for r in inner))),
        frozenset(imported.union(*(r.imported for r in inner))),
        anything or any(r.anything for r in inner),
        as_hook or any(r.anything for r in inner),
        everything or next((r.everything for r in inner if r.everything), ""),
        constants.union(*(r.texts for r in inner)),
        formats or any(r.formats for r in inner),
        _compares_identities(instructions) or any(r.identities for r in inner),
    )


def line_of(code: CodeType, name: str) -> str:
    """Where code, or code inside it, spells out an attribute, as `task.py:12`; where the code begins, if no instruction says."""
    for instruction in dis.get_instructions(code):
        if instruction.argval == name and instruction.positions is not None and instruction.positions.lineno:
            return f"{os.path.basename(code.co_filename)}:{instruction.positions.lineno}"
    inner = next((c for c in code.co_consts if isinstance(c, CodeType) and name in reads(c).names), None)
    return line_of(inner, name) if inner is not None else f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def _compares_identities(instructions: list[Any]) -> bool:
    """Whether two variables are compared by what they are, as with `a is b`."""
    for at, instruction in enumerate(instructions):
        loads = [i.opname for i in instructions[max(0, at - 2) : at]]
        if instruction.opname == "IS_OP" and loads and (loads[-1].count("LOAD_FAST") == 2 or all(name.startswith("LOAD_FAST") for name in loads)):
            return True
    return False


def _own_object(code: CodeType) -> str:
    """What a method calls its own object; empty of other functions."""
    holder = code.co_qualname.rpartition(".")[0]
    first = code.co_varnames[0] if code.co_argcount else ""
    return first if first in ("self", "cls") and holder and not holder.endswith("<locals>") else ""


def _receiver(instructions: list[Any], at: int) -> str:
    """The variable that the getattr loaded at `at` asks; empty for anything else than a variable."""
    for step, following in itertools.pairwise(instructions[at + 1 : at + 5]):
        if step.opname not in ("PUSH_NULL", "NOP"):
            return str(step.argval) if step.opname.startswith("LOAD_FAST") and following.opname == "LOAD_CONST" else ""
    return ""


def _tried(code: CodeType, instructions: list[Any]) -> Iterator[tuple[str, str]]:
    """Attributes that are read where an exception is caught, each with the variable that it is read of (or nothing)."""
    at = {i.offset: k for k, i in enumerate(instructions)}
    suppresses = "suppress" in code.co_names
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        handler = at.get(entry.target)
        if handler is None or instructions[handler].opname != "PUSH_EXC_INFO":
            continue
        if instructions[handler + 1].opname == "WITH_EXCEPT_START" and not suppresses:
            continue
        for k, step in enumerate(instructions):
            if entry.start <= step.offset < entry.end and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                before = instructions[k - 1]
                yield str(step.argval), str(before.argval) if before.opname.startswith("LOAD_FAST") else ""


def _asked_for(instructions: list[Any], at: int) -> tuple[str, str]:
    """What the getattr loaded at `at` is called with: ("constant", text), ("variable", its name), or ("", "") for anything else."""
    base = 1  # what Python may push beside a function is counted as part of it
    depth, found = base, ("", "")
    for step in instructions[at + 1 :]:
        if step.opname in ("PRECALL", "KW_NAMES", "RESUME", "NOP", "PUSH_NULL"):
            continue
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return "", ""
        if step.opname in ("CALL", "CALL_FUNCTION") and step.arg == depth - base:
            return found if step.arg in (2, 3) else ("", "")
        if found[0] and depth == base + 2 and step.opname in ("CALL", "CALL_FUNCTION"):
            return "", ""
        before = depth
        depth += _effect(step)
        if depth <= base or (found[0] and depth <= base + 2):
            return "", ""
        if before == base + 1 and depth == base + 2:
            kind = {"LOAD_CONST": "constant", "LOAD_FAST": "variable"}.get(step.opname, "")
            if not kind or not isinstance(step.argval, str):
                return "", ""
            found = kind, step.argval
    return "", ""


def _effect(step: Any) -> int:
    """On the depth of the stack, with a call's function counted as one entry."""
    if step.opname in ("CALL", "CALL_METHOD"):
        return -int(step.arg)
    if step.opname == "LOAD_GLOBAL":
        return 1
    if step.opname in ("LOAD_METHOD", "LOAD_ATTR", "LOAD_SUPER_ATTR"):
        return 0 if step.opname != "LOAD_SUPER_ATTR" else -2
    try:
        return dis.stack_effect(step.opcode, step.arg if step.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
    except ValueError:
        return -1000  # cannot be told


def digest(code: CodeType, doc: str | None = None) -> str:
    """Of what a code object does, whatever file and line it stands in; the same for this version of Python alone."""
    return hashlib.sha256(_described(code, doc).encode()).hexdigest()[:16]


def _described(code: CodeType, doc: str | None) -> str:
    constants = [_constant(c) for c in code.co_consts]
    if doc is not None and constants and code.co_consts[0] == doc:
        constants[0] = "doc"
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _KINDS)
    shape = (*counts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return f"{code.co_code.hex()} {constants} {shape}"


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _described(value, None)
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"
    return f"{type(value).__name__} {value!r}"


def source_digest(function: FunctionType) -> str:
    """Of a function's source as Python prints it anew, without comments, documentation and decorators; empty where there is none."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError, IndentationError):
        return ""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(getattr(body[0], "value", None), ast.Constant):
            body[0] = ast.Pass()
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:16]


def short_name(thing: Any) -> str:
    """A class's or function's own name, without where it was made: another process may have got it by value."""
    return str(getattr(thing, "__name__", type(thing).__name__))


def dictionary_of(cls: type) -> dict[str, Any]:
    """The dictionary behind a class's read-only view: what is set on the class is seen in it."""
    return next(d for d in gc.get_referents(cls.__dict__) if isinstance(d, dict))


def of_package(cls: type) -> bool:
    """Whether a class, or one that it derives from, is of an installed package."""
    return any(whose_class(base) == "installed" for base in cls.__mro__)


def own_of_planish(cls: type) -> bool:
    """Whether a class is what Planish put in front of the user's."""
    return any(name.startswith("_planish") for name in vars(cls))


def instance_dictionary(value: Any) -> dict[str, Any] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


@functools.cache
def mentioned_by_torch(cls: type) -> frozenset[str]:
    """Names in the code that torch itself has of a module's class, from its forward on."""
    members = {key: inner for base in reversed(cls.__mro__) if base not in (nn.Module, object) and whose_class(base) == "torch"
               for key, value in vars(base).items() if (inner := plain_function(value)) is not None}  # fmt: skip
    found: set[str] = set()
    todo = ["forward"]
    done: set[str] = set()
    while todo:
        key = todo.pop()
        if key in done or key not in members:
            continue
        done.add(key)
        found |= reads(members[key].__code__).names
        todo += [k for k in members if k in found or (k.startswith("__") and k not in SETUP)]
    return frozenset(found)


def plain_function(member: Any) -> FunctionType | None:
    """The Python function inside a method, property or decorated function; None for anything else."""
    if isinstance(member, property | functools.cached_property | staticmethod | classmethod | MethodType):
        member = member.fget if isinstance(member, property) else member.func if isinstance(member, functools.cached_property) else member.__func__
    while "__wrapped__" in (instance_dictionary(member) or ()):  # and not by asking: an object may answer to any name, or raise what it likes
        member = vars(member)["__wrapped__"]
    return member if isinstance(member, FunctionType) else None
