"""Values of training points with their standard errors, and all that is needed to read them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
import torch
from jaxtyping import Float64, Int, Int64, Num
from torch import Tensor

from fwshapley import plots
from fwshapley._internal.checks import check_list, check_whole
from fwshapley._internal.result import Result
from fwshapley.semivalues import Semivalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OTHER_POINTS = "the other points"
"""Recorded as the reference if there are no reference points."""


@dataclass(frozen=True, eq=False)
class Valuation(Result):
    """Values of training points: the average change of the utility when a point joins a coalition of other points.

    A positive value means that a point helps to predict the reference points, a value near 0 that it hardly matters,
    and a **negative value that it harms the prediction**. The points of lowest value most often have a wrong label or
    target. Where small coalitions count most (a large alpha), almost no value is negative under the soft utility; only
    the order matters there. Values of targets have the unit of squared targets.

    Attributes:
        values: (n,), or (weights, n) for a list of weightings.
        stderr: standard error of each value over the reference points; NaN if there is only one.
        weights: the semivalue, or the list of semivalues.
        labels: class number of each point, or its target.
        classes: names of the classes; none if the points have targets.
        references: number of reference points that each value is a mean over.
        error_bound: largest error of a value that a tolerance causes.
        provenance: how the values were computed; `points` is a hash of the points and their labels.
        reference_keys: a hash of each reference point and its label, by which `merge` recognizes repeated points;
            None if valuations cannot be merged.

    Example:
        >>> import fwshapley as fw
        >>> x = [[0.0], [1.0], [2.0], [3.0], [10.0], [11.0], [12.0], [13.0]]
        >>> valuation = fw.value_neighbors(x, [0, 0, 1, 0, 1, 1, 1, 1], k=1)  # the third label is wrong
        >>> valuation.suspects(1)
        tensor([2])
        >>> valuation.to_dataframe().columns.tolist()
        ['label', 'value', 'stderr', 'rank']
    """

    values: Float64[Tensor, "*weights n"]
    stderr: Float64[Tensor, "*weights n"]
    weights: Semivalue | list[Semivalue]
    labels: Num[Tensor, " n"]
    classes: tuple[str, ...]
    references: int
    error_bound: float
    provenance: Mapping[str, Any]
    reference_keys: Int64[Tensor, " references"] | None = None
    kind: ClassVar[str] = "valuation"

    def __len__(self) -> int:
        return len(self.labels)

    def __str__(self) -> str:
        names = ", ".join(map(str, self.weightings))
        kind = "points with targets" if self.has_targets else "points"
        return f"{names} of {len(self)} {kind} for {self.references} reference points"

    @property
    def has_targets(self) -> bool:
        """Whether the points have targets, numbers to predict, instead of labels."""
        return not self.classes

    def suspects(self, k: int | None = None) -> Int[Tensor, " k"]:
        """Return the indices of the k points of lowest value, in increasing order of value.

        Args:
            k: how many; None returns the points of negative value.
        """
        values = self.unstacked().values
        order = values.argsort(stable=True)
        return order[: int((values < 0).sum()) if k is None else min(check_whole("k", k), len(order))]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with a row per point: label (as text), value, standard error, rank (1 is the lowest value).

        Points with targets have a column "target" in place of "label".

        A list of weightings gives columns "value Shapley", "stderr Shapley", "rank Shapley", and so on.
        """
        names = [""]
        if isinstance(self.weights, list):
            repeated = Counter(map(str, self.weights))
            names = [f" {one}{f' #{row}' * (repeated[str(one)] > 1)}" for row, one in enumerate(self.weights)]
        columns: dict[str, Any] = {"target": self.labels.numpy()}
        if not self.has_targets:
            columns = {"label": [self.classes[label] for label in self.labels.tolist()]}
        stacked = self.stacked()
        for name, values, stderr in zip(names, stacked.values, stacked.stderr, strict=True):
            rank = torch.empty(len(self), dtype=torch.int64)
            rank[values.argsort(stable=True)] = torch.arange(1, len(self) + 1)
            columns |= {f"value{name}": values.numpy(), f"stderr{name}": stderr.numpy(), f"rank{name}": rank.numpy()}
        return pd.DataFrame(columns)

    def plot(self) -> Figure:
        """Draw the distribution of the values, and all values in increasing order."""
        stacked = self.stacked()
        return plots.plot_values(
            [
                (str(weights), values.numpy(), stderr.numpy())
                for weights, values, stderr in zip(self.weightings, stacked.values, stacked.stderr, strict=True)
            ]
        )

    def write_report(self, path: str | os.PathLike[str], **options: Any) -> Path:  # noqa: ANN401 - as the function has them
        """Write the values as an HTML page; the options are those of `valuation.write_valuation_report`."""
        from fwshapley.valuation.report import write_valuation_report  # noqa: PLC0415 - it imports this module

        return write_valuation_report(self, path, **options)

    @classmethod
    def merge(cls, parts: Iterable[Valuation], *, allow_repeats: bool = False) -> Valuation:
        """Return the valuation over all reference points, from valuations of the same points over some of them.

        Parts may be merged ones. Missing parts cannot be detected: compare `references` with the number you expect.

        Args:
            parts: valuations of the same points by nearest neighbors under the same options, each over some of the
                reference points.
            allow_repeats: whether a reference point may be in several parts; it then counts several times. Needed if
                different reference points have equal features and labels.

        Example:
            >>> import fwshapley as fw
            >>> generator = np.random.default_rng(0)
            >>> x, y = generator.normal(size=(20, 2)), np.arange(20) % 2
            >>> x_reference, y_reference = generator.normal(size=(10, 2)), np.arange(10) % 2
            >>> parts = [
            ...     fw.value_neighbors(x, y, reference=(x_reference[rows], y_reference[rows]))
            ...     for rows in (slice(4), slice(4, None))
            ... ]
            >>> fw.Valuation.merge(parts).references
            10
        """
        parts = check_list("parts", parts)
        keys = _check_parts(parts, allow_repeats=allow_repeats)
        first = parts[0]
        sums = torch.zeros(2, *first.values.shape, dtype=torch.float64)
        for part in parts:
            spread = part.stderr.nan_to_num().square() * part.references * (part.references - 1)
            sums[0] += part.values * part.references
            sums[1] += spread + part.values.square() * part.references
        return make_valuation(
            sums,
            references=sum(part.references for part in parts),
            weights=first.weights,
            labels=first.labels,
            classes=first.classes,
            error_bound=max(part.error_bound for part in parts),
            provenance=first.provenance,
            reference_keys=torch.cat(keys),
        )


