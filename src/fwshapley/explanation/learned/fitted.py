"""The result of a fit: everything that explaining needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fwshapley._internal.checks import Array, check_choice, check_whole
from fwshapley._internal.version import __version__
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.default_outputs import default_outputs
from fwshapley.explanation.inputs.image_layout import BATCHES_OR_ONE
from fwshapley.explanation.inputs.input_checks import (
    Outputs,
    check_finite_inputs,
    check_finite_values,
    check_inputs,
    choose_outputs,
)
from fwshapley.explanation.inputs.input_reading import Transform, as_array, read_inputs
from fwshapley.explanation.inputs.predictions import PREDICTIONS, Predictions, predict, raw_outputs, surrogate_outputs
from fwshapley.explanation.learned.fidelity import Fidelity
from fwshapley.explanation.learned.quality import Quality
from fwshapley.explanation.learned.surrogate import Surrogate
from fwshapley.explanation.text.text_attribution import of_texts
from fwshapley.games.masked_model import LINKS, MAX_ELEMENTS, MaskedModel, PredictionGame
from fwshapley.games.scales import KINDS
from fwshapley.objectives import Kernel, Objective, shift_to_total
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue, Shapley, Total, check_weights
from fwshapley.superpixels import FindPlayers, find_players
from fwshapley.tables.network_encoding import TableSchema
from fwshapley.tables.unusable_entries import UnusableEntry
from fwshapley.text_players import OWNERS, PADDING, TextPlayers
from fwshapley.training.budget import History

MAX_BATCH = 256
"""Inputs that are explained at once."""


class ExplainedBatch(NamedTuple):
    """Values of a batch of inputs.

    Attributes:
        values: under each weighting.
        outputs: numbers of the explained outputs.
        predictions: what the model predicts for them; None if it was not asked.
    """

    values: Float[Tensor, "weights batch players outputs"]
    outputs: Int[Tensor, "batch outputs"]
    predictions: Float[Tensor, "batch outputs"] | None


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of `FeatureExplainer.fit`, stored as `explainer.fitted_`.

    Attributes:
        players: of the game.
        masked_model: values of coalitions of any inputs.
        network: the explaining network, from inputs to (batch, players, channels).
        objective: turns the network's output into values.
        base_values: value of the empty coalition, for each output.
        output_names: one per output.
        model: a frozen copy of the model; None if the explainer was loaded without it.
        schema: of the table that is explained; None for images and other tensors.
        input_shape: of one input.
        seed: of the fit.
        histories: of training, by part: "surrogate", "explainer", "student".
        fidelity: of the surrogate; None if it was not trained by `fit`.
        transform: makes tensors of pictures; None if there is none.
        quality: how good the network's values are; None if that was not measured.
        compiled_values: `values`, compiled; None if it was not compiled.
    """

    players: Players
    masked_model: MaskedModel
    network: nn.Module
    objective: Objective
    base_values: Float[Tensor, " outputs"]
    output_names: tuple[str, ...]
    model: nn.Module | None
    schema: TableSchema | None
    input_shape: tuple[int, ...]
    seed: int
    histories: Mapping[str, History]
    fidelity: Fidelity | None
    transform: Transform | None = None
    quality: Quality | None = None
    compiled_values: Callable[[Tensor, Tensor], Tensor] | None = None
    _empty_texts: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False)

    @property
    def device(self) -> torch.device:
        """Where everything is computed."""
        return self.masked_model.device

    def values(
        self, x: Float[Tensor, "batch ..."], mixtures: Float[Tensor, "weights maps"]
    ) -> Float[Tensor, "weights batch players outputs"]:
        """Values under the weightings of `objective.mixtures`, in single precision after the network."""
        outputs = self.network(x).float()
        with torch.autocast(x.device.type, enabled=False):
            return self.objective.contract(outputs, mixtures)

    @cached_property  # or an explanation would spend a good part of a millisecond on it
    def provenance(self) -> dict[str, Any]:
        """How the fit was made and how good it is, JSON-compatible."""
        return {
            "fwshapley": __version__,
            "torch": torch.__version__,
            "output": self.masked_model.output,
            "objective": type(self.objective).__name__.lower(),
            "seed": self.seed,
            "training": {
                name: {"steps": history.steps, "seconds": round(history.seconds, 2), "stopped": history.stopped}
                for name, history in self.histories.items()
            },
            "fidelity": None if self.fidelity is None else asdict(self.fidelity),
            "quality": None if self.quality is None else self.quality.facts(),
        }

    def expected_error(self, weightings: Sequence[Semivalue]) -> float | None:
        """Return the network's relative error on held-out inputs for the worst of several weightings; None if unknown.

        A weighting that was not measured counts as the measured one that is nearest.
        """
        if self.quality is None:
            return None
        error = self.quality.worst_error("network", weightings, self.players.n_players)
        return error if math.isfinite(error) else None

    def explain(
        self,
        x: Array,
        weights: Semivalue | Sequence[Semivalue] | None,
        outputs: Outputs,
        total: Total | Literal["auto"],
        batch_size: int | Literal["auto"],
    ) -> Attribution:
        """Explain inputs in batches, as `FeatureExplainer.explain` does."""
        inputs = self.check_inputs(x, finite=False)
        on_cpu = inputs.device.type == "cpu"
        if on_cpu:
            check_finite_inputs(inputs, self.schema)
        weightings = self.check_weights(weights)
        total = self.check_total(total)
        if isinstance(outputs, str) and outputs == "auto":
            are_classes = KINDS[self.masked_model.output] == "classes"
            outputs = default_outputs(len(self.output_names), are_classes=are_classes)
        numbers = choose_outputs(outputs, len(inputs), self.output_names, self.masked_model.output)
        all_outputs = isinstance(outputs, str) and outputs == "all"
        most = min(MAX_BATCH, max(1, MAX_ELEMENTS // inputs[:1].numel()))
        batches = inputs.split(most if batch_size == "auto" else check_whole("batch_size", batch_size))
        chosen = [None] * len(batches) if numbers is None else numbers.split(len(batches[0]))
        parts = [
            self._explain_batch(batch.to(self.device), weightings, some, total, all_outputs=all_outputs)
            for batch, some in zip(batches, chosen, strict=True)
        ]
        if not on_cpu:  # last, since it waits for the GPU
            check_finite_inputs(inputs, self.schema)
        base_values = self.empty_values(inputs)
        values = parts[0].values if len(parts) == 1 else torch.cat([part.values for part in parts], 1)
        explained = parts[0].outputs if len(parts) == 1 else torch.cat([part.outputs for part in parts])
        predictions = [part.predictions for part in parts if part.predictions is not None]
        check_finite_values(values, inputs)
        is_list = isinstance(weights, list | tuple)
        attribution = Attribution(
            values=values if is_list else values[0],
            base_values=base_values if all_outputs else base_values.gather(1, explained),
            outputs=explained,
            inputs=inputs,
            weights=weightings if is_list else weightings[0],
            total=total,
            players=self.players,
            output_names=self.output_names,
            provenance=self.provenance | {"method": "network", "relative_error": self.expected_error(weightings)},
            predictions=torch.cat(predictions) if predictions else None,
            encodings={} if self.schema is None else self.schema.encodings,
        )
        return of_texts(attribution, x, self.players) if isinstance(self.players, TextPlayers) else attribution

    def empty_values(self, inputs: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
        """Value of the empty coalition of each input: the same for all, or for all texts with as many tokens."""
        if not self.players.varies:
            return self.base_values.expand(len(inputs), -1)
        lengths = (inputs[:, OWNERS] != PADDING).sum(1).tolist()
        first = {length: row for row, length in enumerate(lengths) if length not in self._empty_texts}
        if first:
            some = inputs[list(first.values())].to(self.device)
            self._empty_texts.update(zip(first, self.masked_model.empty_values(some), strict=True))
        return torch.stack([self._empty_texts[length] for length in lengths])

    def _explain_batch(
        self,
        x: Float[Tensor, "batch ..."],
        weights: Sequence[Semivalue],
        outputs: Int[Tensor, "batch outputs"] | None,
        total: Total,
        *,
        all_outputs: bool,
    ) -> ExplainedBatch:
        """Explain a batch; the outputs None are those that the model predicts."""
        mixtures = self.objective.mixtures(weights, x.device)
        on_gpu = self.device.type == "cuda"
        with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16, enabled=on_gpu):
            values = (self.compiled_values or self.values)(x, mixtures)
        if self.compiled_values is not None:
            values = values.clone()  # the next compiled call overwrites its output
        if total == "efficient":
            gain = self.masked_model.full_values(x) - self.empty_values(x)
            members = self.masked_model.members(x) if self.players.varies else None
            values = shift_to_total(values, gain.expand(len(weights), -1, -1), members)
        predictions = None
        if outputs is None or (self.model is not None and self.schema is not None):
            raw = raw_outputs(self.require_model(), x)
            predictions = LINKS[self.masked_model.output](raw)
            outputs = raw.argmax(1, keepdim=True) if outputs is None else outputs
        outputs = outputs.to(self.device, non_blocking=True)
        if not all_outputs:
            values = values.gather(-1, outputs[None, :, None].expand(*values.shape[:3], -1))
            predictions = None if predictions is None else predictions.gather(1, outputs)
        return ExplainedBatch(values, outputs, predictions)

    def predictions(self, x: Array) -> Predictions:
        """Return what the model and the surrogate predict from complete inputs."""
        inputs = self.check_inputs(x).to(self.device)
        output = self.masked_model.output
        full = torch.ones(len(inputs), self.players.n_players, dtype=torch.bool, device=self.device)
        of_surrogate = PREDICTIONS[KINDS[output]](surrogate_outputs(self.masked_model.surrogate, inputs, full))
        of_model = None if self.model is None else predict(self.model, inputs, output).to(of_surrogate)
        return Predictions(of_model, of_surrogate, KINDS[output])

    def game(self, x: Array | pd.Series, players: Players | FindPlayers | None = None) -> PredictionGame:
        """Return the game of one input, as `FeatureExplainer.game` does."""
        if isinstance(x, pd.Series):
            x = x.to_frame().T
        elif self.schema is not None and not hasattr(x, "columns"):
            x = as_array(x, "inputs")
            x = x[None] if len(getattr(x, "shape", ())) == len(self.input_shape) else x
        inputs = self.check_inputs(x)
        if len(inputs) != 1:
            raise ValueError(f"inputs must be one input, got {len(inputs)}; each has a game of its own")
        if players is None:
            [(_, game)] = self.masked_model.by_count(inputs.to(self.device))
            return PredictionGame(game, inputs.to(self.device))
        surrogate = self.masked_model.surrogate
        if not isinstance(surrogate, Surrogate) or not self.players.is_image:
            raise ValueError("players are for explainers of images; those of a table are the ones of its surrogate")
        found = find_players(players, inputs)
        masked = replace(self.masked_model, surrogate=surrogate.with_players(found), n_players=found.n_players)
        return PredictionGame(masked, inputs.to(self.device))

    def check_same_players(self, what: str) -> None:
        """Raise a ValueError if inputs differ in their number of players.

        Args:
            what: needs the same players in every input.
        """
        if self.players.varies:
            raise ValueError(f"{what} needs the same players in every input, and texts differ in theirs")

    def require_model(self) -> nn.Module:
        """Return the model, or raise a RuntimeError if the explainer was loaded without it."""
        if self.model is None:
            raise RuntimeError("this explainer was loaded without its model: pass model=... to load")
        return self.model

    def check_inputs(self, x: Array, name: str = "inputs", *, finite: bool = True) -> Float[Tensor, "batch ..."]:
        """Return inputs as a tensor, or raise an error unless they have the shape of those of the fit."""
        read = read_inputs(
            x,
            name,
            players=self.players,
            channels=self.input_shape[0],
            forms=BATCHES_OR_ONE,
            transform=self.transform,
        )
        inputs = check_inputs(read.x, name, self.schema, finite=finite)
        self.players.check(inputs)
        if not self.players.varies and tuple(inputs.shape[1:]) != self.input_shape:
            expected = ", ".join(map(str, self.input_shape))
            raise ValueError(f"{name} must have shape (batch, {expected}) as in fit, got {tuple(inputs.shape)}")
        return inputs

    def find_unusable(self, x: Array) -> list[UnusableEntry]:
        """Return the entries that `check_inputs` refuses, as `FeatureExplainer.find_unusable` does."""
        if self.schema is not None:
            return self.schema.find_unusable(as_array(x, "inputs"))
        inputs = self.check_inputs(x, finite=False)
        rows = (~inputs.isfinite()).flatten(1).any(1).nonzero()[:, 0].tolist()
        return [UnusableEntry(row, "", math.nan, "contains NaN or infinite values") for row in rows]

    def check_weights(self, weights: Semivalue | Sequence[Semivalue] | None) -> list[Semivalue]:
        """Return weightings as a list; None is Shapley, or the one that the objective learned."""
        if weights is None and isinstance(self.objective, Kernel):
            return [self.objective.weights]
        return check_weights(weights)

    def check_total(self, total: Total | Literal["auto"]) -> Total:
        """Return "raw" or "efficient": "auto" is raw, unless the objective learns efficient values only."""
        check_choice("total", total, ("auto", *get_args(Total)))
        if not isinstance(self.objective, Kernel):
            return "raw" if total == "auto" else total
        if total == "raw" and self.objective.weights != Shapley():
            raise ValueError(
                "total='raw' needs objective='multilinear'; the kernel objective learns values up to a common shift, "
                "so pass total='efficient'"
            )
        return "efficient"
