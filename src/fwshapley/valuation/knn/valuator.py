"""What each training point is worth to its nearest neighbors' predictions: exact, for every weighting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from fwshapley._internal.checks import Array, check_real
from fwshapley._internal.progress import ProgressBar
from fwshapley.games.knn import Ties, Utility
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.base import Valuator
from fwshapley.valuation.digests import digest_points
from fwshapley.valuation.knn.distances import Metric
from fwshapley.valuation.knn.engine import Game, Sums, add_up, cut, make_shards
from fwshapley.valuation.knn.index import NeighborIndex
from fwshapley.valuation.knn.problem import Setting, check_pair, check_setting, check_weights
from fwshapley.valuation.result import OTHER_POINTS, Valuation, from_sums
from fwshapley.valuation.validation import NEWCOMER_ADVICE, check_device, check_labels, check_points, in_order
from fwshapley.version import __version__


def value_neighbors(
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
    """Value training points by how much they help a K-nearest-neighbor classifier on reference points.

    Args:
        x: features of the training points, (n, ...).
        y: their labels: numbers or text.
        x_reference: points to be predicted, of every class: those of a class that is missing can only seem to do harm.
            None values each training point by how it serves the others.
        y_reference: their labels.
        k: neighbors that decide.
        weights: a semivalue, or several, which share all distances and sorts; None is Shapley.
        utility: "soft", the share of the K nearest that have the label; "normalized", their share of those there are;
            "vote", whether the label wins the vote among them.
        ties: of a vote, go to the "lowest" class or are "shared".
        metric: "euclidean" or "cosine". Columns are not scaled: a column of large numbers counts most.
        tolerance: most that any value may be off, for speed: weightings of large coalitions depend on few neighbors.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        n_jobs: cores to use on a CPU; None is as many as an active `joblib.parallel_config` asks for, if that is more
            than one, else all. Its backend may also spread the work over processes or machines.
        progress: show progress when it takes long: a bar on a terminal, lines elsewhere.

    Returns:
        Values with standard errors over reference points, (n,), or (weights, n) for several weightings.

    Example:
        >>> value_neighbors(x, y, x_valid, y_valid, weights=Beta(4, 1)).suspects(20)
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
    game = setting.game(tolerance=tolerance, device=check_device(device))
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
        reference_keys=setting.reference_keys,
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
        "method": f"{setting.k} nearest neighbors, {setting.utility}",
        "k": setting.k,
        "utility": setting.utility,
        "ties": setting.ties,
        "metric": setting.metric,
        "tolerance": tolerance,
        "reference": OTHER_POINTS if setting.held_out else "given",
        "points": setting.digest,
        "fwshapley": __version__,
    }


class KNNValuator(Valuator):
    """Values of training points for a K-nearest-neighbor classifier, in scikit-learn's manners.

    Arguments are those of `value_neighbors`.

    Attributes:
        result_: the Valuation, after `fit`.
        values_: its values.
        setting_: the points, kept for `value`.

    Example:
        >>> KNNValuator(k=5, weights=Beta(4, 1)).fit(x, y, reference=(x_valid, y_valid)).result_.suspects(20)
    """

    setting_: Setting
    index_: NeighborIndex | None

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
        setting = check_setting(
            x, y, x_reference, y_reference, weights=check_weights(self.weights),
            k=self.k, utility=self.utility, ties=self.ties, metric=self.metric,
        )  # fmt: skip
        result = _value(
            setting, stacked=isinstance(self.weights, (list, tuple)), tolerance=self.tolerance,
            device=self.device, n_jobs=self.n_jobs, progress=self.progress,
        )  # fmt: skip
        vars(self).update(setting_=setting, result_=result, index_=None)
        return self

    def value(self, x: Array, y: Array) -> Valuation:
        """Value points that `fit` did not see, each as if it alone had joined the training points; exact.

        The first call makes an index, as long a task as `fit`, which takes 8 bytes for each pair of a training and a
        reference point, and as many again for each weighting and label that matters.

        Args:
            x: features of the new points.
            y: their labels, of the classes that `fit` saw.
        """
        self.values_  # noqa: B018 - says what to do if there are none
        setting, result = self.setting_, self.result_
        points = check_points("x", in_order("x", x, setting.names), columns=setting.columns)
        labels, _ = check_labels("y", y, len(points), classes=setting.classes, advice=NEWCOMER_ADVICE)
        index = self._find_index(setting)
        codes = torch.from_numpy(labels)
        sums = index.value(points.astype(np.float64), codes)
        facts = {"points": digest_points(points, labels, setting.class_names), "training_points": setting.digest}
        return from_sums(
            sums.values.cpu(),
            sums.squares.cpu(),
            references=len(setting.other_labels),
            weights=result.weights,
            labels=codes,
            classes=setting.class_names,
            error_bound=0.0,
            provenance=_provenance(setting, tolerance=0.0) | facts,
            reference_keys=setting.reference_keys,
        )

    def _find_index(self, setting: Setting) -> NeighborIndex:
        """Return the index of a setting: that of an earlier call, or a new one."""
        index = self.index_
        if index is None or index.setting is not setting:
            index = NeighborIndex(setting, device=check_device(self.device), progress=self.progress)
            self.index_ = index
        return index
