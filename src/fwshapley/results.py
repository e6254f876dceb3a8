"""What an explanation is: values with all that is needed to read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fwshapley import plots
from fwshapley.exact import Total
from fwshapley.players import Players
from fwshapley.storage import load_bundle, save_bundle
from fwshapley.weights import Semivalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SHOWN = 4


@dataclass(frozen=True, eq=False)
class Attribution:
    """Values of the players of each input.

    A value is positive where the player speaks for the output, negative where it speaks against it.

    Attributes:
        values: (batch, players, outputs); for a list of weights stacked in front, (weights, batch, players, outputs).
        base_values: what nobody is worth.
        outputs: number of each output that was explained.
        inputs: what was explained.
        weights: the semivalue, or the list of them.
        total: "raw" for the semivalue itself, "efficient" if shifted to sum to v(everyone) - v(nobody).
        players: what was credited.
        output_names: of all outputs of the model.
        provenance: how the explainer came about.
        stderr: standard errors of the values, where they were sampled.
        expected_error: (batch, outputs), or with the weights in front: expected root mean square error over players,
            where that was calibrated.
    """

    values: Float[Tensor, "*weights batch players outputs"]
    base_values: Float[Tensor, "batch outputs"]
    outputs: Int[Tensor, "batch outputs"]
    inputs: Float[Tensor, "batch ..."]
    weights: Semivalue | list[Semivalue]
    total: Total
    players: Players
    output_names: tuple[str, ...]
    provenance: Mapping[str, Any]
    stderr: Float[Tensor, "*weights batch players outputs"] | None = None
    expected_error: Float[Tensor, "*weights batch outputs"] | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    def __str__(self) -> str:
        kinds = ", ".join(map(str, self._several))
        return f"{self.total} {kinds} of {self.players.n_players} players for {len(self)} inputs"

    def to(self, device: torch.device | str) -> Attribution:
        """Return it with its tensors on a device."""
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in self._tensors.items()}
        return replace(self, players=self.players.to(device), **moved)

    def plot(self, rows: int | Sequence[int] = MOST_SHOWN, *, output: int | None = None) -> Figure:
        """Draw heat maps over images, or bars for the rows of a table: a row per input, a column per weighting.

        Args:
            rows: which inputs, or how many of the first.
            output: which of the outputs that were explained; by default of each input the one that its players speak
                for most.
        """
        shown = list(range(min(rows, len(self)))) if isinstance(rows, int) else list(rows)
        stacked = self.values if isinstance(self.weights, list) else self.values[None]
        several = stacked[:, shown].detach().float().cpu()
        strongest = (self.base_values[shown].detach().float().cpu() + several[0].sum(1)).argmax(1)
        which = strongest if output is None else torch.full_like(strongest, output)
        values = several[:, torch.arange(len(shown)), :, which].transpose(0, 1)
        labels = [self.output_names[int(self.outputs[row, each])] for row, each in zip(shown, which, strict=True)]
        titles = [str(each) for each in self._several]
        if not self.players.is_image:
            return plots.plot_bars(values, self.players.names, labels, titles)
        maps = values[..., self.players.assignment.cpu()]
        return plots.plot_heat_maps(self.inputs[shown].detach().float().cpu(), maps, labels, titles)

    def save(self, path: str | Path) -> None:
        """Write to one safetensors file."""
        facts = {
            "weights": [each.to_json() for each in self._several],
            "stacked": isinstance(self.weights, list),
            "total": self.total,
            "players": self.players.facts(),
            "output_names": self.output_names,
            "provenance": dict(self.provenance),
        }
        save_bundle(Path(path), "attribution", facts, self._tensors | {"assignment": self.players.assignment})

    @classmethod
    def load(cls, path: str | Path) -> Attribution:
        """Read what `save` wrote."""
        facts, tensors = load_bundle(Path(path), "attribution")
        several = [Semivalue.from_json(text) for text in facts["weights"]]
        players = Players.from_facts(facts["players"], tensors.pop("assignment"))
        return cls(
            **tensors,
            weights=several if facts["stacked"] else several[0],
            total=facts["total"],
            players=players,
            output_names=tuple(facts["output_names"]),
            provenance=facts["provenance"],
        )

    @property
    def _tensors(self) -> dict[str, Tensor]:
        names = ("values", "base_values", "outputs", "inputs", "stderr", "expected_error")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def _several(self) -> list[Semivalue]:
        return self.weights if isinstance(self.weights, list) else [self.weights]
