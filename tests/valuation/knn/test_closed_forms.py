"""Closed forms against enumeration of the game, and at sizes out of its reach against identities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import pytest
import torch
from scipy.stats import binom
from torch import Tensor
from torch.testing import assert_close

from conftest import SEMIVALUES, every_utility
from fwshapley import Banzhaf, Beta, LeaveOneOut, Semivalue, Shapley, exact_values, permutation_values
from fwshapley.games import NeighborGame
from fwshapley.games.knn import Ties, Utility
from fwshapley.valuation.knn.closed_forms import ClosedForm, make_form
from fwshapley.valuation.knn.closed_forms.win_chances import win_chances


def semivalues(n: int) -> list[Semivalue]:
    """Every kind, for n players."""
    return [make(n) for make in SEMIVALUES.values()]


def draw_labels(n: int, classes: int, seed: int = 0) -> Tensor:
    return torch.randint(0, classes, (n,), generator=torch.Generator().manual_seed(seed))


def evaluate(form: ClosedForm, labels: Tensor, label: Tensor, ranks: int | None = None) -> Tensor:
    """Values of all points by (weighting, reference, rank), of which a number of the nearest are looked at."""
    values = torch.zeros(len(form.reach), *labels.shape, dtype=torch.float64)
    by_rank = form.by_rank(labels[:, :ranks], label)
    values[..., : by_rank.shape[2]] = by_rank
    by_class = form.by_class(label, labels[:, -1])
    return values if by_class is None else values + by_class.gather(2, labels.expand(len(values), -1, -1))


def values_of(game: NeighborGame, weights: Sequence[Semivalue]) -> Tensor:
    """Values of the points of one game, by (weighting, rank)."""
    counts = torch.bincount(game.labels, minlength=game.classes)
    form = make_form(game.utility, weights, counts, game.k, ties=game.ties)
    return evaluate(form, game.labels[None], torch.tensor([game.label]))[:, 0]


# Against enumeration


@every_utility
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 12])
def test_values_are_those_of_enumeration(utility: Utility, ties: Ties, k: int, classes: int) -> None:
    n, weights = 8, semivalues(8)
    labels = draw_labels(n, classes=classes, seed=k)
    for label in (0, classes - 1):  # who wins all ties, and who loses them
        game = NeighborGame(labels, label, classes, k, utility, ties)
        assert_close(values_of(game, weights), exact_values(game, weights), rtol=0, atol=1e-12)


@every_utility
@pytest.mark.parametrize("n", [1, 2, 3, 10])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_any_number_of_points(utility: Utility, ties: Ties, k: int, n: int) -> None:
    weights = semivalues(n)
    game = NeighborGame(draw_labels(n, classes=3, seed=n), 1, 3, k, utility, ties)
    assert_close(values_of(game, weights), exact_values(game, weights), rtol=0, atol=1e-12)


@every_utility
def test_a_class_may_have_no_points(utility: Utility, ties: Ties) -> None:
    weights, labels = semivalues(6), torch.tensor([2, 0, 2, 2, 0, 0])
    for label in range(4):
        game = NeighborGame(labels, label, 4, 3, utility, ties)
        assert_close(values_of(game, weights), exact_values(game, weights), rtol=0, atol=1e-12)


@every_utility
def test_references_at_once_are_references_one_by_one(utility: Utility, ties: Ties) -> None:
    weights, label = semivalues(7), torch.tensor([0, 2, 1, 2])
    labels = torch.stack([torch.tensor([0, 1, 1, 2, 2, 2, 0]).roll(shift) for shift in range(4)])
    found = evaluate(make_form(utility, weights, torch.tensor([2, 2, 3]), 3, ties=ties), labels, label)
    games = [NeighborGame(labels[row], int(label[row]), 3, 3, utility, ties) for row in range(4)]
    expected = torch.stack([exact_values(game, weights) for game in games], 1)
    assert_close(found, expected, rtol=0, atol=1e-12)


@every_utility
@pytest.mark.parametrize("k", [1, 3, 6])
def test_a_reference_that_is_held_out_is_no_player(utility: Utility, ties: Ties, k: int) -> None:
    counts, weights = torch.tensor([1, 3, 3]), semivalues(6)
    form = make_form(utility, weights, counts, k, held_out=True, ties=ties)
    assert form.n == 6
    everyone = torch.tensor([1, 2, 0, 2, 1, 1, 2])
    for own in range(7):  # the only point of class 0 among them
        others, label = torch.cat([everyone[:own], everyone[own + 1 :]]), int(everyone[own])
        game = NeighborGame(others, label, 3, k, utility, ties)
        found = evaluate(form, others[None], torch.tensor([label]))[:, 0]
        assert_close(found, exact_values(game, weights), rtol=0, atol=1e-12)


# Known answers at any size


def published_recursion(match: Tensor, k: int) -> Tensor:
    """KNN-Shapley from the farthest point inwards: Jia et al., 2019, theorem 1."""
    n, a = len(match), match.tolist()
    values = [a[-1] * min(k, n) / (n * k)]
    for i in range(n - 1, 0, -1):
        values.append(values[-1] + (a[i - 1] - a[i]) / k * min(k, i) / i)
    return torch.tensor(values[::-1], dtype=torch.float64)


@pytest.mark.parametrize(("n", "k"), [(5000, 1), (5000, 5), (5000, 100), (40, 40), (40, 60)])
def test_soft_shapley_is_the_published_recursion(n: int, k: int) -> None:
    labels = draw_labels(n, classes=3)
    found = values_of(NeighborGame(labels, 1, 3, k), [Shapley()])[0]
    assert_close(found, published_recursion((labels == 1).double(), k), rtol=0, atol=1e-13)


@every_utility
@pytest.mark.parametrize(("n", "k"), [(300, 1), (300, 5), (20_000, 5)])
def test_shapley_values_sum_to_what_everyone_adds(utility: Utility, ties: Ties, n: int, k: int) -> None:
    game = NeighborGame(draw_labels(n, classes=3), 2, 3, k, utility, ties)
    nobody, everyone = game(torch.tensor([[False], [True]]).expand(2, n))
    assert float(values_of(game, [Shapley()]).sum()) == pytest.approx(float(everyone - nobody), abs=1e-10)


@every_utility
@pytest.mark.parametrize("k", [4, 25])
def test_leave_one_out_is_what_leaving_one_out_does(utility: Utility, ties: Ties, k: int) -> None:
    n = 200
    game = NeighborGame(draw_labels(n, classes=3), 1, 3, k, utility, ties)
    left = game(torch.ones(1, n, dtype=torch.bool)) - game(~torch.eye(n, dtype=torch.bool))
    assert_close(values_of(game, [LeaveOneOut()])[0], left, rtol=0, atol=1e-12)


@every_utility
@pytest.mark.parametrize("weights", [Shapley(), Beta(4, 1), Beta(0.5, 3)], ids=str)
def test_beta_values_are_mixtures_of_banzhaf_values(utility: Utility, ties: Ties, weights: Beta) -> None:
    n = 150
    game = NeighborGame(draw_labels(n, classes=3), 0, 3, 5, utility, ties)
    points, shares = map(
        torch.from_numpy, weights.quadrature(n // 2)
    )  # exact: a Banzhaf(t) value is a polynomial in t of degree n - 1
    inside = (points > 1e-12) & (points < 1 - 1e-12)
    mixed = shares[inside] @ values_of(game, [Banzhaf(t) for t in points[inside].tolist()])
    assert_close(values_of(game, [weights])[0], mixed, rtol=0, atol=1e-11)


@every_utility
@pytest.mark.parametrize("k", [1, 5, 12])
def test_over_all_labels_values_add_up_to_what_does_not_depend_on_them(utility: Utility, ties: Ties, k: int) -> None:
    # Somebody wins every vote, and all neighbors have some label: what they share does not depend on who they are.
    n, weights = 500, [Shapley(), Beta(16, 1), Banzhaf(0.03)]
    labels = draw_labels(n, classes=4)
    total = sum(values_of(NeighborGame(labels, label, 4, k, utility, ties), weights) for label in range(4))
    small = (
        torch.stack([torch.from_numpy(each.join_law(n))[:k].sum() for each in weights]) / k
    )  # matches / K grow up to K members
    expected = small[:, None].expand(3, n) if utility == "soft" else torch.zeros(3, n, dtype=torch.float64)
    assert_close(total, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("ties", ["lowest", "shared"])
def test_one_neighbors_vote_is_its_match_but_for_nobody(ties: Ties) -> None:
    n, classes = 400, 3
    labels, weights = draw_labels(n, classes=classes), semivalues(n)
    soft = values_of(NeighborGame(labels, 1, classes, 1), weights)
    vote = values_of(NeighborGame(labels, 1, classes, 1, "vote", ties), weights)
    chance = torch.stack([torch.from_numpy(each.join_law(n))[0] for each in weights]) / classes
    assert_close(vote, soft - chance[:, None], rtol=0, atol=1e-12)


def test_a_shared_vote_does_not_depend_on_the_names_of_classes() -> None:
    labels, rename = draw_labels(300, classes=4), torch.tensor([2, 3, 1, 0])
    plain = values_of(NeighborGame(labels, 1, 4, 6, "vote", "shared"), [Shapley(), Banzhaf(0.1)])
    renamed = values_of(NeighborGame(rename[labels], 3, 4, 6, "vote", "shared"), [Shapley(), Banzhaf(0.1)])
    assert_close(plain, renamed, rtol=0, atol=1e-14)


@every_utility
def test_extreme_weightings_of_very_many_points_are_finite(utility: Utility, ties: Ties) -> None:
    weights = [Beta(16, 1), Beta(1, 16), Banzhaf(0.01), Banzhaf(0.999), LeaveOneOut(), Shapley()]
    found = values_of(NeighborGame(draw_labels(100_000, classes=3), 2, 3, 5, utility, ties), weights)
    assert bool(found.isfinite().all())
    assert float(found.abs().max()) <= 1


# Votes of many


def chance_by_counting(counts: Sequence[int], label: int, size: int, ties: Ties, given: int) -> Fraction:
    """Chance that the label wins among `size` voters, one of them a certain point of class `given`."""
    others = [number - (number_of == given) for number_of, number in enumerate(counts)]
    won = Fraction(0)
    for drawn in divisions(others, size - 1):
        votes = [number + (number_of == given) for number_of, number in enumerate(drawn)]
        leading = [number_of for number_of, number in enumerate(votes) if number == max(votes)]
        if label in leading and (ties == "shared" or leading[0] == label):
            ways = math.prod(math.comb(*pair) for pair in zip(others, drawn, strict=True))
            won += Fraction(ways, len(leading) if ties == "shared" else 1)
    return won / math.comb(sum(others), size - 1)


def divisions(of: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    """All ways to draw a number of voters from classes."""
    ranges = [range(min(number, total) + 1) for number in of[:-1]]
    for drawn in itertools.product(*ranges):
        if 0 <= total - sum(drawn) <= of[-1]:
            yield *drawn, total - sum(drawn)


@pytest.mark.parametrize("ties", ["lowest", "shared"])
@pytest.mark.parametrize("counts", [(19, 9), (40, 30, 35), (1000, 3, 20), (100_000, 60_000, 5), (7, 6, 5, 8)], ids=str)
@pytest.mark.parametrize("size", [1, 2, 6, 25])
def test_chances_to_win_are_counted(counts: tuple[int, ...], size: int, ties: Ties) -> None:
    several = torch.tensor(counts, dtype=torch.float64)[:, None, None]
    for label in range(len(counts)):
        found = win_chances(several, torch.tensor([label]), size, ties)[:, 0, 0]
        expected = [float(chance_by_counting(counts, label, size, ties, given)) for given in range(len(counts))]
        assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-13)


@pytest.mark.parametrize("ties", ["lowest", "shared"])
def test_a_vote_of_15_is_enumerated(ties: Ties) -> None:
    game = NeighborGame(draw_labels(16, classes=3), 1, 3, 15, "vote", ties)
    assert_close(values_of(game, semivalues(16)), exact_values(game, semivalues(16)), rtol=0, atol=1e-12)


def test_a_vote_of_25_agrees_with_monte_carlo() -> None:
    game = NeighborGame(draw_labels(60, classes=3), 0, 3, 25, "vote", "shared")
    estimate = permutation_values(game, Shapley(), n_calls=60_000)
    assert bool(((values_of(game, [Shapley()])[0] - estimate.values).abs() <= 4 * estimate.stderr).all())


@pytest.mark.parametrize("ties", ["lowest", "shared"])
@pytest.mark.parametrize("k", [1, 2, 4, 5, 7])
@pytest.mark.parametrize("classes", [2, 9])
def test_series_of_counts_and_products_over_classes_agree(
    classes: int, k: int, ties: Ties, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, label = 3000, torch.tensor([0, classes - 1, 1])
    one = draw_labels(n, classes=classes)
    one[: n // 2] = 1  # the nearest half of the points have one class
    labels = torch.stack([one, one.flip(0), one.roll(7)])
    form = make_form(
        "vote", [Shapley(), Beta(4, 1), Banzhaf(0.01)], torch.bincount(one, minlength=classes), k, ties=ties
    )
    by_series = form.by_rank(labels, label)
    few = form.by_rank(labels[:, :100], label)
    monkeypatch.setattr("fwshapley.valuation.knn.closed_forms.vote.MAX_VOTERS", 0)
    assert_close(by_series, form.by_rank(labels, label), rtol=0, atol=1e-13)
    assert_close(few, form.by_rank(labels[:, :100], label), rtol=0, atol=1e-13)


# The reach, and where it lets us stop


@pytest.mark.parametrize("k", [1, 5, 30, 80])
def test_reach_is_certain_for_the_k_nearest_and_never_grows(k: int) -> None:
    weights = semivalues(60)
    form = make_form("soft", weights, torch.tensor([20, 40]), k)
    assert_close(form.reach[:, :k], torch.ones_like(form.reach[:, :k]), rtol=0, atol=1e-12)
    steps = form.reach[:, :-1] - form.reach[:, 1:]
    assert float(steps.min()) >= -1e-13
    assert_close(form.drop[:, 1:], steps, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("t", "k"),
    [
        (0.5, 5),
        (0.5, 400),
        (0.5, 600),  # of 1500 points, each of whom is out with probability 1/2: 2**-1500 is no float
        (0.99, 200),
    ],
)
def test_reach_of_banzhaf_is_binomial_also_for_many_neighbors(t: float, k: int) -> None:
    n = 1500
    reach = make_form("soft", [Banzhaf(t)], torch.tensor([n // 2, n - n // 2]), k).reach[0]
    assert_close(reach, torch.from_numpy(binom.cdf(k - 1, range(n), t)), rtol=0, atol=1e-11)


@every_utility
@pytest.mark.parametrize("tolerance", [0.0, 1e-6, 1e-3, 0.03, 0.2])
def test_a_cut_is_off_by_no_more_than_its_bound(utility: Utility, ties: Ties, tolerance: float) -> None:
    n, k, label = 80, 3, torch.tensor([0, 1, 2, 0, 1, 2])
    one = draw_labels(n, classes=3)
    labels = torch.stack([one, one, one, one.flip(0), one.sort().values, one.sort(descending=True).values])
    for each in semivalues(n):
        form = make_form(utility, [each], torch.bincount(labels[0], minlength=3), k, ties=ties)
        ranks, bound = form.cut(tolerance)
        assert bound <= tolerance
        error = (evaluate(form, labels, label, ranks) - evaluate(form, labels, label)).abs()
        assert float(error.max()) <= bound + 1e-14
        if utility != "vote":  # all of the nearest by the same, so that their order is exact
            near = error[..., :ranks]
            assert_close(near, near[..., :1].expand_as(near), rtol=0, atol=1e-14)
        if ranks > 1:  # a rank less would not do
            assert float(make_bound(form, ranks - 1)) > tolerance


def make_bound(form: ClosedForm, ranks: int) -> Tensor:
    """What docs/math.md says that a cut costs."""
    reach = torch.cat([form.reach[0], torch.zeros(1, dtype=torch.float64)])
    assert form.stake is not None
    return form.stake * torch.maximum(reach[ranks - 1] - form.reach[0, -1], reach[ranks])


@every_utility
def test_several_weightings_are_cut_where_the_most_demanding_is(utility: Utility, ties: Ties) -> None:
    several = [LeaveOneOut(), Banzhaf(), Beta(1, 4)]
    counts = torch.tensor([50, 70])
    cuts = [make_form(utility, [each], counts, 2, ties=ties).cut(1e-4)[0] for each in several]
    assert make_form(utility, several, counts, 2, ties=ties).cut(1e-4)[0] == max(cuts)


@every_utility
@pytest.mark.parametrize("k", [1, 4, 11])
def test_leave_one_out_needs_one_rank_more_than_neighbors(utility: Utility, ties: Ties, k: int) -> None:
    counts = torch.tensor([6, 6])
    assert make_form(utility, [LeaveOneOut()], counts, k, ties=ties).cut(0) == (k + 1, 0)
    everyone = make_form(utility, [LeaveOneOut()], counts, 12, ties=ties)  # there is nobody beyond the neighbors
    assert everyone.cut(0) == (12, 0)


def test_nothing_is_cut_where_everything_counts() -> None:
    form = make_form("soft", [Shapley()], torch.tensor([50, 50]), 5)
    assert form.cut(0) == (100, 0)
