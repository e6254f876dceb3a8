from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fwshapley import Semivalue, Shapley, exact_values
from fwshapley.estimators.boosted_trees import BoostedTrees, boost
from fwshapley.games import FunctionGame, Random

SemivalueFor = Callable[[int], Semivalue]


def all_coalitions(n: int) -> Tensor:
    return (torch.arange(2**n)[:, None] >> torch.arange(n)) & 1 == 1


def boost_all(game: FunctionGame | Random, n_trees: int, generator: torch.Generator) -> tuple[BoostedTrees, Tensor]:
    masks = all_coalitions(game.n_players)
    targets = torch.as_tensor(game(masks)).double()[None]
    return boost(masks, targets, torch.ones_like(targets) > 0, n_trees=n_trees, paired=False, generator=generator)


def predict(trees: BoostedTrees, coalitions: Tensor) -> Tensor:
    """Walk every coalition down every tree of the first target."""
    values = torch.zeros(len(coalitions), dtype=torch.float64)
    for players, leaves in zip(trees.players[0].tolist(), trees.leaves[0].tolist(), strict=True):
        for row, coalition in enumerate(coalitions.tolist()):
            node = 0
            while node < len(players):
                goes_right = players[node] >= 0 and coalition[players[node]]
                node = 2 * node + 1 + goes_right
            values[row] += leaves[node - len(players)]
    return values


@pytest.mark.parametrize("n", [1, 2, 4, 7])
def test_values_of_trees_are_those_of_their_predictions(
    semivalue_for: SemivalueFor, generator: torch.Generator, n: int
) -> None:
    trees, predictions = boost_all(Random(n), 6, generator)
    game = FunctionGame(lambda coalitions: predict(trees, coalitions), n)
    weights = semivalue_for(n)
    assert_close(predictions[0], game(all_coalitions(n)))
    assert_close(trees.values(weights, n)[0], exact_values(game, weights))


def test_odd_predictions_have_the_values_of_the_trees_under_symmetric_laws(generator: torch.Generator) -> None:
    heads = all_coalitions(6)[:32]
    masks = torch.stack([heads, ~heads], 1).flatten(0, 1)
    worth = torch.randn(32, generator=generator, dtype=torch.float64)
    targets = torch.stack([worth, -worth], 1).reshape(1, -1)
    trees, predictions = boost(
        masks, targets, torch.ones_like(targets) > 0, n_trees=5, paired=True, generator=generator
    )
    of_pairs = predictions.reshape(-1, 2)
    assert_close(of_pairs[:, 0], -of_pairs[:, 1])
    by_code = {tuple(mask): float(value) for mask, value in zip(masks.tolist(), predictions[0], strict=True)}
    game = FunctionGame(lambda s: torch.tensor([by_code[tuple(mask)] for mask in s.tolist()], dtype=torch.float64), 6)
    assert_close(trees.values(Shapley(), 6)[0], exact_values(game, Shapley()))


def test_games_of_few_players_are_learned(generator: torch.Generator) -> None:
    game = FunctionGame(lambda s: 3.0 * s[:, 1] + 2.0 * (s[:, 0] & ~s[:, 2] & s[:, 4]) - 1.0 * (s[:, 3] & s[:, 5]), 9)
    masks = all_coalitions(9)
    targets = torch.as_tensor(game(masks)).double()[None]
    _, predictions = boost_all(game, 120, generator)
    assert float((predictions - targets).abs().max()) < 0.02 * float(targets.std())


def test_trees_do_not_see_rows_outside_training(generator: torch.Generator) -> None:
    masks = all_coalitions(7)
    targets = torch.randn(1, 128, generator=generator, dtype=torch.float64)
    in_training = torch.rand(1, 128, generator=generator) < 0.7
    hidden = torch.where(in_training, targets, 1e6)
    first, second = (
        boost(masks, each, in_training, n_trees=4, paired=False, generator=torch.Generator().manual_seed(1))
        for each in (targets, hidden)
    )
    assert torch.equal(first[0].players, second[0].players)
    assert torch.equal(first[0].leaves, second[0].leaves)


def test_targets_are_fitted_independently() -> None:
    masks = all_coalitions(8)
    targets = torch.randn(3, 256, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    everywhere = torch.ones_like(targets) > 0

    def fit(rows: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(2)
        _, predictions = boost(masks, rows, everywhere[: len(rows)], n_trees=4, paired=False, generator=generator)
        return predictions

    together = fit(targets)
    assert_close(together, torch.cat([fit(row[None]) for row in targets]))


def test_a_target_of_zeros_gives_zeros(generator: torch.Generator) -> None:
    trees, predictions = boost_all(FunctionGame(lambda s: torch.zeros(len(s), dtype=torch.float64), 5), 3, generator)
    assert not predictions.any()
    assert not trees.values(Shapley(), 5).any()
