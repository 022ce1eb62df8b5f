"""How far a result may lean to one side: by a part of the noise between, and of the last rounding by none."""

import pytest
import torch
from planish.oracle.statistics import View, Yardstick

COUNT = 1 << 18
NOISE = 2.0**-7  # of a number: what a deep network in 16 bits has


def yardstick(noise):
    generator = torch.Generator().manual_seed(1)

    def draw():
        return torch.empty(COUNT, dtype=torch.float64).normal_(generator=generator)

    exact = draw()
    exact += exact.sign()
    draws = [exact * (1 + noise * draw()) for _ in range(5)]
    made = Yardstick(View([COUNT], torch.device("cpu"), 1), exact, draws[0].to(torch.bfloat16), True)
    if noise:
        made.learn(draws[1:3], draws[3:])
    return made, exact, exact * (1 + noise * draw())


@pytest.mark.parametrize(("lean", "right"), [(0.02, True), (0.15, False)])
def test_a_lean_is_held_to_the_noise_between(lean, right):
    made, exact, honest = yardstick(NOISE)
    leaning = (honest + lean * NOISE * exact).to(torch.bfloat16)
    ratio, name = made.judge(made.measure(leaning))
    assert (ratio <= 1) is right, (ratio, name)
    assert right or name == "bias of the size"


def test_the_last_rounding_leans_nowhere():
    made, exact, _ = yardstick(0.0)
    assert made.judge(made.measure(exact.to(torch.bfloat16)))[0] <= 1
    # A thirtieth of them is rounded towards zero.
    rounded = exact.to(torch.bfloat16)
    beyond = (rounded.double().abs() > exact.abs()) & (torch.arange(COUNT) % 15 == 0)
    rounded[beyond] = (rounded[beyond].view(torch.int16) - 1).view(torch.bfloat16)
    ratio, name = made.judge(made.measure(rounded))
    assert ratio > 1 and name == "bias of the size", (ratio, name)
