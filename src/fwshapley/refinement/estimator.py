"""Refine a network's values by sampled coalitions: a control variate in two steps.

    phi(v) = phi(c) + phi(g - c) + phi(v - g)

c is the network's own idea of what every coalition is worth; its semivalues are closed (`FirstOrder`). g is a
regression on the coalitions called (`Regression`) that starts from the network's idea of who matters. It is close to
the game and takes no calls, so phi(g - c) is a sum over very many coalitions. phi(v - g) is a sum over the coalitions
called, each held against a regression on the *others*. The sums have the right expectation whatever c and g are: the
network decides how precise the values are, not what they are on average. Equations: docs/math.md, section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from fwshapley.checks import Array, check_whole
from fwshapley.exact import exact_values
from fwshapley.fitting import Fitted, FittedExplainer
from fwshapley.games.masking import KINDS, WORTH, MaskedModel, PredictionGame
from fwshapley.objective import Multilinear, Objective
from fwshapley.progress import ProgressBar
from fwshapley.refinement.control import FirstOrder, Slopes, network_slopes
from fwshapley.refinement.regression import Link, Regression
from fwshapley.refinement.sums import Coalitions, Sums, best_sizes
from fwshapley.results import Attribution
from fwshapley.sampling import make_generator
from fwshapley.weights import Cardinality, Semivalue, join_laws, proper_sizes

FOLDS = 8
FEWEST_CALLS = 2 + 4 * FOLDS
MOST_KNOWN = 1024
"""Coalitions that a regression is fitted to; its time grows with the cube."""
FREE_PER_CALL = 64
FREE_AT_ONCE, MOST_FREE_OUTPUTS = 2**13, 2**20
EVEN_SHARE = 0.2
TIED = 1.2
"""Variance over what the folds say one by one: they learn from each other's coalitions, which ties their errors."""

Values = Float64[Tensor, "weights players outputs"]


def refine(
    explainer: FittedExplainer,
    x: Array,
    *,
    calls: int = 256,
    weights: Semivalue | Sequence[Semivalue] | None = None,
    outputs: Literal["all", "predicted"] | Sequence[int] | Int[Tensor, "batch outputs"] = "all",
    seed: int | torch.Generator = 0,
    progress: bool = True,
) -> Attribution:
    """Estimate raw values without bias, from the network's answer and sampled coalitions of each input.

    Args:
        explainer: one that is fitted.
        x: a batch of inputs.
        calls: evaluations of the surrogate per input, those of nobody and everyone included (an explainer of one
            weighting takes one more); they serve all outputs and weightings. Where they allow all coalitions, values
            are exact.
        weights: a semivalue or a list of them, learnt or not; by default Shapley, or the one that was learnt.
        outputs: which to return, as `explain` takes them.
        seed: whole number, or a generator on the explainer's device.
        progress: show a progress bar when it takes long on a terminal.

    Returns:
        values with standard errors, in `stderr`.

    Example:
        >>> refined = refine(explainer, x_test[:4], calls=256)
        >>> refined.values, refined.stderr
    """
    fitted = explainer._require_fitted()  # noqa: SLF001 - part of the explainer, in a file of its own
    check_whole("calls", calls, minimum=min(FEWEST_CALLS, 2**fitted.masked.n_players))
    shown = explainer.explain(x, outputs=outputs)
    chosen = shown.weights if weights is None else weights
    several = [chosen] if isinstance(chosen, Semivalue) else list(chosen)
    laws = join_laws(several, fitted.masked.n_players).to(fitted.masked.device)
    generator = make_generator(seed, fitted.masked.device)
    found = []
    with ProgressBar("refining", len(shown), enabled=progress) as bar:
        for each, numbers in zip(shown.inputs, shown.outputs, strict=True):
            estimate = _refine_input(fitted, each[None].to(fitted.masked.device), laws, calls, generator)
            found.append(torch.stack(estimate)[..., numbers])
            bar.advance(1)
    values, stderr = torch.stack(found, 2).float()
    if isinstance(chosen, Semivalue):
        values, stderr = values[0], stderr[0]
    return replace(
        shown, values=values, stderr=stderr, weights=chosen if isinstance(chosen, Semivalue) else several, total="raw"
    )


class Game(NamedTuple):
    """A game, and what is known of it without calls.

    Attributes:
        raw: raw outputs of coalitions.
        link: what turns them into worths.
        ends: raw outputs of nobody and everyone.
        control: a game with closed semivalues that agrees with it for nobody and everyone.
        slope: about how raw outputs change with each player.
        relevance: about how much each player matters.
    """

    raw: Callable[[Coalitions], Float64[Tensor, "coalitions outputs"]]
    link: Link
    ends: Float64[Tensor, "2 outputs"]
    control: FirstOrder
    slope: Float64[Tensor, "players outputs"]
    relevance: Float64[Tensor, " players"]


