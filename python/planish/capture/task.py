"""Loads a task: a KernelBench-style file, or the folder that `planish.optimize(module, inputs)` leaves for a live module.

A task file is foreign code. It is imported only inside a child process with a time limit; this module turns what it does wrong
into a `PlanishError` whose kind names the fault.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from planish.capture.beside import offer
from planish.capture.hidden_state import changes_refused
from planish.capture.numbers import leaves_of
from planish.capture.source import line_of_error
from planish.capture.variation import INIT_SEED, varied
from planish.errors import PlanishError, task_error
from planish.ship import holders
from planish.ship.watch import Watch
from planish.wire import report_stage

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class LoadedTask:
    """A constructed model with its input generator.

    `model` is on the CPU, in the mode (training or not) the file left it in. `make_inputs(seed, device)` calls the task's own
    generator with torch seeded; tensors are created on `device` where the generator allows it, and moved there otherwise.
    `rebuild()` constructs another model with the same parameters, `vary(seed, draws)` one with others (variation.py; None: there is no
    constructor). `variants`: whether the file declares inputs of other shapes
    (`load_task(path, variant)`).
    """

    name: str
    path: Path
    source_sha256: str
    model: torch.nn.Module
    make_inputs: Callable[[int, torch.device | str], Inputs]
    rebuild: Callable[[], torch.nn.Module]
    live: bool = False
    variants: bool = False
    vary: Callable[[int, int], torch.nn.Module] | None = None
    module: ModuleType | None = None  # of the file, whose Model may be another file's; None: a live task
    numbers: Sequence[int] = ()  # leaves of a call whose integers it may be captured for: `make_inputs` gives them on the CPU, the same for any seed


def load_task(path: str | Path, variant: int = 0) -> LoadedTask:
    """Loads the task at `path`. Raises PlanishError; never returns a half-built task. `variant` n > 0: its `make_inputs` gives the n-th
    of the other shapes that the file's `get_input_variants()` declares; `no_variant` where there are fewer."""
    path = Path(path)
    if not path.exists():
        raise task_error("no_such_file", path, "no such file", "give the path of a task file (.py)")
    if path.is_dir():
        from planish.capture.live import load_live

        if variant:
            raise task_error("no_variant", path, "a live task has the shapes that it was given")
        return load_live(path)
    return _load_file(path, variant)


def _load_file(path: Path, variant: int) -> LoadedTask:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise task_error("unreadable", path, f"{error.strerror}", "check the file's permissions") from error
    module = _import(path, source)
    model_class = getattr(module, "Model", None)
    if not (isinstance(model_class, type) and issubclass(model_class, torch.nn.Module)):
        raise task_error("no_model", path, "defines no class Model that derives from torch.nn.Module", "name the module's class Model")
    get_inputs = getattr(module, "get_inputs", None)
    if not callable(get_inputs):
        raise task_error("no_inputs", path, "defines no function get_inputs()", "add get_inputs() returning a list of tensors")
    get_init_inputs = getattr(module, "get_init_inputs", list)
    get_variants = getattr(module, "get_input_variants", None)
    generate = partial(_inputs_of_variant, path, get_variants, variant) if variant else get_inputs

    def build(construct: Callable[[Callable[[], Any]], Any]) -> torch.nn.Module:
        report_stage("constructing its Model")
        torch.manual_seed(INIT_SEED)
        init_args, init_kwargs = _as_call(_guarded(path, "get_init_inputs() raised", "init_inputs_failed", get_init_inputs))
        torch.manual_seed(INIT_SEED)
        try:
            return construct(lambda: model_class(*init_args, **init_kwargs))  # type: ignore[no-any-return]
        except MemoryError as error:
            raise task_error("out_of_memory", path, "Model(...) needs more memory than there is", "use smaller sizes") from error
        except (Exception, SystemExit) as error:
            hint = _hint(error, "make get_init_inputs() fit Model.__init__")
            raise task_error("init_failed", path, f"Model(*get_init_inputs()) raised {_describe(error)}", hint) from error

    def rebuild() -> torch.nn.Module:
        return build(lambda construct: construct())

    def vary(seed: int, draws: int) -> torch.nn.Module:
        return build(partial(varied, seed, draws))

    def make_inputs(seed: int, device: torch.device | str) -> Inputs:
        report_stage("calling its get_inputs()")
        torch.manual_seed(seed)
        with torch.device(device):
            call = _as_call(_guarded(path, f"{'get_input_variants' if variant else 'get_inputs'}() raised", "inputs_failed", generate))
        with taken_apart(path, "an argument"):
            holders.register(call)
        return move(call, device)

    model = rebuild()
    found = LoadedTask(path.stem, path, hashlib.sha256(source).hexdigest(), model, make_inputs, rebuild,
                       variants=get_variants is not None, vary=vary, module=module)  # fmt: skip
    wanted = getattr(module, "SPECIALIZE", False)
    if wanted is False or wanted is None:
        return found
    args, kwargs = make_inputs(0, "cpu")
    found.numbers = leaves_of(model.forward, args, kwargs, wanted, str(path))
    known = {leaf: pytree.tree_leaves((args, kwargs))[leaf] for leaf in found.numbers}
    found.make_inputs = lambda seed, device: with_numbers(make_inputs(seed, device), known)
    return found


def with_numbers(call: Inputs, known: Mapping[int, torch.Tensor]) -> Inputs:
    """The call with what these leaves hold in another one, on the CPU."""
    leaves, tree = pytree.tree_flatten(call)
    for leaf, numbers in known.items():
        leaves[leaf] = numbers.clone()
    found: Inputs = pytree.tree_unflatten(leaves, tree)
    return found


