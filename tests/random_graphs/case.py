"""A random case: leaves, steps and outputs as data that can be shrunk, and its text as a task file.

`HELPER` is the text that every task file starts with: it makes tensors of a dtype, of a layout, with values in a chosen domain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

HELPER = '''import torch
import torch.nn.functional as F


def make(shape, dtype, values="normal", layout="plain"):
    """A tensor of this shape; `layout` says how it lies in memory."""
    if layout == "reversed":  # dims in the opposite order
        return make(shape[::-1], dtype, values).permute(*range(len(shape) - 1, -1, -1))
    if layout == "sliced":  # every second element of the last dim, and not from the start
        return make((*shape[:-1], 2 * shape[-1] + 1), dtype, values)[..., 1::2]
    if layout == "rows":  # rows with a gap between them
        return make((*shape[:-1], shape[-1] + 3), dtype, values)[..., : shape[-1]]
    if layout == "expanded":  # the first dim repeats one element
        return make((1, *shape[1:]), dtype, values).expand(shape)
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if not dtype.is_floating_point:
        low, high = {"normal": (-9, 10), "positive": (1, 10), "bits": (0, 8)}.get(values, (torch.iinfo(dtype).min, torch.iinfo(dtype).max))
        return torch.randint(max(low, torch.iinfo(dtype).min), high, shape, dtype=dtype)
    if values == "grid":  # many ties
        return torch.randint(-8, 9, shape).to(dtype) / 4
    if values == "positive":
        return torch.rand(shape).to(dtype) + 0.5
    if values == "unit":
        return torch.rand(shape).to(dtype) * 1.8 - 0.9
    x = torch.randn(shape).to(dtype)
    if values == "special" and x.numel() > 3:  # some of each
        flat = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, -0.0]).to(dtype)
        x = torch.where(torch.rand(shape) < 0.1, flat[torch.randint(0, 5, shape)], x)
    return x
'''


@dataclass(frozen=True)
class Leaf:
    """A tensor that the module is given (`input`), owns (`param`, `buffer`) or made as a plain attribute (`const`)."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    values: str = "normal"
    layout: str = "plain"

    def expression(self) -> str:
        text = f"make({self.shape!r}, torch.{self.dtype}"
        if self.layout != "plain":
            return f"{text}, {self.values!r}, {self.layout!r})"
        return f"{text}, {self.values!r})" if self.values != "normal" else f"{text})"

    def reference(self) -> str:
        return self.name if self.kind == "input" else f"self.{self.name}"


@dataclass(frozen=True)
class Step:
    """One statement. `text` has {0}, {1}, … for the operands; an in-place step has no outs. `simpler`: other texts for the same operands."""

    outs: tuple[str, ...]
    text: str
    args: tuple[str, ...]
    simpler: tuple[str, ...] = ()

    def statement(self, references: dict[str, str]) -> str:
        call = self.text.format(*[references.get(a, a) for a in self.args])
        if not self.outs:
            return call
        return f"{', '.join(self.outs)}{',' if len(self.outs) == 1 and self.tuple else ''} = {call}"

    @property
    def tuple(self) -> bool:
        """Whether the call gives a tuple even where one name takes it."""
        return self.text.startswith(("torch.split", "torch.chunk", "torch.unbind", "torch.tensor_split"))


@dataclass(frozen=True)
class Case:
    """`nesting` of inputs: flat | list | dict | kwargs; of outputs: flat | list | dict | deep."""

    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    input_nesting: str = "flat"
    output_nesting: str = "flat"
    training: bool = False

    def inputs(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.kind == "input"]

    def source(self) -> str:
        """The task file."""
        owned = [leaf for leaf in self.leaves if leaf.kind != "input"]
        lines = [HELPER, "", "class Model(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
        for leaf in owned:
            match leaf.kind:
                case "param":
                    lines.append(f"        self.{leaf.name} = torch.nn.Parameter({leaf.expression()})")
                case "buffer":
                    lines.append(f"        self.register_buffer({leaf.name!r}, {leaf.expression()})")
                case _:
                    lines.append(f"        self.{leaf.name} = {leaf.expression()}")
        if not self.training:
            lines.append("        self.eval()")
        names = [leaf.name for leaf in self.inputs()]
        first, rest = names[:1], names[1:]
        nesting = self.input_nesting if rest else "flat"
        signature = ", ".join(["self", *first, *(["rest"] if nesting in ("list", "dict") else rest)])
        lines += ["", f"    def forward({signature}):"]
        if nesting == "list":
            lines.append(f"        {', '.join(rest)}{',' if len(rest) == 1 else ''} = rest")
        if nesting == "dict":
            lines += [f"        {name} = rest[{name!r}]" for name in rest]
        references = {leaf.name: leaf.reference() for leaf in self.leaves}
        lines += [f"        {step.statement(references)}" for step in self.steps]
        lines.append(f"        return {self._returned([references.get(o, o) for o in self.outputs])}")
        made = {leaf.name: leaf.expression() for leaf in self.inputs()}
        call = [made[n] for n in first]
        match nesting:
            case "list":
                result = f"[{', '.join(call)}, [{', '.join(made[n] for n in rest)}]]"
            case "dict":
                result = f"[{', '.join(call)}, {{{', '.join(f'{n!r}: {made[n]}' for n in rest)}}}]"
            case "kwargs":
                result = f"[{', '.join(call)}], {{{', '.join(f'{n!r}: {made[n]}' for n in rest)}}}"
            case _:
                result = f"[{', '.join(made[n] for n in names)}]"
        lines += ["", "", "def get_inputs():", f"    return {result}", ""]
        return "\n".join(lines)

    def _returned(self, outs: list[str]) -> str:
        if len(outs) == 1 and self.output_nesting == "flat":
            return outs[0]
        match self.output_nesting:
            case "list":
                return f"[{', '.join(outs)}]"
            case "dict":
                return "{" + ", ".join(f'"o{i}": {o}' for i, o in enumerate(outs)) + "}"
            case "deep":
                return f'({outs[0]}, [{", ".join(outs[1:])}], {{"again": {outs[-1]}, "none": None, "number": 3}})'
            case _:
                return f"({', '.join(outs)})"

    def pruned(self) -> Case:
        """Without steps and leaves that nothing returned or changed needs."""
        needed = set(self.outputs)
        kept: list[Step] = []
        for step in reversed(self.steps):
            # What a step in place changes may be a view of a leaf: an effect.
            if not step.outs or any(o in needed for o in step.outs):
                needed.update(step.args)
                kept.append(step)
        leaves = tuple(leaf for leaf in self.leaves if leaf.name in needed)
        return replace(self, steps=tuple(kept[::-1]), leaves=leaves)


@dataclass(frozen=True)
class Written:
    """A task file as a case that does not shrink. Here and not in __main__: child processes must find it."""

    text: str

    def source(self) -> str:
        return self.text
