"""What suffices for one prediction: a game's value as players join, those of the largest values first."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from numpy import ndarray

from fwshapley._internal.checks import check_seed
from fwshapley.games.game import AnyGame, CheckedGame
from fwshapley.plots import Inclusion

FIRST_SIZES = 16
MORE_SIZES = 48
"""Numbers of players that the game is evaluated for: all of the first ones, and so many of the others."""

RANDOM_ORDERS = 4
CALLS_AT_ONCE = 64


def follow_order(
    game: AnyGame,
    values: Iterable[Float[ndarray, " players"]],
    output: int,
    *,
    n_players: int,
    seed: int = 0,
) -> list[Inclusion]:
    """Evaluate a game with the players of the largest values, for each of several lists of values.

    Args:
        game: value of coalitions of one input, for each output.
        values: of the players, under each weighting.
        output: number of the output that is followed.
        n_players: number of players.
        seed: of random orders.
    """
    checked = CheckedGame(game, n_players, batch_size=CALLS_AT_ONCE)
    n = checked.n_players
    sizes = np.unique(
        [*range(min(FIRST_SIZES, n)), *np.linspace(min(FIRST_SIZES, n), n, MORE_SIZES).round().astype(int)]
    )
    generator = np.random.default_rng(check_seed(seed))
    shuffled = [_first_players(generator.permutation(n), sizes) for _ in range(RANDOM_ORDERS)]
    random = np.mean([_evaluate(checked, shown, output) for shown in shuffled], 0)
    inclusions = []
    for of_players in values:
        order = np.argsort(-of_players, kind="stable")
        shown = _first_players(order, sizes)
        hidden = _evaluate(checked, ~shown, output)
        inclusions.append(Inclusion(order, sizes, _evaluate(checked, shown, output), hidden, random))
    return inclusions


def _first_players(order: ndarray, sizes: ndarray) -> Bool[ndarray, "sizes players"]:
    """Return the coalitions of the first players of an order."""
    return order.argsort() < sizes[:, None]


def _evaluate(
    game: CheckedGame, coalitions: Bool[ndarray, "coalitions players"], output: int
) -> Float64[ndarray, " coalitions"]:
    """Return one output of coalitions; a game with a single output has no others to choose from."""
    masks = torch.from_numpy(coalitions).to(game.device)
    values = torch.cat([game(part) for part in masks.split(game.batch_size)])
    if 1 < values.shape[1] <= output:
        raise ValueError(f"game returns {values.shape[1]} outputs, but output number {output} was explained")
    return values[:, output if values.shape[1] > 1 else 0].cpu().numpy()
