"""Games of nearest neighbors: a coalition of training points is worth how well its members predict a reference point.

This is the definition, one coalition at a time; the closed forms in `valuation/knn` are tested against it. Members
predict the label of the reference point (`NeighborGame`) or its target, a number (`NeighborRegressionGame`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice, check_numbers, check_real, check_whole
from fwshapley._internal.tensor_checks import check_classes
from fwshapley.games.game import Coalitions

Utility = Literal["soft", "normalized", "vote", "brier", "kernel", "radius"]
"""How the prediction of a label is scored:

- soft: matches among the k nearest members / k;
- normalized: matches among them / min(k, members);
- vote: whether the label has a plurality among them;
- brier: minus the squared error of the shares that the classes have among them, where a share is a number / k;
- kernel: as soft, with a weight for each match that decreases with its distance;
- radius: the share of matches among all members within a distance.
"""

RegressionUtility = Literal["squared_error", "normalized_error", "kernel_error", "radius_error"]
"""How the prediction of a target is scored, by minus its squared error. What is predicted:

- squared_error: the mean of the k nearest members; where there are fewer, the default takes the missing places;
- normalized_error: the mean of the min(k, members) nearest;
- kernel_error: as squared_error, with each difference from the default times a weight that decreases with the distance;
- radius_error: the mean of all members within a distance.
"""

AnyUtility = Literal[Utility, RegressionUtility]
"""A utility of labels or of targets."""

Ties = Literal["lowest", "shared"]
"""Who wins a tied vote: the lowest class, as in scikit-learn, or all tied classes in equal shares."""

BY_KERNEL = ("kernel", "kernel_error")
BY_RADIUS = ("radius", "radius_error")


@dataclass(frozen=True, eq=False)
class NeighborGame:
    """The game of the training points, the players, for one reference point with a label.

    Attributes:
        labels: class numbers 0..C-1 of the training points, from the nearest to the farthest.
        label: class number of the reference point.
        classes: number of classes, C.
        k: number of nearest neighbors; "radius" ignores it.
        utility: how their prediction is scored.
        ties: who wins a tied vote.
        closeness: weights of the points for "kernel"; for "radius", points with a positive one are within the distance.

    Example:
        >>> game = NeighborGame(torch.tensor([0, 1, 0]), label=0, classes=2, k=2)
        >>> game(torch.tensor([[True, True, False], [True, False, True]])).tolist()  # matches of 2 / 2
        [0.5, 1.0]
    """

    labels: Int[Tensor, " points"]
    label: int
    classes: int
    k: int
    utility: Utility = "soft"
    ties: Ties = "lowest"
    closeness: Float[Tensor, " points"] | None = None

    def __post_init__(self) -> None:
        classes = check_whole("classes", self.classes)
        object.__setattr__(self, "labels", check_classes("labels", self.labels, classes))
        if check_whole("label", self.label, minimum=0) >= classes:
            raise ValueError(f"label must be between 0 and {classes - 1}, got {self.label}")
        check_whole("k", self.k)
        check_choice("utility", self.utility, get_args(Utility))
        check_choice("ties", self.ties, get_args(Ties))
        object.__setattr__(self, "closeness", _check_closeness(self.closeness, len(self.labels), self.utility))

    @property
    def n_players(self) -> int:
        """Number of training points."""
        return len(self.labels)

    def __call__(self, coalitions: Coalitions, /) -> Float[Tensor, " coalitions"]:
        """Return the value of each coalition.

        That of the empty one is 0 for "soft" and "kernel", -1 for "brier", and 1/C for the others.
        """
        nearest = _choose(coalitions, self.k, self.utility, self.closeness).double()
        if self.utility == "kernel" and self.closeness is not None:
            nearest = nearest * self.closeness
        votes = nearest @ torch.nn.functional.one_hot(self.labels, self.classes).double()
        return value_of_votes(votes, torch.tensor(self.label), k=self.k, utility=self.utility, ties=self.ties)


@dataclass(frozen=True, eq=False)
class NeighborRegressionGame:
    """The game of the training points, the players, for one reference point with a target.

    Attributes:
        targets: of the training points, from the nearest to the farthest.
        target: of the reference point.
        k: number of nearest neighbors; "radius_error" ignores it.
        utility: how their prediction is scored.
        default: what the empty coalition predicts.
        closeness: weights of the points for "kernel_error"; for "radius_error", points with a positive one are within
            the distance.

    Example:
        >>> game = NeighborRegressionGame(torch.tensor([1.0, 3.0, 9.0]), target=2.0, k=2)
        >>> game(torch.tensor([[True, True, False], [False, False, True]])).tolist()  # predictions 2 and 4.5
        [-0.0, -6.25]
    """

    targets: Float[Tensor, " points"]
    target: float
    k: int
    utility: RegressionUtility = "squared_error"
    default: float = 0.0
    closeness: Float[Tensor, " points"] | None = None

    def __post_init__(self) -> None:
        targets = torch.from_numpy(check_numbers("targets", self.targets))
        if targets.ndim != 1 or not len(targets) or not bool(targets.isfinite().all()):
            raise ValueError(f"targets must be one finite number per point, got shape {tuple(targets.shape)}")
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "target", check_real("target", self.target))
        object.__setattr__(self, "default", check_real("default", self.default))
        check_whole("k", self.k)
        check_choice("utility", self.utility, get_args(RegressionUtility))
        object.__setattr__(self, "closeness", _check_closeness(self.closeness, len(targets), self.utility))

    @property
    def n_players(self) -> int:
        """Number of training points."""
        return len(self.targets)

    def __call__(self, coalitions: Coalitions, /) -> Float[Tensor, " coalitions"]:
        """Return minus the squared error of each coalition's prediction."""
        chosen = _choose(coalitions, self.k, self.utility, self.closeness).double()
        excess = self.targets - self.default
        if self.utility == "kernel_error" and self.closeness is not None:
            excess = excess * self.closeness
        divisor = chosen.sum(1).clamp(min=1) if self.utility in ("normalized_error", "radius_error") else self.k
        return -(self.default + chosen @ excess / divisor - self.target).square()


