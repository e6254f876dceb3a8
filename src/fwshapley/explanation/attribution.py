"""What an explanation is: values with all that is needed to read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from fwshapley import plots
from fwshapley._internal.bundle import load_bundle, save_bundle
from fwshapley.estimators.exact import Total
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue

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
        provenance: how the explainer came about; "refinement" says with how many calls values were refined.
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
        about = (
            f"{self.total} {kinds} of {self.players.n_players} players for {len(self)} input{'s' * (len(self) != 1)}"
        )
        if self.calls is not None:
            about += f", refined by {self.calls:,} calls each"
        sizes = {"standard error": self.stderr, "expected error": self.expected_error}
        known = [f"{name} {_size(error):.2g}" for name, error in sizes.items() if error is not None]
        return f"{about}: {', '.join(known)} (root mean square)" if known else about

    @property
    def calls(self) -> int | None:
        """Calls an input that values were refined by; None if they were not."""
        refinement = self.provenance.get("refinement")
        return None if refinement is None else refinement["calls"]

    def of(self, weights: Semivalue) -> Attribution:
        """Return the attribution under one of several weightings."""
        if weights not in self._several:
            raise ValueError(f"{weights} was not asked for; there are {', '.join(map(str, self._several))}")
        if not isinstance(self.weights, list):
            return self
        row = self.weights.index(weights)
        return replace(
            self,
            values=self.values[row],
            weights=weights,
            stderr=None if self.stderr is None else self.stderr[row],
            expected_error=None if self.expected_error is None else self.expected_error[row],
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with a row per input, output and player (and weighting, if there are several): their value.

        Columns are input (a number from 0), weights (of several), output, player, value; stderr and expected_error
        where they are known.
        """
        batch, outputs, n = *self.outputs.shape, self.players.n_players
        weightings = len(self._several)
        named = np.array(self.output_names, dtype=object)[self.outputs.cpu().numpy()]
        columns: dict[str, Any] = {
            "input": np.repeat(np.arange(batch), weightings * outputs * n),
            "weights": np.tile(np.repeat(np.array(list(map(str, self._several)), dtype=object), outputs * n), batch),
            "output": np.repeat(np.tile(named[:, None], (1, weightings, 1)).ravel(), n),
            "player": np.tile(np.array(self.players.names, dtype=object), batch * weightings * outputs),
            "value": _in_rows(self.values, weightings),
        }
        if not isinstance(self.weights, list):
            del columns["weights"]
        if self.stderr is not None:
            columns["stderr"] = _in_rows(self.stderr, weightings)
        if self.expected_error is not None:
            same = self.expected_error[..., None, :].expand_as(self.values)
            columns["expected_error"] = _in_rows(same, weightings)
        return pd.DataFrame(columns)

    def to(self, device: torch.device | str) -> Attribution:
        """Return it with its tensors on a device."""
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in self._tensors.items()}
        return replace(self, players=self.players.to(device), **moved)

    def plot(
        self,
        rows: int | Sequence[int] = MOST_SHOWN,
        *,
        output: int | None = None,
        names: Sequence[str] | None = None,
    ) -> Figure:
        """Draw heat maps over images, or bars for the rows of a table: a row per input, a column per weighting.

        Where standard errors are known, or else expected errors, bars have whiskers of two of them to either side, and
        below heat maps their size is written.

        Args:
            rows: which inputs, or how many of the first.
            output: which of the outputs that were explained; by default of each input the one that its players speak
                for most.
            names: what to call the inputs that are drawn, in titles of bars; by default "input 0" and so on.
        """
        shown = list(range(min(rows, len(self)))) if isinstance(rows, int) else list(rows)
        several = self._stacked(self.values)[:, shown]
        strongest = (self.base_values[shown].detach().float().cpu() + several[0].sum(1)).argmax(1)
        which = strongest if output is None else torch.full_like(strongest, output)

        def of_output(stacked: Float[Tensor, "weights rows players outputs"]) -> Float[Tensor, "weights rows players"]:
            return stacked[:, torch.arange(len(shown)), :, which].transpose(0, 1)

        values, errors, note = of_output(several), None, ""
        if self.stderr is not None:
            errors, note = of_output(self._stacked(self.stderr)[:, shown]), "standard error"
        elif self.expected_error is not None:
            same = self.expected_error[..., None, :].expand_as(self.values)
            errors, note = of_output(self._stacked(same)[:, shown]), "expected error"
        labels = [self.output_names[int(self.outputs[row, each])] for row, each in zip(shown, which, strict=True)]
        titles = [str(each) for each in self._several]
        about = plots.Errors(errors, note, "" if self.calls is None else f"refined, {self.calls:,} calls")
        if not self.players.is_image:
            called = [f"input {row}" for row in shown] if names is None else names
            about_rows = [f"{name}, {_output(label)}" for name, label in zip(called, labels, strict=True)]
            return plots.plot_bars(values, self.players.names, about_rows, titles, about)
        maps = values[..., self.players.assignment.cpu()]
        return plots.plot_heat_maps(self.inputs[shown].detach().float().cpu(), maps, labels, titles, about)

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

    def _stacked(self, tensor: Float[Tensor, ...]) -> Float[Tensor, "weights batch players outputs"]:
        """Values or their errors on the CPU, with an axis for the weights in any case."""
        known = tensor.detach().float().cpu()
        return known if isinstance(self.weights, list) else known[None]


def _output(name: str) -> str:
    """What to call an output whose name may say that it is one, or be a bare number."""
    return name if name.startswith("output") else f"output {name}"


def _size(errors: Float[Tensor, "*axes"]) -> float:
    """Root mean square."""
    return float(errors.double().square().mean().sqrt())


def _in_rows(values: Float[Tensor, "*weights batch players outputs"], weightings: int) -> NDArray[np.float64]:
    """Numbers in the order of inputs, weightings, outputs, players."""
    stacked = values.detach().double().cpu().reshape(weightings, *values.shape[-3:])
    return stacked.permute(1, 0, 3, 2).flatten().numpy()
