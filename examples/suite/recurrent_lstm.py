"""An LSTM over a batch of sequences."""

import torch
import torch.nn as nn

BATCH, LENGTH, INPUTS, WIDTH = 64, 128, 256, 512  # small: 3, 9, 6, 10


class Model(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.rnn = nn.LSTM(inputs, width, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0]


def get_inputs():
    return [torch.randn(BATCH, LENGTH, INPUTS)]


def get_init_inputs():
    return [INPUTS, WIDTH]
