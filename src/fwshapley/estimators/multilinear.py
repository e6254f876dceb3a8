"""Semivalues by the multilinear extension (Owen): let every player join with probability t, then mix over t.

    phi_i = sum over nodes of weight * psi_i(t),    psi_i(t) = E[v(S + i) - v(S - i)],  S ~ Bernoulli(t)

The mixture over t is the semivalue's quadrature, which is exact with n/2 nodes. A draw of S gives the contribution
of every player for n+1 game calls. Draws come in antithetic pairs (uniforms u and 1-u, for t and for each player)
and are stratified over t. Works for every semivalue that is a mixture over t. Equations: docs/math.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley.estimators.estimate import Estimate, Run, StandardErrors, estimate_each, pooled_errors
from fwshapley.games.game import AnyGame
from fwshapley.semivalues import Semivalue, Total


def multilinear_values(
    game: AnyGame,
    weights: Semivalue | Sequence[Semivalue],
    *,
    n_calls: int,
    total: Total = "raw",
    target_stderr: float | None = None,
    seed: int | torch.Generator = 0,
    n_players: int | None = None,
    batch_size: int = 2**14,
    progress: bool = True,
) -> Estimate:
    """Estimate a semivalue from random coalitions that each player joins and leaves; unbiased.

    Args:
        game: value of coalitions; a plain function needs `n_players`.
        weights: the semivalue, or a list; each must be a mixture over t (Beta, Banzhaf, LeaveOneOut).
        n_calls: most game calls for each semivalue; an antithetic pair of coalitions takes 2 (n + 1).
        total: "raw" values, or "efficient" ones, shifted to sum to v(all players) - v(no players).
        target_stderr: stop early once no standard error exceeds this.
        seed: an integer, or a generator on the game's device.
        n_players: number of players, if the game does not have it.
        batch_size: most coalitions per call of the game.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.

    Returns:
        values, standard errors and the number of calls.

    Example:
        >>> import fwshapley as fw
        >>> estimate = fw.multilinear_values(fw.games.Glove(left=3, right=5), fw.Banzhaf(), n_calls=500)
        >>> estimate.values.shape
        torch.Size([8])
    """
    return estimate_each(
        "the multilinear extension",
        _estimate_by_pairs,
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


def _estimate_by_pairs(run: Run) -> Estimate:
    """Estimate from as many antithetic pairs of coalitions as the calls allow."""
    cost = 2 * (run.n + 1)
    run.check_calls(0 if run.n == 1 else 2 * cost, "for two antithetic pairs of coalitions")
    # After the check of n_calls, since a rule of many nodes takes long; before any game call, since some semivalues
    # have no rule.
    rule = run.weights.quadrature((run.n + 1) // 2)
    nodes, node_weights = (torch.from_numpy(part).to(run.game.device) for part in rule)
    run.evaluate_ends()
    if run.n == 1:
        return run.estimate_of_one_player()
    contributions = run.empty.new_empty(0, run.n, len(run.empty))
    while left := run.calls_left // cost // 2 * 2:
        pairs = run.next_round(len(contributions), left) // 2 * 2  # a round is stratified over t by itself
        coalitions = _draw_antithetic(pairs, run.n, nodes, node_weights, run.generator)
        portions = coalitions.split(max(run.game.batch_size // cost, 1))
        contributions = torch.cat([contributions, *(_join_and_leave(run, portion) for portion in portions)])
        values, errors = _mean(run, contributions)
        if run.is_precise(errors.stderr):
            break
    return run.estimate(values, errors)


def _draw_antithetic(
    pairs: int,
    n: int,
    nodes: Float64[Tensor, " nodes"],
    node_weights: Float64[Tensor, " nodes"],
    generator: torch.Generator,
) -> Bool[Tensor, "pairs 2 n"]:
    """Pairs of coalitions from uniforms u and 1-u: the first chooses t, stratified over the pairs, the others S."""
    u = torch.rand(pairs, 1 + n, generator=generator, device=generator.device, dtype=torch.float64)
    u[:, 0] = (torch.arange(pairs, device=u.device) + u[:, 0]) / (2 * pairs)
    both = torch.stack([u, 1 - u], 1)
    node = torch.searchsorted(node_weights.cumsum(0), both[..., 0].contiguous()).clamp(max=len(nodes) - 1)
    return both[..., 1:] < nodes[node][..., None]


def _join_and_leave(run: Run, coalitions: Bool[Tensor, "pairs 2 players"]) -> Float64[Tensor, "pairs players outputs"]:
    """v(S + i) - v(S - i) of every player, averaged over each antithetic pair."""
    flips = torch.eye(run.n, dtype=torch.bool, device=coalitions.device)
    flipped = coalitions[:, :, None] ^ torch.cat([flips.new_zeros(1, run.n), flips])  # S itself, then S with i flipped
    values = run.evaluate(flipped.flatten(0, 2)).reshape(*flipped.shape[:3], -1)
    sign = torch.where(coalitions, -1.0, 1.0)[..., None]
    return (sign * (values[:, :, 1:] - values[:, :, :1])).mean(1)


def _mean(
    run: Run, contributions: Float64[Tensor, "pairs players outputs"]
) -> tuple[Float64[Tensor, "players outputs"], StandardErrors]:
    """Mean over pairs; its standard error from the differences of pairs in neighboring strata of t.

    Half the mean square of m - 1 successive differences is the variance, with 2 (m-1)**2 / (3m-4) degrees of freedom.
    """
    unexplained = run.unexplained(contributions.mean(0))
    if run.total == "efficient":
        contributions = contributions + (run.gain - contributions.sum(1))[:, None] / run.n
    pairs = len(contributions)
    variance = contributions.diff(dim=0).square().mean(0) / (2 * pairs)
    freedom = torch.full_like(variance, 2 * (pairs - 1) ** 2 / (3 * pairs - 4))
    return contributions.mean(0), pooled_errors(variance, freedom, unexplained)
