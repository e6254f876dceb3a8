"""Semivalues by permutation sampling: players join one by one, in random order.

A player that joins after s others joins a random coalition of size s, so the mean of its contribution, weighted by
n w(s), is the semivalue. There are two changes. Each order is also followed in reverse (antithetic sampling), which is
unbiased for every law; it has no effect only in games such as a majority vote, in which a coalition and its complement
decide alike. And the sum of a player's weighted contributions is divided by the sum of its weights; otherwise, even an
additive game would be noisy.
Equations: docs/math.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from fwshapley.coalitions import draw_permutations
from fwshapley.estimators.estimate import Estimate, Run, StandardErrors, estimate_each, pooled_errors
from fwshapley.games.game import AnyGame
from fwshapley.semivalues import Semivalue, Total


def permutation_values(
    game: AnyGame,
    weights: Semivalue | Sequence[Semivalue],
    *,
    n_calls: int,
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
        game: value of coalitions; a plain function needs `n_players`.
        weights: the semivalue, or a list. Laws with all weight on a few sizes use only a small part of an order.
        n_calls: most game calls for each semivalue; an order takes n - 1.
        total: "raw" values, or "efficient" ones, shifted to sum to v(all players) - v(no players).
        antithetic: follow each order by its reverse.
        target_stderr: stop early once no standard error exceeds this.
        seed: an integer, or a generator on the game's device.
        n_players: number of players, if the game does not have it.
        batch_size: most coalitions per call of the game.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.

    Returns:
        values, standard errors and the number of calls.

    Example:
        >>> import fwshapley as fw
        >>> estimate = fw.permutation_values(fw.games.Glove(left=3, right=5), fw.Shapley(), n_calls=500)
        >>> estimate.values.shape
        torch.Size([8])
    """
    return estimate_each(
        "permutations",
        lambda run: _estimate_by_orders(run, antithetic=antithetic),
        game,
        weights,
        n_calls=n_calls,
        total=total,
        target_stderr=target_stderr,
        seed=seed,
        n_players=n_players,
        batch_size=batch_size,
        progress=progress,
    )


def _estimate_by_orders(run: Run, *, antithetic: bool) -> Estimate:
    """Estimate from as many random orders as the calls allow."""
    cost = (2 if antithetic else 1) * (run.n - 1)
    run.check_calls(2 * cost, "for two random orders" + " and their reverses" * antithetic)
    run.evaluate_ends()
    if run.n == 1:
        return run.estimate_of_one_player()
    weighted = run.empty.new_empty(0, run.n, len(run.empty))
    weight = run.empty.new_empty(0, run.n)
    while left := run.calls_left // cost:
        ranks = draw_permutations(run.next_round(len(weight), left), run.n, run.generator)
        chunks = ranks.split(max(run.game.batch_size // cost, 1))
        walks = [_walk(run, chunk, antithetic=antithetic) for chunk in chunks]
        weighted = torch.cat([weighted, *(contributions for contributions, _ in walks)])
        weight = torch.cat([weight, *(weights for _, weights in walks)])
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
    values = run.evaluate(coalitions.flatten(0, 2)).reshape(*coalitions.shape[:3], -1)
    first, last = (end.expand(*coalitions.shape[:2], 1, -1) for end in (run.empty, run.full))
    contributions = torch.cat([first, values, last], 2).diff(dim=2)  # in order of joining
    by_player = contributions.gather(2, walks[..., None].expand_as(contributions))
    weight = run.n * run.join_law[walks]
    return (weight[..., None] * by_player).sum(0), weight.sum(0)


def _ratio(
    run: Run, weighted: Float64[Tensor, "orders players outputs"], weight: Float64[Tensor, "orders players"]
) -> tuple[Float64[Tensor, "players outputs"], StandardErrors]:
    """Ratio of sums and its linearized standard error."""
    orders, total_weight = len(weight), weight.sum(0)
    if not bool(total_weight.all()):
        player = int((total_weight == 0).nonzero()[0])
        raise ValueError(
            f"{orders} random orders never showed player {player} where {run.weights} puts weight; "
            "increase n_calls or use least_squares_values"
        )
    freedom = total_weight.square() / weight.square().sum(0) - 1  # of the effective number of draws
    values = weighted.sum(0) / total_weight[:, None]
    deviation = (weighted - values * weight[..., None]) / total_weight[:, None]
    if run.total == "efficient":
        values = values + (run.gain - values.sum(0)) / run.n
        deviation = deviation - deviation.mean(1, keepdim=True)
    variance = deviation.square().sum(0) * orders / (orders - 1)
    return values, pooled_errors(variance, freedom[:, None].expand_as(variance))
