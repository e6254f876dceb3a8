"""An explanation: values of an input's players, with everything needed to interpret them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from jaxtyping import Float, Float64, Int
from numpy import ndarray

from fwshapley import plots
from fwshapley._internal.arrays import Device, Tensor, is_tensor, to_numpy
from fwshapley._internal.checks import Array, check_names, check_whole
from fwshapley._internal.result import Result
from fwshapley._internal.safetensors_file import Bundle
from fwshapley.players import Players
from fwshapley.semivalues import SEMIVALUES, Semivalue, Total

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MAX_SHOWN = 4
"""Inputs that `plot` shows by default."""


@dataclass(frozen=True)
class Unweighted(Semivalue):
    """Placeholder for the weighting in an `Attribution` by a method that has none, such as saliency.

    Attributes:
        method: name of the method.
    """

    method: str

    def __str__(self) -> str:
        return self.method

    def log_join_law(self, n: int) -> Float64[ndarray, " {n}"]:
        """Raise a TypeError: there is no such law."""
        raise TypeError(f"{self.method} does not weigh coalitions, so it has no weights for {n} players")


SEMIVALUES[Unweighted.__name__] = Unweighted  # `Semivalue.from_json` reads it from saved attributions


@dataclass(frozen=True, eq=False)
class Attribution(Result):
    """Values of the players of each input.

    A positive value means that the player raises the output, a negative one that it lowers it. Arrays are torch tensors
    if the explainer runs on torch, else numpy arrays.

    Attributes:
        values: (batch, players, outputs); for a list of weightings (weights, batch, players, outputs).
        base_values: (batch, outputs), the value of the empty coalition.
        outputs: (batch, outputs), the number of each explained output.
        inputs: the explained inputs.
        weights: the semivalue, or the list of semivalues.
        total: "raw" for the semivalue itself, "efficient" if shifted to sum to v(all players) - v(no players).
        players: the players.
        output_names: one per output of the model.
        provenance: how the values were computed; "refinement" has the number of calls used to refine them.
        stderr: standard errors of the values, if they were sampled.
        expected_error: (batch, outputs), or (weights, batch, outputs): the expected root mean square error over
            players, if the explainer was calibrated.

    Example:
        >>> import fwshapley as fw, torch
        >>> x = torch.randn(64, 3)
        >>> explainer = fw.FeatureExplainer(lambda rows: rows[:, 0] * rows[:, 1])
        >>> attribution = explainer.fit(x, budget=fw.Budget(steps=20), progress=False).explain(x[:5])
        >>> attribution.values.shape
        torch.Size([5, 3, 1])
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
    kind: ClassVar[str] = "attribution"
    per_weighting: ClassVar[tuple[str, ...]] = ("values", "stderr", "expected_error")

    def __len__(self) -> int:
        return len(self.inputs)

    def __str__(self) -> str:
        names = ", ".join(map(str, self.weightings))
        plural = "" if len(self) == 1 else "s"
        text = f"{self.total} {names} values of {self.players.n_players} players for {len(self)} input{plural}"
        if self.n_calls is not None:
            text += f", refined with {self.n_calls:,} calls per input"
        errors = {"standard error": self.stderr, "expected error": self.expected_error}
        sizes = [f"{name} {_root_mean_square(error):.2g}" for name, error in errors.items() if error is not None]
        return f"{text}: {', '.join(sizes)} (root mean square)" if sizes else text

    @property
    def n_calls(self) -> int | None:
        """Calls per input that the values were refined with; None if they were not refined."""
        refinement = self.provenance.get("refinement")
        return None if refinement is None else refinement["n_calls"]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with one row per input, output and player (and weighting, for a list of weightings).

        Columns are input (a number from 0), weights (for a list), output, player, value; stderr and expected_error
        if they are known.
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        batch, outputs = self.outputs.shape
        players, weightings = self.players.n_players, len(self.weightings)
        output_names = np.array(self.output_names, dtype=object)[to_numpy(self.outputs)]
        weighting_names = np.array(list(map(str, self.weightings)), dtype=object)
        columns: dict[str, Any] = {
            "input": np.repeat(np.arange(batch), weightings * outputs * players),
            "weights": np.tile(np.repeat(weighting_names, outputs * players), batch),
            "output": np.repeat(np.tile(output_names[:, None], (1, weightings, 1)).ravel(), players),
            "player": np.tile(np.array(self.players.names, dtype=object), batch * weightings * outputs),
            "value": self._in_rows(self.values),
        }
        if not isinstance(self.weights, list):
            del columns["weights"]
        if self.stderr is not None:
            columns["stderr"] = self._in_rows(self.stderr)
        if self.expected_error is not None:
            columns["expected_error"] = self._in_rows(self._error_per_player())
        return pd.DataFrame(columns)

    def to(self, device: Device | str) -> Self:
        """Return the attribution with its tensors on a device.

        Args:
            device: e.g. "cpu" or "cuda".
        """
        if not is_tensor(self.values):
            raise TypeError("device: this attribution contains numpy arrays, which have no device")
        tensors = {
            field.name: getattr(self, field.name) for field in fields(self) if is_tensor(getattr(self, field.name))
        }
        try:
            return replace(self, **{name: tensor.to(device) for name, tensor in tensors.items()})
        except (RuntimeError, AssertionError, TypeError) as error:
            raise ValueError(f"device={str(device)!r} cannot be used ({str(error).splitlines()[0]})") from error

    def plot(
        self,
        rows: int | Sequence[int] = MAX_SHOWN,
        *,
        output: int | None = None,
        names: Sequence[str] | None = None,
    ) -> Figure:
        """Draw heat maps over images, or bars for the rows of a table: a row per input, a column per weighting.

        If standard errors are known, or else expected errors, bars have whiskers of two errors to either side, and the
        size of the errors is written below heat maps.

        Args:
            rows: which inputs, or how many of the first.
            output: which of the explained outputs; by default the one with the largest prediction.
            names: of the inputs that are drawn, for the titles of bars; by default "input 0" and so on.
        """
        shown = self._check_rows(rows)
        values = self._stacked(self.values)[:, shown]
        largest = (to_numpy(self.base_values)[shown] + values[0].sum(1)).argmax(1)
        chosen = largest if output is None else np.full_like(largest, self._check_output(output))
        labels = [self.output_names[int(self.outputs[row, which])] for row, which in zip(shown, chosen, strict=True)]
        titles = [str(weights) for weights in self.weightings]
        errors = self._plotted_errors(shown, chosen)
        drawn = _of_output(values, chosen)
        if self.players.is_image:
            maps = drawn[..., self.players.assignment]
            return plots.plot_heat_maps(to_numpy(self.inputs[shown]), maps, labels, titles, errors)
        row_names = [f"input {row}" for row in shown] if names is None else list(check_names("names", names))
        if len(row_names) != len(shown):
            raise ValueError(f"names has {len(row_names)} entries for {len(shown)} inputs")
        row_titles = [f"{name}, {_output_title(label)}" for name, label in zip(row_names, labels, strict=True)]
        return plots.plot_bars(drawn, self.players.names, row_titles, titles, errors)

    def _plotted_errors(self, shown: list[int], chosen: Int[ndarray, " rows"]) -> plots.Errors:
        source = "" if self.n_calls is None else f"refined, {self.n_calls:,} calls"
        errors: Array
        if self.stderr is not None:
            errors, note = self.stderr, "standard error"
        elif self.expected_error is not None:
            errors, note = self._error_per_player(), "expected error"
        else:
            return plots.Errors(None, "", source)
        return plots.Errors(_of_output(self._stacked(errors)[:, shown], chosen), note, source)

    def _check_rows(self, rows: object) -> list[int]:
        if isinstance(rows, int):
            return list(range(min(check_whole("rows", rows), len(self))))
        if isinstance(rows, str) or not isinstance(rows, Sequence | ndarray) or not len(rows):
            raise TypeError(f"rows must be a number of inputs or a list of their indices, got {rows!r}")
        indices = [check_whole("rows", row, minimum=0) for row in rows]
        if max(indices) >= len(self):
            raise ValueError(f"rows must be below {len(self)}, the number of inputs; got {max(indices)}")
        return indices

    def _check_output(self, output: int) -> int:
        index = check_whole("output", output, minimum=0)
        if index >= self.outputs.shape[1]:
            raise ValueError(
                f"output must be below {self.outputs.shape[1]}, the number of explained outputs; got {index}"
            )
        return index

    def _to_bundle(self) -> Bundle:
        facts, arrays = super()._to_bundle()
        facts["players"] = self.players.facts()
        assignment = self.players.assignment
        return Bundle(facts, arrays | {"assignment": assignment})

    @classmethod
    def _from_bundle(cls, bundle: Bundle) -> Self:
        arrays = dict(bundle.arrays)
        players = Players.from_facts(bundle.facts["players"], arrays.pop("assignment"))
        return super()._from_bundle(Bundle({**bundle.facts, "players": players}, arrays))

    def _stacked(self, array: Array) -> Float[ndarray, "weights batch players outputs"]:
        """Return values or errors as a numpy array that has an axis for the weightings in any case."""
        plain = to_numpy(array)
        return plain if isinstance(self.weights, list) else plain[None]

    def _error_per_player(self) -> Float[ndarray, "*weights batch players outputs"]:
        return np.broadcast_to(to_numpy(self.expected_error)[..., None, :], tuple(self.values.shape))

    def _in_rows(self, array: Array) -> Float[ndarray, " rows"]:
        """Return numbers in the order of inputs, weightings, outputs, players."""
        return self._stacked(array).astype(np.float64).transpose(1, 0, 3, 2).ravel()


def _of_output(
    values: Float[ndarray, "weights rows players outputs"], output: Int[ndarray, " rows"]
) -> Float[ndarray, "weights rows players"]:
    """Return the values of one output of each row."""
    return values[:, np.arange(len(output)), :, output].transpose(1, 0, 2)


def _output_title(name: str) -> str:
    """Return a title for an output, whose name may already start with "output"."""
    return name if name.startswith("output") else f"output {name}"


def _root_mean_square(errors: Float[Tensor, ...]) -> float:
    return float(np.sqrt(np.square(to_numpy(errors).astype(np.float64)).mean()))
