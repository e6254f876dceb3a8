from __future__ import annotations

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from fwshapley.games import NeighborGame
from fwshapley.games.knn import Ties, Utility

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
    ],
)
def test_a_coalition_is_worth_what_its_nearest_members_say(
    utility: Utility, ties: Ties, members: list[bool], worth: float
) -> None:
    game = NeighborGame(LABELS, label=0, classes=3, k=3, utility=utility, ties=ties)
    assert game.n_players == 5
    assert float(game(torch.tensor([members]))) == pytest.approx(worth)


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
