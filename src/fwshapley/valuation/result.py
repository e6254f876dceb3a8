"""What a valuation is: a value and a standard error per training point, with all that is needed to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from fwshapley import plots
from fwshapley.checks import check_whole
from fwshapley.storage import load_bundle, save_bundle
from fwshapley.weights import Semivalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OTHER_POINTS = "the other points"
"""What points are valued by if there are no reference points."""


@dataclass(frozen=True, eq=False)
class Valuation:
    """Values of training points: the average change of the utility when a point joins others.

    A positive value says that a point helps to predict the reference points, one near 0 that it hardly matters, a
    **negative one that it does harm**: points of the lowest values most often have a wrong label. Where small
    coalitions count most (a large alpha), hardly a point does harm under the soft utility: there the order tells.

    Attributes:
        values: (n,), or (weights, n) for a list of weights.
        stderr: standard error of each value over reference points; NaN where there is only one.
        weights: the semivalue, or the list of them.
        labels: class number of each point.
        classes: names of the classes.
        references: number of reference points that each value is a mean over.
        error_bound: most that a value may be off because of a tolerance.
        provenance: how the values came about.
    """

    values: Float64[Tensor, "*weights n"]
    stderr: Float64[Tensor, "*weights n"]
    weights: Semivalue | list[Semivalue]
    labels: Int[Tensor, " n"]
    classes: tuple[str, ...]
    references: int
    error_bound: float
    provenance: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.labels)

    def __str__(self) -> str:
        kinds = ", ".join(map(str, self._several))
        return f"{kinds} of {len(self)} points for {self.references} reference points"

    def of(self, weights: Semivalue) -> Valuation:
        """Return the valuation under one of several weightings."""
        if weights not in self._several:
            raise ValueError(f"{weights} was not asked for; there are {', '.join(map(str, self._several))}")
        if not isinstance(self.weights, list):
            return self
        row = self.weights.index(weights)
        return replace(self, values=self.values[row], stderr=self.stderr[row], weights=weights)

    def suspects(self, k: int | None = None) -> Int[Tensor, " k"]:
        """Indices of the k points of lowest value, from the lowest on; by default those of negative value, if any."""
        values = self._one().values
        order = values.argsort(stable=True)
        return order[: int((values < 0).sum()) if k is None else min(check_whole("k", k), len(order))]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with a row per point: label (as text), value, standard error, rank (1 the most suspicious)."""
        names = [""]
        if isinstance(self.weights, list):
            alike = Counter(map(str, self.weights))
            names = [f" {each}{f' #{row}' * (alike[str(each)] > 1)}" for row, each in enumerate(self.weights)]
        columns: dict[str, Any] = {"label": [self.classes[label] for label in self.labels.tolist()]}
        stacked = (self.values.reshape(-1, len(self)), self.stderr.reshape(-1, len(self)))
        for name, values, stderr in zip(names, *stacked, strict=True):
            rank = torch.empty(len(self), dtype=torch.int64)
            rank[values.argsort(stable=True)] = torch.arange(1, len(self) + 1)
            columns |= {f"value{name}": values.numpy(), f"stderr{name}": stderr.numpy(), f"rank{name}": rank.numpy()}
        return pd.DataFrame(columns)

    def plot(self) -> Figure:
        """Draw how values are distributed, and the values of all points from the lowest to the highest."""
        stacked = zip(
            self._several, self.values.reshape(-1, len(self)), self.stderr.reshape(-1, len(self)), strict=True
        )
        return plots.plot_values([(str(weights), values, stderr) for weights, values, stderr in stacked])

    def save(self, path: str | Path) -> None:
        """Write to one safetensors file."""
        facts = {
            "weights": [each.to_json() for each in self._several],
            "stacked": isinstance(self.weights, list),
            "classes": self.classes,
            "references": self.references,
            "error_bound": self.error_bound,
            "provenance": dict(self.provenance),
        }
        tensors = {"values": self.values, "stderr": self.stderr, "labels": self.labels}
        save_bundle(Path(path), "valuation", facts, tensors)

    @classmethod
    def load(cls, path: str | Path) -> Valuation:
        """Read what `save` wrote."""
        facts, tensors = load_bundle(Path(path), "valuation")
        several = [Semivalue.from_json(text) for text in facts["weights"]]
        return cls(
            **tensors,
            weights=several if facts["stacked"] else several[0],
            classes=tuple(facts["classes"]),
            references=facts["references"],
            error_bound=facts["error_bound"],
            provenance=facts["provenance"],
        )

    @classmethod
    def merge(cls, parts: Sequence[Valuation]) -> Valuation:
        """Return the valuation over all reference points, from valuations of the same points over some each."""
        if not parts:
            raise ValueError("there is nothing to merge")
        if parts[0].provenance.get("reference") == OTHER_POINTS:
            raise ValueError("points valued by each other are valued all at once: there is nothing to be merged")
        first, references = parts[0], 0
        sums, squares = torch.zeros_like(first.values), torch.zeros_like(first.values)
        for part in parts:
            same = part.weights == first.weights and part.classes == first.classes
            same = same and torch.equal(part.labels, first.labels)
            if not same or part.provenance != first.provenance:
                raise ValueError(f"valuations of different points or kinds cannot be merged: {first} and {part}")
            spread = part.stderr.nan_to_num().square() * part.references * (part.references - 1)
            sums = sums + part.values * part.references
            squares = squares + spread + part.values.square() * part.references
            references += part.references
        return from_sums(
            sums,
            squares,
            references=references,
            weights=first.weights,
            labels=first.labels,
            classes=first.classes,
            error_bound=max(part.error_bound for part in parts),
            provenance=first.provenance,
        )

    def _one(self) -> Valuation:
        if isinstance(self.weights, list):
            raise ValueError(  # noqa: TRY004 - its type is right, the question is not
                f"there are several weightings: choose one, as in valuation.of({self.weights[0]!r})"
            )
        return self

    @property
    def _several(self) -> list[Semivalue]:
        return self.weights if isinstance(self.weights, list) else [self.weights]


def from_sums(
    sums: Float64[Tensor, "*weights n"],
    squares: Float64[Tensor, "*weights n"],
    *,
    references: int,
    weights: Semivalue | list[Semivalue],
    **rest: Any,  # noqa: ANN401 - the other attributes, as they are
) -> Valuation:
    """Return means and standard errors from sums over reference points."""
    shape = sums.shape[1:] if not isinstance(weights, list) and sums.ndim > 1 else sums.shape
    mean = (sums / references).reshape(shape)
    variance = (squares.reshape(shape) / references - mean.square()).clamp(min=0)
    stderr = (variance / (references - 1)).sqrt() if references > 1 else torch.full_like(mean, torch.nan)
    return Valuation(mean, stderr, weights, references=references, **rest)
