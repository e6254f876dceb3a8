"""Base class of all results: values under one weighting, or under a list of them.

Arrays are torch tensors or numpy arrays, as the method that computed them returns. Nothing here imports torch.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from fwshapley._internal.arrays import is_tensor
from fwshapley._internal.checks import check_path
from fwshapley._internal.safetensors_file import Bundle, load_bundle, save_bundle
from fwshapley.semivalues import Semivalue, check_semivalue

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Result(ABC):
    """Values under one weighting, or under a list of weightings that is stacked in front.

    With a list of one weighting, arrays keep the axis in front. A subclass is a frozen dataclass with
    `weights` among its fields. Fields are saved by type: arrays as arrays, everything else as JSON, in which tuples
    become lists and are turned back into tuples. A subclass with other fields extends `_to_bundle` and `_from_bundle`.

    Attributes:
        weights: the semivalue, or the list of semivalues.
        kind: name of this kind of result in saved files.
        per_weighting: names of the fields that have an axis for the weightings in front if `weights` is a list.
    """

    weights: Semivalue | list[Semivalue]
    kind: ClassVar[str]
    per_weighting: ClassVar[tuple[str, ...]] = ("values", "stderr")

    @property
    def weightings(self) -> list[Semivalue]:
        """The weightings as a list, also if there is only one."""
        return self.weights if isinstance(self.weights, list) else [self.weights]

    def of(self, weights: Semivalue) -> Self:
        """Return the result under one of several weightings.

        Args:
            weights: one of `weightings`.
        """
        if check_semivalue(weights) not in self.weightings:
            available = ", ".join(map(str, self.weightings))
            raise ValueError(f"weights must be one of {available}, the weightings of this result; got {weights}")
        if not isinstance(self.weights, list):
            return self
        return self._with_weighting_axis(self.weights.index(weights), weights)

    def stacked(self) -> Self:
        """Return the result with its weighting as a list of one; a list stays as it is."""
        return self if isinstance(self.weights, list) else self._with_weighting_axis(None, [self.weights])

    def unstacked(self) -> Self:
        """Return the result under its only weighting; raise ValueError if there are several."""
        if len(self.weightings) > 1:
            raise ValueError(
                f"this result has {len(self.weightings)} weightings: choose one first, e.g. with "
                f"of({self.weightings[0]!r})"
            )
        return self.of(self.weightings[0])

    @abstractmethod
    def to_dataframe(self) -> pd.DataFrame:
        """Return the values as a table."""

    @abstractmethod
    def plot(self) -> Figure:
        """Draw the values."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to one safetensors file, which `load` and `fwshapley.load` read.

        Args:
            path: file to write; an existing file is replaced.
        """
        bundle = self._to_bundle()
        save_bundle(check_path("path", path), self.kind, bundle.facts, bundle.arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a result that `save` wrote.

        Args:
            path: the file.
        """
        return cls._from_bundle(load_bundle(check_path("path", path), cls.kind))

    def _to_bundle(self) -> Bundle:
        """Return the JSON-compatible fields and the arrays."""
        facts: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, field.name)
            if is_tensor(value) or isinstance(value, np.ndarray):
                arrays[field.name] = value
            elif field.name != "weights":
                facts[field.name] = dict(value) if isinstance(value, Mapping) else value
        facts["weights"] = [weights.to_json() for weights in self.weightings]
        facts["stacked"] = isinstance(self.weights, list)
        return Bundle(facts, arrays)

    @classmethod
    def _from_bundle(cls, bundle: Bundle) -> Self:
        """Return the result whose `_to_bundle` was saved."""
        facts = dict(bundle.facts)
        weightings = [Semivalue.from_json(text) for text in facts.pop("weights")]
        weights = weightings if facts.pop("stacked") else weightings[0]
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}
        return cls(weights=weights, **plain, **bundle.arrays)  # type: ignore[call-arg]  # the subclass has these fields

    def _with_weighting_axis(self, index: int | None, weights: Semivalue | list[Semivalue]) -> Self:
        """Return the result with its per-weighting arrays indexed; the index None adds the axis in front."""
        arrays = {name: getattr(self, name) for name in self.per_weighting}
        changed = {name: array[index] for name, array in arrays.items() if array is not None}
        return replace(self, weights=weights, **changed)  # type: ignore[type-var]  # subclasses are dataclasses
