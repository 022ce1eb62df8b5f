"""Draws a case: leaves, then steps, each run by eager torch as it is drawn, so that only what torch accepts remains."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional

from . import gathers, movement, pointwise, rows, windows
from .case import HELPER, Case, Leaf, Step
from .maker import FLOATS, INTS, Draft, Maker, Refused, Value

SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 40)
LONG = (64, 100, 129, 257, 1000, 1031, 4099)
LARGEST = 1 << 15

Drawing = Callable[[Maker], Draft]


def generate(seed: str, steps: int = 0) -> Case:
    """The case of this seed, the same everywhere. `steps`: how many (0: the seed decides)."""
    return _Generator(random.Random(seed), steps).case()


class _Generator:
    def __init__(self, rng: random.Random, steps: int) -> None:
        self.rng = rng
        self.count = steps or rng.choice([3, 6, 10, 14, 18])
        self.leaves: list[Leaf] = []
        self.steps: list[Step] = []
        self.values: list[Value] = []
        self.space: dict[str, object] = {}
        exec(HELPER, self.space)
        self.maker = Maker(rng, self.values, self.leaf)
        # A case leans to some families, so that kernels differ in kind and not only in detail.
        lean = rng.choice([(5, 3, 2, 1), (5, 3, 2, 1), (8, 1, 1, 1), (2, 7, 1, 1), (4, 2, 5, 1), (6, 0, 0, 0), (3, 3, 3, 0), (4, 2, 1, 4)])
        self.tables: list[tuple[float, Drawing]] = []
        moves, folds = movement.CATALOGUE + gathers.MOVES, rows.CATALOGUE + gathers.LOSSES
        for weight, table in zip(lean, (pointwise.CATALOGUE, moves, folds, windows.CATALOGUE), strict=True):
            total = sum(w for w, _ in table)
            self.tables += [(weight * w / total, draw) for w, draw in table]

    # -- leaves --

    def base_shape(self) -> tuple[int, ...]:
        rng = self.rng
        rank = rng.choice([1, 2, 2, 2, 3, 3, 4])
        while True:
            shape = [rng.choice(SIZES) for _ in range(rank)]
            if rng.random() < 0.2:
                shape[rng.randrange(rank)] = rng.choice(LONG)
            if rng.random() < 0.03:
                shape[rng.randrange(rank)] = 0
            total = 1
            for n in shape:
                total *= n
            if total <= 1 << 13:
                return tuple(shape)

    def shape_like(self, base: tuple[int, ...]) -> tuple[int, ...]:
        """The base, a suffix of it, with ones, or a permutation."""
        rng = self.rng
        shape = list(base)
        if rng.random() < 0.25:
            shape = [1 if rng.random() < 0.4 else n for n in shape]
        if rng.random() < 0.2:
            shape = shape[rng.randrange(len(shape) + 1) :]
        if rng.random() < 0.15:
            rng.shuffle(shape)
        return tuple(shape)

    def leaf(self, leaf: Leaf) -> Value:
        prefix = {"input": "x", "param": "p", "buffer": "b", "const": "c"}[leaf.kind]
        leaf = replace(leaf, name=f"{prefix}{len(self.leaves)}")
        tensor = eval(leaf.expression(), self.space)
        self.leaves.append(leaf)
        value = Value(leaf.name, tensor, True)
        self.values.append(value)
        self.space[leaf.name] = tensor
        return value

    def draw_leaf(self, base: tuple[int, ...], kind: str) -> Leaf:
        rng = self.rng
        dtype = rng.choice(FLOATS if kind == "param" or rng.random() < 0.72 else (*INTS, "bool", "bool"))
        shape = self.shape_like(base)
        values = "normal"
        if dtype in FLOATS:
            values = rng.choices(["normal", "grid", "positive", "unit", "special"], [6, 4, 1, 1, 1])[0]
        elif dtype != "bool":
            values = rng.choices(["normal", "positive", "bits", "any"], [5, 2, 1, 1])[0]
        layout = "plain"
        if kind == "input" and shape and 0 not in shape and rng.random() < 0.25:
            layout = rng.choice(["reversed", "sliced", "rows", "expanded"])
        return Leaf("", kind, dtype, shape, values, layout)

    # -- steps --

    def case(self) -> Case:
        rng = self.rng
        torch.manual_seed(rng.randrange(1 << 30))
        base = self.base_shape()
        self.leaf(replace(self.draw_leaf(base, "input"), shape=base, layout="plain"))
        for _ in range(rng.randrange(1, 4)):
            self.leaf(self.draw_leaf(base, "input"))
        for kind in ("param", "buffer", "const"):
            if rng.random() < 0.3:
                self.leaf(self.draw_leaf(base, kind))
        failures = 0
        while len(self.steps) < self.count and failures < 300:
            failures += not self.add()
        case = Case(
            tuple(self.leaves), tuple(self.steps), self.draw_outputs(), rng.choice(["flat", "flat", "list", "dict", "kwargs"]),
            rng.choice(["flat", "flat", "flat", "list", "dict", "deep"]), rng.random() < 0.2,
        )  # fmt: skip
        return case.pruned() if rng.random() < 0.9 else case

    def add(self) -> bool:
        """Draws one step and runs it. False where it does not fit."""
        draw = self.rng.choices([d for _, d in self.tables], [w for w, _ in self.tables])[0]
        known = len(self.leaves), len(self.values)
        try:
            draft = draw(self.maker)
        except Refused:
            self.forget(known)
            return False
        names = tuple(f"v{len(self.steps)}{'' if draft.outs == 1 else 'abcdefgh'[k]}" for k in range(draft.outs)) if draft.outs <= 8 else ()
        step = Step(names, draft.text, tuple(v.name for v in draft.operands), draft.simpler)
        if draft.outs > 8 or not self.run(step, draft):
            self.forget(known)
            return False
        self.steps.append(step)
        return True

    def forget(self, known: tuple[int, int]) -> None:
        """Leaves that an operator asked for before it was refused."""
        del self.leaves[known[0] :]
        del self.values[known[1] :]

    def run(self, step: Step, draft: Draft) -> bool:
        before = [v.tensor.clone() for v in self.values] if not step.outs else []
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(step.statement({}), self.space)
        except Exception:
            for value, old in zip(self.values, before, strict=False):  # a chain in place may have done half of its work
                if not torch.equal(value.tensor, old) and 0 not in value.tensor.stride():
                    value.tensor.copy_(old)
            return False
        if not step.outs:
            for value in self.values:  # any of them may be a view of what was changed
                value.exact = False
            return True
        made = [self.space[name] for name in step.outs]
        if not all(self.fits(t) for t in made):
            return False
        exact = draft.keeps and all(v.exact for v in draft.operands)
        self.values += [Value(name, t, exact or t.dtype == torch.bool) for name, t in zip(step.outs, made, strict=True)]
        return True

    def fits(self, t: object) -> bool:
        if not isinstance(t, torch.Tensor) or t.numel() > LARGEST or t.ndim > 6 or t.dtype.is_complex:
            return False
        if t.numel() == 0:
            return self.rng.random() < 0.2
        if not t.dtype.is_floating_point:
            return True
        finite = torch.isfinite(t)
        if float(finite.double().mean()) < 0.6 and self.rng.random() < 0.9:
            return False
        most = float(torch.where(finite, t, 0).abs().max())
        return most < (1e3 if t.dtype == torch.float16 else 1e6) or self.rng.random() < 0.05

    def draw_outputs(self) -> tuple[str, ...]:
        """Results that nothing reads, and now and then others: inner values, leaves, one twice."""
        rng = self.rng
        read = {a for s in self.steps for a in s.args}
        made = [o for s in self.steps for o in s.outs]
        if not made:
            return (self.leaves[0].name,)
        outs = [o for o in made if o not in read] or [made[-1]]
        rng.shuffle(outs)
        outs = outs[: rng.choice([1, 2, 4, 8])]
        several = [s.outs for s in self.steps if len(s.outs) > 1]
        if several and rng.random() < 0.5:  # what one operator makes goes together
            outs += [o for o in rng.choice(several) if o not in outs]
        if rng.random() < 0.3:
            outs.append(rng.choice(made))
        if rng.random() < 0.08:
            outs.append(rng.choice([leaf.name for leaf in self.leaves]))
        if rng.random() < 0.05:
            outs.append(outs[0])
        return tuple(outs)


__all__ = ["INTS", "generate"]
