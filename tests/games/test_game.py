import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fwshapley._internal.checks import Array
from fwshapley.games import CheckedGame, FunctionGame, Game, Glove, as_game


def coalitions_of(n: int, count: int = 5) -> Tensor:
    return torch.rand(count, n, generator=torch.Generator().manual_seed(0)) < 0.5


def test_a_game_that_knows_its_players_is_taken_as_it_is() -> None:
    game = Glove(left=2, right=3)
    assert as_game(game) is as_game(game, 5) is game


def test_a_plain_function_becomes_a_game_with_n_players() -> None:
    game = as_game(lambda coalitions: coalitions.sum(1), 4)
    assert isinstance(game, Game)
    assert game.n_players == 4
    assert torch.as_tensor(game(torch.ones(1, 4, dtype=torch.bool))).tolist() == [4]


def test_a_plain_function_without_n_players_is_rejected() -> None:
    with pytest.raises(TypeError, match="pass n_players="):
        as_game(lambda coalitions: coalitions.sum(1))


def test_a_contradicting_n_players_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"n_players must be 5.*got 4"):
        as_game(Glove(left=2, right=3), 4)


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_called_is_no_game() -> None:
    table: Any = torch.zeros(8)
    with pytest.raises(TypeError, match=r"game must be a callable .* got Tensor"):
        as_game(table, 3)


@pytest.mark.parametrize("n_players", [0, -1])
def test_a_game_has_at_least_one_player(n_players: int) -> None:
    with pytest.raises(ValueError, match="n_players must be at least 1"):
        FunctionGame(lambda coalitions: coalitions.sum(1), n_players)


@pytest.mark.parametrize(
    "convert",
    [
        Tensor.bool,
        Tensor.int,
        Tensor.float,
        Tensor.double,
        Tensor.numpy,
        Tensor.tolist,
        lambda v: np.float16(v.numpy()),
    ],
    ids=["bool", "int32", "float32", "float64", "numpy", "list", "float16"],
)
def test_values_of_any_type_become_float64_columns(convert: Callable[[Tensor], Array]) -> None:
    coalitions = coalitions_of(3)
    game = CheckedGame(lambda coalitions: convert(coalitions[:, 0]), 3)
    assert_close(game(coalitions), coalitions[:, :1].double(), rtol=0, atol=0)


def test_outputs_keep_their_axis_even_if_there_is_only_one() -> None:
    single = CheckedGame(lambda coalitions: coalitions.sum(1), 3)
    column = CheckedGame(lambda coalitions: coalitions.sum(1, keepdim=True), 3)
    values = torch.zeros(3, 1)
    single(coalitions_of(3)), column(coalitions_of(3))
    assert single.drop_single_output(values).shape == (3,)
    assert column.drop_single_output(values).shape == (3, 1)


def test_calls_are_counted() -> None:
    game = CheckedGame(lambda coalitions: coalitions.sum(1), 4)
    game(coalitions_of(4, count=20))
    game(coalitions_of(4, count=3))
    assert game.calls == 23


def test_a_game_may_use_its_masks_as_scratch() -> None:
    coalitions = coalitions_of(4, count=6)
    before = coalitions.clone()
    CheckedGame(lambda masks: masks.logical_not_().sum(1), 4)(coalitions)
    assert torch.equal(coalitions, before)


@pytest.mark.parametrize(
    "returned", [None, "worth", object(), [[1.0], [1.0, 2.0]]], ids=["nothing", "text", "object", "ragged"]
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_array_of_numbers_is_rejected(returned: object) -> None:
    game: Any = lambda _: returned  # noqa: E731 - a game in one line
    with pytest.raises(TypeError, match=r"array of numbers.* one row per coalition"):
        CheckedGame(game, 4)(coalitions_of(4, count=2))


def test_games_are_played_without_gradients() -> None:
    scale = torch.ones((), requires_grad=True)
    values = CheckedGame(lambda coalitions: coalitions.sum(1) * scale, 3)(coalitions_of(3))
    assert not values.requires_grad


@pytest.mark.parametrize(
    ("worth", "message"),
    [
        (lambda c: torch.zeros(len(c) + 1), r"shape \(6,\) for 5 coalitions; .* one row per coalition"),
        (lambda _: torch.zeros(()), r"shape \(\) for 5 coalitions"),
        (lambda c: torch.zeros(3, len(c)), r"shape \(3, 5\) for 5 coalitions"),
        (lambda c: torch.zeros(len(c), 2, 2), r"must return real numbers, \(coalitions, outputs\)"),
        (lambda c: torch.zeros(len(c), 0), "must return real numbers"),
        (lambda c: torch.zeros(len(c), dtype=torch.complex64), "must return real"),
    ],
    ids=["a row too many", "scalar", "transposed", "three axes", "no outputs", "complex"],
)
def test_values_of_wrong_shape_are_rejected(worth: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CheckedGame(worth, 3)(coalitions_of(3))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_coalition_that_is_not_finite_is_named(bad: float) -> None:
    def worth(coalitions: Tensor) -> Tensor:
        return torch.where(coalitions[:, 1] & coalitions[:, 3], bad, 0.0)

    with pytest.raises(ValueError, match=r"not finite for the coalition of players \[1, 3\]"):
        CheckedGame(worth, 4)(torch.tensor([[True, True, False, False], [False, True, False, True]]))


def test_outputs_may_not_change_from_call_to_call() -> None:
    widths = iter([2, 3])
    game = CheckedGame(lambda coalitions: torch.zeros(len(coalitions), next(widths)), 3)
    game(coalitions_of(3))
    with pytest.raises(ValueError, match=r"outputs of shape \(3,\) after \(2,\)"):
        game(coalitions_of(3))