def _inputs_of_variant(path: Path, get_variants: Callable[[], Any] | None, variant: int) -> Any:
    """The n-th entry, counted from 1, of what get_input_variants() returns: what get_inputs() could return, or a function that returns it."""
    found = get_variants() if callable(get_variants) else []
    if not isinstance(found, list | tuple):
        message = f"get_input_variants() returns a {type(found).__name__}"
        raise task_error("inputs_failed", path, message, "return a list: one entry for each set of shapes, as get_inputs() returns it or a function that does")
    if variant > len(found):
        raise task_error("no_variant", path, f"declares inputs of {len(found)} other shapes")
    entry = found[variant - 1]
    return entry() if callable(entry) else entry


def move(tree: Any, device: torch.device | str) -> Any:
    """Every tensor of the tree on `device`, detached from autograd."""
    return pytree.tree_map(lambda x: x.detach().to(device) if isinstance(x, torch.Tensor) else x, tree)


def check_forward(path: Path, model: torch.nn.Module, call: Inputs) -> Any:
    """Runs the model once, eagerly and without gradients, and returns its result. Raises PlanishError with kind forward_failed,
    not_tensors, out_of_memory, or not_exportable where it leaves state outside buffers."""
    report_stage("running its forward")
    given = [t for t in pytree.tree_leaves(call) if isinstance(t, torch.Tensor)]
    versions = [t._version for t in given]
    try:
        with torch.no_grad(), changes_refused(model, path):
            watch = Watch(*call)
            result = model(*call[0], **call[1])
        with taken_apart(path, "a result"):
            result = watch.answer(result)
            holders.register(result)
    except PlanishError:
        raise
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise task_error("out_of_memory", path, f"the reference itself does not fit in memory: {_describe(error)}", "use smaller inputs") from error
    except (Exception, SystemExit) as error:
        if "can't allocate memory" in str(error):
            raise task_error("out_of_memory", path, "the reference itself does not fit in memory", "use smaller inputs") from error
        hint = "run the file's Model on get_inputs() by hand"
        if path.is_dir():
            hint = "its own example may pass: proofs draw the elements of the examples anew, and forward must take any such data"
        raise task_error("forward_failed", path, f"forward raised {_describe(error)}{line_of_error(error)}", hint) from error
    leaves = pytree.tree_leaves(result)
    # Changes of its arguments may be all that a call is for, as a step of an optimizer is.
    if not any(isinstance(leaf, torch.Tensor) for leaf in leaves) and [t._version for t in given] == versions:
        kinds = ", ".join(sorted({type(leaf).__name__ for leaf in leaves})) or "nothing"
        raise task_error("not_tensors", path, f"forward returns {kinds}, no tensor", "return a tensor, or a nesting of tensors")
    return result


@contextmanager
def taken_apart(path: Path, what: str) -> Iterator[None]:
    """Raises PlanishError (not_exportable) for objects that cannot be taken apart into tensors and plain values."""
    try:
        yield
    except holders.Unheld as error:
        hint = "pass tensors, numbers, and tuples, lists, dicts or plain objects of them (docs/python.md)"
        raise task_error("not_exportable", path, f"{what} cannot be taken apart: {error}", hint) from error


def answer_of(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call returns, and what it does to the objects that it is given, as the graph has it. Raises holders.Unheld and what the model raises."""
    watch = Watch(args, kwargs)
    return watch.answer(model(*args, **kwargs))


def _import(path: Path, source: bytes) -> ModuleType:
    try:
        code = compile(source, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        raise task_error("not_python", path, f"not Python: {_describe(error)}", "give a Python task file") from error
    spec = importlib.util.spec_from_file_location(f"planish_task_{path.stem}", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    offer(path.resolve().parent)
    report_stage("importing it")
    try:
        exec(code, module.__dict__)
    except ModuleNotFoundError as error:
        raise task_error("missing_import", path, f"{error}", f"pip install the package that provides {error.name}") from error
    except PlanishError:
        raise
    except SystemExit as error:
        raise task_error("import_exited", path, f"exits when imported (code {error.code})", 'guard it with if __name__ == "__main__"') from error
    except Exception as error:
        raise task_error("import_failed", path, f"raised when imported: {_describe(error)}", _hint(error, "run it with python to see")) from error
    return module


def _guarded(path: Path, what: str, kind: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except PlanishError:
        raise
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise task_error("out_of_memory", path, f"the inputs do not fit in memory: {_describe(error)}", "use smaller inputs") from error
    except (Exception, SystemExit) as error:
        if "can't allocate memory" in str(error):
            raise task_error("out_of_memory", path, f"the inputs do not fit in memory: {_describe(error)}", "use smaller inputs") from error
        raise task_error(kind, path, f"{what} {_describe(error)}", _hint(error, "call it by hand to see")) from error


def _hint(error: BaseException, usual: str) -> str:
    """The usual one, but where the error is a variable of the environment: started by hand, the file would find it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not isinstance(error, KeyError) or trace.tb_frame.f_globals.get("__name__") != "os":
        return usual
    return f"a task sees no variables but those that compilers, PyTorch and CUDA read (docs/suites.md): write the value of {error.args[0]} into the file"


def _as_call(value: Any) -> Inputs:
    """What get_inputs() may return, as (args, kwargs): a list or tuple of arguments, a dict of keyword arguments, or one tensor.
    A pair whose first part is a list and whose second is a dict with string keys is (args, kwargs), as some suites write it."""
    if isinstance(value, Mapping):
        return (), dict(value)
    if isinstance(value, tuple | list):
        if len(value) == 2 and isinstance(value[0], list | tuple) and isinstance(value[1], dict) and all(isinstance(k, str) for k in value[1]):
            return tuple(value[0]), dict(value[1])
        return tuple(value), {}
    return (value,), {}


def _describe(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
