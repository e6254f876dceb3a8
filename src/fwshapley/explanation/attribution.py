"""An explanation: values of an input's players, with everything needed to interpret them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from jaxtyping import Float, Float64, Int
from numpy import ndarray

from fwshapley._internal.arrays import Device, Tensor, is_tensor, to_numpy
from fwshapley._internal.checks import Array
from fwshapley._internal.safetensors_file import Bundle
from fwshapley.explanation.pictures.attribution_plots import AttributionPlots
from fwshapley.players import Players
from fwshapley.semivalues import SEMIVALUES, Semivalue, Total

if TYPE_CHECKING:
    import pandas as pd


DONE = {"refinement": "refined", "sampling": "sampled"}
"""What was done with the calls of an input."""


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
class Attribution(AttributionPlots):
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
        provenance: how the values were computed. For a learned explainer, "method" is "network", "refinement" or
            "sampling", "calls_per_input" the number of calls of the last two, and "relative_error" what was measured
            for this method on held-out inputs.
        stderr: standard errors of the values, if they were sampled.
        expected_error: (batch, outputs), or (weights, batch, outputs): the expected root mean square error over
            players, if the explainer was calibrated.
        predictions: (batch, outputs), what the model itself predicts, on the scale of the values, if a surrogate was
            explained and the model was asked: for tables unless the explainer was loaded without it, for images with
            outputs="predicted".
        encodings: what the numbers of a table's columns stand for, by number of the column as text: names of the
            categories 0, 1, ..., or "date" for days since 1970. Other columns are not in it.

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
    predictions: Float[Tensor, "batch outputs"] | None = None
    encodings: Mapping[str, Any] = field(default_factory=dict)
    kind: ClassVar[str] = "attribution"
    per_weighting: ClassVar[tuple[str, ...]] = ("values", "stderr", "expected_error")

    def __len__(self) -> int:
        return len(self.inputs)

    def __str__(self) -> str:
        names = ", ".join(map(str, self.weightings))
        plural = "" if len(self) == 1 else "s"
        text = f"{self.total} {names} values of {self.players.n_players} players for {len(self)} input{plural}"
        text += self._by_which_method()
        errors = {"standard error": self.stderr, "expected error": self.expected_error}
        sizes = [f"{name} {_root_mean_square(error):.2g}" for name, error in errors.items() if error is not None]
        return f"{text}: {', '.join(sizes)} (root mean square)" if sizes else text

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

    def _by_which_method(self) -> str:
        """Return how values of a learned explainer were computed, in words; "" for those of other methods."""
        method = str(self.provenance.get("method"))
        error = self.provenance.get("relative_error")
        about = "" if error is None else f" (relative error {error:.2f} on held-out inputs)"
        if method == "network":
            return f", by the network{about}"
        return "" if self.n_calls is None else f", {DONE[method]} with {self.n_calls:,} calls per input{about}"

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

    def _in_rows(self, array: Array) -> Float[ndarray, " rows"]:
        """Return numbers in the order of inputs, weightings, outputs, players."""
        return self._stacked(array).astype(np.float64).transpose(1, 0, 3, 2).ravel()


def _root_mean_square(errors: Float[Tensor, ...]) -> float:
    return float(np.sqrt(np.square(to_numpy(errors).astype(np.float64)).mean()))
