"""Images with classes: CIFAR-10, SVHN and Fashion-MNIST, read from their files or downloaded and checked."""

from fwshapley.datasets.images import LabelledImages, load
from fwshapley.datasets.packed import read_packed

__all__ = ["LabelledImages", "load", "read_packed"]
