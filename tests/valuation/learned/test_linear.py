"""Ridge regression as a game: marginal contributions by updates, values against enumeration."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

import fwshapley as fw
from fwshapley.games.game import Game
from fwshapley.valuation.learned.linear import MOST_COLUMNS, LinearGame, ridge_rows
from fwshapley.valuation.learned.simpler import steady


def make_points(n: int, columns: int) -> tuple[Tensor, Tensor]:
    """Players, whose labels are 0, 1, 2, 0, ..., and reference points, likewise."""
    generator = torch.Generator().manual_seed(0)
    x, references = (torch.randn(rows, columns, generator=generator, dtype=torch.float64) for rows in (n, 50))
    return x + (torch.arange(n) % 3)[:, None] * 0.5, references


def make_game(n: int = 8, columns: int = 3, strength: float = 0.5) -> LinearGame:
    x, references = ridge_rows(*make_points(n, columns))
    return LinearGame(x, torch.arange(n) % 3, references, torch.arange(50) % 3, 3, strength)


def refitted(game: LinearGame, coalition: Tensor) -> float:
    """Worth of a coalition as ridge regression has it, with nothing shared or updated."""
    x, references = make_points(8, 3)
    mean = x.mean(0)
    length = (x - mean).square().sum(1).mean().sqrt()
    a, r = (torch.cat([(each - mean) / length, torch.ones(len(each), 1).double()], 1) for each in (x, references))
    a, targets = a[coalition], torch.eye(3).double()[game.labels[coalition]] - 1 / 3
    weights = torch.linalg.solve(a.T @ a + game.strength * torch.eye(a.shape[1]).double(), a.T @ targets)
    return float(((r @ weights).argmax(1) == game.label).double().mean())


def test_a_coalition_is_worth_the_accuracy_of_ridge_regression_fitted_to_it() -> None:
    game = make_game()
    coalitions = torch.rand(20, 8, generator=torch.Generator().manual_seed(1)) < 0.6
    coalitions[:, :3] = True  # every class, so that no two labels tie
    torch.testing.assert_close(game(coalitions), torch.tensor([refitted(game, each) for each in coalitions]).double())


def test_nobody_is_worth_a_guess() -> None:
    assert make_game()(torch.zeros(1, 8, dtype=torch.bool)).item() == pytest.approx(1 / 3)


@pytest.mark.parametrize("columns", [3, MOST_COLUMNS + 20], ids=["few columns", "many columns"])
@pytest.mark.parametrize("members", [0, 1, 5])
def test_marginal_contributions_under_every_label_are_differences_of_worth(columns: int, members: int) -> None:
    game = make_game(columns=columns)
    coalition = torch.arange(8) < members
    found = game.marginals(coalition[None])[0]
    for player in range(members, 8):
        joined = coalition | (torch.arange(8) == player)
        for label in range(3):
            labels = game.labels.clone()
            labels[player] = label
            after = dataclasses.replace(game, labels=labels)(joined[None])
            assert float(found[player, label]) == pytest.approx(float(after - game(coalition[None])), abs=1e-9)


@pytest.mark.parametrize("weights", [fw.Shapley(), fw.Beta(4, 1), fw.Banzhaf()], ids=str)
def test_values_are_those_of_enumeration_within_their_errors(weights: fw.Semivalue) -> None:
    game = make_game(n=7)
    assert isinstance(game, Game)
    exact = fw.exact_values(game, weights).flatten()
    values, stderr = game.values(weights, 4000, torch.Generator().manual_seed(0))
    own, error = (each[torch.arange(7), game.labels] for each in (values, stderr))
    assert float(((own - exact) / error).abs().max()) < 4
    assert float(error.max()) < 0.2 * float(exact.std())


def test_players_that_no_coalition_leaves_out_are_not_known() -> None:
    """Leave-one-out draws coalitions of all but one."""
    values, stderr = make_game(n=30).values(fw.LeaveOneOut(), 10, torch.Generator().manual_seed(0))
    unknown = stderr.isinf().all(1)
    assert 20 <= int(unknown.sum()) < 30
    assert bool((values[unknown] == 0).all())
    assert bool(stderr[~unknown].isfinite().all())


def test_values_known_by_chance_are_drawn_to_their_line_on_exact_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    near = torch.randn(500, 3, 1, generator=generator, dtype=torch.float64)
    own, noise = torch.randn(2, 500, 3, generator=generator, dtype=torch.float64)
    truth = 2 * near[..., 0] + 0.4 * own
    found, stderr = steady(truth + 0.3 * noise, torch.full_like(truth, 0.3), near)
    assert float((found - truth).square().mean().sqrt()) == pytest.approx(float(stderr.mean()), rel=0.1)
    assert float(stderr.mean()) < 0.3
    seen = torch.rand(500, 3, generator=generator) < 0.5
    values, errors = torch.where(seen, truth, 0.0), torch.where(seen, truth.abs(), torch.inf)
    found, stderr = steady(2 * values, errors, near)  # each of those seen counts for two
    assert bool(found.isfinite().all() & stderr.isfinite().all())
    assert float((found - truth)[~seen].square().mean().sqrt()) < 0.6
