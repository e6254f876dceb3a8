"""Images with classes: CIFAR-10, SVHN and Fashion-MNIST, read from their files or downloaded and checked."""

from fwshapley.datasets.images import LabeledImages, load
from fwshapley.datasets.packed import read_packed

__all__ = ["LabeledImages", "load", "read_packed"]
