"""What each training point is worth to its nearest neighbours' predictions: exact, for every weighting, streamed.

Each reference point is a game of its own, whose values have a closed form; values are means over reference points.
References are worked on in shards of a fixed size, added up in order, so that results do not depend on the number of
cores, and shards may run anywhere joblib can reach.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self, get_args

import joblib
import numpy as np
import torch
from jaxtyping import Float64, Int64
from joblib.parallel import ThreadingBackend, get_active_backend
from numpy.typing import NDArray
from torch import Tensor

from fwshapley.checks import Array, check_choice, check_real, check_whole
from fwshapley.games.neighbours import Ties, Utility
from fwshapley.inputs import choose_device
from fwshapley.progress import ProgressBar
from fwshapley.valuation.closed_forms import ClosedForm, make_form
from fwshapley.valuation.distances import (
    MOST_DIRECT,
    NEVER,
    Metric,
    Workspace,
    distances_by_product,
    distances_directly,
    farthest,
    orders,
    place,
    too_close,
    whole_keys,
)
from fwshapley.valuation.inputs import check_labels, check_points
from fwshapley.valuation.result import OTHER_POINTS, Valuation, from_sums
from fwshapley.version import __version__
from fwshapley.weights import Semivalue, Shapley, check_semivalue

SHARDS = 64
SMALLEST_SHARD, LARGEST_SHARD = 128, 512
BLOCK_BYTES, MOST_ROWS = {"cpu": 2**27, "cuda": 2**29}, {"cpu": 128, "cuda": 2**12}
"""Distances held at once, by each core or by the GPU, and reference points that they may belong to."""


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
    several = _check_weights(weights)
    for name, value, choices in (("utility", utility, Utility), ("ties", ties, Ties), ("metric", metric, Metric)):
        check_choice(name, value, get_args(choices))
    tolerance = check_real("tolerance", tolerance)
    if tolerance < 0:
        raise ValueError(f"tolerance must not be negative, got {tolerance:g}")
    points = check_points("x", x)
    labels, classes = check_labels("y", y, len(points))
    if (x_reference is None) != (y_reference is None):
        raise ValueError("x_reference and y_reference go together: give both, or neither to value points by each other")
    held_out = x_reference is None
    if x_reference is None or y_reference is None:
        others, other_labels = None, labels
    else:
        others = check_points("x_reference", x_reference, columns=points.shape[1])
        other_labels, _ = check_labels("y_reference", y_reference, len(others), classes=classes)
    k = check_whole("k", k)
    if k > len(points) - held_out:
        raise ValueError(
            f"k = {k} neighbours are more than the {len(points) - held_out} points there are to choose from"
        )
    places = place(points, others, metric)
    game = _Game(
        weights=tuple(several),
        counts=tuple(np.bincount(labels, minlength=len(classes)).tolist()),
        k=k,
        utility=utility,
        ties=ties,
        held_out=held_out,
        tolerance=tolerance,
        scale=places.scale if points.size * len(other_labels) > MOST_DIRECT else None,
        device=str(choose_device(device)),
    )
    shards = list(_shards(places.references, other_labels))
    with ProgressBar("valuing", len(other_labels), enabled=progress) as bar:
        total: _Sums | None = None
        for shard, found in zip(shards, _add_up(game, places.factor, labels, shards, n_jobs), strict=True):
            total = total.plus(found) if total else found
            bar.advance(len(shard.labels))
    assert total is not None  # noqa: S101 - there is a reference point at least
    return from_sums(
        total.values.cpu(),
        total.squares.cpu(),
        references=len(other_labels) - held_out,
        weights=several if isinstance(weights, (list, tuple)) else several[0],
        labels=torch.from_numpy(labels),
        classes=tuple(map(str, classes.tolist())),
        error_bound=_cut(game)[1],
        provenance={
            "method": f"{k} nearest neighbours, {utility}",
            "k": k,
            "utility": utility,
            "ties": ties,
            "metric": metric,
            "tolerance": tolerance,
            "reference": OTHER_POINTS if held_out else "given",
            "fwshapley": __version__,
        },
    )


class KNNValuator:
    """Values of training points for a K-nearest-neighbour classifier, in scikit-learn's manners.

    Arguments are those of `value_neighbours`.

    Attributes:
        result_: the Valuation, after `fit`.
        values_: its values.

    Example:
        >>> KNNValuator(k=5, weights=Beta(alpha=4, beta=1)).fit(x, y, reference=(x_valid, y_valid)).result_.suspects(20)
    """

    result_: Valuation

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
        x_reference, y_reference = (None, None) if reference is None else _check_pair(reference)
        self.result_ = value_neighbours(x, y, x_reference, y_reference, **self.get_params())
        return self

    def get_params(self, *, deep: bool = True) -> dict[str, Any]:
        """Return the arguments it was made with, as scikit-learn's `clone` asks for them."""
        del deep  # none of them has arguments of its own
        return {name: value for name, value in vars(self).items() if not name.endswith("_")}

    def set_params(self, **changes: Any) -> Self:  # noqa: ANN401 - of any argument
        """Change some arguments."""
        unknown = changes.keys() - self.get_params().keys()
        if unknown:
            raise ValueError(
                f"there is no {', '.join(sorted(unknown))} to set; there are {', '.join(self.get_params())}"
            )
        vars(self).update(changes)
        return self

    @property
    def values_(self) -> Tensor:
        """Values of the points."""
        if not hasattr(self, "result_"):
            raise RuntimeError("nothing has been valued yet: call fit(x, y) first")
        return self.result_.values


