"""Baselines that sample coalitions of the game: captum's two, and our estimators for any weighting.

They play the game that the explainer learned, so they differ from it by sampling alone. Each input is a game of its
own; for standard errors, call the estimators of `fwshapley.estimators` on `explainer.game(x)`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fwshapley._internal.checks import check_whole
from fwshapley.estimators import Estimate, least_squares_values, multilinear_values, permutation_values
from fwshapley.explanation.baselines.peers import captum_method
from fwshapley.explanation.baselines.request import Request
from fwshapley.games.masked_model import PredictionGame
from fwshapley.semivalues import Semivalue
from fwshapley.training.loop import own_randomness

CALLS_PER_PLAYER, MORE_CALLS = 4, 2048
"""Game calls an input, if not said: what every estimator needs at least, and more."""


def kernel_shap(
    request: Request, *, calls: int | None = None, seed: int = 0
) -> Float[Tensor, "1 batch players outputs"]:
    """KernelShap of captum: unpaired coalitions, drawn with replacement; it needs scikit-learn."""
    calls = _check_calls(calls, request, least=request.players.n_players + 2)
    if request.players.n_players == 1:
        raise ValueError("captum's KernelShap needs two players or more")
    make = captum_method("KernelShap")

    def estimate(game: PredictionGame, _: Semivalue, outputs: Int[Tensor, " outputs"], seed: int) -> Tensor:
        method, everyone = make(_remember(game)), torch.ones(1, game.n_players, device=game.device)
        columns = []
        for output in outputs.tolist():  # it fits one at a time, here on the same coalitions
            torch.manual_seed(seed)
            found = method.attribute(everyone, target=output, n_samples=calls, perturbations_per_eval=calls)
            columns.append(found[0])
        return torch.stack(columns, -1)

    with own_randomness(request.explainer.device):
        return request.by_game(estimate, seed)


def shapley_sampling(
    request: Request, *, calls: int | None = None, seed: int = 0
) -> Float[Tensor, "1 batch players outputs"]:
    """ShapleyValueSampling of captum: plain permutations."""
    n = request.players.n_players
    orders = (_check_calls(calls, request, least=n + 1) - 1) // n
    make = captum_method("ShapleyValueSampling")

    def estimate(game: PredictionGame, _: Semivalue, outputs: Int[Tensor, " outputs"], seed: int) -> Tensor:
        torch.manual_seed(seed)
        method, everyone = make(lambda masks: game(masks.bool())), torch.ones(1, n, device=game.device)
        found: Tensor = method.attribute(everyone, n_samples=orders, perturbations_per_eval=n)
        return found[0, outputs.to(found.device)].mT

    with own_randomness(request.explainer.device):
        return request.by_game(estimate, seed)


def permutation(
    request: Request, *, calls: int | None = None, seed: int = 0
) -> Float[Tensor, "weights batch players outputs"]:
    """`permutation_values`: orders and their reverses."""
    return _estimate(permutation_values, request, calls, seed)


def least_squares(
    request: Request, *, calls: int | None = None, seed: int = 0
) -> Float[Tensor, "weights batch players outputs"]:
    """`least_squares_values`: stratified coalitions without replacement."""
    return _estimate(least_squares_values, request, calls, seed)


def multilinear(
    request: Request, *, calls: int | None = None, seed: int = 0
) -> Float[Tensor, "weights batch players outputs"]:
    """`multilinear_values`: every player joins and leaves random coalitions."""
    return _estimate(multilinear_values, request, calls, seed)


def _estimate(
    estimator: Callable[..., Estimate], request: Request, calls: int | None, seed: int
) -> Float[Tensor, "weights batch players outputs"]:
    budget = _check_calls(calls, request)

    def estimate(game: PredictionGame, weights: Semivalue, outputs: Int[Tensor, " outputs"], seed: int) -> Tensor:
        found = estimator(game, weights, n_calls=budget, seed=seed, progress=False).values
        return found[:, outputs.to(found.device)]

    return request.by_game(estimate, seed)


def _check_calls(calls: int | None, request: Request, least: int = 2) -> int:
    n = request.players.n_players
    if calls is None:
        return CALLS_PER_PLAYER * n + MORE_CALLS
    if check_whole("calls", calls) < least:
        raise ValueError(f"calls={calls} is too small: {n} players need {least} game calls")
    return calls


def _remember(game: PredictionGame) -> Callable[[Tensor], Tensor]:
    """Return the game on masks of any type, asked about the same coalitions only once."""
    known: dict[bytes, Tensor] = {}

    def worth(masks: Tensor) -> Tensor:
        coalitions = masks.bool()
        key = coalitions.cpu().numpy().tobytes()
        if key not in known:
            known[key] = game(coalitions)
        return known[key]

    return worth
