"""A small convolutional network for images: the surrogate of black boxes."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from fwshapley.networks.mlp import Rescale

MAX_LEVELS = 4
MIN_SIDE = 4


class SmallCNN(nn.Module):
    """Blocks of two convolutions, each after the first at half the resolution: images to (batch, outputs).

    Args:
        channels: of the images.
        outputs: number of outputs.
        side: the smaller side of the images, which limits the number of halvings.
        targets: outputs that give the units of the network's outputs.
        width: feature maps at full resolution; doubled at each halving.
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        side: int,
        *,
        targets: Float[Tensor, "rows outputs"] | None = None,
        width: int = 32,
    ) -> None:
        super().__init__()
        self.channels, self.outputs, self.side = channels, outputs, side
        levels = max(1, min(MAX_LEVELS, side.bit_length() - MIN_SIDE.bit_length() + 1))
        widths = [width << level for level in range(levels)]
        self.blocks = nn.Sequential(
            *(
                two_convolutions(before, after, stride=2 if level else 1)
                for level, (before, after) in enumerate(zip([channels, *widths], widths, strict=False))
            )
        )
        self.head = nn.Sequential(nn.Linear(widths[-1], outputs), Rescale(outputs, targets))

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch outputs"]:
        """Logits or values."""
        out: Tensor = self.head(self.blocks(x).mean((2, 3)))
        return out


def two_convolutions(before: int, after: int, stride: int = 1) -> nn.Sequential:
    """Two 3x3 convolutions with batch normalization; the first one has the stride."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    )