def make_valuation(
    sums: Float64[Tensor, "2 *weights n"],
    *,
    references: int,
    weights: Semivalue | list[Semivalue],
    **rest: Any,  # noqa: ANN401 - the other attributes of a valuation
) -> Valuation:
    """Return the valuation whose values, and squared values, have these sums over the reference points."""
    if not isinstance(weights, list):
        sums = sums.reshape(2, -1)
    mean = sums[0] / references
    variance = (sums[1] / references - mean.square()).clamp(min=0)
    stderr = (variance / (references - 1)).sqrt() if references > 1 else torch.full_like(mean, torch.nan)
    return Valuation(mean, stderr, weights, references=references, **rest)


def _check_parts(parts: list[Valuation], *, allow_repeats: bool) -> list[Int64[Tensor, " references"]]:
    """Return the keys of the reference points of each part, or raise an error unless the parts can be merged."""
    if not parts:
        raise ValueError("parts must contain a valuation, got an empty list")
    keys = []
    for number, part in enumerate(parts):
        if not isinstance(part, Valuation):
            raise TypeError(f"parts must be valuations, but parts[{number}] is a {type(part).__name__}")
        differing = _find_differences(parts[0], part)
        if differing:
            raise ValueError(
                f"parts must be valuations of the same points under the same options, but {', '.join(differing)} of "
                f"parts[{number}] ({part}) and parts[0] ({parts[0]}) differ"
            )
        if part.reference_keys is None or part.provenance.get("reference") == OTHER_POINTS:
            raise ValueError(
                f"parts[{number}] cannot be merged: its values (method: {part.provenance.get('method', 'unknown')}; "
                f"reference: {part.provenance.get('reference', 'unknown')}) are not means over separate reference "
                "points; pass valuations by nearest neighbors with a reference"
            )
        keys.append(part.reference_keys)
    if not allow_repeats:
        _check_repeats(keys)
    return keys


def _find_differences(one: Valuation, other: Valuation) -> list[str]:
    """Return the names of what must be the same in two parts and is not."""
    names = [name for name in ("weights", "classes") if getattr(one, name) != getattr(other, name)]
    if not torch.equal(one.labels, other.labels):
        names.append("labels")
    facts = one.provenance.keys() | other.provenance.keys()
    return names + sorted(fact for fact in facts if one.provenance.get(fact) != other.provenance.get(fact))


def _check_repeats(keys: list[Tensor]) -> None:
    """Raise an error if a reference point is in more than one part."""
    first_seen: dict[int, tuple[int, int]] = {}
    repeats: list[tuple[int, int, int, int]] = []
    for part, part_keys in enumerate(keys):
        for row, key in enumerate(part_keys.tolist()):
            first_part, first_row = first_seen.setdefault(key, (part, row))
            if first_part != part:
                repeats.append((first_part, first_row, part, row))
    if repeats:
        part, row, other, other_row = repeats[0]
        raise ValueError(
            f"{len(repeats)} reference points are in more than one of parts: reference point {row} of parts[{part}] is "
            f"reference point {other_row} of parts[{other}]. Pass parts that do not overlap; if different reference "
            "points are equal, pass allow_repeats=True"
        )