def refine_game(
    game: Game,
    laws: Float64[Tensor, "weights players"],
    sizes: Float64[Tensor, " sizes"],
    *,
    calls: int,
    generator: torch.Generator,
) -> tuple[Values, Values]:
    """Semivalues and their standard errors; sizes 1..n-1 of coalitions are drawn by a law. docs/math.md, eq. 13."""
    pairs = (calls - 2) // 2
    counts = [2 * (pairs // FOLDS + (fold < pairs % FOLDS)) for fold in range(FOLDS)]
    shares = torch.tensor(counts, dtype=torch.float64, device=laws.device) / sum(counts)
    folds = [Sums.draw(count, laws, sizes, generator) for count in counts]
    called = torch.cat([fold.coalitions for fold in folds])
    raw = game.raw(called)
    own = torch.arange(FOLDS, device=laws.device).repeat_interleave(torch.tensor(counts, device=laws.device))
    regression = _regress(game, folds, called, raw, own)

    values, variance = game.control.values(laws), torch.zeros((), dtype=torch.float64, device=laws.device)
    stand_ins = game.link(regression(called)[own, torch.arange(len(called), device=laws.device)])
    for fold, share, rest in zip(folds, shares, (game.link(raw) - stand_ins).split(counts), strict=True):
        values = values + fold.values(share * rest)
        variance = variance + TIED * fold.variance(share * rest)
    blocks = _blocks(FREE_PER_CALL * len(called), min(FREE_AT_ONCE, MOST_FREE_OUTPUTS // raw.shape[1]))
    for count in blocks:
        free = Sums.draw(count, laws, sizes, generator)
        worth = torch.stack([game.link(each) for each in regression(free.coalitions)])
        rest = torch.tensordot(shares, worth, dims=1) - game.control(free.coalitions)
        values = values + free.values(rest) / len(blocks)
        variance = variance + free.variance(rest) / len(blocks) ** 2
    # The variance of one player is known from few coalitions; all players' together steadies it.
    return values, ((variance + variance.mean(1, keepdim=True)) / 2).sqrt()


def _regress(game: Game, folds: Sequence[Sums], called: Coalitions, raw: Tensor, own: Tensor) -> Regression:
    """Fit a regression per fold, on what the other folds called and on nobody and everyone."""
    step = -(-len(called) // MOST_KNOWN)
    ends = torch.tensor([[False], [True]], device=called.device).expand(2, called.shape[1])
    fold_of = torch.cat([own.new_full((2,), -1), own[::step]])
    matter = torch.cat([fold.matter() for fold in folds])[::step]
    return Regression.fit(
        torch.cat([ends, called[::step]]),
        torch.cat([game.ends, raw[::step]]),
        [(fold_of != fold).nonzero().flatten() for fold in range(len(folds))],
        slope=game.slope,
        relevance=game.relevance,
        link=game.link,
        matter=torch.cat([matter.new_zeros(2), matter]),
    )


def _blocks(count: int, most: int) -> list[int]:
    """Divide a number into equal even numbers, none of them much above another."""
    blocks = -(-count // max(most, 2))
    return [2 * -(-count // (2 * blocks))] * blocks


def _refine_input(
    fitted: Fitted,
    x: Float[Tensor, "1 ..."],
    laws: Float64[Tensor, "weights players"],
    calls: int,
    generator: torch.Generator,
) -> tuple[Values, Values]:
    if 2**fitted.masked.n_players <= calls:
        every = [Cardinality(law) for law in laws]
        values = exact_values(PredictionGame(fitted.masked, x), every, progress=False)
        return values, torch.zeros_like(values)
    game = know_game(fitted.masked, x, network_slopes(fitted, x))
    return refine_game(game, laws, choose_sizes(fitted.objective, laws), calls=calls, generator=generator)


def know_game(masked: MaskedModel, x: Float[Tensor, "1 ..."], slopes: Slopes) -> Game:
    """Return the game of an input and what slopes say of it, for two calls."""
    link, asked = WORTH[masked.output], replace(masked, output="raw")

    def raw(coalitions: Coalitions) -> Float64[Tensor, "coalitions outputs"]:
        out = asked(x, coalitions[None])[0].double()
        return out - out.mean(1, keepdim=True) if KINDS[masked.output] == "classes" else out  # logits up to a shift

    ends = raw(torch.tensor([[False], [True]], device=x.device).expand(2, masked.n_players))
    nobody, everyone = link(ends)
    return Game(
        raw,
        link,
        ends,
        control=slopes.first_order(nobody, everyone),
        slope=slopes.raw_slopes(nobody, everyone, masked.output),
        relevance=slopes.relevance(),
    )


def choose_sizes(objective: Objective, laws: Float64[Tensor, "weights players"]) -> Float64[Tensor, " sizes"]:
    """Law of sizes to draw: mostly where games of this kind vary, as far as the objective has measured that."""
    n = laws.shape[1]
    even = best_sizes(laws, laws.new_ones(n - 1))
    if not isinstance(objective, Multilinear) or objective.level is None:
        return even
    t = proper_sizes(n).to(laws.device) / n
    level = objective.basis(t) @ torch.tensor(objective.level, dtype=t.dtype, device=t.device)
    return (1 - EVEN_SHARE) * best_sizes(laws, (level * t * (1 - t)).sqrt()) + EVEN_SHARE * even
