"""Who teaches a network: the exact engine, for nearest neighbours; or a process of the scores of fits, for any model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from fwshapley.games.game import Game
from fwshapley.progress import ProgressBar
from fwshapley.sampling import draw_by_law
from fwshapley.valuation.learned.process import Labelled, Process, Scores
from fwshapley.valuation.neighbours import sum_values
from fwshapley.valuation.replay import ReplayedGame
from fwshapley.valuation.setting import Setting
from fwshapley.valuation.work import Sitting, State
from fwshapley.weights import Semivalue, Shapley

AT_ONCE = 16
"""Fits between two looks at the progress bar."""


class Taught(NamedTuple):
    """What a teacher knows.

    Attributes:
        targets: value of every point under every label, at every node.
        values: of the points as they are, and their standard errors, where the teacher knows more of these than a
            network can learn.
    """

    targets: Float64[Tensor, "n classes nodes"]
    values: Float64[Tensor, " n"] | None = None
    stderr: Float64[Tensor, " n"] | None = None


def teach_neighbours(setting: Setting, *, device: str, n_jobs: int | None, progress: bool) -> Taught:
    """Exact values under the weightings of a setting, its nodes, and every label."""
    total = sum_values(setting, setting.game(device=device, every_label=True), n_jobs=n_jobs, progress=progress)
    mean = total.values.cpu() / (len(setting.other_labels) - setting.held_out)
    return Taught(mean.view(len(setting.weights), len(setting.classes), -1).permute(2, 1, 0).contiguous())


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
    """Values that the scores of some coalitions suggest; nearest neighbours make the first guess."""
    guesses = teach_neighbours(
        setting._replace(weights=(Shapley(),)), device=device, n_jobs=n_jobs, progress=False
    ).targets[..., 0]
    labels = torch.from_numpy(setting.labels)
    own = guesses.gather(1, labels[:, None])
    guesses = (guesses - own.mean()) / (own.std() if bool(own.std() > 0) else 1.0)
    x = torch.from_numpy(setting.places.factor[:, :-2])
    drawn = draw_by_law(weights.size_law(len(x)), fits - 1, torch.Generator().manual_seed(seed))
    coalitions = torch.cat([torch.zeros(1, len(x), dtype=torch.bool), torch.ones(1, len(x), dtype=torch.bool), drawn])
    nothing = State(torch.zeros(1, 0, dtype=torch.float64), 0, 0)
    with (
        ProgressBar("fitting models", fits, enabled=progress) as bar,
        Sitting(nothing, checkpoint, identity, resume=resume) as sitting,
    ):
        played, worth = ReplayedGame(game, sitting, n_jobs), []
        for some in coalitions.split(AT_ONCE):
            worth.append(played(some))
            bar.advance(len(some) - (len(worth) == 1))  # nobody takes no fit
    process = Process(Labelled(x, labels, guesses.gather(1, labels[:, None])[:, 0]), Scores(coalitions, torch.cat(worth)))
    level = process.level(weights)
    every = [
        process.values(Labelled(x, torch.full_like(labels, each), guesses[:, each]))
        for each in range(len(setting.classes))
    ]
    return Taught(torch.stack(every, 1)[..., None] + level, process.values() + level, process.stderr())
