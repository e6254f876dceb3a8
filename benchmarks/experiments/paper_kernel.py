"""Error of the paper's least-squares kernel: Lemma 5.1 redrawn, and how far its solution is from the exact values.

Two figures and one table:
- paper_kernel_lemma.png: the normalized weights w~(k) and w~(k-1) that Lemma 5.1 assumes to be equal, and their ratio;
- paper_kernel_error.png: the relative error of the least-squares solution with the paper's kernel (docs/math.md,
  eq. 5) on enumerated games, and the ratio of that kernel to the exact one (eq. 4).
paper_kernel.json also holds the sizes of the paper's other inaccuracies that docs/math.md, section 4, quotes, and the
number of games of each kind and size.

    python benchmarks/run.py paper_kernel             # under a minute on two cores
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import torch
from jaxtyping import Float64
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor

from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.record import record
from fwshapley import Beta, exact_values
from fwshapley.estimators import exact_wls_values
from fwshapley.games import FunctionGame, Game, Random
from fwshapley.semivalues import FEASIBLE_SET, log_binomials

OFF_THE_SET = tuple(Beta(alpha, beta) for alpha, beta in [(2, 2), (2, 3), (4, 4)])
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.92",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 130,
}
"""Look of both figures, as matplotlib's rcParams."""

LEMMA_WEIGHTS = (Beta(16, 1), Beta(1, 16))
LEMMA_PLAYERS = (100, 500, 1000)
RATIO_WEIGHTS = (Beta(16, 1), Beta(4, 4))
RATIO_PLAYERS = (16, 64, 256)
ENUMERATED_PLAYERS = tuple(range(5, 13))
LEVEL_PLAYERS = 10
N_GAMES = 128

# Okabe and Ito's palette, and a marker each, tell the lines apart in any color vision and in print.
STYLES = {
    "Beta(2, 1)": ("#56B4E9", "o"),
    "Beta(4, 1)": ("#0072B2", "s"),
    "Beta(16, 1)": ("#000000", "D"),
    "Beta(2, 2)": ("#E69F00", "^"),
    "Beta(2, 3)": ("#CC79A7", "v"),
    "Beta(4, 4)": ("#D55E00", "P"),
}
SEQUENCE = ("#56B4E9", "#0072B2", "#000000")
ROW = dict[str, Any]


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__, smoke="tiny games", seeds=[0], seeds_of="the games; the games of all seeds are pooled"
    )
    return parser.parse(options)


def main(arguments: argparse.Namespace) -> None:
    """Measure, print, draw, record."""
    seeds = arguments.seeds
    started = time.perf_counter()
    count, enumerated = (4, (5, 6)) if arguments.smoke else (N_GAMES, ENUMERATED_PLAYERS)
    level_players = 5 if arguments.smoke else LEVEL_PLAYERS

    every = (*FEASIBLE_SET, *OFF_THE_SET)
    results: dict[str, Any] = {
        "games": count * len(seeds),
        "lemma": [lemma_row(weights, n) for weights in FEASIBLE_SET for n in LEMMA_PLAYERS],
        "solution": [
            solution_row(kind, weights, draw_games(kind, n, count, seeds))
            for kind in GAMES
            for weights in every
            for n in enumerated
        ],
        "expected_on_random_games": [
            label(weights, n) | {"relative_error": expected_error(weights, n)}
            for weights in every
            for n in sorted({*enumerated, *RATIO_PLAYERS, 1024})
        ],
        "kernel_ratio": [
            label(weights, n) | dict(zip(("smallest", "largest"), kernel_ratio(weights, n).aminmax(), strict=True))
            for weights in every
            for n in RATIO_PLAYERS
        ],
        "level_and_pairs": [
            level_row(kind, weights, draw_games(kind, level_players, count, seeds))
            for kind in GAMES
            for weights in FEASIBLE_SET
        ],
        "error_per_loss": [loss_row(weights, n) for weights in every for n in (10, *LEMMA_PLAYERS)],
    }
    print_table(results)
    mpl.use("Agg")
    with plt.rc_context(STYLE):
        for name, draw in (("lemma", draw_lemma), ("error", partial(draw_kernel_error, results))):
            save_figure(draw, f"paper_kernel_{name}", arguments, metadata={"Software": None})  # the same bytes again
    plt.close("all")
    print(
        "wrote",
        record("paper_kernel", results, out=arguments.out, seeds=seeds, started=started, packages=["matplotlib"]),
    )


