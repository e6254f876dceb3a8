"""Values from few fits, on games whose values are known."""

from __future__ import annotations

import torch
from torch import Tensor

import fwshapley as fw
from fwshapley.coalitions import draw_by_law
from fwshapley.games import Pairwise
from fwshapley.valuation.learned.process import Labeled, Process, Scores


def make_points(n: int, simple: Tensor) -> Labeled:
    generator = torch.Generator().manual_seed(0)
    return Labeled(torch.randn(n, 2, generator=generator, dtype=torch.float64), torch.arange(n) % 2, simple)


def drawn(weights: fw.Semivalue, n: int, count: int, seed: int = 0) -> Tensor:
    nobody = torch.zeros(1, n, dtype=torch.bool)
    law = torch.from_numpy(weights.size_law(n))
    return torch.cat([nobody, ~nobody, draw_by_law(law, count, torch.Generator().manual_seed(seed))])


def test_the_simpler_game_itself_is_known_after_a_few_scores() -> None:
    values = torch.linspace(-1, 2, 40, dtype=torch.float64)
    coalitions = drawn(fw.Shapley(), 40, 25)
    worth = coalitions.double() @ values
    process = Process(make_points(40, values[:, None]), Scores(coalitions, 3 * worth + 1, worth[:, None]))
    torch.testing.assert_close(process.values(fw.Shapley()), 3 * values, rtol=0, atol=0.05)


def test_scores_tell_which_of_the_simpler_games_is_alike() -> None:
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(40, 2, generator=generator, dtype=torch.float64) + 1
    coalitions = drawn(fw.Shapley(), 40, 25)
    worth = coalitions.double() @ values
    process = Process(make_points(40, values), Scores(coalitions, worth[:, 0], worth))
    torch.testing.assert_close(process.values(fw.Shapley()), values[:, 0], rtol=0, atol=0.15)


def test_a_game_that_hardly_gains_is_not_blown_up() -> None:
    generator = torch.Generator().manual_seed(4)
    values = torch.randn(40, 2, generator=generator, dtype=torch.float64) + torch.tensor([1.0, 0])
    values[:, 1] += 1e-3 - values[:, 1].mean()
    coalitions = drawn(fw.Shapley(), 40, 25)
    worth = coalitions.double() @ values
    process = Process(make_points(40, values), Scores(coalitions, 2.9 * worth[:, 0] + 0.1, worth))
    torch.testing.assert_close(process.values(fw.Shapley()), 2.9 * values[:, 0], rtol=0, atol=0.3)


def test_resemblance_is_that_of_coalitions_of_a_size() -> None:
    values = torch.randn(40, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64) + 1
    coalitions = drawn(fw.Shapley(), 40, 200)
    grown = 30 * coalitions.double().mean(1).sqrt()  # of both games alike: it says nothing of points
    worth = coalitions.double() @ values + grown[:, None]
    points = make_points(40, values[:, :1])
    same, other = (Process(points, Scores(coalitions, each, worth[:, :1])).resemblance for each in worth.T)
    assert same is not None
    assert other is not None
    assert same > 0.95
    assert abs(other) < 0.4
    nothing = Process(points, Scores(coalitions, worth[:, 0], torch.ones_like(worth[:, :1])))
    assert nothing.resemblance is None


def test_many_scores_find_the_values_of_any_weighting() -> None:
    """Interactions make the values of two weightings differ; the simpler game is of no use here."""
    generator = torch.Generator().manual_seed(1)
    game = Pairwise(torch.randn(10, generator=generator), torch.randn(10, 10, generator=generator))
    for weights in (fw.Shapley(), fw.Beta(4, 1)):
        coalitions = drawn(weights, 10, 500)
        noise = torch.randn(len(coalitions), generator=generator, dtype=torch.float64)
        process = Process(
            make_points(10, torch.zeros(10, 1).double()), Scores(coalitions, game(coalitions).double(), noise[:, None])
        )
        exact = game.values(weights).flatten().double()
        found = process.values(weights)
        assert float((found - exact).std()) < 0.2 * float(exact.std())
        assert float((found - exact).mean().abs()) < 0.3 * float(exact.std())


def test_standard_errors_are_those_of_values_around_their_level() -> None:
    generator = torch.Generator().manual_seed(2)
    off, said = [], []
    for seed in range(12):
        own = torch.randn(30, generator=generator, dtype=torch.float64)
        coalitions = drawn(fw.Shapley(), 30, 60, seed)
        noise = 0.5 * torch.randn(len(coalitions), generator=generator, dtype=torch.float64)
        process = Process(
            make_points(30, torch.zeros(30, 1).double()),
            Scores(coalitions, coalitions.double() @ own + noise, 0 * noise[:, None]),
        )
        found = process.values(fw.Shapley())
        off.append(found - found.mean() - (own - own.mean()))
        said.append(process.stderr())
    z = torch.cat(off) / torch.cat(said)
    assert 0.7 < float(z.std()) < 1.4


def test_errors_of_the_simpler_values_are_part_of_the_whole() -> None:
    """Three times the simpler game: its errors count three times, and the one of another game not at all."""
    values = torch.linspace(-1, 2, 40, dtype=torch.float64)
    coalitions = drawn(fw.Shapley(), 40, 25)
    worth = coalitions.double() @ values
    simple, flat = torch.stack([values, 0 * values], 1), torch.stack([worth, 0 * worth], 1)
    process = Process(make_points(40, simple), Scores(coalitions, 3 * worth + 1, flat))
    errors = torch.rand(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = process.stderr(errors).square() - process.stderr().square()
    torch.testing.assert_close(found, 9 * errors[:, 0].square(), rtol=0.05, atol=0)
