"""Exact values by enumerating all 2**n coalitions, in bounded memory.

One pass sums v(S) by size and member, after which *every* semivalue is a dot product with w(s):

    phi_i = sum_s w(s) * D(s, i),    D(s, i) = mean of v(S + i) - v(S) over the s-coalitions S without i.

`exact_wls_values` solves Proposition 2.1's least-squares problem instead, to check that the two agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley._internal.checks import check_choice, check_real
from fwshapley._internal.progress import ProgressBar
from fwshapley.games.game import AnyGame, CheckedGame
from fwshapley.semivalues import KernelKind, Semivalue, Total, check_semivalue, join_laws, log_binomials, proper_sizes

MAX_EXACT_PLAYERS = 24


def exact_values(
    game: AnyGame,
    weights: Semivalue | Sequence[Semivalue],
    *,
    n_players: int | None = None,
    batch_size: int = 2**14,
    progress: bool = True,
) -> Float64[Tensor, ...]:
    """Semivalues by enumeration; docs/math.md, eq. 1.

    Args:
        game: value of coalitions; a plain function needs `n_players`.
        weights: one semivalue, or a list that shares one enumeration.
        n_players: number of players, if the game does not have it.
        batch_size: most coalitions per call of the game.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.

    Returns:
        (players,) or, for a game with an axis of outputs, (players, outputs); a list of weightings is stacked in front.
        Torch float64, on the game's device.

    Example:
        >>> import fwshapley as fw
        >>> fw.exact_values(lambda s: s[:, 0] & s[:, 1], fw.Shapley(), n_players=3)
        tensor([0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    checked = CheckedGame(game, n_players, batch_size=batch_size)
    laws = torch.from_numpy(join_laws(weights, checked.n_players)).to(checked.device)  # before the long enumeration
    marginals = _mean_marginals(_sum_by_size(checked, progress=progress))
    return checked.drop_single_output(torch.tensordot(laws, marginals, dims=1))


def exact_wls_values(
    game: AnyGame,
    weights: Semivalue,
    *,
    kernel: KernelKind = "exact",
    total: Total | float = "raw",
    n_players: int | None = None,
    batch_size: int = 2**14,
    progress: bool = True,
) -> Float64[Tensor, ...]:
    """Solve the weighted least-squares problem of Proposition 2.1 over all coalitions; docs/math.md, eq. 3.

    minimize sum over S of kernel(|S|) * (v(S) - v(no players) - sum of psi over S)**2  subject to  sum of psi = total

    With the exact kernel the solution is the semivalue, shifted by one constant to sum to `total`.

    Args:
        game: value of coalitions; a plain function needs `n_players`.
        weights: the semivalue.
        kernel: "exact", or the "paper" kernel that approximates it.
        total: "raw" (the semivalue's own sum), "efficient" (v(all players) - v(no players)), or a number.
        n_players: number of players, if the game does not have it.
        batch_size: most coalitions per call of the game.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.

    Returns:
        (players,) or (players, outputs), as `exact_values`.
    """
    checked = CheckedGame(game, n_players, batch_size=batch_size)
    n, device = checked.n_players, checked.device
    law = torch.from_numpy(check_semivalue(weights).size_law(n, kernel)).to(device)  # C(n, s) * kernel(s), normalized
    sums = _sum_by_size(checked, progress=progress)
    sizes = torch.from_numpy(proper_sizes(n)).to(device)

    # Normal equations: gram[i, j] = P(i and j in S), moment[i] = E[1(i in S) (v(S) - v(no players))].
    diagonal = law @ (sizes / n)
    off_diagonal = law @ (sizes * (sizes - 1)) / max(n * (n - 1), 1)
    gram = off_diagonal.expand(n, n) + (diagonal - off_diagonal) * torch.eye(n, dtype=torch.float64, device=device)
    kernel_weights = law / torch.from_numpy(log_binomials(n)[1:-1]).to(device).exp()
    moment = torch.tensordot(kernel_weights, sums.of_members[1:-1], dims=1)

    # The multiplier of the constraint is one more unknown.
    border = torch.ones(n, 1, dtype=torch.float64, device=device)
    system = torch.cat([torch.cat([gram, border], 1), torch.cat([border.T, border.new_zeros(1, 1)], 1)])
    target = torch.cat([moment, _resolve_total(total, weights, sums)[None]])
    return checked.drop_single_output(torch.linalg.solve(system, target)[:n])


class SizeSums(NamedTuple):
    """Sums of v(S) - v(no players) over the coalitions of each size s = 0..n."""

    of_all: Float64[Tensor, "sizes outputs"]
    of_members: Float64[Tensor, "sizes players outputs"]
    """Over those that a player belongs to."""


def _sum_by_size(game: CheckedGame, *, progress: bool) -> SizeSums:
    n = game.n_players
    if n > MAX_EXACT_PLAYERS:
        raise ValueError(
            f"exact values need 2**{n} game calls (limit n={MAX_EXACT_PLAYERS}); use fwshapley.least_squares_values, "
            "which samples coalitions and returns standard errors"
        )
    # Players 0..low-1 vary within a block, the others from block to block. A block is in order of size,
    # so that each size is a slice and its members' sums are a matrix product with the same masks every time.
    low = min(n, game.batch_size.bit_length() - 1)
    low_masks = _all_coalitions(low).to(game.device)
    low_members = low_masks.double()
    counts = low_masks.sum(1).bincount(minlength=low + 1).tolist()
    empty = game(torch.zeros(1, n, dtype=torch.bool, device=game.device))
    of_all = empty.new_zeros(n + 1, empty.shape[1])
    of_members = empty.new_zeros(n + 1, n, empty.shape[1])

    with ProgressBar("enumerating coalitions", 2**n, unit="game calls", enabled=progress) as bar:
        for high in _all_coalitions(n - low).to(game.device):
            values = game(torch.cat([low_masks, high.expand(len(low_masks), -1)], 1)) - empty
            size = int(high.sum())
            for members, gains in zip(low_members.split(counts), values.split(counts), strict=True):
                total = gains.sum(0)
                of_all[size] += total
                of_members[size, :low] += members.T @ gains
                of_members[size, low:][high] += total
                size += 1
            bar.advance(len(values))
    return SizeSums(of_all, of_members)


def _mean_marginals(sums: SizeSums) -> Float64[Tensor, "sizes players outputs"]:
    """D(s, i), s = 0..n-1: mean contribution of player i to the coalitions of size s without it."""
    n = sums.of_members.shape[1]
    count = torch.from_numpy(log_binomials(n - 1)).exp().round().to(sums.of_all.device)[:, None, None]
    with_player = sums.of_members[1:]
    without_player = sums.of_all[:-1, None] - sums.of_members[:-1]
    return (with_player - without_player) / count


def _resolve_total(total: Total | float, weights: Semivalue, sums: SizeSums) -> Float64[Tensor, " outputs"]:
    if isinstance(total, str):
        check_choice("total", total, get_args(Total))
        if total == "efficient":
            return sums.of_all[-1]
        law = torch.from_numpy(join_laws(weights, sums.of_members.shape[1])).to(sums.of_all.device)
        return torch.tensordot(law, _mean_marginals(sums), dims=1).sum(0)
    return torch.full_like(sums.of_all[-1], check_real("total", total))


def _all_coalitions(n: int) -> Bool[Tensor, "coalitions n"]:
    """All subsets of n players, smallest first."""
    codes = torch.arange(2**n)
    masks = (codes[:, None] >> torch.arange(n)) & 1 == 1
    return masks[masks.sum(1).argsort(stable=True)]
