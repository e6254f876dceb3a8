from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from brute_force import all_coalitions
from fwshapley import Banzhaf, LeaveOneOut, Semivalue, Shapley, exact_values
from fwshapley.games import Additive, Airport, Glove, KnownGame, Pairwise, Random, Unanimity, Voting


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7))


GAMES: dict[str, KnownGame] = {
    "additive": Additive(normal(6)),
    "additive list": Additive([3, 0, -1.5]),
    "unanimity": Unanimity(6, carrier=(1, 4, 2)),
    "unanimity of one": Unanimity(4, carrier=(3,)),
    "unanimity of all": Unanimity(5, carrier=(0, 1, 2, 3, 4)),
    "airport": Airport([3.0, 1, 0, 3, 7.5, 1]),
    "airport for one": Airport([2.0]),
    "voting": Voting((4, 3, 2, 1, 1, 0), quota=6),
    "voting with a dictator": Voting((9, 1, 1), quota=5),
    "voting out of reach": Voting((1, 1, 1), quota=4),
    "glove": Glove(left=2, right=4),
    "glove, one side only": Glove(left=0, right=3),
    "pairwise": Pairwise(normal(6), normal(6, 6)),
    "pairwise of one": Pairwise([2.0], [[5.0]]),
}


@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES.keys())
def test_closed_form_equals_enumeration(game: KnownGame, semivalue_for: Callable[[int], Semivalue]) -> None:
    weights = semivalue_for(game.n_players)
    assert_close(game.values(weights), exact_values(game, weights), rtol=0, atol=1e-13)


@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES.keys())
def test_nobody_is_worth_nothing(game: KnownGame) -> None:
    assert torch.as_tensor(game(torch.zeros(1, game.n_players, dtype=torch.bool))).tolist() == [0]


@pytest.mark.parametrize(
    ("game", "weights", "values"),
    [
        (Glove(left=1, right=2), Shapley(), [2 / 3, 1 / 6, 1 / 6]),
        (Glove(left=1, right=2), Banzhaf(), [3 / 4, 1 / 4, 1 / 4]),
        (Voting((2, 1, 1), quota=3), Shapley(), [2 / 3, 1 / 6, 1 / 6]),
        (Voting((2, 1, 1), quota=3), Banzhaf(), [3 / 4, 1 / 4, 1 / 4]),
        (Voting((50, 49, 1), quota=51), Banzhaf(), [3 / 4, 1 / 4, 1 / 4]),
        (Unanimity(4, carrier=(0, 2)), Shapley(), [1 / 2, 0, 1 / 2, 0]),
        (Unanimity(4, carrier=(0, 1, 2)), Banzhaf(), [1 / 4, 1 / 4, 1 / 4, 0]),
        (Airport([1.0, 2, 3]), Shapley(), [1 / 3, 1 / 3 + 1 / 2, 1 / 3 + 1 / 2 + 1]),
        (Airport([1.0, 2, 3]), LeaveOneOut(), [0, 0, 1]),
        (Pairwise([1.0, 0, 0], [[0, 4, 0], [9, 0, 0], [0, 0, 0]]), Shapley(), [3, 2, 0]),
    ],
    ids=str,
)
def test_textbook_values(game: KnownGame, weights: Semivalue, values: list[float]) -> None:
    assert_close(game.values(weights), torch.tensor(values, dtype=torch.float64))


def test_closed_forms_reach_where_enumeration_does_not() -> None:
    game = Unanimity(1000, carrier=(0, 999))
    assert_close(game.values(Shapley())[[0, 1, 999]], torch.tensor([0.5, 0, 0.5], dtype=torch.float64))
    assert float(Voting((1,) * 101, quota=51).values(Shapley())[3]) == pytest.approx(1 / 101)
    assert float(Glove(left=300, right=300).values(Shapley()).sum()) == pytest.approx(300)


@pytest.mark.parametrize("convert", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
@pytest.mark.usefixtures("unchecked")
def test_games_take_lists_numpy_and_torch(convert: Callable[[list[int]], Any]) -> None:
    for kind in (Airport, Additive):
        assert_close(kind(convert([1, 2, 3])).values(Shapley()), kind([1, 2, 3]).values(Shapley()))
    assert Voting(convert([1, 2, 3]), quota=3) == Voting((1, 2, 3), quota=3)
    assert Unanimity(4, carrier=convert([1, 2])) == Unanimity(4, carrier=(1, 2))


def test_random_game_is_a_table_set_by_its_seed() -> None:
    coalitions = all_coalitions(5)
    worth = Random(5, seed=1)(coalitions)
    assert worth.unique().shape == (32,)
    assert_close(Random(5, seed=1)(coalitions), worth, rtol=0, atol=0)
    assert not torch.equal(Random(5, seed=2)(coalitions), worth)
    assert Random(5, outputs=3)(coalitions).shape == (32, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Unanimity(3, carrier=()), "at least one player"),
        (lambda: Unanimity(3, carrier=(1, 1)), "each once"),
        (lambda: Unanimity(3, carrier=(1, 3)), r"carrier must be players 0\.\.2"),
        (lambda: Voting((1, -1), quota=1), "votes must be at least 0"),
        (lambda: Voting((1, 1), quota=0), "quota must be at least 1"),
        (lambda: Random(25), "n_players must be at most 24"),
        (lambda: Random(0), "n_players must be at least 1"),
        (lambda: Airport([-1.0, 2])(torch.ones(1, 2, dtype=torch.bool)), "must not be negative"),
        (lambda: Airport([-1.0, 2]).values(Shapley()), "must not be negative"),
        (lambda: Additive([[1.0, 2]]).values(Shapley()), "contributions"),
        (lambda: Airport([float("nan"), 1.0]), "costs has 1 missing or infinite"),
        (lambda: Glove(-1, 4), "left must be at least 0"),
        (lambda: Glove(0, 0), "at least one glove"),
        (lambda: Pairwise([1.0, 2], [[0.0]]).values(Shapley()), "must be 2 x 2"),
    ],
)
def test_games_that_make_no_sense_are_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
