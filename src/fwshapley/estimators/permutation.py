"""Semivalues by permutation sampling: players join one by one, in random order.

The s-th to join meets a random coalition of size s, so its contribution, weighted by n w(s), has the semivalue as
mean. Two changes. Each order is walked backwards too: antithetic, and free of bias for every law; it gains nothing
only where a coalition and its complement decide alike, as in a majority vote. And the sum of a player's weighted
contributions is divided by the sum of its weights, without which even an additive game would be noisy.
Equations: docs/math.md, section 5.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from fwshapley.coalitions import draw_permutations
from fwshapley.estimators.estimate import Errors, Estimate, Run, pooled_errors
from fwshapley.estimators.exact import Total
from fwshapley.games.game import AnyGame
from fwshapley.semivalues import Semivalue


def permutation_values(
    game: AnyGame,
    weights: Semivalue,
    *,
    budget: int,
    total: Total = "raw",
    antithetic: bool = True,
    target_stderr: float | None = None,
    seed: int | torch.Generator = 0,
    n_players: int | None = None,
    batch_size: int = 2**14,
    progress: bool = True,
) -> Estimate:
    """Estimate a semivalue from random orders of the players; unbiased for the Shapley value.

    Args:
        game: worth of coalitions; a plain function needs `n_players`.
        weights: the semivalue. Laws that put all weight on a few sizes waste most of an order.
        budget: most game calls; an order takes n - 1.
        total: "raw" values, or "efficient" ones, shifted to sum to v(everyone) - v(nobody).
        antithetic: follow each order by its reverse.
        target_stderr: stop early once no standard error exceeds this.
        seed: whole number, or a generator on the game's device.
        n_players: number of players, where the game does not say.
        batch_size: most coalitions handed to the game at once.
        progress: show progress when it takes long: a bar on a terminal, lines elsewhere.

    Returns:
        values, standard errors and calls made.
    """
    with Run(
        game,
        weights,
        budget=budget,
        total=total,
        target_stderr=target_stderr,
        seed=seed,
        n_players=n_players,
        batch_size=batch_size,
        progress=progress,
        method="permutations",
    ) as run:
        cost = (2 if antithetic else 1) * (run.n - 1)
        run.check_budget(2 * cost, "for two random orders" + " and their reverses" * antithetic)
        run.evaluate_ends()
        if run.n == 1:
            return run.estimate_of_one_player()
        weighted = run.nobody.new_empty(0, run.n, len(run.nobody))
        weight = run.nobody.new_empty(0, run.n)
        while left := run.calls_left // cost:
            ranks = draw_permutations(run.next_round(len(weight), left), run.n, run.generator)
            walked = [_walk(run, some, antithetic=antithetic) for some in ranks.split(max(batch_size // cost, 1))]
            weighted = torch.cat([weighted, *(each for each, _ in walked)])
            weight = torch.cat([weight, *(each for _, each in walked)])
            values, errors = _ratio(run, weighted, weight)
            if run.is_precise(errors.stderr):
                break
        return run.estimate(values, errors)


def _walk(
    run: Run, ranks: Int[Tensor, "orders players"], *, antithetic: bool
) -> tuple[Float64[Tensor, "orders players outputs"], Float64[Tensor, "orders players"]]:
    """Each player's weighted contributions, and its weights, summed over an order and, if asked, its reverse."""
    walks = torch.stack([ranks, run.n - 1 - ranks] if antithetic else [ranks])  # (walks, orders, players)
    steps = torch.arange(1, run.n, device=ranks.device)
    coalitions = walks[:, :, None, :] < steps[:, None]  # (walks, orders, steps, players)
    worth = run.evaluate(coalitions.flatten(0, 2)).reshape(*coalitions.shape[:3], -1)
    nobody, everyone = (end.expand(*coalitions.shape[:2], 1, -1) for end in (run.nobody, run.everyone))
    contributions = torch.cat([nobody, worth, everyone], 2).diff(dim=2)  # in order of joining
    own = contributions.gather(2, walks[..., None].expand_as(contributions))
    weight = run.n * run.join_law[walks]
    return (weight[..., None] * own).sum(0), weight.sum(0)


def _ratio(
    run: Run, weighted: Float64[Tensor, "orders players outputs"], weight: Float64[Tensor, "orders players"]
) -> tuple[Float64[Tensor, "players outputs"], Errors]:
    """Ratio of sums and its linearised standard error."""
    orders, total_weight = len(weight), weight.sum(0)
    if not bool(total_weight.all()):
        player = int((total_weight == 0).nonzero()[0])
        raise ValueError(
            f"{orders} random orders never showed player {player} where {run.weights} puts weight; "
            "raise the budget or use least_squares_values"
        )
    freedom = total_weight.square() / weight.square().sum(0) - 1  # of as many draws as the weights are worth
    values = weighted.sum(0) / total_weight[:, None]
    deviation = (weighted - values * weight[..., None]) / total_weight[:, None]
    if run.total == "efficient":
        values = values + (run.gain - values.sum(0)) / run.n
        deviation = deviation - deviation.mean(1, keepdim=True)
    variance = deviation.square().sum(0) * orders / (orders - 1)
    return values, pooled_errors(variance, freedom[:, None].expand_as(variance))
