"""Semivalues by permutation sampling: players join one by one, in random order.

The s-th to join meets a random coalition of size s, so its contribution, weighted by n w(s), has the semivalue as
mean. Two changes: each order is walked backwards too (antithetic, and free of bias for every law), and the sum of
a player's weighted contributions is divided by the sum of its weights, without which even an additive game would
be noisy. Equations: docs/math.md, section 5.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from fwshapley.exact import Total
from fwshapley.games.game import AnyGame
from fwshapley.montecarlo.run import MIN_UNITS_TO_STOP, Estimate, Run
from fwshapley.sampling import draw_permutations
from fwshapley.weights import Semivalue


def permutation_values(
    game: AnyGame,
    weights: Semivalue,
    *,
    budget: int,
    total: Total = "raw",
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
        budget: most game calls; an order and its reverse take 2 (n - 1).
        total: "raw" values, or "efficient" ones, shifted to sum to v(everyone) - v(nobody).
        target_stderr: stop early once no standard error exceeds this.
        seed: whole number, or a generator on the game's device.
        n_players: number of players, where the game does not say.
        batch_size: most coalitions handed to the game at once.
        progress: show a progress bar when it takes long on a terminal.

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
        if run.n == 1:
            return run.estimate(run.gain[None], torch.zeros_like(run.gain[None]))
        cost = 2 * (run.n - 1)
        run.require(2 * cost, "for two random orders and their reverses")
        weighted = run.nobody.new_empty(0, run.n, len(run.nobody))
        weight = run.nobody.new_empty(0, run.n)
        while run.calls_left >= cost:
            orders = min(run.calls_left // cost, max(batch_size // cost, 1))
            fresh_weighted, fresh_weight = _walk(run, draw_permutations(orders, run.n, run.generator))
            weighted, weight = torch.cat([weighted, fresh_weighted]), torch.cat([weight, fresh_weight])
            values, stderr = _ratio(run, weighted, weight)
            if len(weight) >= MIN_UNITS_TO_STOP and run.is_precise(stderr):
                break
        return run.estimate(values, stderr)


def _walk(
    run: Run, ranks: Int[Tensor, "orders players"]
) -> tuple[Float64[Tensor, "orders players outputs"], Float64[Tensor, "orders players"]]:
    """Each player's weighted contributions, and its weights, summed over an order and its reverse."""
    steps = torch.arange(1, run.n, device=ranks.device)
    forwards = ranks[:, None, :] < steps[:, None]  # (orders, steps, players)
    worth = run.evaluate(torch.cat([forwards, ~forwards]).flatten(0, 1)).reshape(2, len(ranks), run.n - 1, -1)
    nobody, everyone = (end.expand(len(ranks), 1, -1) for end in (run.nobody, run.everyone))

    # Backwards, the coalition of size n-s is the complement of the forward one of size s.
    weighted, weight = torch.zeros_like(run.nobody), torch.zeros_like(run.join_law[0])
    for chain, rank in ((worth[0], ranks), (worth[1].flip(1), run.n - 1 - ranks)):
        contributions = torch.cat([nobody, chain, everyone], 1).diff(dim=1)  # in order of joining
        own = contributions.gather(1, rank[..., None].expand_as(contributions))
        importance = run.n * run.join_law[rank]
        weighted = weighted + importance[..., None] * own
        weight = weight + importance
    return weighted, weight


def _ratio(
    run: Run, weighted: Float64[Tensor, "orders players outputs"], weight: Float64[Tensor, "orders players"]
) -> tuple[Float64[Tensor, "players outputs"], Float64[Tensor, "players outputs"]]:
    """Ratio of sums and its linearised standard error."""
    orders, total_weight = len(weight), weight.sum(0)
    if not bool(total_weight.all()):
        player = int((total_weight == 0).nonzero()[0])
        raise ValueError(
            f"{orders} random orders never showed player {player} where {run.weights} puts weight; "
            "raise the budget or use least_squares_values"
        )
    values = weighted.sum(0) / total_weight[:, None]
    deviation = (weighted - values * weight[..., None]) / total_weight[:, None]
    if run.total == "efficient":
        values = values + (run.gain - values.sum(0)) / run.n
        deviation = deviation - deviation.mean(1, keepdim=True)
    return values, (deviation.square().sum(0) * orders / (orders - 1)).sqrt()
