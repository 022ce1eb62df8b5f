"""Where values inside a network lie: with channels beside each other where convolutions of 16 bits gain by that.

Tensor cores multiply along channels, so that such a convolution reads images whose channels are neighbours as they are
(src/codegen/contraction/boxes.h), and so do PyTorch's own. What lies inside a program nobody sees: its strides are the
program's choice, not the model's. Inputs and results keep theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from planish.capture import arguments, draws

DEVICES = ("cuda",)
HALVES = ("bf16", "f16")
FLOATS = (*HALVES, "f32")
LEAST_CHANNELS, CHUNK = 32, 8  # of an image that is read as it lies: half a row of 128 bytes, in whole 16 bytes
MOST_PINNED = 0.125  # of a group's elements that have to stay as they are

CONVOLUTIONS = ("aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.convolution", "aten.conv_transpose2d", "aten.conv_transpose3d")
# All their images are alike: as good in one layout as in another. Beside these operators that torch calls pointwise.
ALIKE = (
    "aten.cat",
    "aten.clone",
    "aten._to_copy",
    "aten.constant_pad_nd",
    "aten.batch_norm",
    "aten._native_batch_norm_legit_no_training",
    "aten.max_pool2d",
    "aten.max_pool3d",
    "aten.max_pool2d_with_indices",
    "aten.max_pool3d_with_indices",
    "aten.avg_pool2d",
    "aten.avg_pool3d",
    "aten.upsample_nearest2d",
    "aten.upsample_nearest3d",
    "aten._upsample_nearest_exact2d",
    "aten._upsample_nearest_exact3d",
    "aten.upsample_bilinear2d",
)
# Bytes of a place that a norm of groups reads for a group: half of what memory is asked for at once. Of less every group would read what
# others do, unless the norm is one of channels first (rewrite/norm_by_channels.cpp); the images that lie like such a norm's stay as they are,
# all of them, or it would turn what it reads.
LEAST_PIECE, LEAST_BY_CHANNELS = 16, 1 << 20
# They read an image as well in one layout as in another, and what they leave of it is small.
FOLDS = ("aten.mean", "aten.sum", "aten.amax", "aten.amin", "aten._adaptive_avg_pool2d", "aten.adaptive_avg_pool2d")


def channels_last(shape: Sequence[int]) -> list[int]:
    """Strides of a tensor (n, c, …) whose channels lie beside each other."""
    strides = [0] * len(shape)
    step = 1
    for d in [1, *range(len(shape) - 1, 1, -1), 0]:
        strides[d] = step
        step *= max(shape[d], 1)
    return strides


class _Groups:
    """Images that had better lie alike."""

    def __init__(self, values: list[dict[str, Any]]) -> None:
        self.values = values
        self.parent = list(range(len(values)))
        self.pinned: set[int] = set()
        self.wanted: set[int] = set()
        self.refused: set[int] = set()

    def find(self, value: int) -> int:
        while self.parent[value] != value:
            self.parent[value] = self.parent[self.parent[value]]
            value = self.parent[value]
        return value

    def is_image(self, value: int) -> bool:
        declared = self.values[value]
        return len(declared["shape"]) in (3, 4, 5) and declared["dtype"] in FLOATS and declared["device"] in DEVICES

    def join(self, found: list[int]) -> None:
        for value in found[1:]:
            if len(self.values[value]["shape"]) == len(self.values[found[0]]["shape"]):
                self.parent[self.find(value)] = self.find(found[0])


def _gains(values: list[dict[str, Any]], image: int, weight: int) -> bool:
    """Whether a convolution of that image, with a window, reads it as it lies where its channels are neighbours."""
    x, w = values[image], values[weight]
    channels = x["shape"][1]
    return (
        x["dtype"] in HALVES
        and w["dtype"] == x["dtype"]
        and w["shape"][1] == channels  # one group
        and channels % CHUNK == 0
        and channels >= LEAST_CHANNELS
        and math.prod(w["shape"][2:]) > 1
    )


def _is_alike(op: str, node: fx.Node) -> bool:
    return op in ALIKE or (isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags)


def _reads_pieces(values: list[dict[str, Any]], entry: dict[str, Any]) -> bool:
    """Whether a group's channels beside each other are long enough to be read so, or all channels are read at once."""
    named = {arg["name"]: arg for arg in entry["args"]}
    image = values[named["input"]["value"]]
    size = 2 if image["dtype"] in HALVES else 4
    shape, affine = image["shape"], "value" in named["weight"] and "value" in named["bias"]
    whole = affine and shape[1] % CHUNK == 0 and math.prod(shape) >= LEAST_BY_CHANNELS
    return len(shape) > 2 and (whole or bool(shape[1] // int(named["group"]["int"]) * size >= LEAST_PIECE))


def _group(document: dict[str, Any], nodes: list[fx.Node]) -> _Groups:
    values = document["values"]
    groups = _Groups(values)
    for entry, node in zip(document["nodes"], nodes, strict=True):
        op = entry["op"].rsplit(".", 1)[0]
        read = arguments.values_read(entry)
        images = [v for v in [*read, *(out for out in entry["outs"] if out is not None)] if groups.is_image(v)]
        if any(arg["name"] == draws.ARGUMENT and "value" in arg for arg in entry["args"]):
            groups.pinned.update(images)  # which number an element gets goes by where it lies
        elif op in CONVOLUTIONS:
            named = {arg["name"]: arg.get("value") for arg in entry["args"]}
            image, weight = named["input"], named["weight"]
            groups.pinned.add(weight)
            transposed = "transpose" in op or any(arg["name"] == "transposed" and arg.get("bool") for arg in entry["args"])
            if groups.is_image(image) and not transposed and _gains(values, image, weight):
                groups.wanted.add(image)
            # What a convolution reads and writes had better lie alike, too: neighbours then load and store neighbours.
            groups.join([v for v in (image, *entry["outs"]) if groups.is_image(v) and values[v]["shape"][1] % CHUNK == 0])
        elif _is_alike(op, node) or op == "aten.native_group_norm":
            groups.join(images)
            if op == "aten.native_group_norm" and not _reads_pieces(values, entry):
                groups.refused.update(images)
        elif op in FOLDS:
            groups.pinned.update(out for out in entry["outs"] if out is not None)
        else:
            groups.pinned.update(images)
    for end in (*document["inputs"], *document["outputs"]):
        if "value" in end:
            groups.pinned.add(end["value"])
    return groups


def lay_out(document: dict[str, Any], nodes: list[fx.Node]) -> None:
    """Gives images of the document whose layout nobody sees channels last, where a convolution of 16 bits reads one of
    those that lie alike, and few of them have to stay as they are. `nodes` are those of the document. The document is
    changed: strides of its values."""
    values = document["values"]
    groups = _group(document, nodes)
    # Parameters beside images say nothing of these: a part of a batch lies as the whole does.
    apart = {end["value"] for end in document["inputs"] if end["kind"] != "user" and "value" in end}
    members: dict[int, list[int]] = {}
    for value in range(len(values)):
        if groups.is_image(value) and value not in apart:
            members.setdefault(groups.find(value), []).append(value)
    refused = {groups.find(value) for value in groups.refused}
    for root in {groups.find(value) for value in groups.wanted} - refused:
        size = {v: math.prod(values[v]["shape"]) for v in members.get(root, ())}
        other = [v for v in size if v in groups.pinned and values[v]["strides"] != channels_last(values[v]["shape"])]
        if sum(size[v] for v in other) > MOST_PINNED * sum(size.values()):
            continue
        for v in size:
            if v not in groups.pinned:
                values[v]["strides"] = channels_last(values[v]["shape"])
