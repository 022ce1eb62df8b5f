"""Every layer of torch.nn with inputs that it takes, small: {name: Case}. A layer that appears in torch and not here is reported as untried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

Call = tuple[Any, ...] | dict[str, Any]


@dataclass(frozen=True)
class Case:
    """`module` constructs it, `inputs` gives positional or keyword arguments; `training` is the mode it is tried in."""

    module: Callable[[], nn.Module]
    inputs: Callable[[], Call]
    training: bool = False


#: Classes that hold other modules or are bases, and do nothing by themselves.
CONTAINERS = frozenset("Container Module ModuleDict ModuleList ParameterDict ParameterList Sequential RNNBase RNNCellBase DataParallel".split())


def _dims(name: str) -> int:
    return int(name[-2]) if name[-1] == "d" and name[-2].isdigit() else 0


def _image(dims: int, channels: int = 8, size: int = 12) -> torch.Tensor:
    return torch.randn(4, channels, *[size] * dims)


def _labels(*shape: int, classes: int = 5) -> torch.Tensor:
    return torch.randint(0, classes, shape)


class Loss(nn.Module):
    """A loss that also takes what its constructor cannot."""

    def __init__(self, loss: nn.Module, *more: Any) -> None:
        super().__init__()
        self.loss, self.more = loss, more

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.loss(*inputs, *self.more)


class Unpool(nn.Module):
    """The pair of layers that is used together: the indices of one are the inputs of the other."""

    def __init__(self, dims: int) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{dims}d")(2, return_indices=True)
        self.unpool = getattr(nn, f"MaxUnpool{dims}d")(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.unpool(*self.pool(x))


def _cases() -> dict[str, Case]:
    found: dict[str, Case] = {}

    def add(name: str, module: Callable[[], nn.Module], inputs: Callable[[], Call], training: bool = False) -> None:
        found[name] = Case(module, inputs, training)

    def add_all(names: str, make: Callable[[Any, int], nn.Module], inputs: Callable[[int], Call], training: bool = False, suffix: str = "") -> None:
        for name in names.split():
            kind, dims = getattr(nn, name), _dims(name)
            add(name + suffix, partial(make, kind, dims), partial(inputs, dims), training)

    for dims in (1, 2, 3):
        for kind in ("AdaptiveAvgPool", "AdaptiveMaxPool"):
            add_all(f"{kind}{dims}d", lambda k, d: k(3), lambda d: (_image(d),))
        for kind in ("AvgPool", "MaxPool"):
            add_all(f"{kind}{dims}d", lambda k, d: k(2), lambda d: (_image(d),))
        add_all(f"LPPool{dims}d", lambda k, d: k(2.0, 2), lambda d: (_image(d).abs(),))
        for kind in ("Conv", "ConvTranspose"):
            add_all(f"{kind}{dims}d", lambda k, d: k(8, 6, 3, padding=1), lambda d: (_image(d),))
            add_all(f"Lazy{kind}{dims}d", lambda k, d: k(6, 3, padding=1), lambda d: (_image(d),))
        for kind in ("BatchNorm", "InstanceNorm"):
            add_all(f"{kind}{dims}d", lambda k, d: k(8, affine=True, track_running_stats=True), lambda d: (_image(d),))
            add_all(f"{kind}{dims}d", lambda k, d: k(8), lambda d: (_image(d),), True, " (training)")
            add_all(f"Lazy{kind}{dims}d", lambda k, d: k(), lambda d: (_image(d),), True)
        for kind in ("CircularPad", "ReflectionPad", "ReplicationPad", "ZeroPad"):
            add_all(f"{kind}{dims}d", lambda k, d: k(2), lambda d: (_image(d),))
        add_all(f"ConstantPad{dims}d", lambda k, d: k(2, 1.5), lambda d: (_image(d),))
        add(f"MaxUnpool{dims}d", lambda d=dims: Unpool(d), lambda d=dims: (_image(d),))  # type: ignore[misc]
        add_all(f"Dropout{dims}d", lambda k, d: k(0.3), lambda d: (_image(d),))
    plain = "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU ReLU ReLU6 RReLU SELU SiLU Sigmoid Softplus Softshrink"
    add_all(
        f"{plain} Softsign Tanh Tanhshrink Identity Flatten AlphaDropout FeatureAlphaDropout Dropout", lambda k, d: k(), lambda d: (torch.randn(8, 64, 32),)
    )
    add_all("Dropout AlphaDropout RReLU", lambda k, d: k(), lambda d: (torch.randn(8, 32),), True, " (training)")
    add_all("Softmax LogSoftmax Softmin", lambda k, d: k(dim=-1), lambda d: (torch.randn(8, 64),))
    add("Softmax2d", nn.Softmax2d, lambda: (_image(2),))
    add("Threshold", lambda: nn.Threshold(0.1, 2.0), lambda: (torch.randn(8, 64),))
    add("Unflatten", lambda: nn.Unflatten(1, (8, 8)), lambda: (torch.randn(8, 64),))
    add("Linear", lambda: nn.Linear(64, 48), lambda: (torch.randn(8, 64),))
    add("LazyLinear", lambda: nn.LazyLinear(48), lambda: (torch.randn(8, 64),))
    add("Bilinear", lambda: nn.Bilinear(16, 12, 8), lambda: (torch.randn(8, 16), torch.randn(8, 12)))
    add("Embedding", lambda: nn.Embedding(100, 32), lambda: (_labels(4, 16, classes=100),))
    add("EmbeddingBag", lambda: nn.EmbeddingBag(100, 32), lambda: (_labels(4, 16, classes=100),))
    add("EmbeddingBag (max)", lambda: nn.EmbeddingBag(100, 32, mode="max"), lambda: (_labels(4, 16, classes=100),))
    add("EmbeddingBag (offsets)", lambda: nn.EmbeddingBag(100, 32), lambda: (_labels(64, classes=100), torch.tensor([0, 10, 30])))
    add("ChannelShuffle", lambda: nn.ChannelShuffle(2), lambda: (_image(2),))
    add("PixelShuffle", lambda: nn.PixelShuffle(2), lambda: (_image(2),))
    add("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), lambda: (_image(2),))
    add("Fold", lambda: nn.Fold((12, 12), 3, padding=1), lambda: (torch.randn(2, 36, 144),))
    add("Unfold", lambda: nn.Unfold(3, padding=1), lambda: (_image(2),))
    add("FractionalMaxPool2d", lambda: nn.FractionalMaxPool2d(2, output_size=5), lambda: (_image(2),))
    add("FractionalMaxPool3d", lambda: nn.FractionalMaxPool3d(2, output_size=5), lambda: (_image(3),))
    add("GroupNorm", lambda: nn.GroupNorm(4, 8), lambda: (_image(2),))
    add("LayerNorm", lambda: nn.LayerNorm(64), lambda: (torch.randn(8, 64),))
    add("RMSNorm", lambda: nn.RMSNorm(64), lambda: (torch.randn(8, 64),))
    add("LocalResponseNorm", lambda: nn.LocalResponseNorm(3), lambda: (_image(2),))
    add("CrossMapLRN2d", lambda: nn.CrossMapLRN2d(3), lambda: (_image(2),))
    add("SyncBatchNorm", lambda: nn.SyncBatchNorm(8), lambda: (_image(2),))
    add("Upsample", lambda: nn.Upsample(scale_factor=2), lambda: (_image(2),))
    add("Upsample (bicubic)", lambda: nn.Upsample(scale_factor=1.5, mode="bicubic"), lambda: (_image(2),))
    add("Upsample (trilinear)", lambda: nn.Upsample(scale_factor=2, mode="trilinear"), lambda: (_image(3),))
    add("UpsamplingBilinear2d", lambda: nn.UpsamplingBilinear2d(scale_factor=2), lambda: (_image(2),))
    add("UpsamplingNearest2d", lambda: nn.UpsamplingNearest2d(scale_factor=2), lambda: (_image(2),))
    add("CosineSimilarity", nn.CosineSimilarity, lambda: (torch.randn(16, 64), torch.randn(16, 64)))
    add("PairwiseDistance", nn.PairwiseDistance, lambda: (torch.randn(16, 64), torch.randn(16, 64)))
    _add_recurrent(add)
    _add_attention(add)
    _add_losses(add)
    return found


def _add_recurrent(add: Callable[..., None]) -> None:
    for name in ("RNN", "LSTM", "GRU"):
        kind, cell = getattr(nn, name), getattr(nn, f"{name}Cell")
        add(name, lambda kind=kind: kind(32, 24, 2), lambda: (torch.randn(20, 4, 32),))
        add(
            f"{name} (bidirectional)",
            lambda kind=kind: kind(32, 24, batch_first=True, bidirectional=True),
            lambda: (torch.randn(4, 20, 32),),
        )
        add(f"{name} (unbatched)", lambda kind=kind: kind(32, 24), lambda: (torch.randn(20, 32),))
        add(f"{name} (training)", lambda kind=kind: kind(32, 24), lambda: (torch.randn(20, 4, 32),), True)
        add(f"{name}Cell", lambda cell=cell: cell(32, 24), lambda: (torch.randn(4, 32),))


def _add_attention(add: Callable[..., None]) -> None:
    def attend(**kwargs: Any) -> dict[str, Any]:
        x = torch.randn(4, 20, 32)
        return {"query": x, "key": x, "value": x, **kwargs}

    def attention() -> nn.Module:
        return nn.MultiheadAttention(32, 4, batch_first=True)

    add("MultiheadAttention", attention, attend)
    add("MultiheadAttention (no weights)", attention, lambda: attend(need_weights=False))
    add("MultiheadAttention (training)", attention, lambda: attend(need_weights=False), True)
    add("MultiheadAttention (weights, training)", attention, attend, True)
    add("MultiheadAttention (mask)", attention, lambda: attend(attn_mask=torch.ones(20, 20).triu(1).bool(), need_weights=False))
    add("MultiheadAttention (padding)", attention, lambda: attend(key_padding_mask=torch.arange(20)[None] >= torch.tensor([[20], [15], [9], [18]])))
    add("MultiheadAttention (cross)", lambda: nn.MultiheadAttention(32, 4, kdim=16, vdim=24),
        lambda: (torch.randn(20, 4, 32), torch.randn(12, 4, 16), torch.randn(12, 4, 24)))  # fmt: skip
    for training in (False, True):
        mode = " (training, no dropout)" if training else ""
        rate = 0.0 if training else 0.1
        add(f"TransformerEncoderLayer{mode}", lambda r=rate: nn.TransformerEncoderLayer(32, 4, 64, r, batch_first=True),
            lambda: (torch.randn(4, 20, 32),), training)  # fmt: skip
        add(f"TransformerDecoderLayer{mode}", lambda r=rate: nn.TransformerDecoderLayer(32, 4, 64, r),
            lambda: (torch.randn(10, 4, 32), torch.randn(20, 4, 32)), training)  # fmt: skip
    add("TransformerEncoderLayer (training)", lambda: nn.TransformerEncoderLayer(32, 4, 64), lambda: (torch.randn(20, 4, 32),), True)
    add("TransformerEncoder", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2), lambda: (torch.randn(4, 20, 32),))
    add("TransformerDecoder", lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 64), 2), lambda: (torch.randn(10, 4, 32), torch.randn(20, 4, 32)))
    add("Transformer", lambda: nn.Transformer(32, 4, 1, 1, 64), lambda: (torch.randn(20, 4, 32), torch.randn(10, 4, 32)))


def _add_losses(add: Callable[..., None]) -> None:
    def pair() -> Call:
        return torch.randn(16, 5), torch.randn(16, 5)

    def signs() -> torch.Tensor:
        return torch.randint(0, 2, (16,)) * 2.0 - 1

    for name in ("HuberLoss", "L1Loss", "MSELoss", "SmoothL1Loss"):
        add(name, getattr(nn, name), pair)
    add("BCELoss", nn.BCELoss, lambda: (torch.rand(16, 5), torch.rand(16, 5)))
    add("BCEWithLogitsLoss", nn.BCEWithLogitsLoss, lambda: (torch.randn(16, 5), torch.rand(16, 5)))
    add("CrossEntropyLoss", nn.CrossEntropyLoss, lambda: (torch.randn(16, 5), _labels(16)))
    add("CrossEntropyLoss (smoothing)", lambda: nn.CrossEntropyLoss(label_smoothing=0.1), lambda: (torch.randn(16, 5), _labels(16)))
    add("NLLLoss", nn.NLLLoss, lambda: (torch.randn(16, 5).log_softmax(-1), _labels(16)))
    add("NLLLoss2d", nn.NLLLoss2d, lambda: (torch.randn(4, 5, 6, 6).log_softmax(1), _labels(4, 6, 6)))
    add("CTCLoss", lambda: Loss(nn.CTCLoss(), (20,) * 4, (6,) * 4), lambda: (torch.randn(20, 4, 9).log_softmax(-1), torch.randint(1, 9, (4, 6))))
    add("CTCLoss (lengths as tensors)", nn.CTCLoss,
        lambda: (torch.randn(20, 4, 9).log_softmax(-1), torch.randint(1, 9, (4, 6)), torch.tensor([20, 18, 20, 15]), torch.tensor([6, 5, 4, 6])))  # fmt: skip
    add("AdaptiveLogSoftmaxWithLoss", lambda: nn.AdaptiveLogSoftmaxWithLoss(32, 50, [10, 30]), lambda: (torch.randn(16, 32), _labels(16, classes=50)))
    if hasattr(nn, "LinearCrossEntropyLoss"):  # not before torch 2.13
        add("LinearCrossEntropyLoss", lambda: nn.LinearCrossEntropyLoss(32, 5), lambda: (torch.randn(16, 32), _labels(16)))
    add("CosineEmbeddingLoss", nn.CosineEmbeddingLoss, lambda: (*pair(), signs()))
    add("GaussianNLLLoss", nn.GaussianNLLLoss, lambda: (*pair(), torch.rand(16, 5) + 0.1))
    add("HingeEmbeddingLoss", nn.HingeEmbeddingLoss, lambda: (torch.randn(16), signs()))
    add("KLDivLoss", lambda: nn.KLDivLoss(reduction="batchmean"), lambda: (torch.randn(16, 5).log_softmax(-1), torch.randn(16, 5).softmax(-1)))
    add("MarginRankingLoss", nn.MarginRankingLoss, lambda: (torch.randn(16), torch.randn(16), signs()))
    add("MultiLabelMarginLoss", nn.MultiLabelMarginLoss, lambda: (torch.randn(4, 4), torch.tensor([[3, 0, -1, 1]] * 4)))
    add("MultiLabelSoftMarginLoss", nn.MultiLabelSoftMarginLoss, lambda: (torch.randn(16, 5), torch.randint(0, 2, (16, 5)).float()))
    add("MultiMarginLoss", nn.MultiMarginLoss, lambda: (torch.randn(16, 5), _labels(16)))
    add("PoissonNLLLoss", nn.PoissonNLLLoss, lambda: (torch.randn(16), torch.rand(16) * 5))
    add("SoftMarginLoss", nn.SoftMarginLoss, lambda: (torch.randn(16), signs()))
    add("TripletMarginLoss", nn.TripletMarginLoss, lambda: (torch.randn(16, 8), torch.randn(16, 8), torch.randn(16, 8)))
    add("TripletMarginWithDistanceLoss", nn.TripletMarginWithDistanceLoss, lambda: (torch.randn(16, 8), torch.randn(16, 8), torch.randn(16, 8)))


LAYERS = _cases()


def untried() -> list[str]:
    """Layers of this torch that no case names."""
    names = {name.partition(" ")[0] for name in LAYERS}
    classes = [n for n in dir(nn) if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)]
    return sorted(n for n in classes if n not in names and n not in CONTAINERS)
