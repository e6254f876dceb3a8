"""CIFAR-10, SVHN and Fashion-MNIST: images with classes, read from their official files or downloaded."""

from fwshapley.datasets.catalog import LabeledImages, load
from fwshapley.datasets.formats import read_packed

__all__ = ["LabeledImages", "load", "read_packed"]
