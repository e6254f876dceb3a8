"""What each training point is worth to its nearest neighbours' predictions: exact, for every weighting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from fwshapley.checks import Array, check_real
from fwshapley.games.neighbours import Ties, Utility
from fwshapley.inputs import choose_device
from fwshapley.progress import ProgressBar
from fwshapley.valuation.distances import Metric
from fwshapley.valuation.index import NeighbourIndex
from fwshapley.valuation.inputs import NEWCOMER_ADVICE, check_labels, check_points, in_order
from fwshapley.valuation.manners import Valuator
from fwshapley.valuation.result import OTHER_POINTS, Valuation, from_sums
from fwshapley.valuation.setting import Setting, check_pair, check_setting, check_weights
from fwshapley.valuation.shards import Game, Sums, add_up, cut, make_shards
from fwshapley.version import __version__
from fwshapley.weights import Semivalue


def value_neighbours(
    x: Array,
    y: Array,
    x_reference: Array | None = None,
    y_reference: Array | None = None,
    *,
    k: int = 5,
    weights: Semivalue | Sequence[Semivalue] | None = None,
    utility: Utility = "soft",
    ties: Ties = "lowest",
    metric: Metric = "euclidean",
    tolerance: float = 0.0,
    device: str | torch.device = "auto",
    n_jobs: int | None = None,
    progress: bool = True,
) -> Valuation:
    """Value training points by how much they help a K-nearest-neighbour classifier on reference points.

    Args:
        x: features of the training points, (n, ...).
        y: their labels: numbers or text.
        x_reference: points to be predicted, of every class: those of a class that is missing can only seem to do harm.
            None values each training point by how it serves the others.
        y_reference: their labels.
        k: neighbours that decide.
        weights: a semivalue, or several, which share all distances and sorts; None is Shapley.
        utility: "soft", the share of the K nearest that have the label; "normalised", their share of those there are;
            "vote", whether the label wins the vote among them.
        ties: of a vote, go to the "lowest" class or are "shared".
        metric: "euclidean" or "cosine". Columns are not scaled: a column of large numbers counts most.
        tolerance: most that any value may be off, for speed: weightings of large coalitions depend on few neighbours.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        n_jobs: cores to use on a CPU; None is as many as an active `joblib.parallel_config` asks for, if that is more
            than one, else all. Its backend may also spread the work over processes or machines.
        progress: show a progress bar when it takes long on a terminal.

    Returns:
        Values with standard errors over reference points, (n,), or (weights, n) for several weightings.

    Example:
        >>> value_neighbours(x, y, x_valid, y_valid, weights=Beta(alpha=4, beta=1)).suspects(20)
    """
    setting = check_setting(
        x, y, x_reference, y_reference, weights=check_weights(weights), k=k, utility=utility, ties=ties, metric=metric
    )
    stacked = isinstance(weights, (list, tuple))
    return _value(setting, stacked=stacked, tolerance=tolerance, device=device, n_jobs=n_jobs, progress=progress)


def _value(
    setting: Setting, *, stacked: bool, tolerance: float, device: str | torch.device, n_jobs: int | None, progress: bool
) -> Valuation:
    tolerance = check_real("tolerance", tolerance)
    if tolerance < 0:
        raise ValueError(f"tolerance must not be negative, got {tolerance:g}")
    game = setting.game(tolerance=tolerance, device=str(choose_device(device)))
    total = sum_values(setting, game, n_jobs=n_jobs, progress=progress)
    return from_sums(
        total.values.cpu(),
        total.squares.cpu(),
        references=len(setting.other_labels) - setting.held_out,
        weights=list(setting.weights) if stacked else setting.weights[0],
        labels=torch.from_numpy(setting.labels),
        classes=setting.class_names,
        error_bound=cut(game)[1],
        provenance=_provenance(setting, tolerance=tolerance),
    )


def sum_values(setting: Setting, game: Game, *, n_jobs: int | None, progress: bool) -> Sums:
    """Add up values over all reference points, with a progress bar."""
    shards = list(make_shards(setting.places.references, setting.other_labels))
    with ProgressBar("valuing", len(setting.other_labels), enabled=progress) as bar:
        total: Sums | None = None
        for shard, found in zip(
            shards, add_up(game, setting.places.factor, setting.labels, shards, n_jobs), strict=True
        ):
            total = total.plus(found) if total else found
            bar.advance(len(shard.labels))
    assert total is not None  # noqa: S101 - there is a reference point at least
    return total


def value_every_label(
    setting: Setting, *, device: str, n_jobs: int | None, progress: bool
) -> Float64[Tensor, "n classes weights"]:
    """Exact values of points as if they had each of the labels."""
    total = sum_values(setting, setting.game(device=device, every_label=True), n_jobs=n_jobs, progress=progress)
    mean = total.values.cpu() / (len(setting.other_labels) - setting.held_out)
    return mean.view(len(setting.weights), len(setting.classes), -1).permute(2, 1, 0).contiguous()


def _provenance(setting: Setting, *, tolerance: float) -> dict[str, Any]:
    return {
        "method": f"{setting.k} nearest neighbours, {setting.utility}",
        "k": setting.k,
        "utility": setting.utility,
        "ties": setting.ties,
        "metric": setting.metric,
        "tolerance": tolerance,
        "reference": OTHER_POINTS if setting.held_out else "given",
        "fwshapley": __version__,
    }


class KNNValuator(Valuator):
    """Values of training points for a K-nearest-neighbour classifier, in scikit-learn's manners.

    Arguments are those of `value_neighbours`.

    Attributes:
        result_: the Valuation, after `fit`.
        values_: its values.
        setting_: the points, kept for `value`.

    Example:
        >>> KNNValuator(k=5, weights=Beta(alpha=4, beta=1)).fit(x, y, reference=(x_valid, y_valid)).result_.suspects(20)
    """

    def __init__(
        self,
        k: int = 5,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        utility: Utility = "soft",
        ties: Ties = "lowest",
        metric: Metric = "euclidean",
        tolerance: float = 0.0,
        device: str | torch.device = "auto",
        n_jobs: int | None = None,
        progress: bool = True,
    ) -> None:
        self.k, self.weights, self.utility, self.ties, self.metric = k, weights, utility, ties, metric
        self.tolerance, self.device, self.n_jobs, self.progress = tolerance, device, n_jobs, progress

    def fit(self, x: Array, y: Array, reference: tuple[Array, Array] | None = None) -> Self:
        """Value the points of x by their use for reference points, or each by its use for the others."""
        x_reference, y_reference = (None, None) if reference is None else check_pair(reference)
        self.setting_ = check_setting(
            x, y, x_reference, y_reference, weights=check_weights(self.weights),
            k=self.k, utility=self.utility, ties=self.ties, metric=self.metric,
        )  # fmt: skip
        self.result_ = _value(
            self.setting_, stacked=isinstance(self.weights, (list, tuple)), tolerance=self.tolerance,
            device=self.device, n_jobs=self.n_jobs, progress=self.progress,
        )  # fmt: skip
        vars(self).pop("index_", None)
        return self

    def value(self, x: Array, y: Array) -> Valuation:
        """Value points that `fit` did not see, each as if it alone had joined the training points; exact.

        The first call makes an index, as long a task as `fit`, which takes 8 bytes for each pair of a training and a
        reference point, and as many again for each weighting and label that matters.

        Args:
            x: features of the new points.
            y: their labels, of the classes that `fit` saw.
        """
        setting = self._fitted_setting()
        points = check_points("x", in_order("x", x, setting.names), columns=setting.columns)
        labels, _ = check_labels("y", y, len(points), classes=setting.classes, advice=NEWCOMER_ADVICE)
        if "index_" not in vars(self):
            self.index_ = NeighbourIndex(setting, device=str(choose_device(self.device)), progress=self.progress)
        codes = torch.from_numpy(labels)
        sums = self.index_.value(points.astype(np.float64), codes)
        return from_sums(
            sums.values.cpu(),
            sums.squares.cpu(),
            references=len(setting.other_labels),
            weights=self.result_.weights,
            labels=codes,
            classes=setting.class_names,
            error_bound=0.0,
            provenance=_provenance(setting, tolerance=0.0) | {"points": "unseen"},
        )

    def _fitted_setting(self) -> Setting:
        self.values_  # noqa: B018 - says what to do if there are none
        return self.setting_
