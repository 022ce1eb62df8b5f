"""Makes a failing case small while it fails in the same way: same stage, same kind."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from .case import Case, Leaf, Step
from .check import Failure, Options
from .driver import Driver, Job

# More genomes than the failing run had: a smaller kernel draws others.
PROGRAMS = 6


@dataclass
class Shrunk:
    case: Case
    failure: Failure
    options: Options
    checks: int


def shrink(driver: Driver, case: Case, failure: Failure, options: Options, most: int = 250, width: int = 6, programs: int = PROGRAMS) -> Shrunk:
    """At most `most` checks, `width` candidates at a time. Returns the smallest case found."""
    if options.programs and failure.stage not in ("task", "capture", "aten", "oracle"):
        options = replace(options, programs=max(programs, options.programs))
    elif options.programs:
        options = replace(options, programs=0)
    best = Shrunk(case, failure, options, 0)
    again = driver.check(case, options)
    if not failure.like(again):
        return best  # it does not fail with these options: shown as it is
    assert again is not None
    best.failure = again
    tried: set[str] = {case.source()}
    while best.checks < most:
        found = False
        for batch in _batches(_smaller(best.case), tried, width):
            results = driver.check_all([Job(str(k), c, options) for k, c in enumerate(batch)])
            best.checks += len(batch)
            for candidate, result in zip(batch, results, strict=True):
                if best.failure.like(result):
                    assert result is not None
                    best.case, best.failure, found = candidate, result, True
                    break
            if found or best.checks >= most:
                break
        if not found:
            break
    return best


def _batches(candidates: Iterator[Case], tried: set[str], width: int) -> Iterator[list[Case]]:
    batch: list[Case] = []
    for candidate in candidates:
        text = candidate.source()
        if text in tried:
            continue
        tried.add(text)
        batch.append(candidate)
        if len(batch) == width:
            yield batch
            batch = []
    if batch:
        yield batch


def _smaller(case: Case) -> Iterator[Case]:
    """Candidates, the greatest steps first."""
    made = _values(case)
    yield from _outputs(case)
    yield from _inner_outputs(case)
    yield from _steps(case, made)
    yield from _plain(case)
    yield from _leaves(case)
    yield from _shapes(case)


def _values(case: Case) -> dict[str, torch.Tensor]:
    """Each step's results, for their shapes."""
    space: dict[str, object] = {}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(case.source(), space)
            torch.manual_seed(0)
            for leaf in case.leaves:
                space[leaf.name] = eval(leaf.expression(), space)
            for step in case.steps:
                exec(step.statement({}), space)
    except Exception:
        return {}
    return {name: t for name, t in space.items() if isinstance(t, torch.Tensor)}


def _outputs(case: Case) -> Iterator[Case]:
    if len(case.outputs) > 1:
        half = len(case.outputs) // 2
        for part in (case.outputs[:half], case.outputs[half:]):
            yield replace(case, outputs=part).pruned()
        for one in case.outputs:
            yield replace(case, outputs=(one,)).pruned()


def _inner_outputs(case: Case) -> Iterator[Case]:
    """An inner value in place of the outputs: what comes after it goes."""
    for step in case.steps:
        for out in step.outs:
            if (out,) != case.outputs:
                yield replace(case, outputs=(out,)).pruned()


def _steps(case: Case, made: dict[str, torch.Tensor]) -> Iterator[Case]:
    for k in reversed(range(len(case.steps))):
        step = case.steps[k]
        rest = (*case.steps[:k], *case.steps[k + 1 :])
        if not step.outs:
            yield replace(case, steps=rest).pruned()
            continue
        # Its results as inputs of their own.
        if all(o in made for o in step.outs) and len(case.steps) > 1:
            fresh = tuple(Leaf(f"x{o}", "input", str(made[o].dtype).removeprefix("torch."), tuple(made[o].shape), _kind_of_values(made[o])) for o in step.outs)
            names = dict(zip(step.outs, [leaf.name for leaf in fresh], strict=True))
            yield _renamed(replace(case, steps=rest, leaves=(*case.leaves, *fresh)), names).pruned()
        # One of its operands in its place.
        for operand in step.args:
            if operand in made and len(step.outs) == 1 and step.outs[0] in made and made[operand].shape == made[step.outs[0]].shape:
                yield _renamed(replace(case, steps=rest), {step.outs[0]: operand}).pruned()
                break
        for text in step.simpler:
            if text != step.text:
                yield replace(case, steps=(*case.steps[:k], replace(step, text=text), *case.steps[k + 1 :])).pruned()


def _kind_of_values(t: torch.Tensor) -> str:
    if t.numel() and t.dtype.is_floating_point and bool((t > 0).all()):
        return "positive"
    return "normal"


def _renamed(case: Case, names: dict[str, str]) -> Case:
    def new(name: str) -> str:
        return names.get(name, name)

    steps = tuple(Step(s.outs, s.text, tuple(new(a) for a in s.args), s.simpler) for s in case.steps)
    return replace(case, steps=steps, outputs=tuple(new(o) for o in case.outputs))


def _plain(case: Case) -> Iterator[Case]:
    flat = replace(case, input_nesting="flat", output_nesting="flat", training=False)
    if flat != case:
        yield flat


def _leaves(case: Case) -> Iterator[Case]:
    for k, leaf in enumerate(case.leaves):
        changes: list[Leaf] = []
        if leaf.layout != "plain":
            changes.append(replace(leaf, layout="plain"))
        if leaf.kind in ("param", "const", "buffer"):
            changes.append(replace(leaf, kind="input"))
        if leaf.values not in ("normal", "positive"):
            changes.append(replace(leaf, values="normal"))
        if leaf.dtype not in ("float32", "bool", "int64"):
            changes.append(replace(leaf, dtype="float32" if "float" in leaf.dtype else "int64"))
        for change in changes:
            yield replace(case, leaves=(*case.leaves[:k], change, *case.leaves[k + 1 :]))
    floats = tuple(replace(leaf, dtype="float32") if "float" in leaf.dtype else leaf for leaf in case.leaves)
    if floats != case.leaves:
        yield replace(case, leaves=floats)


def _shapes(case: Case) -> Iterator[Case]:
    """One size, wherever it occurs, made smaller; then a dim of one leaf."""
    sizes = sorted({n for leaf in case.leaves for n in leaf.shape if n > 1}, reverse=True)
    for size in sizes:
        for smaller in sorted({1, 2, 3, size // 2, size - 1} - {0, size}):
            if smaller < size:
                yield replace(case, leaves=tuple(replace(leaf, shape=tuple(smaller if n == size else n for n in leaf.shape)) for leaf in case.leaves))
    ranks = {len(leaf.shape) for leaf in case.leaves}
    for rank in ranks:
        for drop in range(rank):
            yield replace(case, leaves=tuple(_without(leaf, drop) if len(leaf.shape) == rank else leaf for leaf in case.leaves))


def _without(leaf: Leaf, dim: int) -> Leaf:
    return replace(leaf, shape=leaf.shape[:dim] + leaf.shape[dim + 1 :])
