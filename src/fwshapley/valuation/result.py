"""What a valuation is: a value and a standard error per training point, with all that is needed to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from jaxtyping import Float64, Int, Int64
from torch import Tensor

from fwshapley import plots
from fwshapley._internal.bundle import load_bundle, save_bundle
from fwshapley._internal.checks import check_whole
from fwshapley.semivalues import Semivalue

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
        provenance: how the values came about; `points` is a digest of the points and their labels.
        reference_keys: a digest of each reference point and its label, by which `merge` finds those that it has seen;
            None where valuations cannot be merged.
    """

    values: Float64[Tensor, "*weights n"]
    stderr: Float64[Tensor, "*weights n"]
    weights: Semivalue | list[Semivalue]
    labels: Int[Tensor, " n"]
    classes: tuple[str, ...]
    references: int
    error_bound: float
    provenance: Mapping[str, Any]
    reference_keys: Int64[Tensor, " references"] | None = None

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

    def stacked(self) -> Valuation:
        """Return the valuation under one weighting as that of a list of one."""
        if isinstance(self.weights, list):
            return self
        return replace(self, values=self.values[None], stderr=self.stderr[None], weights=[self.weights])

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
        tensors |= {} if self.reference_keys is None else {"reference_keys": self.reference_keys}
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
    def merge(cls, parts: Iterable[Valuation], *, allow_repeats: bool = False) -> Valuation:
        """Return the valuation over all reference points, from valuations of the same points over some each.

        Parts may be merged ones. Missing parts cannot be detected: compare `references` with the number you expect.

        Args:
            parts: valuations of the same points by nearest neighbors, under the same settings, each over some of the
                reference points.
            allow_repeats: whether a reference point may be in several parts, where it counts several times. Set it if
                different rows of the reference have equal features and labels.

        Example:
            >>> halves = slice(500), slice(500, None)
            >>> parts = [value_neighbors(x, y, x_valid[rows], y_valid[rows]) for rows in halves]
            >>> Valuation.merge(parts).suspects(20)
        """
        if not isinstance(parts, Iterable):
            raise TypeError(f"parts must be a list of valuations, got {type(parts).__name__}")
        parts = list(parts)
        keys = _check_parts(parts, allow_repeats=allow_repeats)
        first = parts[0]
        sums, squares = torch.zeros_like(first.values), torch.zeros_like(first.values)
        for part in parts:
            spread = part.stderr.nan_to_num().square() * part.references * (part.references - 1)
            sums = sums + part.values * part.references
            squares = squares + spread + part.values.square() * part.references
        return from_sums(
            sums,
            squares,
            references=sum(part.references for part in parts),
            weights=first.weights,
            labels=first.labels,
            classes=first.classes,
            error_bound=max(part.error_bound for part in parts),
            provenance=first.provenance,
            reference_keys=keys,
        )

    def _one(self) -> Valuation:
        if isinstance(self.weights, list) and len(self.weights) == 1:
            return self.of(self.weights[0])
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


def _check_parts(parts: list[Valuation], *, allow_repeats: bool) -> Int64[Tensor, " references"]:
    """Return the keys of all reference points, or raise an error that says which parts do not go together, and why."""
    if not parts:
        raise ValueError("there is nothing to merge")
    for number, part in enumerate(parts):
        if not isinstance(part, Valuation):
            raise TypeError(f"parts must be valuations, but part {number} is a {type(part).__name__}")
        differing = _differences(parts[0], part)
        if differing:
            raise ValueError(
                f"valuations of different points or kinds cannot be merged: {', '.join(differing)} of part {number} "
                f"({part}) and part 0 ({parts[0]}) differ"
            )
    keys = [_mergeable_keys(part) for part in parts]
    if not allow_repeats:
        _check_repeats(keys)
    return torch.cat(keys)


def _differences(one: Valuation, other: Valuation) -> list[str]:
    """Names of what must be the same in two parts and is not."""
    names = [name for name in ("weights", "classes") if getattr(one, name) != getattr(other, name)]
    if not torch.equal(one.labels, other.labels):
        names.append("labels")
    facts = one.provenance.keys() | other.provenance.keys()
    return names + sorted(fact for fact in facts if one.provenance.get(fact) != other.provenance.get(fact))


def _mergeable_keys(part: Valuation) -> Int64[Tensor, " references"]:
    if part.provenance.get("reference") == OTHER_POINTS:
        raise ValueError("valuations without a separate reference cannot be merged: value all points in one call")
    if part.reference_keys is None:
        raise ValueError(
            f"valuations by {part.provenance.get('method', 'hand')} cannot be merged: their values are not means over "
            "reference points that are known; those by nearest neighbors are"
        )
    return part.reference_keys


def _check_repeats(keys: list[Tensor]) -> None:
    """Raise an error if a reference point is in more than one part."""
    seen: dict[int, tuple[int, int]] = {}
    repeated: list[tuple[int, int, int, int]] = []
    for part, own in enumerate(keys):
        for row, key in enumerate(own.tolist()):
            first, where = seen.setdefault(key, (part, row))
            if first != part:
                repeated.append((first, where, part, row))
    if repeated:
        one, row, other, again = repeated[0]
        raise ValueError(
            f"{len(repeated)} reference points are in more than one part: the first is number {row} of part {one} and "
            f"number {again} of part {other}. Merge each part once, and parts that do not overlap; if different rows "
            "of the reference are equal, pass allow_repeats=True"
        )
