"""A plain recurrent network with tanh. Odd sizes."""

import torch
import torch.nn as nn

BATCH, LENGTH, INPUTS, WIDTH = 33, 51, 65, 129  # small: 3, 5, 7, 9


class Model(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.rnn = nn.RNN(inputs, width)

    def forward(self, x):
        return self.rnn(x)[0]


def get_inputs():
    return [torch.randn(LENGTH, BATCH, INPUTS)]


def get_init_inputs():
    return [INPUTS, WIDTH]
