"""Compiled sums of votes against enumeration, and against those of torch where there are several stretches of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from conftest import SEMIVALUES
from fwshapley import Banzhaf, Beta, LeaveOneOut, Semivalue, Shapley, exact_values
from fwshapley.games import NeighborGame
from fwshapley.games.knn import Ties
from fwshapley.valuation.knn.closed_forms import make_form
from fwshapley.valuation.knn.closed_forms.vote_series import MAX_VOTERS
from fwshapley.valuation.knn.loops.soft_values import Block
from fwshapley.valuation.knn.loops.tables import VoteTables
from fwshapley.valuation.knn.loops.vote_values import STRETCH, add_vote_values
from fwshapley.valuation.knn.workspace import Scratch


def sums_of(game: NeighborGame, weights: Sequence[Semivalue], ranks: int | None = None) -> Tensor:
    """Values and squares of the points of one game, from the nearest to the farthest, with as many ranks looked at."""
    labels = game.labels.numpy().astype(np.int32)
    n = len(labels)
    form = make_form("vote", weights, torch.bincount(game.labels, minlength=game.classes), game.k, ties=game.ties)
    block = Block(np.arange(1.0, n + 1)[None], False, np.array([-1]), labels, np.array([game.label]))
    total, tables = np.zeros((2, len(weights), n)), form.tables(ranks or n)
    assert isinstance(tables, VoteTables)
    assert add_vote_values(block, 0, 1, tables, Scratch.of(n), total) == 1
    return torch.from_numpy(total)


def draw_labels(n: int, classes: int, seed: int) -> Tensor:
    return torch.randint(0, classes, (n,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("ties", ["lowest", "shared"])
@pytest.mark.parametrize("k", range(1, MAX_VOTERS + 1))
def test_values_are_those_of_enumeration(ties: Ties, k: int) -> None:
    weights = [make(8) for make in SEMIVALUES.values()]
    for classes in (2, 3, 5):
        labels = draw_labels(8, classes, seed=k)
        for label in range(classes):  # from the winner of all ties to the loser
            game = NeighborGame(labels, label, classes, k, "vote", ties)
            expected = exact_values(game, weights)
            found = sums_of(game, weights)
            assert_close(found[0], expected, rtol=0, atol=5e-12)
            assert_close(found[1], expected**2, rtol=0, atol=5e-12)


@pytest.mark.parametrize("ties", ["lowest", "shared"])
@pytest.mark.parametrize("k", [1, 5, 7])
@pytest.mark.parametrize("n", [STRETCH, 3 * STRETCH + 1])
def test_several_stretches_are_summed_as_by_torch(ties: Ties, k: int, n: int) -> None:
    weights: list[Semivalue] = [Shapley(), Beta(4, 1), Beta(1, 4), Banzhaf(), LeaveOneOut()]
    labels = draw_labels(n, 4, seed=n)
    for ranks in (n, STRETCH // 2, n - 1):
        game = NeighborGame(labels, 2, 4, k, "vote", ties)
        form = make_form("vote", weights, torch.bincount(labels), k, ties=ties)
        label = torch.tensor([2])
        by_class = form.by_class(label, labels[-1:])
        assert by_class is not None
        expected = by_class[:, 0, labels]
        expected[:, :ranks] += form.by_rank(labels[None, :ranks], label)[:, 0]
        assert_close(sums_of(game, weights, ranks)[0], expected, rtol=0, atol=1e-13)
