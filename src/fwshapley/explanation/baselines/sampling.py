"""Baselines that sample coalitions of the game: two methods of captum, and our estimators for any weighting.

They estimate values of the game that the explainer learned, so they differ from it by sampling errors alone. Each input
is a game of its own. For standard errors, apply the estimators of `fwshapley.estimators` to `explainer.game(x)`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fwshapley._internal.checks import check_whole
from fwshapley.estimators.estimate import Estimate
from fwshapley.explanation.baselines.task import BaselineTask
from fwshapley.games.masked_model import PredictionGame
from fwshapley.semivalues import Semivalue
from fwshapley.training.shared_state import private_randomness

CALLS_PER_PLAYER = 4
MORE_CALLS = 2048
"""Default game calls per input: `CALLS_PER_PLAYER` for each player, plus `MORE_CALLS`."""


def kernel_shap(
    task: BaselineTask, *, n_calls: int | None = None, seed: int = 0
) -> Float[Tensor, "1 batch players outputs"]:
    """KernelShap of captum: unpaired coalitions, drawn with replacement; it needs scikit-learn."""
    from captum.attr import KernelShap  # noqa: PLC0415 - optional

    n = task.players.n_players
    n_calls = _choose_calls(n_calls, n, fewest=n + 2)
    if n == 1:
        raise ValueError("captum's KernelShap needs at least 2 players, got 1")

    def estimate(game: PredictionGame, _: Semivalue, outputs: Int[Tensor, " outputs"], seed: int) -> Tensor:
        method = KernelShap(_memoize(game))
        full = torch.ones(1, n, device=game.device)
        columns = []
        for output in outputs.tolist():  # captum fits one output at a time, here on the same coalitions
            torch.manual_seed(seed)
            values = method.attribute(full, target=output, n_samples=n_calls, perturbations_per_eval=n_calls)
            columns.append(values[0])
        return torch.stack(columns, -1)

    with private_randomness(task.device):
        return task.by_game(estimate, seed)


def shapley_sampling(
    task: BaselineTask, *, n_calls: int | None = None, seed: int = 0
) -> Float[Tensor, "1 batch players outputs"]:
    """ShapleyValueSampling of captum: plain permutations."""
    from captum.attr import ShapleyValueSampling  # noqa: PLC0415 - optional

    n = task.players.n_players
    permutations = (_choose_calls(n_calls, n, fewest=n + 1) - 1) // n

    def estimate(game: PredictionGame, _: Semivalue, outputs: Int[Tensor, " outputs"], seed: int) -> Tensor:
        torch.manual_seed(seed)
        method = ShapleyValueSampling(lambda masks: game(masks.bool()))
        full = torch.ones(1, n, device=game.device)
        values: Tensor = method.attribute(full, n_samples=permutations, perturbations_per_eval=n)
        return values[0, outputs.to(values.device)].mT

    with private_randomness(task.device):
        return task.by_game(estimate, seed)


def sample(
    estimator: Callable[..., Estimate], task: BaselineTask, *, n_calls: int | None = None, seed: int = 0
) -> Float[Tensor, "weights batch players outputs"]:
    """Values by one of our estimators, such as `least_squares_values`."""
    n_calls = _choose_calls(n_calls, task.players.n_players, fewest=2)

    def estimate(game: PredictionGame, weights: Semivalue, outputs: Int[Tensor, " outputs"], seed: int) -> Tensor:
        values = estimator(game, weights, n_calls=n_calls, seed=seed, progress=False).values
        return values[:, outputs.to(values.device)]

    return task.by_game(estimate, seed)


def _choose_calls(n_calls: int | None, n_players: int, fewest: int) -> int:
    if n_calls is None:
        return CALLS_PER_PLAYER * n_players + MORE_CALLS
    if check_whole("n_calls", n_calls) < fewest:
        raise ValueError(f"n_calls={n_calls} is too small: {n_players} players need at least {fewest}")
    return n_calls


def _memoize(game: PredictionGame) -> Callable[[Tensor], Tensor]:
    """Return the game on masks of any type, evaluated for the same coalitions only once."""
    memory: dict[bytes, Tensor] = {}

    def evaluate(masks: Tensor) -> Tensor:
        coalitions = masks.bool()
        key = coalitions.cpu().numpy().tobytes()
        if key not in memory:
            memory[key] = game(coalitions)
        return memory[key]

    return evaluate