def label(weights: Beta, n: int) -> ROW:
    """Weighting and number of players of a row."""
    return {"alpha": weights.alpha, "beta": weights.beta, "n": n}


def lemma_row(weights: Beta, n: int) -> ROW:
    """Difference between w~(k) and w~(k-1), k = 2..n: as a share of the largest weight, and as a ratio."""
    normalized = n * torch.from_numpy(weights.join_law(n))
    log_ratio = torch.from_numpy(weights.log_join_law(n)).diff()
    return label(weights, n) | {
        "largest_gap_of_peak": normalized.diff().abs().max() / normalized.max(),
        "ratio_at_2": log_ratio[0].exp(),
        "ratio_at_n": log_ratio[-1].exp(),
        "share_of_k_within_10_percent": (log_ratio.expm1().abs() <= 0.1).double().mean(),
        "last_weight": normalized[-1],
        "mass_of_the_misprinted_weights": 1 - normalized[-1] / n,
    }


def random_games(n: int, count: int, seed: int) -> Game:
    """Independent standard normal values of all coalitions."""
    return Random(n, outputs=count, seed=seed)


def smooth_games(n: int, count: int, seed: int) -> Game:
    """Logistic models on masked inputs: v(S) = sigmoid(sum of a over S + b), a ~ N(0, 9/n), b ~ N(0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    slopes = 3 / n**0.5 * torch.randn(n, count, generator=generator, dtype=torch.float64)
    intercepts = torch.randn(count, generator=generator, dtype=torch.float64)
    return FunctionGame(lambda coalitions: (coalitions.double() @ slopes + intercepts).sigmoid(), n)


GAMES: dict[str, Callable[[int, int, int], Game]] = {"random": random_games, "smooth": smooth_games}


def draw_games(kind: str, n: int, count: int, seeds: Sequence[int]) -> Game:
    """Return the games of all seeds as one of many outputs."""
    games = [GAMES[kind](n, count, seed) for seed in seeds]
    return FunctionGame(lambda coalitions: torch.cat([torch.as_tensor(game(coalitions)) for game in games], 1), n)


def solution_row(kind: str, weights: Beta, game: Game) -> ROW:
    """Error of the least-squares solutions at the right level, relative to the spread of the true values."""
    values = exact_values(game, weights, progress=False)
    paper = exact_wls_values(game, weights, kernel="paper", progress=False)
    exact = exact_wls_values(game, weights, kernel="exact", progress=False)
    return {"games": kind, **label(weights, game.n_players)} | {
        "relative_error": relative_error(paper, values),
        "relative_error_of_exact_kernel": relative_error(exact, values),
    }


def relative_error(estimate: Float64[Tensor, "n games"], values: Float64[Tensor, "n games"]) -> float:
    """Root of sum ||estimate - values||**2 / sum ||values - their mean over players||**2, over all games."""
    return float((estimate - values).norm() / (values - values.mean(0)).norm())


def expected_error(weights: Beta, n: int) -> float:
    """Closed form of `relative_error` for random games: root of sum C(n-2, s-1) (q - m)**2 / sum C(n-2, s-1) m**2."""
    log_mass = torch.from_numpy(log_binomials(n - 2)) + 2 * torch.from_numpy(weights.log_kernel(n))
    share = (log_mass - log_mass.logsumexp(0)).exp()
    return float((share @ (kernel_ratio(weights, n) - 1).square()).sqrt())


def kernel_ratio(weights: Beta, n: int) -> Float64[Tensor, " n-1"]:
    """q(s) / m(s), s = 1..n-1, both scaled to sum C(n-2, s-1) q(s) = 1, so that both fit an additive game."""
    scale = torch.from_numpy(log_binomials(n - 2))
    log_exact, log_paper = torch.from_numpy(weights.log_kernel(n)), torch.from_numpy(weights.log_paper_kernel(n))
    return (log_paper - (log_paper + scale).logsumexp(0) - log_exact).exp()


def level_row(kind: str, weights: Beta, game: Game) -> ROW:
    """Error of the level without the correct constraint, and of the values with unweighted pairs.

    Sums are in units of the root mean square of sum(phi); pairs as `relative_error`.
    """
    n = game.n_players
    mirrored = Beta(weights.beta, weights.alpha)
    values, other = exact_values(game, [weights, mirrored], progress=False)
    with_pairs = (values + other) / 2
    total = values.sum(0)
    efficient = exact_wls_values(game, weights, total="efficient", progress=False).sum(0)

    def level_error(log_kernel: Tensor) -> Tensor:
        return (unconstrained_total(game, log_kernel) - total).norm() / total.norm()

    return {"games": kind, **label(weights, n)} | {
        "level_error_unconstrained": level_error(torch.from_numpy(weights.log_kernel(n))),
        "level_error_unconstrained_paper_kernel": level_error(torch.from_numpy(weights.log_paper_kernel(n))),
        "level_error_efficient": (efficient - total).norm() / total.norm(),
        "relative_error_plain_pairs": relative_error(with_pairs - (with_pairs.sum(0) - total) / n, values),
    }


def unconstrained_total(game: Game, log_kernel: Float64[Tensor, " n-1"]) -> Float64[Tensor, " games"]:
    """Sum of the values that minimize eq. 3 without its constraint."""
    n = game.n_players
    coalitions = (torch.arange(2**n)[:, None] >> torch.arange(n)) & 1 == 1
    worth = torch.as_tensor(game(coalitions))
    weight = log_kernel.exp()[coalitions[1:-1].sum(1) - 1].sqrt()[:, None]
    return torch.linalg.lstsq(weight * coalitions[1:-1], weight * (worth[1:-1] - worth[0])).solution.sum(0)


def loss_row(weights: Beta, n: int) -> ROW:
    """Prop. 2.2's lambda: as printed, as it is for the paper's kernel, and as it is for the exact one."""
    join_law = torch.from_numpy(weights.join_law(n))
    sizes = torch.arange(1, n, dtype=torch.float64)
    q_total = ((n - 1) * n * join_law[:-1] / (sizes * (n - sizes))).sum()
    return label(weights, n) | {
        "lambda_printed": (1 - n * join_law[-1]) / q_total,
        "lambda_paper_kernel": (1 - join_law[-1]) / q_total,
        "lambda_exact_kernel": 1 / weights.error_per_loss(n),
    }


def print_table(results: dict[str, Any]) -> None:
    """Relative error of the paper's kernel in percent, by weighting and number of players."""
    rows = [row for row in results["solution"] if row["alpha"] > 1]
    players = sorted({row["n"] for row in rows})
    print("relative error of the solution with the paper's kernel, percent (alpha = 1: none)")
    print(f"{'games':8}{'weights':14}" + "".join(f"{'n=' + str(n):>8}" for n in players))
    for first in (row for row in rows if row["n"] == players[0]):
        same = [row for row in rows if all(row[key] == first[key] for key in ("games", "alpha", "beta"))]
        name = f"Beta({first['alpha']:g}, {first['beta']:g})"
        print(f"{first['games']:8}{name:14}" + "".join(f"{100 * row['relative_error']:8.2f}" for row in same))
    largest = max(row["relative_error_of_exact_kernel"] for row in results["solution"])
    print(f"largest error with the exact kernel: {largest:.1g}")


