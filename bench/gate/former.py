"""The gate as it was until record 0115, for comparison: two measures of the whole, a floor of some units in the last place, a response that moves
inputs too."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from planish import float8
from planish.oracle import gate, layout, measure
from planish.oracle.expected import Expected, Output
from planish.oracle.gate import Pair
from planish.oracle.interpret import Double

_RESPONSE, _NARROW = 8.0, 8


class _Narrow(Double):
    """Moves what arithmetic made in 16 bits by one rounding to these."""

    def _perturbed(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        before = self.delta
        self.delta = torch.finfo(dtype).eps / 4 if gate.is_narrow(dtype) else before
        try:
            return super()._perturbed(tensor, dtype)
        finally:
            self.delta = before

    def value(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return super().value(tensor, torch.float32 if gate.is_narrow(dtype) else dtype)


class Former:
    """What the former gate says of the outputs of one data set."""

    def __init__(self, expected: Expected, inputs: Mapping[int, torch.Tensor]) -> None:
        self.expected, self.inputs = expected, inputs
        self._response: dict[bool, list[Pair]] = {}
        seen: set[int] = set()
        self.compared: set[int] = set()  # no input, and no value for the second time
        for index, out in enumerate(expected.outputs):
            if out.value not in inputs and out.value not in seen:
                self.compared.add(index)
            seen.add(out.value)

    def passes(self, index: int, view: torch.Tensor) -> bool:
        out = self.expected.outputs[index]
        actual = layout.flat(view, out.order)
        if float8.is_float8(out.dtype):
            actual = float8.places(actual, out.dtype)
        if out.ref is None:
            return bool(((actual == out.eager) | (actual == out.exact.to(actual.dtype))).all())
        errors = measure.compare(actual, out.ref)
        if errors.problem is not None:
            return False
        error, ulp = Pair(errors.fro, errors.max), torch.finfo(out.dtype).eps
        floor = Pair(ulp, 2 * ulp) if gate.is_narrow(out.dtype) else Pair(4 * ulp, 4 * ulp)
        limit = out.yardstick.larger(out.eager_error).larger(floor)
        if error.within(limit.times(2)):
            return True
        limit = limit.larger(self._of(False)[index].times(_RESPONSE))
        if error.within(limit.times(2)):
            return True
        return error.within(limit.larger(self._of(True)[index]).times(2)) if self._rounds() else False

    def _of(self, narrow: bool) -> list[Pair]:
        if narrow not in self._response:
            kind = _Narrow if narrow else Double
            found = [gate.ZERO] * len(self.expected.outputs)
            for draw in range(_NARROW if narrow else gate.RESPONSE_DRAWS):
                generator = torch.Generator(self.expected.device).manual_seed((104729 if narrow else 7919) + draw)
                moved = self.expected._variant(self.inputs, kind(delta=gate.DELTA, generator=generator))
                found = [a.larger(b) for a, b in zip(found, moved, strict=True)]
            self._response[narrow] = found
        return self._response[narrow]

    def _rounds(self) -> bool:
        run = self.expected.run
        made = {o for outs in run._outs for o in outs if o is not None and gate.is_narrow(run.dtypes[o])}
        return bool(made & run.values_read())


def error_of(out: Output, view: torch.Tensor) -> float:
    """Over eager's own, by norm; of eager at least what correct rounding costs."""
    if out.ref is None:
        return 0.0
    errors = measure.compare(layout.flat(view, out.order), out.ref)
    return errors.fro / max(out.eager_error.fro, gate.floor(out.dtype).fro)
