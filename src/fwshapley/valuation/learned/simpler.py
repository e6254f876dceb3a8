"""Games of simpler models, that the fits of any model are held against: nearest neighbors, and ridge regression."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley._internal.progress import ProgressBar
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.knn.problem import Setting
from fwshapley.valuation.knn.valuator import value_every_label
from fwshapley.valuation.learned.games import NeighborGames
from fwshapley.valuation.learned.linear import LinearGame, ridge_rows

STRENGTHS = (0.5, 2.0)
"""Of ridge regression."""

FEWEST_DRAWS, MOST_DRAWS, LOOKS = 50, 1000, 2**30
"""Coalitions that values under ridge regression come from: as many as ask about this often whether a reference point is
right once a point has joined under some label."""

COALITIONS_AT_ONCE, REFERENCES_AT_ONCE = 16, 512


class SimplerGames:
    """Values of points under every label, and worth of coalitions, in each of some games.

    Args:
        setting: points and reference points.
        weights: the weighting.
        seed: of the coalitions that values under ridge regression come from.
        device: to work on.
        n_jobs: cores, as `KNNValuator` has it.
        progress: whether to show a bar.

    Attributes:
        values: of each point under every label, by game.
        stderr: their standard errors, 0 of nearest neighbors.
    """

    def __init__(
        self, setting: Setting, weights: Semivalue, *, seed: int, device: str, n_jobs: int | None, progress: bool
    ) -> None:
        self._neighbors = [
            setting._replace(weights=(weights,), utility="normalized", k=k) for k in sorted({1, setting.k})
        ]
        near = torch.cat(
            [value_every_label(each, device=device, n_jobs=n_jobs, progress=False) for each in self._neighbors], 2
        )
        self._linear = _linear_games(setting, device)
        draws = min(max(LOOKS // (near[..., 0].numel() * len(setting.other_labels)), FEWEST_DRAWS), MOST_DRAWS)
        generator, found = torch.Generator().manual_seed(seed), [(near, torch.zeros_like(near))]
        with ProgressBar("valuing by simpler models", draws * len(self._linear), enabled=progress) as bar:
            for game in self._linear:
                values, stderr = game.values(weights, draws, generator, told=bar.advance)
                values, stderr = steady(values.cpu(), stderr.cpu(), near)
                found.append((values[..., None], stderr[..., None]))
        self.values: Float64[Tensor, "n classes games"]
        self.stderr: Float64[Tensor, "n classes games"]
        self.values, self.stderr = (torch.cat(parts, 2) for parts in zip(*found, strict=True))

    def worth(self, coalitions: Bool[Tensor, "coalitions n"]) -> Float64[Tensor, "coalitions games"]:
        """Worth of coalitions in each game."""
        near = [_worth_to_neighbors(each, coalitions) for each in self._neighbors]
        linear = [game(coalitions.to(game.x.device)).cpu() for game in self._linear]
        return torch.stack([*near, *linear], 1)


def _linear_games(setting: Setting, device: str) -> list[LinearGame]:
    sides = (setting.places.factor[:, :-2], setting.places.references, setting.labels, setting.other_labels)
    x, references, labels, label = (torch.from_numpy(each).to(device) for each in sides)
    x, references = ridge_rows(x, references)
    return [LinearGame(x, labels, references, label, len(setting.classes), strength) for strength in STRENGTHS]


def steady(
    values: Float64[Tensor, "n classes"], stderr: Float64[Tensor, "n classes"], near: Float64[Tensor, "n classes games"]
) -> tuple[Float64[Tensor, "n classes"], Float64[Tensor, "n classes"]]:
    """Draw values that are known by chance towards their line on those known exactly, as far as chance may explain.

    Those of which nothing is known, their error infinite, are on the line. They count as 0 for it and for chance, as
    all others count for more than they are. Returns the errors that are left, too: never none, since how much chance
    explains is itself known to a share of sqrt(2 / numbers) only.
    """
    seen = stderr.isfinite()
    known = torch.cat([near, torch.ones_like(near[..., :1])], 2).flatten(0, 1)
    line = (known @ torch.linalg.lstsq(known, values.flatten()[:, None]).solution).view_as(values)
    beside = values - line
    spread, chance = beside.square().mean(), stderr.where(seen, 0.0).square().mean()
    kept = (1 - chance / spread).clamp(min=0) if spread > 0 else spread
    doubt = (2 / values.numel()) ** 0.5
    return line + kept * beside * seen, (kept.clamp(min=doubt) * torch.where(seen, chance, spread)).sqrt()


def _worth_to_neighbors(setting: Setting, coalitions: Bool[Tensor, "coalitions n"]) -> Float64[Tensor, " coalitions"]:
    references, x = (torch.from_numpy(each) for each in (setting.places.references, setting.places.factor[:, :-2]))
    labels, label = torch.from_numpy(setting.labels), torch.from_numpy(setting.other_labels)
    found = torch.zeros(len(coalitions), dtype=torch.float64)
    for rows in torch.arange(len(label)).split(REFERENCES_AT_ONCE):
        order = torch.cdist(references[rows], x).argsort(dim=1, stable=True)
        games = NeighborGames(order, labels, label[rows], len(setting.classes), setting.k, setting.utility)
        found += torch.cat([games(some) for some in coalitions.split(COALITIONS_AT_ONCE)]) * len(rows) / len(label)
    return found
