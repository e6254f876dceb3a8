"""What the rows of the contract are made of: a world to make bad calls in, and kinds of bad values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

import fwshapley
from fwshapley import games
from models import ImageModel, TableModel, images, rows, seeded

# Untyped on purpose: the calls hand over what the types forbid.
fw: Any = fwshapley
play: Any = games

T = TypeVar("T")
Fault = tuple[type[Exception], ...]


class World:
    """What the calls are made with: small, made when first asked for, and shared.

    Args:
        folder: to write files to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.x: Any = rows(6, 4)
        self.pixels: Any = images(3)
        self.points: Any = rows(12, 2)
        self.labels: Any = torch.arange(12) % 3
        self.pictures: Any = images(8, size=4)
        self.game: Any = play.Glove(left=2, right=2)
        self.shares: Any = torch.tensor([0.1, 0.4, 0.2, 0.3])

    def new(self, **options: Any) -> Any:  # noqa: ANN401 - any argument
        """Return an explainer of a table that is not fitted."""
        return fw.FeatureExplainer(seeded(TableModel), device="cpu", **options)

    def fit(self, x: object, explainer: Any = None, **options: Any) -> Any:  # noqa: ANN401 - any argument
        """Fit an explainer for one step, unless it is told otherwise."""
        chosen = {"budget": fw.Budget(steps=1), "progress": False} | options
        return (explainer or self.new()).fit(x, **chosen)

    @cached_property
    def table(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        return self.fit(rows(40, 4), budget=fw.Budget(steps=2))

    @cached_property
    def image(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        made = fw.FeatureExplainer(seeded(ImageModel), fw.grid(8, 8, patch=4), device="cpu")
        return self.fit(images(24), made, budget=fw.Budget(steps=2))

    @cached_property
    def kernel(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        made = self.new(objective="kernel", weights=fw.Beta(4, 1))
        return self.fit(rows(40, 4), made)

    @cached_property
    def calibrated(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        made = self.fit(rows(40, 4))
        made.calibrate(rows(16, 4, seed=1), n_calls=16, progress=False)
        return made

    @cached_property
    def saved(self) -> Path:
        self.image.save(self.folder / "image")
        return self.folder / "image"

    @cached_property
    def loaded(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        self.table.save(self.folder / "table")
        return fw.load(self.folder / "table", device="cpu")

    @cached_property
    def attribution(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        return self.table.explain(self.x, weights=[fw.Shapley(), fw.Banzhaf()])

    @cached_property
    def image_attribution(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        return self.image.explain(self.pixels)

    @cached_property
    def valuation(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        return self.neighbors(weights=[fw.Shapley(), fw.Banzhaf()])

    def neighbors(self, x: object = None, y: object = None, **options: Any) -> Any:  # noqa: ANN401 - any argument
        """Value points by their neighbors."""
        given = (self.points if x is None else x, self.labels if y is None else y)
        return fw.value_neighbors(*given, device="cpu", progress=False, **options)

    @cached_property
    def knn(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        return fw.KNNValuator(device="cpu", progress=False).fit(self.points, self.labels)

    def learner(self, *weights: object, **options: Any) -> Any:  # noqa: ANN401 - any argument
        """Return a network that values points, to be trained for one step."""
        chosen = {"budget": fw.Budget(steps=1), "device": "cpu", "progress": False} | options
        return fw.AmortizedValuator(*weights, **chosen)

    @cached_property
    def learned(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        return self.learner().fit(self.points, self.labels)

    def retrain(self, model: object = None, **options: Any) -> Any:  # noqa: ANN401 - any argument
        """Value points by retraining a model a few times."""
        chosen: dict[str, Any] = {
            "method": "leave_one_out",
            "scoring": accuracy,
            "empty_value": 0.0,
            "progress": False,
        } | options
        made = fw.RetrainingValuator(Majority() if model is None else model, **chosen)
        return made.fit(self.points, self.labels, reference=(self.points, self.labels))

    @cached_property
    def fitted_twice(self) -> Any:  # noqa: ANN401 - untyped, as all that is called
        return self.cross_fit(self.pictures)

    def cross_fit(self, pictures: object, labels: object = None, **options: Any) -> Any:  # noqa: ANN401 - any argument
        """Learn features of images for one step."""
        chosen = {"folds": 2, "budget": fw.Budget(steps=2), "device": "cpu", "progress": False} | options
        return fw.cross_fit(pictures, torch.arange(8) % 2 if labels is None else labels, **chosen)

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """A folder, a file that is not there, one of another kind, and one that is cut off."""
        whole, damaged = self.folder / "valuation.safetensors", self.folder / "damaged.safetensors"
        self.valuation.save(whole)
        damaged.write_bytes(whole.read_bytes()[:-9])
        text = self.folder / "text.txt"
        text.write_text("no tensors")
        self.attribution.save(self.folder / "attribution.safetensors")
        return {
            "a folder": self.folder,
            "missing": self.folder / "missing.safetensors",
            "text": text,
            "damaged": damaged,
            "valuation": whole,
            "attribution": self.folder / "attribution.safetensors",
        }

    def evaluator(self, x: Tensor, shown: Tensor) -> Tensor:
        """Scores of three classes of inputs of which a coalition is shown."""
        return torch.cat([x[:, :2] * shown[:, :2], shown[:, 2:3].float()], 1)


class Majority:
    """A model with scikit-learn's verbs that predicts the most frequent class."""

    def fit(self, x: Any, y: Any) -> Majority:  # noqa: ANN401, ARG002 - as scikit-learn has it
        self.label = np.bincount(y).argmax()
        return self

    def predict(self, x: Any) -> Any:  # noqa: ANN401 - as scikit-learn has it
        return np.full(len(x), self.label)


def accuracy(model: Majority, x: Any, y: Any) -> float:  # noqa: ANN401 - as scikit-learn has it
    """Share of points that a model predicts."""
    return float((model.predict(x) == np.asarray(y)).mean())


Call = Callable[[World], object]


@dataclass(frozen=True)
class Case:
    """A call that must be refused.

    Attributes:
        of: what is called.
        what: is wrong with the call.
        call: itself.
        words: of which the error must hold one: the argument's name, or the offending number.
        error: of which the exception must be, not of a subclass of its own.
    """

    of: Callable[..., object]
    what: str
    call: Call
    words: tuple[str, ...]
    error: Fault

    @property
    def name(self) -> str:
        """What it is called in test reports and in `KNOWN`."""
        return f"{key_of(self.of)}: {self.what}"


def key_of(public: Callable[..., object]) -> str:
    """Return the name of a function, class or method, the same wherever it was imported from."""
    module = public.__module__.removeprefix("fwshapley.").removeprefix("explanation.")
    room = module.partition(".")[0]
    return f"{room}.{public.__qualname__}" if room in ROOMS else public.__qualname__


ROOMS = ("baselines", "datasets", "games", "metrics", "valuation")


def without(bad: Mapping[str, object], *kinds: str) -> dict[str, object]:
    """Return bad values but for some kinds, which an argument may well be."""
    return {kind: wrong for kind, wrong in bad.items() if kind not in kinds}


def only(bad: Mapping[str, T], *kinds: str) -> dict[str, T]:
    """Return bad values of some kinds, for arguments whose check is that of others."""
    return {kind: bad[kind] for kind in kinds}


class Odd:
    """Something that is no number, no array and no name."""

    def __repr__(self) -> str:
        return "an odd thing"


def of_shape(*shape: int) -> dict[str, object]:
    """Return arrays of a shape whose numbers are bad."""
    good = np.ones(shape, dtype=np.float64)
    holed, endless = good.copy(), good.copy()
    holed.flat[0], endless.flat[0] = math.nan, math.inf
    return {"with NaN": holed, "with inf": endless, "of complex numbers": good + 1j, "without rows": good[:0]}
