"""Who teaches a network: the exact engine, for nearest neighbors; a process of the scores of fits, for any model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from fwshapley._internal.progress import ProgressBar
from fwshapley.coalitions import draw_by_law
from fwshapley.games.game import Game
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.knn.problem import Setting
from fwshapley.valuation.knn.valuator import value_every_label
from fwshapley.valuation.learned.process import Labeled, Process, Scores
from fwshapley.valuation.learned.simpler import SimplerGames
from fwshapley.valuation.retraining.checkpoint import Sitting, State
from fwshapley.valuation.retraining.least_squares import ReplayedGame

AT_ONCE = 16
"""Fits between two looks at the progress bar."""

MOST_IN_PROCESS = 10_000
"""Points or fits, whose covariances take the square of that in memory."""


class Taught(NamedTuple):
    """What a teacher knows.

    Attributes:
        targets: value of every point under every label, at every node.
        values: of the points as they are, and their standard errors, where the teacher knows more of these than a
            network can learn.
        resemblance: of the model to the simpler ones that its values were first guessed by, where they were.
    """

    targets: Float64[Tensor, "n classes nodes"]
    values: Float64[Tensor, " n"] | None = None
    stderr: Float64[Tensor, " n"] | None = None
    resemblance: float | None = None


def teach_neighbors(setting: Setting, *, device: str, n_jobs: int | None, progress: bool) -> Taught:
    """Exact values under the weightings of a setting, its nodes, and every label."""
    return Taught(value_every_label(setting, device=device, n_jobs=n_jobs, progress=progress))


def teach_by_fits(
    game: Game,
    setting: Setting,
    weights: Semivalue,
    *,
    fits: int,
    seed: int,
    identity: Mapping[str, Any],
    n_jobs: int | None,
    checkpoint: Path | None,
    resume: bool,
    device: str,
    progress: bool,
) -> Taught:
    """Values that the scores of some coalitions suggest, with nearest neighbors and linear models as simpler games."""
    if max(fits, len(setting.labels)) > MOST_IN_PROCESS:
        raise ValueError(
            f"{len(setting.labels)} points and {fits} fits are too many to learn from together (limit "
            f"{MOST_IN_PROCESS} each): take fewer, or RetrainingValuator(method='least squares')"
        )
    x, labels = torch.from_numpy(setting.places.factor[:, :-2]), torch.from_numpy(setting.labels)
    drawn = draw_by_law(torch.from_numpy(weights.size_law(len(x))), fits - 1, torch.Generator().manual_seed(seed))
    nobody = torch.zeros(1, len(x), dtype=torch.bool)
    coalitions = torch.cat([nobody, ~nobody, drawn])
    nothing = State(torch.zeros(1, 0, dtype=torch.float64), 0, 0)
    with (
        ProgressBar("fitting models", fits, enabled=progress) as bar,
        Sitting(nothing, checkpoint, identity, resume=resume) as sitting,
    ):
        played, worth = ReplayedGame(game, sitting, n_jobs), []
        for some in coalitions.split(AT_ONCE):
            worth.append(played(some))
            bar.advance(len(some) - (len(worth) == 1))  # nobody takes no fit
    simpler = SimplerGames(setting, weights, seed=seed, device=device, n_jobs=n_jobs, progress=progress)
    scores = Scores(coalitions, torch.cat(worth), simpler.worth(coalitions))
    own = (torch.arange(len(x)), labels)
    process = Process(Labeled(x, labels, simpler.values[own]), scores, seed=seed)
    every = [
        process.values(weights, Labeled(x, torch.full_like(labels, each), simpler.values[:, each]))
        for each in range(len(setting.classes))
    ]
    stderr = process.stderr(simpler.stderr[own])
    return Taught(torch.stack(every, 1)[..., None], process.values(weights), stderr, process.resemblance)