@dataclass(frozen=True)
class _Game:
    """All that makes the games but the points: hashable, so that each process builds the closed form once.

    Attributes:
        scale: of the points, for distances by products; None for distances by differences.
        device: the device that values are computed on.
    """

    weights: tuple[Semivalue, ...]
    counts: tuple[int, ...]
    k: int
    utility: Utility
    ties: Ties
    held_out: bool
    tolerance: float
    scale: float | None
    device: str


class _Shard(NamedTuple):
    """Some reference points: where they are, their labels, and the index of the first."""

    references: NDArray[np.float64]
    labels: NDArray[np.int64]
    first: int


class _Sums(NamedTuple):
    """Sums over reference points of values and of their squares."""

    values: Float64[Tensor, "weights n"]
    squares: Float64[Tensor, "weights n"]

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(self.values + other.values, self.squares + other.squares)

    def add(self, values: Float64[Tensor, "weights references n"]) -> None:
        """Add values of some reference points, in place."""
        if values.shape[1] == 1:
            self.values.add_(values[:, 0])
            self.squares.addcmul_(values[:, 0], values[:, 0])
        else:
            self.values.add_(values.sum(1))
            self.squares.add_(values.square().sum(1))


Task = partial[_Sums]
"""A shard's work, waiting for its shard."""


@lru_cache(maxsize=2)
def _form(game: _Game) -> ClosedForm:
    counts = torch.tensor(game.counts, device=game.device)
    return make_form(game.utility, game.weights, counts, game.k, held_out=game.held_out, ties=game.ties)


@lru_cache(maxsize=2)
def _cut(game: _Game) -> tuple[int, float]:
    """Ranks that count, and most that a value may be off for it."""
    return _form(game).cut(game.tolerance)


