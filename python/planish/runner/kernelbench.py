"""KernelBench's own rule for a solution, reproduced: its seeds, its casts, its tolerances, its order of doing things.

Seed 42 before the constructor arguments and before each constructor, five trials whose seeds come from manual_seed(42), all tensors
(integers too) cast to the precision, both models fed the same tensors in one process, one tensor compared by shape and allclose with
atol = rtol. The solution's text runs in the namespace of the task's, unless it is written in a language whose functions must come from
a file. Weaker than Planish's contract, and given beside it. Its batch evaluation tells `compiled` from `correctness` by where
something was raised, and so does this.
"""

from __future__ import annotations

import ast
import importlib.util
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from planish.errors import PlanishError
from planish.ship.live import load_module_file, solution_in

PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-2}
TRIALS = 5
_SEED = 42
_FROM_A_FILE = frozenset({"triton", "tilelang", "cutlass"})  # these read the source of a function where it lies
_MOST_CHARACTERS = 200  # of a runtime error


class _NotCompiledError(Exception):
    """Of metadata: what the harness counts as a failure to compile."""


def judge(task_path: Path, path: Path, device: torch.device, precision: str = "fp32", trials: int = TRIALS) -> dict[str, Any]:
    """{compiled, correct, trials, message, metadata}. `trials` counts those that ran; `metadata` has the harness's own fields, as texts.
    Raises PlanishError where the task is none of KernelBench's form."""
    if task_path.is_dir():
        raise PlanishError("no_model", f"{task_path}: a live module has no constructor to share", "KernelBench's rule needs a task file")
    dtype = PRECISIONS[precision]
    metadata: dict[str, Any] = {}
    verdict: dict[str, Any] = {"compiled": False, "correct": False, "trials": 0, "message": "", "metadata": metadata}
    try:
        _judge(task_path, path, device, dtype, trials, verdict)
    except PlanishError:
        raise
    except _NotCompiledError:
        verdict["compiled"] = False
    except SystemExit as error:  # takes the harness's worker with it, and is waited for until the time is over
        verdict["compiled"] = verdict["correct"] = False
        metadata["error"] = "Evaluation timed out"
        verdict["message"] = f"it ended the process (code {error.code})"
    except Exception as error:
        name = "cuda_error" if "CUDA error" in str(error) else "other_error"
        metadata[name] = f"{'CUDA Error' if name == 'cuda_error' else 'error'}: {error}"
        metadata[f"{name}_name"] = _name(error)
        verdict["compiled"] = verdict["correct"] = False
        verdict["message"] = f"{_name(error)}: {error}"
    return verdict


def _judge(task_path: Path, path: Path, device: torch.device, dtype: torch.dtype, trials: int, verdict: dict[str, Any]) -> None:
    metadata = verdict["metadata"]
    context: dict[str, Any] = {}
    exec(compile(task_path.read_text(), "<string>", "exec"), context)
    if missing := [name for name in ("Model", "get_inputs", "get_init_inputs") if name not in context]:
        message = f"{task_path}: defines no {' and no '.join(missing)}, which KernelBench's rule asks for"
        raise PlanishError("no_model", message, "its rule is left out; add them where its verdict is wanted")
    _seed(_SEED)
    init_inputs = [_cast(x, device, dtype) for x in context["get_init_inputs"]()]
    with torch.no_grad():
        _seed(_SEED)
        original = context["Model"](*init_inputs)
    made = _load(path, context, verdict)
    try:
        with torch.no_grad():
            _seed(_SEED)
            custom = made(*init_inputs)
            assert hasattr(custom, "forward")
            original = original.to(device=device, dtype=dtype)
            custom = custom.to(device=device, dtype=dtype)
            _settle(device)
    except RuntimeError as error:
        verdict["compiled"] = True
        metadata |= {"runtime_error": str(error), "runtime_error_name": _name(error)}
        verdict["message"] = f"its constructor raised {_name(error)}: {error}"
        return
    verdict["compiled"] = True
    try:
        _compare(original, custom, context["get_inputs"], device, dtype, trials, verdict)
    except Exception as error:  # the task's own
        verdict["correct"] = False
        metadata |= {"runtime_error": str(error), "runtime_error_name": _name(error)}
        verdict["message"] = f"{_name(error)}: {error}"


