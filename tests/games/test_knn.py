from __future__ import annotations

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from fwshapley.games import NeighborGame, NeighborRegressionGame
from fwshapley.games.knn import RegressionUtility, Ties, Utility

LABELS = torch.tensor([1, 0, 0, 2, 1])  # from the nearest to the farthest
EVERYONE, NOBODY = [True] * 5, [False] * 5


@pytest.mark.parametrize(
    ("utility", "ties", "members", "worth"),
    [
        ("soft", "lowest", NOBODY, 0),
        ("soft", "lowest", EVERYONE, 2 / 3),  # 1, 0, 0 decide
        ("soft", "lowest", [False, True, False, False, False], 1 / 3),
        ("normalized", "lowest", NOBODY, 1 / 3),
        ("normalized", "lowest", [False, True, False, True, False], 1 / 2),
        ("vote", "lowest", NOBODY, 1 / 3),
        ("vote", "lowest", EVERYONE, 1),
        ("vote", "lowest", [True, True, False, False, False], 1),  # a tie of 0 and 1
        ("vote", "shared", [True, True, False, False, False], 1 / 2),
        ("vote", "shared", [True, True, False, True, False], 1 / 3),
        ("vote", "shared", [True, False, False, True, True], 0),  # 1, 2, 1 decide
        ("brier", "lowest", NOBODY, -1),
        ("brier", "lowest", EVERYONE, -2 / 9),  # shares 2/3, 1/3, 0
        ("brier", "lowest", [False, True, False, False, False], -4 / 9),  # shares 1/3, 0, 0
    ],
)
def test_a_coalition_is_worth_what_its_nearest_members_say(
    utility: Utility, ties: Ties, members: list[bool], worth: float
) -> None:
    game = NeighborGame(LABELS, label=0, classes=3, k=3, utility=utility, ties=ties)
    assert game.n_players == 5
    assert float(game(torch.tensor([members]))) == pytest.approx(worth)


@pytest.mark.parametrize(
    ("utility", "members", "worth"),
    [
        ("kernel", NOBODY, 0),
        ("kernel", EVERYONE, (0.5 + 0.25) / 3),  # of the matches 0, 0 among 1, 0, 0
        ("kernel", [False, True, False, True, True], 0.5 / 3),
        ("radius", NOBODY, 1 / 3),
        ("radius", [False, False, False, False, True], 1 / 3),  # who is outside
        ("radius", EVERYONE, 2 / 3),
        ("radius", [True, True, False, False, True], 1 / 2),
    ],
)
def test_distances_matter_where_they_should(utility: Utility, members: list[bool], worth: float) -> None:
    closeness = torch.tensor([1.0, 0.5, 0.25, 0.0, 0.0], dtype=torch.float64)
    game = NeighborGame(LABELS, label=0, classes=3, k=3, utility=utility, closeness=closeness)
    assert float(game(torch.tensor([members]))) == pytest.approx(worth)


@pytest.mark.parametrize(
    ("utility", "members", "prediction"),
    [
        ("squared_error", NOBODY, 1),
        ("squared_error", EVERYONE, (2 + 5 + 8) / 3),
        ("squared_error", [True, False, False, False, False], (2 + 1 + 1) / 3),  # the default takes missing places
        ("normalized_error", NOBODY, 1),
        ("normalized_error", [True, False, False, True, False], (2 + 0) / 2),
        ("kernel_error", EVERYONE, 1 + (1 * 1 + 0.5 * 4 + 0.25 * 7) / 3),  # weighted differences from the default
        ("radius_error", EVERYONE, (2 + 5 + 8) / 3),
        ("radius_error", [False, False, False, True, True], 1),  # nobody is inside
    ],
)
def test_a_prediction_is_off_by_its_square(utility: RegressionUtility, members: list[bool], prediction: float) -> None:
    closeness = [1.0, 0.5, 0.25, 0.0, 0.0] if utility in ("kernel_error", "radius_error") else None
    near = None if closeness is None else torch.tensor(closeness, dtype=torch.float64)
    targets = torch.tensor([2.0, 5.0, 8.0, 0.0, 9.0], dtype=torch.float64)
    game = NeighborRegressionGame(targets, target=4.0, k=3, utility=utility, default=1.0, closeness=near)
    assert game.n_players == 5
    assert float(game(torch.tensor([members]))) == pytest.approx(-((prediction - 4) ** 2))


def test_a_vote_is_that_of_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    for k in (1, 2, 3, 4):
        labels = torch.randint(0, 3, (8,), generator=generator)
        coalition = torch.rand(8, generator=generator) < 0.8
        points = torch.arange(1.0, 9.0)[coalition, None]
        model = KNeighborsClassifier(min(k, len(points))).fit(points, labels[coalition])
        predicted = int(model.predict([[0.0]])[0])
        for label in range(3):
            game = NeighborGame(labels, label, classes=3, k=k, utility="vote")
            assert float(game(coalition[None])) == (label == predicted)