def draw_lemma() -> Figure:
    """A row for each weighting and one for the ratio of neighbors, a column for each n."""
    figure, axes = plt.subplots(3, 3, figsize=(8.2, 6.4), sharey="row", sharex="col")
    for row, weights in zip(axes, LEMMA_WEIGHTS, strict=False):
        for axis, n in zip(row, LEMMA_PLAYERS, strict=True):
            normalized = n * torch.from_numpy(weights.join_law(n))
            k = torch.arange(2, n + 1)
            axis.plot(k, normalized[:-1], color="#E69F00", linewidth=3.5, label=r"$\tilde w(k-1)$")
            axis.plot(k, normalized[1:], color="#0072B2", linewidth=1.2, label=r"$\tilde w(k)$")
            gap = float(normalized.diff().abs().max() / normalized.max())
            axis.set_title(rf"$\alpha={weights.alpha:g},\ \beta={weights.beta:g},\ n={n}$")
            axis.text(0.5, 0.62, f"largest gap\n{100 * gap:.1f} % of the peak", transform=axis.transAxes, ha="center")
            axis.set(xlim=(0, n), xticks=[0, n // 2, n])
        row[0].set_ylabel("normalized weight")
    axes[0, 0].legend(loc="center right", bbox_to_anchor=(1, 0.35))

    for axis, n in zip(axes[2], LEMMA_PLAYERS, strict=True):
        for weights, color, dashes in zip(LEMMA_WEIGHTS, ("#000000", "#D55E00"), ("-", "--"), strict=True):
            ratio = torch.from_numpy(weights.log_join_law(n)).diff().exp()
            name = rf"$\alpha={weights.alpha:g},\ \beta={weights.beta:g}$"
            axis.plot(torch.arange(2, n + 1), ratio, color=color, linestyle=dashes, linewidth=1.5, label=name)
        axis.set(yscale="log", xlabel="$k$", title=f"ratio, $n={n}$")
        set_ticks(axis.yaxis, (1 / 16, 1 / 4, 1, 4, 16), ("1/16", "1/4", "1", "4", "16"))
    axes[2, 0].set_ylabel(r"$\tilde w(k)\,/\,\tilde w(k-1)$")
    axes[2, 0].legend(loc="lower left")
    return figure


def draw_kernel_error(results: dict[str, Any]) -> Figure:
    """Above, the error of the solution over n; below, the ratio of the kernels over the coalition's size."""
    figure, axes = plt.subplots(2, 2, figsize=(8.2, 6.4), height_ratios=(1.15, 1))
    for axis, kind in zip(axes[0], GAMES, strict=True):
        for weights in (*FEASIBLE_SET, *OFF_THE_SET):
            if str(weights) in STYLES:
                draw_error(axis, weights, [row for row in results["solution"] if row["games"] == kind])
        axis.set(xscale="log", yscale="log", xlabel="players $n$", ylim=(0.2, 400))
        axis.set_title(f"error of the solution, {kind} games")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        set_ticks(axis.xaxis, (5, 6, 8, 10, 12) if kind == "smooth" else (5, 8, 16, 64, 256))
    axes[0, 0].text(5, 0.3, "points: enumerated; lines: expected", color="0.35")
    axes[0, 1].legend(ncols=2, loc="upper left", title=r"(no error where $\alpha=1$)")
    for axis, weights in zip(axes[1], RATIO_WEIGHTS, strict=True):
        draw_ratio(axis, weights)
    axes[1, 0].legend(loc="upper left")
    axes[1, 1].text(0.5, 0.66, "share of the sizes, $n=256$", color="0.35", ha="center")
    return figure


def draw_error(axis: Axes, weights: Beta, rows: Sequence[ROW]) -> None:
    """One weighting: points from enumeration; for random games also the expectation, for any n."""
    color, marker = STYLES[str(weights)]
    mine = [row for row in rows if (row["alpha"], row["beta"]) == (weights.alpha, weights.beta)]
    axis.plot(
        [row["n"] for row in mine],
        [100 * row["relative_error"] for row in mine],
        color=color,
        marker=marker,
        markersize=4.5,
        linewidth=1.2 if mine[0]["games"] == "smooth" else 0,
        label=str(weights),
    )
    if mine[0]["games"] == "random":
        players = sorted({round(5 * 1.1**step) for step in range(42)} | {256})
        axis.plot(players, [100 * expected_error(weights, n) for n in players], color=color, linewidth=1.2)


def draw_ratio(axis: Axes, weights: Beta) -> None:
    """Ratio of the kernels, and in gray where the exact size law has its mass."""
    for color, n in zip(SEQUENCE, RATIO_PLAYERS, strict=True):
        share = torch.arange(1, n) / n
        axis.plot(share, kernel_ratio(weights, n), color=color, linewidth=1.6, label=f"$n={n}$")
    law = torch.from_numpy(weights.size_law(n))
    axis.fill_between(share, 0.5, 0.5 + 0.45 * law / law.max(), color="0.88", linewidth=0)
    axis.axhline(1, color="0.5", linewidth=0.8)
    axis.set(yscale="log", xlabel="coalition size $s/n$", ylim=(0.5, 20), xlim=(0, 1))
    axis.set_title(rf"kernel ratio $q(s)/m(s)$, $\alpha={weights.alpha:g},\ \beta={weights.beta:g}$")
    set_ticks(axis.yaxis, (0.5, 1, 2, 4, 8, 16))


def set_ticks(side: Axis, ticks: Sequence[float], labels: Sequence[str] | None = None) -> None:
    """Plain numbers, at these places, on a logarithmic axis."""
    side.set_ticks(ticks, labels or [f"{tick:g}" for tick in ticks])
    side.set_minor_locator(NullLocator())
