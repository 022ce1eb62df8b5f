"""`python -m planish.patterns.triton LIST OUT`: the Triton kernels of the files that LIST names (one `path<TAB>name` a line), as rows.

Files are parsed, never imported. A kernel is a function that `triton.jit` or Gluon's `jit` decorates; its facts are what its own text says:
arguments, compile-time constants, what it calls of `tl`, and the configurations of the autotuner above it.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from planish.patterns.rows import MOST_TEXT, Rows

Function = ast.FunctionDef | ast.AsyncFunctionDef
#: What a call says of a kernel. Only names that say something: `arange` is everywhere.
_TRAITS = {
    "dot": "dot", "dot_scaled": "dot", "sum": "reduce sum", "max": "reduce max", "min": "reduce min", "argmax": "reduce argmax", "argmin": "reduce argmin",
    "reduce": "reduce", "cumsum": "scan cumsum", "cumprod": "scan cumprod", "associative_scan": "scan", "sort": "sort", "topk": "topk",
    "atomic_add": "atomic", "atomic_max": "atomic", "atomic_cas": "atomic", "softmax": "softmax", "make_block_ptr": "block pointers",
    "make_tensor_descriptor": "tma descriptor", "experimental_descriptor_load": "tma descriptor", "rsqrt": "rsqrt", "exp": "exp", "exp2": "exp", "log": "log",
    "tanh": "tanh", "erf": "erf", "sigmoid": "sigmoid", "histogram": "histogram", "gather": "gather", "trans": "transpose",
    "rand": "random", "static_range": "unrolled loop",
}  # fmt: skip
_DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "s8", "uint8": "u8", "int4": "s4",
           "float8e4nv": "e4m3", "float8e4b8": "e4m3", "float8e5": "e5m2", "float8e5b16": "e5m2"}  # fmt: skip


def _name(node: ast.expr) -> str:
    """`a.b.c` of an expression that is such a name; else empty."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _decorators(function: Function) -> list[tuple[str, ast.expr]]:
    return [(_name(d.func if isinstance(d, ast.Call) else d), d) for d in function.decorator_list]


def _is_jit(name: str) -> bool:
    return name in ("jit", "triton.jit", "gluon.jit") or name.endswith(".triton.jit")


def _number(node: ast.expr | None) -> str:
    return ast.unparse(node) if isinstance(node, ast.Constant | ast.Name | ast.BinOp | ast.UnaryOp) else ""


def _configurations(decorators: list[tuple[str, ast.expr]]) -> tuple[list[str], dict[str, set[str]]]:
    """Of `triton.autotune`: each written out, and the values that warps, stages and blocks take."""
    texts: list[str] = []
    values: dict[str, set[str]] = {}
    for name, node in decorators:
        if not name.endswith("autotune") or not isinstance(node, ast.Call):
            continue
        for call in ast.walk(node):
            if not isinstance(call, ast.Call) or not _name(call.func).endswith("Config"):
                continue
            texts.append(ast.unparse(call)[:300])
            for keyword in call.keywords:
                if keyword.arg in ("num_warps", "num_stages") and (value := _number(keyword.value)):
                    values.setdefault(keyword.arg[4:], set()).add(value)
            blocks = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "kwargs"), None)
            if isinstance(blocks, ast.Dict):
                for key, size in zip(blocks.keys, blocks.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str) and (text := _number(size)):
                        values.setdefault(f"block {key.value}", set()).add(text)
    return texts, values


def _leading_comment(lines: list[str], first: int) -> str:
    """Comments directly above line `first` (from 1)."""
    out: list[str] = []
    at = first - 2
    while at >= 0 and lines[at].lstrip().startswith("#"):
        out.append(lines[at].strip().lstrip("# "))
        at -= 1
    return " ".join(reversed(out))


def row_of(function: Function, lines: list[str], file: str) -> dict[str, Any] | None:
    decorators = _decorators(function)
    if not any(_is_jit(name) for name, _ in decorators):
        return None
    calls = Counter(_name(node.func).rsplit(".", 1)[-1] for node in ast.walk(function) if isinstance(node, ast.Call))
    helpers = sorted({_name(node.func) for node in ast.walk(function) if isinstance(node, ast.Call) and "." not in _name(node.func) and _name(node.func)})
    names = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    constants = [a.arg for a in arguments if a.annotation is not None and "constexpr" in ast.unparse(a.annotation)]
    configurations, values = _configurations(decorators)
    first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
    source = "\n".join(lines[first - 1 : function.end_lineno])
    traits = sorted({t for name, count in calls.items() if count and (t := _TRAITS.get(name, ""))})
    body = [f"arguments {' '.join(a.arg for a in arguments)}", f"constants {' '.join(constants)}", f"does {' '.join(traits)}"]
    facts: dict[str, list[str]] = {
        "trait": traits,
        "cast": sorted({_DTYPES[n] for n in names if n in _DTYPES}),
        "tunable": constants,
        "loads": [str(calls["load"])],
        "stores": [str(calls["store"])],
        "backend": ["gluon" if any(n.startswith("gluon") for n, _ in decorators) else "triton"],
    }
    facts |= {name.replace("block ", "block_"): sorted(found)[:12] for name, found in values.items()}
    return {
        "form": "kernel" if calls["program_id"] or calls["store"] else "device function",
        "name": function.name,
        "path": file,
        "line": first,
        "doc": (ast.get_docstring(function) or "")[:4000] + " " + _leading_comment(lines, first)[:1000],
        "words": " ".join([*body, *helpers])[:4000],
        "facts": {k: v for k, v in facts.items() if v},
        "configurations": configurations[:64],
        "source": source[:MOST_TEXT],
    }


def read(path: Path, file: str, rows: Rows) -> None:
    try:
        text = path.read_text(encoding="utf-8", errors="strict")
        if "jit" not in text:
            return
        tree = ast.parse(text)
        lines = text.splitlines()
        for node in ast.walk(tree):
            if isinstance(node, Function) and (row := row_of(node, lines, file)):
                rows.add(row)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        rows.skip(file, f"{type(error).__name__}: {error}")


def main(listing: str, out: str) -> None:
    with Rows(Path(out)) as rows:
        for line in Path(listing).read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            path, _, file = line.partition("\t")
            read(Path(path), file, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
