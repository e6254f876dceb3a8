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
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from fwshapley._internal.checks import Array, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley.coalitions import make_generator
from fwshapley.estimators.estimate import widening
from fwshapley.estimators.exact import exact_values
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.fitting import Fitted, FittedExplainer
from fwshapley.explanation.inputs import Outputs
from fwshapley.explanation.options import choose_weightings
from fwshapley.explanation.refinement.control_variate import FirstOrder, Slopes, network_slopes
from fwshapley.explanation.refinement.regression import Link, Regression
from fwshapley.explanation.refinement.sums import Coalitions, Sums, best_sizes
from fwshapley.games.masked_model import KINDS, LINKS, MaskedModel, PredictionGame
from fwshapley.objectives import Multilinear, Objective
from fwshapley.semivalues import Cardinality, Semivalue, join_laws, proper_sizes

FOLDS = 8
FEWEST_CALLS = 2 + 4 * FOLDS
MOST_KNOWN = 1024
"""Coalitions that a regression is fitted to: its time grows with their cube, so more calls go into the sums alone."""
FREE_PER_CALL = 64
ENUMERATION_GAIN = 5
"""All coalitions are summed over instead, even if they are so many times more: that sum has no variance."""
FREE_AT_ONCE, MOST_FREE_OUTPUTS = 2**13, 2**20
EVEN_SHARE = 0.2
TIED = 1.2
"""Variance over what the folds say one by one: they learn from each other's coalitions, which ties their errors."""

Values = Float64[Tensor, "weights players outputs"]


def refine(
    explainer: FittedExplainer,
    x: Array,
    *,
    n_calls: int = 256,
    weights: Semivalue | Sequence[Semivalue] | None = None,
    outputs: Outputs = "all",
    seed: int | torch.Generator = 0,
    progress: bool = True,
) -> Attribution:
    """Estimate raw values without bias, from the network's answer and sampled coalitions of each input.

    Args:
        explainer: one that is fitted.
        x: a batch of inputs.
        n_calls: evaluations of the surrogate per input, those of nobody and everyone included (an explainer of one
            weighting takes one more), at least 34; they serve all outputs and weightings. Where they allow all
            coalitions, values are exact. Beyond 1,024, time grows in proportion to them, below it faster.
        weights: a semivalue or a list of them, learned or not; by default Shapley, or the one that was learned.
        outputs: which to return, as `explain` takes them.
        seed: whole number, or a generator on the explainer's device.
        progress: show progress when it takes long: a bar on a terminal, lines elsewhere.

    Returns:
        values with standard errors, in `stderr`.

    Example:
        >>> refined = refine(explainer, x_test[:4], n_calls=256)
        >>> refined.values, refined.stderr
    """
    fitted = explainer.fitted_
    calls = _check_calls(n_calls, fitted.masked_model.n_players)
    several = choose_weightings(fitted.objective, weights)
    one = weights is None or isinstance(weights, Semivalue)
    shown = explainer.explain(x, outputs=outputs)
    laws = torch.from_numpy(join_laws(several, fitted.masked_model.n_players)).to(fitted.masked_model.device)
    generator = make_generator(seed, fitted.masked_model.device)
    found = []
    with ProgressBar("refining", len(shown), enabled=progress) as bar:
        for each, numbers in zip(shown.inputs, shown.outputs, strict=True):
            estimate = _refine_input(fitted, each[None].to(fitted.masked_model.device), laws, calls, generator)
            found.append(torch.stack(estimate)[..., numbers])
            bar.advance(1)
    values, stderr = torch.stack(found, 2).float()
    return replace(
        shown,
        values=values[0] if one else values,
        stderr=stderr[0] if one else stderr,
        weights=several[0] if one else several,
        total="raw",
        provenance={**shown.provenance, "refinement": {"n_calls": calls}},
    )


