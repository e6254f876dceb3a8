"""Refine a network's values with sampled coalitions: a control variate in two steps.

    phi(v) = phi(c) + phi(g - c) + phi(v - g)

c is the game that the network predicts; its semivalues have a closed form (`FirstOrderGame`). g is a regression on the
evaluated coalitions (`Regression`) that starts from the network's prediction of which players matter. It is close to
the game v and needs no calls, so phi(g - c) is a sum over very many coalitions. phi(v - g) is a sum over the evaluated
coalitions, each compared with a regression on the *others*. These sums are unbiased whatever c and g are: the network
determines how precise the values are, not what they are on average. Equations: docs/math.md, section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Self

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from fwshapley._internal.checks import Array, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley.coalitions import draw_trusted_sizes, make_generator
from fwshapley.estimators.estimate import widening
from fwshapley.estimators.exact import exact_values
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.inputs.input_checks import Outputs
from fwshapley.explanation.learned.fitted import Fitted
from fwshapley.explanation.learned.refinement.control_variate import FirstOrderGame, Slopes, network_slopes
from fwshapley.explanation.learned.refinement.regression import Link, Regression
from fwshapley.explanation.learned.sampled_values import SampledValues
from fwshapley.games.game import Coalitions
from fwshapley.games.masked_model import LINKS, MaskedModel, PredictionGame
from fwshapley.games.scales import KINDS
from fwshapley.objectives import Multilinear, Objective
from fwshapley.semivalues import Cardinality, Semivalue, join_laws, proper_sizes

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

FOLDS = 8
MIN_CALLS = 2 + 4 * FOLDS
MAX_FITTED = 1024
"""Most coalitions that a regression is fitted to, since its time grows with their cube; the sums use all of them."""

FREE_PER_CALL = 64
"""Coalitions in the sum without calls, per evaluated one."""

ENUMERATION_GAIN = 5
"""The sum without calls is over all coalitions if they are up to this many times more: it then has no variance."""

MAX_FREE_COALITIONS = 2**13
MAX_FREE_VALUES = 2**20
EVEN_SHARE = 0.2
FOLD_DEPENDENCE = 1.2
"""Factor on the sum of the folds' variances: folds are fitted to each other's coalitions, so they are correlated."""

Values = Float64[Tensor, "weights players outputs"]


def refine(
    explainer: FeatureExplainer,
    x: Array,
    *,
    n_calls: int = 256,
    weights: Semivalue | Sequence[Semivalue] | None = None,
    outputs: Outputs = "auto",
    seed: int | torch.Generator = 0,
    progress: bool = True,
) -> Attribution:
    """Estimate raw values without bias, from the network's prediction and sampled coalitions of each input.

    Args:
        explainer: a fitted explainer.
        x: a batch of inputs.
        n_calls: surrogate evaluations per input, at least 34, including the empty coalition and all players. All
            outputs and weightings share them. If they allow all coalitions, values are exact. Time grows in proportion
            to n_calls from 1,024 on, and faster below. An explainer of one weighting uses one more call.
        weights: any semivalue or a list of them; by default Shapley, or the one that was learned.
        outputs: which outputs to return, as in `explain`.
        seed: an integer, or a generator on the explainer's device.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.

    Returns:
        values with standard errors, in `stderr`.

    Example:
        >>> x = torch.randn(64, 8)
        >>> explainer = fw.FeatureExplainer(lambda rows: rows[:, 0] * rows[:, 1])
        >>> explainer = explainer.fit(x, budget=fw.Budget(steps=20), progress=False)
        >>> refined = explainer.refine(x[:2], n_calls=64)
        >>> refined.values.shape, refined.stderr.shape
        (torch.Size([2, 8, 1]), torch.Size([2, 8, 1]))
    """
    fitted = explainer.fitted_
    masked = fitted.masked_model
    n_calls = _check_calls(n_calls, masked.n_players)
    weightings = fitted.check_weights(weights)
    explained = explainer.explain(x, outputs=outputs)
    generator = make_generator(seed, masked.device)
    inputs, numbers = explained.inputs.to(masked.device), explained.outputs
    values, stderr = refine_values(
        fitted, inputs, numbers, weightings, n_calls=n_calls, generator=generator, progress=progress
    )
    refined = replace(
        explained,
        values=values[..., : explained.players.n_players, :].float(),
        stderr=stderr[..., : explained.players.n_players, :].float(),
        weights=weightings,
        total="raw",
        provenance={
            **explained.provenance,
            "method": "refinement",
            "calls_per_input": n_calls,
            "relative_error": None,
        },
    )
    return refined if isinstance(weights, (list, tuple)) else refined.unstacked()


def refine_values(
    fitted: Fitted,
    x: Float[Tensor, "inputs ..."],
    outputs: Int[Tensor, "inputs outputs"],
    weightings: Sequence[Semivalue],
    *,
    n_calls: int,
    generator: torch.Generator,
    progress: bool = False,
) -> SampledValues:
    """Refine the values of some outputs of each input, under several weightings from the same coalitions.

    Args:
        fitted: the network and the game.
        x: the inputs, on its device.
        outputs: numbers of the outputs, for each input.
        weightings: the semivalues.
        n_calls: coalitions of each input; from 2**players on, values are exact.
        generator: of the coalitions.
        progress: show progress if it takes long.
    """
    whole = fitted.masked_model
    shape = (2, len(weightings), len(x), whole.n_players, outputs.shape[1])
    estimates = torch.zeros(shape, dtype=torch.float64, device=x.device)
    with ProgressBar("refining", len(x), enabled=progress) as bar:
        for rows, masked in whole.by_count(x):
            laws = torch.from_numpy(join_laws(weightings, masked.n_players)).to(masked.device)
            sizes = choose_sizes(fitted.objective, laws)
            for row in torch.arange(len(x), device=x.device)[rows].tolist():
                one = x[row : row + 1]
                if 2**masked.n_players <= n_calls:
                    semivalues = [Cardinality(law) for law in laws]
                    values = exact_values(PredictionGame(masked, one), semivalues, progress=False)
                    estimate = (values, torch.zeros_like(values))
                else:
                    game = predict_game(masked, one, network_slopes(fitted, one))
                    estimate = refine_game(game, laws, sizes, n_calls=n_calls, generator=generator)
                estimates[:, :, row, : masked.n_players] = torch.stack(estimate)[..., outputs[row]]
                bar.advance(1)
    return SampledValues(*estimates)


def _check_calls(n_calls: int, n_players: int) -> int:
    """Return n_calls as an int, or raise an error if it is too small."""
    n_calls = check_whole("n_calls", n_calls)
    fewest = min(MIN_CALLS, 2**n_players)
    if n_calls < fewest:
        why = "all coalitions" if fewest < MIN_CALLS else f"the empty coalition, all players and {FOLDS} x 4 more"
        raise ValueError(f"n_calls must be at least {fewest} ({why}), got {n_calls}")
    return n_calls


class InputGame(NamedTuple):
    """The game of an input, and what the network predicts about it.

    Attributes:
        raw: raw outputs of coalitions.
        link: from raw outputs to values.
        ends: raw outputs of the empty coalition and of all players.
        control: a game with known semivalues that agrees with this one for the empty coalition and all players.
        slope: predicted change of the raw outputs with each player.
        relevance: predicted size of each player's contribution.
    """

    raw: Callable[[Coalitions], Float64[Tensor, "coalitions outputs"]]
    link: Link
    ends: Float64[Tensor, "2 outputs"]
    control: FirstOrderGame
    slope: Float64[Tensor, "players outputs"]
    relevance: Float64[Tensor, " players"]


def predict_game(masked: MaskedModel, x: Float[Tensor, "1 ..."], slopes: Slopes) -> InputGame:
    """Return the game of an input with what slopes predict about it, for two calls."""
    link = LINKS[masked.output]
    raw_model = replace(masked, output="raw")

    def raw(coalitions: Coalitions) -> Float64[Tensor, "coalitions outputs"]:
        out = raw_model(x, coalitions[None])[0].double()
        return out - out.mean(1, keepdim=True) if KINDS[masked.output] == "classes" else out  # logits up to a shift

    ends = raw(torch.tensor([[False], [True]], device=x.device).expand(2, masked.n_players))
    empty, full = link(ends)
    return InputGame(
        raw,
        link,
        ends,
        control=slopes.first_order(empty, full),
        slope=slopes.raw_slopes(empty, full, masked.output),
        relevance=slopes.relevance(),
    )


class WeightedCoalitions(NamedTuple):
    """Coalitions and their weights in a semivalue: r(S) counts `inside` for members of S, `outside` for all others.

    The sums are unbiased for the semivalues of any game r that is zero for the empty coalition and for all players;
    docs/math.md, eq. 12.
    """

    coalitions: Coalitions
    inside: Float64[Tensor, "weights coalitions"]
    outside: Float64[Tensor, "weights coalitions"]

    @classmethod
    def draw(
        cls,
        count: int,
        laws: Float64[Tensor, "weights players"],
        sizes: Float64[Tensor, " sizes"],
        generator: torch.Generator,
    ) -> Self:
        """Draw an even number of coalitions whose sizes 1..n-1 follow a law, one from each of `count` equal strata."""
        n = laws.shape[1]
        u = torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64)
        u = (torch.arange(count, device=u.device) + u) / count
        mass = sizes.cumsum(0)
        s = 1 + torch.searchsorted(mass / mass[-1], u, right=True)
        expected = count * sizes[s - 1]
        inside = laws[:, s - 1] * n / s / expected
        outside = -laws[:, s] * n / (n - s) / expected
        return cls(draw_trusted_sizes(s, n, generator), inside, outside)

    def values(self, game_values: Float64[Tensor, "coalitions outputs"]) -> Values:
        """Estimate the semivalues of a game from the values of these coalitions."""
        base, step = self._terms(game_values)
        return _sum_over_members(self.coalitions, step) + base.sum(1)[:, None]

    def variance(self, game_values: Float64[Tensor, "coalitions outputs"]) -> Values:
        """Variance of the estimate, from the differences of coalitions in neighboring strata.

        A term is b + z a with z = 1 for members. For a pair, ((b1 - b2) + z1 a1 - z2 a2)**2 is summed in closed form.
        """
        base, step = self._terms(game_values)
        one, other = self.coalitions[0::2], self.coalitions[1::2]
        gap, a1, a2 = base[:, 0::2] - base[:, 1::2], step[:, 0::2], step[:, 1::2]
        single = _sum_over_members(one, a1 * (a1 + 2 * gap)) + _sum_over_members(other, a2 * (a2 - 2 * gap))
        both = _sum_over_members(one & other, a1 * a2)
        return (single - 2 * both + gap.square().sum(1)[:, None]).clamp(min=0)  # rounding may make it negative

    def importance(self) -> Float64[Tensor, " coalitions"]:
        """Variance that a unit of squared error at each coalition adds, on average over players and weightings."""
        share = self.coalitions.double().mean(1)
        return (share * self.inside.square() + (1 - share) * self.outside.square()).mean(0)

    def _terms(self, game_values: Float64[Tensor, "coalitions outputs"]) -> tuple[Tensor, Tensor]:
        """Term of a coalition for players outside it, and the difference to the term for its members."""
        outside = self.outside[..., None] * game_values
        return outside, self.inside[..., None] * game_values - outside


def _sum_over_members(coalitions: Coalitions, terms: Float64[Tensor, "weights coalitions outputs"]) -> Values:
    return torch.einsum("cn,wco->wno", coalitions.double(), terms)


def best_sizes(
    laws: Float64[Tensor, "weights players"], spread: Float64[Tensor, " sizes"]
) -> Float64[Tensor, " sizes"]:
    """Law of sizes 1..n-1 that minimizes the variance, for games whose values at a size have a given spread.

    In proportion to the spread times the root of w(s-1)**2 n/s + w(s)**2 n/(n-s); over several weightings, the root of
    the mean of their squared laws.
    """
    n = laws.shape[1]
    s = torch.from_numpy(proper_sizes(n)).to(laws.device)
    noise = spread * (laws[:, :-1].square() * n / s + laws[:, 1:].square() * n / (n - s)).sqrt()
    law = (noise / noise.sum(1, keepdim=True)).square().mean(0).sqrt()
    return law / law.sum()


def choose_sizes(objective: Objective, laws: Float64[Tensor, "weights players"]) -> Float64[Tensor, " sizes"]:
    """Law of sizes to draw: mostly those at which the objective has measured that games of this kind vary."""
    n = laws.shape[1]
    even = best_sizes(laws, laws.new_ones(n - 1))
    if not isinstance(objective, Multilinear) or objective.level is None:
        return even
    t = torch.from_numpy(proper_sizes(n)).to(laws.device) / n
    level = objective.basis(t) @ torch.tensor(objective.level, dtype=t.dtype, device=t.device)
    return (1 - EVEN_SHARE) * best_sizes(laws, (level * t * (1 - t)).sqrt()) + EVEN_SHARE * even


def refine_game(
    game: InputGame,
    laws: Float64[Tensor, "weights players"],
    sizes: Float64[Tensor, " sizes"],
    *,
    n_calls: int,
    generator: torch.Generator,
) -> tuple[Values, Values]:
    """Semivalues and their standard errors; sizes 1..n-1 of coalitions are drawn by a law. docs/math.md, eq. 13."""
    pairs = (n_calls - 2) // 2
    counts = [2 * (pairs // FOLDS + (fold < pairs % FOLDS)) for fold in range(FOLDS)]
    shares = torch.tensor(counts, dtype=torch.float64, device=laws.device) / sum(counts)
    folds = [WeightedCoalitions.draw(count, laws, sizes, generator) for count in counts]
    coalitions = torch.cat([fold.coalitions for fold in folds])
    raw = game.raw(coalitions)
    fold_of = torch.arange(FOLDS, device=laws.device).repeat_interleave(torch.tensor(counts, device=laws.device))
    importance = torch.cat([fold.importance() for fold in folds])
    regression = _fit_regression(game, coalitions, raw, fold_of, importance)

    values = game.control.values(laws)
    variances = []
    predicted = game.link(regression(coalitions)[fold_of, torch.arange(len(coalitions), device=laws.device)])
    for fold, share, error in zip(folds, shares, (game.link(raw) - predicted).split(counts), strict=True):
        values = values + fold.values(share * error)
        variances.append(FOLD_DEPENDENCE * fold.variance(share * error))

    def difference(some: Coalitions) -> Float64[Tensor, "coalitions outputs"]:
        by_fold = torch.stack([game.link(out) for out in regression(some)])
        return torch.tensordot(shares, by_fold, dims=1) - game.control(some)

    at_once = min(MAX_FREE_COALITIONS, MAX_FREE_VALUES // raw.shape[1])
    free, free_variance = _sum_without_calls(
        difference, laws, sizes, count=FREE_PER_CALL * len(coalitions), at_once=at_once, generator=generator
    )
    return values + free, _standard_errors(torch.stack(variances), free_variance, n_pairs=min(counts) // 2)


def _fit_regression(
    game: InputGame, coalitions: Coalitions, raw: Tensor, fold_of: Tensor, importance: Tensor
) -> Regression:
    """Fit a regression for each fold to the coalitions of the others, the empty coalition and all players."""
    fitted = min(len(coalitions), MAX_FITTED)
    rows = torch.linspace(0, len(coalitions) - 1, fitted, device=coalitions.device).round().long()
    ends = torch.tensor([[False], [True]], device=coalitions.device).expand(2, coalitions.shape[1])
    fold_of = torch.cat([fold_of.new_full((2,), -1), fold_of[rows]])
    return Regression.fit(
        torch.cat([ends, coalitions[rows]]),
        torch.cat([game.ends, raw[rows]]),
        [(fold_of != fold).nonzero().flatten() for fold in range(FOLDS)],
        slope=game.slope,
        relevance=game.relevance,
        link=game.link,
        importance=torch.cat([importance.new_zeros(2), importance[rows]]),
    )


def _sum_without_calls(
    difference: Callable[[Coalitions], Float64[Tensor, "coalitions outputs"]],
    laws: Float64[Tensor, "weights players"],
    sizes: Float64[Tensor, " sizes"],
    *,
    count: int,
    at_once: int,
    generator: torch.Generator,
) -> tuple[Values, Values]:
    """phi(g - c) and its variance, from `count` coalitions, or from all if these are not many more."""
    n = laws.shape[1]

    def proper_difference(coalitions: Coalitions) -> Float64[Tensor, "coalitions outputs"]:
        coalitions = coalitions.to(laws.device)
        members = coalitions.sum(1, keepdim=True)
        return torch.where((members > 0) & (members < n), difference(coalitions), 0.0)

    if 2**n <= ENUMERATION_GAIN * count:
        semivalues = [Cardinality(law) for law in laws]
        values = exact_values(proper_difference, semivalues, n_players=n, batch_size=max(at_once, 2), progress=False)
        return values.to(laws.device), torch.zeros_like(values, device=laws.device)
    values, variance = laws.new_zeros(()), laws.new_zeros(())
    blocks = -(-count // max(at_once, 2))
    for _ in range(blocks):
        free = WeightedCoalitions.draw(2 * -(-count // (2 * blocks)), laws, sizes, generator)
        game_values = difference(free.coalitions)
        values = values + free.values(game_values) / blocks
        variance = variance + free.variance(game_values) / blocks**2
    return values, variance


def _standard_errors(
    fold_variances: Float64[Tensor, "folds weights players outputs"], free_variance: Values, *, n_pairs: int
) -> Values:
    """Standard errors from the variances of the folds, each of n_pairs differences, and of the sum without calls.

    Few coalitions estimate the variance of one player badly, so it is averaged with the mean over players. If a few
    folds make up most of the variance, that is still uncertain. Student's t widens the errors, with the degrees of
    freedom of the folds by Satterthwaite's rule.
    """
    variance = fold_variances.sum(0) + free_variance
    pooled = fold_variances.mean(2, keepdim=True)
    effective_folds = pooled.sum(0).square() / pooled.square().sum(0).clamp(min=torch.finfo(pooled.dtype).tiny)
    steadied = (variance + variance.mean(1, keepdim=True)) / 2
    return steadied.sqrt() * widening((n_pairs * effective_folds).clamp(min=1))