def _shards(references: NDArray[np.float64], labels: NDArray[np.int64]) -> Iterator[_Shard]:
    """Shards of a size that depends on the number of references alone."""
    size = min(max(-(-len(labels) // SHARDS), SMALLEST_SHARD), LARGEST_SHARD)
    for first in range(0, len(labels), size):
        yield _Shard(references[first : first + size], labels[first : first + size], first)


def _add_up(
    game: _Game, factor: NDArray[np.float64], labels: NDArray[np.int64], shards: Sequence[_Shard], n_jobs: int | None
) -> Iterator[_Sums]:
    """Sums of one shard after another, computed side by side."""
    if game.device != "cpu":
        once = _tensor(factor, game.device), _tensor(labels, game.device)
        yield from (_sum_shard(game, *once, shard) for shard in shards)
        return
    threads = torch.get_num_threads()
    try:
        backend, _ = get_active_backend(prefer="threads")
        spread = _spread_over_threads if isinstance(backend, ThreadingBackend) else _spread_by_joblib
        yield from spread(partial(_sum_shard, game, factor, labels), shards, n_jobs)
    finally:
        torch.set_num_threads(threads)


def _spread_over_threads(task: Task, shards: Sequence[_Shard], n_jobs: int | None) -> Iterator[_Sums]:
    """Threads of our own, which unlike joblib's are waited for when the work is interrupted."""
    workers = joblib.effective_n_jobs(n_jobs)
    if n_jobs is None and workers == 1:
        workers = joblib.cpu_count()
    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(task, shards)
    finally:
        pool.shutdown(cancel_futures=True)


def _spread_by_joblib(task: Task, shards: Sequence[_Shard], n_jobs: int | None) -> Iterator[_Sums]:
    """Processes or machines, as the active `joblib.parallel_config` says."""
    # Arrays are arguments of their own, which joblib shares between tasks rather than sending them with each.
    calls = (joblib.delayed(task.func)(*task.args, shard) for shard in shards)
    yield from joblib.Parallel(n_jobs, return_as="generator")(calls)


def _sum_shard(
    game: _Game, factor: NDArray[np.float64] | Tensor, labels: NDArray[np.int64] | Tensor, shard: _Shard
) -> _Sums:
    """Values of all points, summed over the reference points of a shard."""
    x, y = _tensor(factor, game.device), _tensor(labels, game.device)
    references, label = _tensor(shard.references, game.device), _tensor(shard.labels, game.device)
    fitting = max(BLOCK_BYTES[x.device.type] // (x.element_size() * len(x)), 1)
    rows = min(1 << fitting.bit_length() - 1, MOST_ROWS[x.device.type])  # products like powers of two
    space, together = None, rows
    if game.device == "cpu":
        torch.set_num_threads(1)  # a task is the work of one core, whose cache holds a row
        space, together = Workspace.of(len(x), min(rows, len(label))), 1
    sums = _Sums(x.new_zeros(len(game.weights), len(x)), x.new_zeros(len(game.weights), len(x)))
    for start in range(0, len(label), rows):
        block = references[start : start + rows]
        if game.scale is None:
            distances = distances_directly(block, x)
        else:
            distances = distances_by_product(block, x, game.scale, space)
        for row in range(0, len(block), together):
            here = slice(row, row + together)
            keys = distances[here].view(torch.int64) if game.scale is None else whole_keys(distances[here])
            own = shard.first + start + torch.arange(len(block), device=x.device)[here]
            order = _order(game, keys, own, (block[here], x), space)
            sums.add(_values(_form(game), keys, order, y, label[start:][here], space=space))
    return sums


def _order(
    game: _Game,
    keys: Int64[Tensor, "references n"],
    own: Int64[Tensor, " references"],
    places: tuple[Tensor, Tensor],
    space: Workspace | None,
) -> Int64[Tensor, "references ranks"]:
    """Order of the nearest points.

    Args:
        game: what is played.
        keys: to sort by; changed in place where they prove too coarse, and where a point is its own reference.
        own: index of each reference point.
        places: of reference points and of points.
        space: where to leave the order of one reference point.
    """
    ranks, each = _cut(game)[0], torch.arange(len(keys), device=keys.device)
    if game.held_out:
        keys[each, own] = NEVER
    order = orders(keys, ranks, space)
    again = each[:0] if game.scale is None else too_close(keys, order)
    if len(again):
        references, x = places
        keys[again] = distances_directly(references[again], x).view(torch.int64)
        if game.held_out:
            keys[each, own] = NEVER
        order = orders(keys, ranks, space)
    return order


def _values(
    form: ClosedForm,
    keys: Int64[Tensor, "references n"],
    order: Int64[Tensor, "references ranks"],
    y: Int64[Tensor, " n"],
    label: Int64[Tensor, " references"],
    *,
    space: Workspace | None,
) -> Float64[Tensor, "weights references n"]:
    """Values of all points, for each reference point."""
    ranks = order.shape[1]
    found = None if space is None else space.labels[None, :ranks]
    labels = torch.gather(y.expand(len(order), -1), 1, order, out=found)
    far = labels[:, -1] if ranks == form.n else y[farthest(keys)]
    by_class, by_rank = form.by_class(label, far), form.by_rank(labels, label)
    where = order.expand(len(by_rank), -1, -1)
    if by_class is None:
        values = by_rank.new_zeros(*by_rank.shape[:2], len(y))
    else:
        values = by_class[..., y]
        values[:, keys == NEVER] = 0
        by_rank += values.gather(2, where)
    return values.scatter_(2, where, by_rank)


def _tensor(array: Tensor | NDArray[np.float64] | NDArray[np.int64], device: str) -> Tensor:
    """Tensor of an array; where another process lends it, it is read-only, which torch warns of and we heed."""
    if isinstance(array, Tensor):
        return array
    if array.flags.writeable:
        return torch.from_numpy(array).to(device)
    with warnings.catch_warnings(action="ignore"):
        return torch.from_numpy(array).to(device)


def _check_pair(reference: object) -> tuple[Array, Array]:
    if not isinstance(reference, (tuple, list)) or len(reference) != 2:  # noqa: PLR2004 - a pair
        raise ValueError("reference must be a pair, (points, labels), or None to value points by each other")
    return reference[0], reference[1]


def _check_weights(weights: Semivalue | Sequence[Semivalue] | None) -> list[Semivalue]:
    if weights is None:
        return [Shapley()]
    several = list(weights) if isinstance(weights, (list, tuple)) else [weights]
    if not several:
        raise ValueError("weights is an empty list; give at least one semivalue")
    return [check_semivalue(each) for each in several]