def _check_calls(calls: int, n: int) -> int:
    """Return a number of calls that is enough, or say what they are needed for."""
    calls, fewest = check_whole("n_calls", calls), min(FEWEST_CALLS, 2**n)
    if calls < fewest:
        why = "all coalitions" if fewest < FEWEST_CALLS else f"nobody, everyone and 4 in each of {FOLDS} parts"
        raise ValueError(f"n_calls must be at least {fewest} ({why}), got {calls}")
    return calls


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

    values, variances = game.control.values(laws), []
    stand_ins = game.link(regression(called)[own, torch.arange(len(called), device=laws.device)])
    for fold, share, left in zip(folds, shares, (game.link(raw) - stand_ins).split(counts), strict=True):
        values = values + fold.values(share * left)
        variances.append(TIED * fold.variance(share * left))

    def rest(coalitions: Coalitions) -> Float64[Tensor, "coalitions outputs"]:
        worth = torch.stack([game.link(each) for each in regression(coalitions)])
        return torch.tensordot(shares, worth, dims=1) - game.control(coalitions)

    at_once = min(FREE_AT_ONCE, MOST_FREE_OUTPUTS // raw.shape[1])
    count = FREE_PER_CALL * len(called)
    free, spread = _sum_without_calls(rest, laws, sizes, count=count, at_once=at_once, generator=generator)
    return values + free, _standard_errors(torch.stack(variances), spread, differences=min(counts) // 2)


def _standard_errors(
    of_folds: Float64[Tensor, "folds weights players outputs"], of_free: Values, *, differences: int
) -> Values:
    """Standard errors from the variances of the folds, each from some differences of coalitions, and of the free sum.

    The variance of one player is known from few coalitions; all players' together steadies it. Where a few folds make
    up most of it, it is known badly even so. Student's t widens it, with as many degrees of freedom as the folds are
    worth by Satterthwaite's rule.
    """
    variance = of_folds.sum(0) + of_free
    pooled = of_folds.mean(2, keepdim=True)
    folds_worth = pooled.sum(0).square() / pooled.square().sum(0).clamp(min=torch.finfo(pooled.dtype).tiny)
    steadied = (variance + variance.mean(1, keepdim=True)) / 2
    return steadied.sqrt() * widening((differences * folds_worth).clamp(min=1))


def _sum_without_calls(
    rest: Callable[[Coalitions], Float64[Tensor, "coalitions outputs"]],
    laws: Float64[Tensor, "weights players"],
    sizes: Float64[Tensor, " sizes"],
    *,
    count: int,
    at_once: int,
    generator: torch.Generator,
) -> tuple[Values, Values]:
    """phi(g - c) and its variance, from a number of coalitions, or from all of them where they are not many more."""
    n = laws.shape[1]

    def rest_of_proper(coalitions: Coalitions) -> Float64[Tensor, "coalitions outputs"]:
        here, members = coalitions.to(laws.device), coalitions.sum(1, keepdim=True).to(laws.device)
        return torch.where((members > 0) & (members < n), rest(here), 0.0)

    if 2**n <= ENUMERATION_GAIN * count:
        every = [Cardinality(law) for law in laws]
        values = exact_values(rest_of_proper, every, n_players=n, batch_size=max(at_once, 2), progress=False)
        return values.to(laws.device), torch.zeros_like(values, device=laws.device)
    values, variance = laws.new_zeros(()), laws.new_zeros(())
    blocks = _blocks(count, at_once)
    for block in blocks:
        free = Sums.draw(block, laws, sizes, generator)
        worth = rest(free.coalitions)
        values = values + free.values(worth) / len(blocks)
        variance = variance + free.variance(worth) / len(blocks) ** 2
    return values, variance


def _regress(game: Game, folds: Sequence[Sums], called: Coalitions, raw: Tensor, own: Tensor) -> Regression:
    """Fit a regression per fold, on what the other folds called and on nobody and everyone."""
    known = torch.linspace(0, len(called) - 1, min(len(called), MOST_KNOWN), device=called.device).round().long()
    ends = torch.tensor([[False], [True]], device=called.device).expand(2, called.shape[1])
    fold_of = torch.cat([own.new_full((2,), -1), own[known]])
    matter = torch.cat([fold.matter() for fold in folds])[known]
    return Regression.fit(
        torch.cat([ends, called[known]]),
        torch.cat([game.ends, raw[known]]),
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
    if 2**fitted.masked_model.n_players <= calls:
        every = [Cardinality(law) for law in laws]
        values = exact_values(PredictionGame(fitted.masked_model, x), every, progress=False)
        return values, torch.zeros_like(values)
    game = know_game(fitted.masked_model, x, network_slopes(fitted, x))
    return refine_game(game, laws, choose_sizes(fitted.objective, laws), calls=calls, generator=generator)


def know_game(masked: MaskedModel, x: Float[Tensor, "1 ..."], slopes: Slopes) -> Game:
    """Return the game of an input and what slopes say of it, for two calls."""
    link, asked = LINKS[masked.output], replace(masked, output="raw")

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
    t = torch.from_numpy(proper_sizes(n)).to(laws.device) / n
    level = objective.basis(t) @ torch.tensor(objective.level, dtype=t.dtype, device=t.device)
    return (1 - EVEN_SHARE) * best_sizes(laws, (level * t * (1 - t)).sqrt()) + EVEN_SHARE * even
