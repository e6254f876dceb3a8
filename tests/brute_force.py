"""Ground truth straight from the definitions: slow, and plain enough to be read as correct."""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor


def all_coalitions(n: int) -> Tensor:
    """All 2**n masks."""
    return torch.tensor(list(itertools.product([False, True], repeat=n)))


def worth_of(game: Callable[[Tensor], Tensor], n: int) -> dict[frozenset[int], float]:
    """Worth of each coalition, by its members."""
    masks = all_coalitions(n)
    return {
        frozenset(mask.nonzero().flatten().tolist()): float(value)
        for mask, value in zip(masks, game(masks), strict=True)
    }


def semivalue_by_definition(game: Callable[[Tensor], Tensor], n: int, p: list[float]) -> Tensor:
    """phi_i = sum over S without i of p(|S|) (v(S + i) - v(S))."""
    worth = worth_of(game, n)
    values = [
        math.fsum(p[len(s)] * (worth[s | {player}] - worth[s]) for s in worth if player not in s) for player in range(n)
    ]
    return torch.tensor(values, dtype=torch.float64)


def least_squares_by_rows(game: Callable[[Tensor], Tensor], n: int, kernel: list[float], total: float) -> Tensor:
    """Minimize sum of kernel(|S|) (v(S) - v(nobody) - sum of psi over S)**2, one row a coalition, given sum of psi."""
    masks = all_coalitions(n)
    gains = game(masks) - game(masks[:1])
    proper = (masks.any(1)) & (~masks.all(1))
    rows, gains = masks[proper].double(), gains[proper]
    root = torch.tensor(kernel, dtype=torch.float64)[rows.sum(1).long() - 1].sqrt()
    # psi = total / n + a vector that sums to zero: its first n - 1 entries are free.
    free = torch.cat([torch.eye(n - 1), -torch.ones(1, n - 1)]).double()
    target = root * (gains - rows.sum(1) * total / n)
    deviation = torch.linalg.lstsq(root[:, None] * (rows @ free), target[:, None]).solution[:, 0]
    return total / n + free @ deviation