def _load(path: Path, context: dict[str, Any], verdict: dict[str, Any]) -> Callable[..., Any]:
    """The solution's ModelNew. Raises _NotCompiledError after filling in the verdict, SystemExit where the solution does."""
    metadata = verdict["metadata"]
    try:
        path = solution_in(path) or path
        if path.is_dir():  # what Planish ships knows its own folder
            return load_module_file(path / "module.py").ModelNew  # type: ignore[no-any-return]
        text = path.read_text()
        if imports(text) & _FROM_A_FILE:
            return _from_file(text)
        made = _executed(text, context)
    except Exception as error:
        metadata |= {"compilation_error_name": _name(error), "compilation_error": str(error)}
        verdict["message"] = f"loading it raised {_name(error)}: {error}"
        raise _NotCompiledError from error
    if made is None:
        metadata |= {"compilation_error_name": "SyntaxError", "compilation_error": "Syntax error in custom generated code or ModelNew not found"}
        verdict["message"] = "it is no Python, or defines no ModelNew"
        raise _NotCompiledError
    return made  # type: ignore[no-any-return]


def _executed(text: str, context: dict[str, Any]) -> Any:
    try:
        exec(compile(text, "<string>", "exec"), context)
    except SyntaxError:
        return None
    return context.get("ModelNew")


def _from_file(text: str) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:  # read again by whoever compiles a function later
        file.write(text)
    spec = importlib.util.spec_from_file_location("temp_module", file.name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ModelNew


def imports(text: str) -> set[str]:
    """Top-level names of the packages that a text imports; empty for what is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.partition(".")[0])
    return found


def _compare(original: Any, custom: Any, get_inputs: Any, device: torch.device, dtype: torch.dtype, trials: int, verdict: dict[str, Any]) -> None:
    metadata, passed, tolerance = verdict["metadata"], 0, TOLERANCE[dtype]
    torch.manual_seed(_SEED)
    seeds = [int(torch.randint(0, 2**32 - 1, (1,)).item()) for _ in range(trials)]
    with torch.no_grad():
        for done, seed in enumerate(seeds, 1):
            _seed(seed)
            inputs = [_cast(x, device, dtype) for x in get_inputs()]
            _seed(seed)
            original = original.to(device=device, dtype=dtype)
            _seed(seed)
            custom = custom.to(device=device, dtype=dtype)
            expected = original(*inputs)
            _settle(device)
            verdict["trials"] = done
            try:
                actual = custom(*inputs)
                _settle(device)
                if expected.shape != actual.shape:
                    text = f"Output shape mismatch: Expected {expected.shape}, got {actual.shape}"
                    metadata |= {"correctness_issue": text, "correctness_issue_name": "correctness_issue"}
                    verdict["message"] = f"trial {done}: output is {list(actual.shape)}, expected {list(expected.shape)}"
                    return
                if torch.allclose(expected, actual, atol=tolerance, rtol=tolerance):
                    passed += 1
                    continue
                worst, mean = (float(how(torch.abs(expected - actual)).item()) for how in (torch.max, torch.mean))
                metadata.setdefault("max_difference", []).append(f"{worst:.6f}")
                metadata.setdefault("avg_difference", []).append(f"{mean:.6f}")
                metadata["correctness_issue"] = "Output mismatch"
                verdict["message"] = verdict["message"] or f"trial {done}: differs by up to {worst:.3g}, tolerance {tolerance:g}"
            except Exception as error:
                text = str(error)
                metadata["runtime_error"] = text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."
                metadata |= {"runtime_error_name": _name(error), "runtime_error_traceback": traceback.format_exc()}
                verdict["message"] = f"trial {done}: {_name(error)}: {error}"
                return
    metadata["correctness_trials"] = f"({passed} / {trials})"
    verdict["correct"] = passed == trials
    if verdict["correct"]:
        verdict["message"] = f"passed {trials} trials at {tolerance:g}"


def _name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__name__}"


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(seed)


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _cast(value: Any, device: torch.device, dtype: torch.dtype) -> Any:
    return value.to(dtype=dtype).to(device=device) if isinstance(value, torch.Tensor) else value