def value_of_votes(
    votes: Float[Tensor, "*games classes"], label: Int[Tensor, "*labels"], *, k: int, utility: AnyUtility, ties: Ties
) -> Float[Tensor, "*games"]:
    """Return the value of coalitions from the votes of their members that are near.

    Args:
        votes: number of these members of each class, or the sum of their weights.
        label: class number of the reference point, broadcast to the shape of the games.
        k: number of nearest neighbors.
        utility: how their prediction is scored.
        ties: who wins a tied vote.
    """
    matches = votes.gather(-1, label.expand(votes.shape[:-1])[..., None])[..., 0]
    if utility in ("soft", "kernel"):
        return matches / k
    if utility == "brier":  # (shares - indicator of the label)**2, summed over classes
        return 2 * matches / k - 1 - (votes / k).square().sum(-1)
    members = votes.sum(-1)
    if utility in ("normalized", "radius"):
        value = matches / members.clamp(min=1)
    else:
        value = _win(votes == votes.amax(-1, keepdim=True), label.expand(votes.shape[:-1]), ties).to(votes)
    return torch.where(members > 0, value, 1 / votes.shape[-1])


def _win(leading: Bool[Tensor, "*games classes"], label: Int[Tensor, "*games"], ties: Ties) -> Float[Tensor, "*games"]:
    """Return the share of the win that goes to the label."""
    if ties == "lowest":
        return (leading.int().argmax(-1) == label).double()
    return leading.gather(-1, label[..., None])[..., 0].double() / leading.sum(-1)


def _choose(coalitions: Coalitions, k: int, utility: str, closeness: Tensor | None) -> Bool[Tensor, "coalitions n"]:
    """Return which members predict: the k nearest, or all within the distance."""
    if utility in BY_RADIUS and closeness is not None:
        return coalitions & (closeness > 0)
    return coalitions & (coalitions.cumsum(1) <= k)


def _check_closeness(closeness: Array | None, n: int, utility: str) -> Float[Tensor, " points"] | None:
    """Return the closeness as a tensor, or raise an error if the utility needs one or has no use for it."""
    if utility not in BY_KERNEL + BY_RADIUS:
        if closeness is not None:
            raise ValueError(f"closeness must be None for utility={utility!r}, which looks at ranks alone")
        return None
    if closeness is None:
        raise ValueError(f"closeness must be a number for each of the {n} points for utility={utility!r}, got None")
    given = torch.from_numpy(check_numbers("closeness", closeness))
    if given.shape != (n,) or not bool((given.isfinite() & (given >= 0)).all()):
        raise ValueError(
            f"closeness must be {n} finite numbers that are not negative, one per point, got shape {tuple(given.shape)}"
        )
    return given
