"""Operator arguments, dtypes and constants in the form that documents use."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import torch
from torch import fx

from planish import float8
from planish.capture.source import line_of
from planish.errors import task_error

#: Types that kernels know, with their names in documents.
DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
    **{dtype: str(dtype).removeprefix("torch.") for dtype in float8.KINDS},
}


def dtype_name(dtype: torch.dtype) -> str:
    """The document's name: short for the types kernels know, torch's own for the others."""
    return DTYPES.get(dtype, str(dtype).removeprefix("torch."))


def encode_call(node: fx.Node, value_of: dict[tuple[fx.Node, int | None], int], path: Path) -> list[dict[str, Any]]:
    """Every argument of the op's schema, in order, defaults filled in."""
    schema = node.target._schema  # type: ignore[union-attr]
    encoded = []
    for position, argument in enumerate(schema.arguments):
        if argument.kwarg_only or position >= len(node.args):
            value = node.kwargs[argument.name] if argument.name in node.kwargs else _default(argument, node, path)
        else:
            value = node.args[position]
        encoded.append({"name": argument.name, **_encode(value, str(argument.type), value_of, path, node)})
    return encoded


def _default(argument: Any, node: fx.Node, path: Path) -> Any:
    if argument.has_default_value():
        return argument.default_value
    raise task_error("not_exportable", path, f"{node.target} was captured without its argument {argument.name}", "report this as a bug")


def _encode(value: Any, schema_type: str, value_of: dict[tuple[fx.Node, int | None], int], path: Path, node: fx.Node) -> dict[str, Any]:
    if isinstance(value, fx.Node):
        return {"value": value_of[(value, None)]}
    if isinstance(value, list | tuple):
        items = list(value)
        if "Tensor" in schema_type:
            return {"values": [None if item is None else value_of[(item, None)] for item in items]}
        if "float" in schema_type or any(isinstance(item, float) for item in items):
            return {"floats": [float(item).hex() for item in items]}
        if "bool" in schema_type:
            return {"bools": [bool(item) for item in items]}
        return {"ints": [int(item) for item in items]}
    if schema_type in ("float", "Optional[float]") and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    return encode_plain(value, path, node)


def encode_plain(value: Any, path: Path, node: fx.Node | None = None) -> dict[str, Any]:
    """One argument that holds no tensor, of the node's operator where there is one."""
    match value:
        case None:
            return {"none": True}
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case float():
            return {"float": value.hex()}
        case str():
            return {"str": value}
        case torch.dtype():
            return {"dtype": dtype_name(value)}
        case torch.device() | torch.layout() | torch.memory_format():
            return {"enum": str(value)}
        case list() | tuple() if all(isinstance(item, int) for item in value):
            return {"ints": list(value)}
    what = "" if node is None else f"uses {node.target._schema.name.partition('::')[2]}{line_of(node)} with "  # type: ignore[union-attr]
    message = f"{what}an argument of type {type(value).__name__} ({value}), which has no form in a graph"
    raise task_error("not_exportable", path, message, "pass a tensor or a real number")


def store_blob(tensor: torch.Tensor, blobs: Path) -> str:
    """Writes the raw contiguous bytes as blobs/<sha256> (atomically) and returns the digest."""
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    digest = hashlib.sha256(raw).hexdigest()
    target = blobs / digest
    if not target.exists():
        blobs.mkdir(parents=True, exist_ok=True)
        temporary = blobs / f".{digest}.{os.getpid()}"
        temporary.write_bytes(raw)
        temporary.rename(target)
    return digest


def values_read(node: dict[str, Any]) -> list[int]:
    """The values that a node of a graph document reads, in the order of its arguments."""
    return [v for arg in node["args"] for v in ([arg["value"]] if "value" in arg else arg.get("values", [])) if v is not None]
