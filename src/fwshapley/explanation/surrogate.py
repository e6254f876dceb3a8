"""Teach a model to accept masked inputs (paper, section 2.5): what remains of a prediction when features are hidden.

The surrogate matches the model's prediction for the whole input while it sees only a random coalition of it, with
sizes uniform on 0..n. Its limit is the model's mean prediction given what is seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from fwshapley._internal.checks import Array, check_choice
from fwshapley._internal.files import check_checkpoint
from fwshapley._internal.tensors import as_tensor
from fwshapley.coalitions import draw_bernoulli, draw_trusted_bernoulli
from fwshapley.explanation.black_box import BlackBox
from fwshapley.games.masked_model import KINDS, MOST_ELEMENTS, Kind, Output
from fwshapley.networks.mlp import MLP, ColumnKinds, Coordinates, Rescale, spread_of
from fwshapley.players import Players
from fwshapley.training.budget import Batch, Budget, History, Recipe
from fwshapley.training.loop import train

Removal = Literal["auto", "zero", "mean"] | Tensor | pd.DataFrame
"""What takes the place of hidden features: a rule, one input (a baseline), or several (background data)."""

PLAUSIBLE_ZEROS = 0.01
PREDICTION_ROWS = 2048
SURROGATE_BATCH = 256
DECILES = 10
POOR_AGREEMENT = 0.8

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""Changes a batch of inputs at random, e.g. flips images; what comes out are inputs like any other."""


class Surrogate(nn.Module):
    """A network on inputs of which only a coalition is shown; the rest is filled.

    Args:
        network: what sees the filled input.
        players: which part belongs to whom.
        fill: what hidden positions become, (fills, ...) broadcast against inputs. With several (background data), the
            prediction is their mean: of probabilities, or of values.
        tell_mask: whether the network also gets the mask, as a last channel of an image.
        kind: what the network's outputs are: logits of "classes" or "labels", or "values".
    """

    fill: Tensor

    def __init__(
        self, network: nn.Module, players: Players, fill: Tensor, *, tell_mask: bool = False, kind: Kind = "classes"
    ) -> None:
        super().__init__()
        self.network, self.players, self.tell_mask, self.kind = network, players, tell_mask, kind
        self.register_buffer("fill", fill)

    def forward(
        self, x: Float[Tensor, "batch ..."], coalitions: Bool[Tensor, "batch players"]
    ) -> Float[Tensor, "batch outputs"]:
        """Network outputs: logits or raw values."""
        mask = self.players.spread(coalitions)
        answers = [self._answer(x, mask, fill) for fill in self.fill.to(x.dtype)]
        if len(answers) == 1:
            return answers[0]
        return MEANS[self.kind](torch.stack(answers).float())

    def _answer(self, x: Tensor, mask: Tensor, fill: Tensor) -> Tensor:
        shown = torch.where(mask, x, fill)
        if self.tell_mask:
            shown = torch.cat([shown, mask.to(x.dtype)], 1)
        return as_columns(self.network(shown if isinstance(self.network, BlackBox) else shown.float()))


class TableSurrogate(nn.Module):
    """A fresh perceptron on [coordinates * s, s].

    Args:
        x: rows to take the scales of the columns from.
        players: which columns belong to whom.
        outputs: number of outputs.
        kinds: what the columns hold.
        targets: outputs to take their units from.
    """

    def __init__(
        self,
        x: Float[Tensor, "rows columns"],
        players: Players,
        outputs: int,
        *,
        kinds: ColumnKinds = ColumnKinds(),  # noqa: B008 - immutable
        targets: Float[Tensor, "rows outputs"] | None = None,
    ) -> None:
        super().__init__()
        self.players = players
        self.coordinates = Coordinates(x, kinds)
        self.network = MLP(self.coordinates.count + players.n_players, outputs)
        self.rescale = Rescale(outputs, targets)

    def forward(
        self, x: Float[Tensor, "batch columns"], coalitions: Bool[Tensor, "batch players"]
    ) -> Float[Tensor, "batch outputs"]:
        """Network outputs: logits or values."""
        mask = self.players.spread(coalitions)[:, self.coordinates.owner]
        shown = self.coordinates(x) * mask
        out: Tensor = self.rescale(self.network(torch.cat([shown, coalitions.to(shown.dtype)], 1)))
        return out


def check_removal(removal: Literal["auto", "zero", "mean"] | Array) -> Removal:
    """Return removal as a rule, a tensor or a DataFrame."""
    if isinstance(removal, pd.DataFrame):
        return removal
    if not isinstance(removal, str):
        filled = as_tensor(removal)
        if not bool(filled.isfinite().all()):
            raise ValueError("removal holds NaN or infinite values; mend them first")
        return filled
    check_choice("removal", removal, ("auto", "zero", "mean"))
    return cast("Removal", removal)


def make_fill(
    removal: Literal["auto", "zero", "mean"] | Tensor, x: Float[Tensor, "rows ..."]
) -> Float[Tensor, "fills ..."]:
    """Return what hidden positions become.

    removal="auto" hides pixels as zero, unless zero is a plausible value (more than 1 % of the data, as the background
    of digits is): then as a value that no pixel has, half the range below the smallest.
    """
    if isinstance(removal, Tensor):
        fill = removal.to(x.device, x.dtype)
        fill = fill if fill.ndim == x.ndim else fill[None]
        if fill.shape[1:] != x.shape[1:] or not len(fill):
            raise ValueError(
                f"removal must be a baseline {tuple(x.shape[1:])} or background data (rows, *{tuple(x.shape[1:])}), "
                f"got {tuple(removal.shape)}"
            )
        return fill
    if removal == "mean":
        return x.nanmean(0, keepdim=True)
    low, high = x.aminmax()
    plausible = removal == "auto" and float((x == 0).float().mean()) > PLAUSIBLE_ZEROS
    return torch.full((1,) * x.ndim, float(low - (high - low) / 2) if plausible else 0.0, device=x.device)


def train_surrogate(
    surrogate: nn.Module,
    model: nn.Module,
    x: Float[Tensor, "rows ..."],
    x_valid: Float[Tensor, "valid ..."],
    *,
    n_players: int,
    output: Output,
    budget: Budget,
    seed: int,
    recipe: Recipe | None = None,
    augment: Augment | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    identity: Mapping[str, Any] | None = None,
    progress: bool = True,
    began: float | None = None,
) -> History:
    """Train in place: KL divergence from the model's classes or labels, or squared error of values, in their units.

    Model and surrogate are on the device to train on; inputs may be elsewhere and go there batch by batch. A budget in
    seconds counts from the call on, or from `began` by `time.monotonic`.
    """
    began = time.monotonic() if began is None else began
    check_checkpoint(checkpoint)
    device = device_of(surrogate)
    targets = None if augment else predict(model, x, output).to(device)
    x_valid = x_valid.to(device)
    valid_targets = predict(model, x_valid, output).to(device)
    unit = spread_of(valid_targets) if KINDS[output] == "values" else torch.ones((), device=device)
    valid_coalitions = _draw_any_size(len(x_valid), n_players, torch.Generator(device).manual_seed(seed))

    surrogate.requires_grad_(requires_grad=True)

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        coalitions = batch.shard.of(_draw_any_size(len(batch.rows), n_players, batch.generator))
        inputs = batch.shard.of(take(x, batch, augment))
        rows = batch.shard.of(batch.rows).to(device, non_blocking=True)
        known = predict(model, inputs, output).to(device) if targets is None else targets[rows]
        return divergence(module(inputs, coalitions) / unit, known / unit, output).mean()

    def validate(module: nn.Module) -> float:
        out = answer(module, x_valid, valid_coalitions)
        return float(divergence(out / unit, valid_targets / unit, output).mean())

    try:
        return train(
            surrogate,
            loss,
            rows=len(x),
            recipe=recipe or Recipe(batch_size=SURROGATE_BATCH),
            budget=budget,
            seed=seed,
            device=device,
            validate=validate,
            checkpoint=checkpoint,
            resume=resume,
            began=began,
            identity=identity,
            description="training the surrogate",
            progress=progress,
        )
    finally:
        surrogate.requires_grad_(requires_grad=False)


def take(x: Float[Tensor, "rows ..."], batch: Batch, augment: Augment | None) -> Float[Tensor, "batch ..."]:
    """Inputs of a batch, on the device where it is needed, changed at random if asked for."""
    device = batch.generator.device
    inputs = x[batch.rows.to(x.device, non_blocking=True)].to(device, non_blocking=True)
    return inputs if augment is None else augment(inputs, batch.generator)


def device_of(module: nn.Module) -> torch.device:
    """Where the parameters of a module are, or its buffers; one that has neither is asked on the CPU."""
    return next((each.device for each in chain(module.parameters(), module.buffers())), torch.device("cpu"))


def divergence(
    out: Float[Tensor, "rows outputs"], target: Float[Tensor, "rows outputs"], output: Output
) -> Float[Tensor, " rows"]:
    """KL divergence of the target's probabilities from logits, or squared error of values, row by row."""
    out, kind = out.float(), KINDS[output]
    if kind == "values":
        return (out - target).square().sum(1)
    if kind == "classes":
        return functional.kl_div(out.log_softmax(1), target, reduction="none").sum(1)
    yes = functional.kl_div(functional.logsigmoid(out), target, reduction="none")
    return (yes + functional.kl_div(functional.logsigmoid(-out), 1 - target, reduction="none")).sum(1)


def predict(model: nn.Module, x: Float[Tensor, "rows ..."], output: Output) -> Float[Tensor, "rows outputs"]:
    """What a model itself says of whole inputs: probabilities of classes or labels, or its raw outputs."""
    with _evaluated(model), torch.no_grad():
        out = torch.cat([as_columns(model(rows.to(device_of(model)))).float() for rows in in_chunks(x)])
    return PREDICTIONS[KINDS[output]](out)


@contextmanager
def _evaluated(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode for a while; nothing is set on one that is, which threads may share."""
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def answer(surrogate: nn.Module, x: Tensor, coalitions: Tensor) -> Float[Tensor, "rows outputs"]:
    """What a surrogate says of one coalition of each input, in chunks."""
    with torch.no_grad():
        chunks = zip(in_chunks(x), coalitions.split(len(in_chunks(x)[0])), strict=True)
        return torch.cat([surrogate(rows, shown).float() for rows, shown in chunks])


def in_chunks(x: Float[Tensor, "rows ..."]) -> tuple[Float[Tensor, "chunk ..."], ...]:
    """Inputs in chunks that a network takes at once."""
    return x.split(max(1, min(PREDICTION_ROWS, MOST_ELEMENTS // x[0].numel())))


def as_columns(out: Tensor) -> Float[Tensor, "rows outputs"]:
    """Outputs as (rows, outputs), also of a model that returns (rows,)."""
    return out[:, None] if out.ndim == 1 else out


@dataclass(frozen=True)
class Fidelity:
    """How well a surrogate stands in for its model, on inputs neither was trained on.

    Attributes:
        divergence: KL divergence from the model (squared error for raw outputs), by decile of coalition size.
        agreement: share of inputs whose most likely class it gets right when all is shown, or share of labels; None for
            raw outputs.
        prior_distance: largest difference between what it says of nobody and the model's mean prediction.
        explained: share of the variance of the model's outputs that it explains when all is shown, the least over
            outputs; None unless outputs are raw.
    """

    divergence: tuple[float, ...]
    agreement: float | None
    prior_distance: float
    explained: float | None = None

    @property
    def is_poor(self) -> bool:
        """Whether it stands in for another model rather than this one, even when all is shown."""
        return (1.0 if self.agreement is None else self.agreement) < POOR_AGREEMENT or (
            1.0 if self.explained is None else self.explained
        ) < POOR_AGREEMENT

    def __str__(self) -> str:
        alike = f"decides as the model does on {self.agreement or 0:.1%} of inputs shown whole"
        if self.agreement is None:
            alike = f"explains {self.explained or 0:.1%} of the model's variance on inputs shown whole"
        return (
            f"the surrogate {alike}; its divergence from the model is {self.divergence[0]:.2g} where less than a tenth "
            f"of the players is shown, {self.divergence[-1]:.2g} where nearly all are"
        )

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Fidelity:
        """Return what was saved as JSON."""
        return cls(**{**facts, "divergence": tuple(facts["divergence"])})


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model and its surrogate say of inputs shown whole: probabilities of classes or labels, or raw values.

    Attributes:
        model: what the model says; None where it is not at hand.
        surrogate: what the surrogate says, which is what gets explained.
        kind: what is predicted.
    """

    model: Float[Tensor, "inputs outputs"] | None
    surrogate: Float[Tensor, "inputs outputs"]
    kind: Kind

    @property
    def differ(self) -> Bool[Tensor, " inputs"] | None:
        """Inputs that the surrogate decides otherwise than the model; None for raw values, or without the model."""
        if self.model is None or self.kind == "values":
            return None
        return ~_decided_alike(self.surrogate, self.model, self.kind).all(1)

    def to(self, device: torch.device | str) -> Predictions:
        """Return them on a device."""
        return Predictions(None if self.model is None else self.model.to(device), self.surrogate.to(device), self.kind)

    def __str__(self) -> str:
        count, differ = len(self.surrogate), self.differ
        if differ is None:
            return f"predictions of {count:,} inputs"
        return f"the surrogate decides otherwise than the model on {int(differ.sum()):,} of {count:,} inputs"


def measure_fidelity(
    surrogate: nn.Module, model: nn.Module, x: Float[Tensor, "rows ..."], *, n_players: int, output: Output, seed: int
) -> Fidelity:
    """Measure on held-out inputs, one coalition per input and decile."""
    x = x.to(device_of(surrogate))
    rows, generator = len(x), torch.Generator(x.device).manual_seed(seed)
    target = predict(model, x, output).to(x.device)
    deciles = []
    for decile in range(DECILES):
        share = (decile + torch.rand(rows, generator=generator, device=x.device)) / DECILES
        out = answer(surrogate, x, draw_bernoulli(share, n_players, generator))
        deciles.append(float(divergence(out, target, output).mean()))
    everyone = torch.ones(rows, n_players, dtype=torch.bool, device=x.device)
    whole, nobody = answer(surrogate, x, everyone), answer(surrogate, x[:1], ~everyone[:1])
    said, prior = (PREDICTIONS[KINDS[output]](out) for out in (whole, nobody))
    return Fidelity(
        divergence=tuple(deciles),
        agreement=_share_decided_alike(said, target, KINDS[output]),
        prior_distance=float((prior[0] - target.mean(0)).abs().max()),
        explained=_share_explained(said, target) if KINDS[output] == "values" else None,
    )


def _share_explained(said: Float[Tensor, "rows outputs"], target: Float[Tensor, "rows outputs"]) -> float:
    """Least share of variance over outputs that vary; 1 if none does."""
    spread = (target - target.mean(0)).square().mean(0)
    missed = (said - target).square().mean(0)
    return float((1 - missed / spread)[spread > 0].min()) if bool((spread > 0).any()) else 1.0


def _share_decided_alike(said: Tensor, target: Tensor, kind: Kind) -> float | None:
    if kind == "values":
        return None
    return float(_decided_alike(said, target, kind).double().mean())


def _decided_alike(said: Tensor, target: Tensor, kind: Literal["classes", "labels"]) -> Bool[Tensor, "rows decisions"]:
    """Whether the most likely class is the same, or each label."""
    if kind == "classes":
        return said.argmax(1, keepdim=True) == target.argmax(1, keepdim=True)
    return (said > 1 / 2) == (target > 1 / 2)


def _mean_of_labels(logits: Float[Tensor, "fills rows labels"]) -> Float[Tensor, "rows labels"]:
    """Log odds of the mean probability."""
    yes, no = (functional.logsigmoid(each).logsumexp(0) for each in (logits, -logits))
    return yes - no


MEANS: Mapping[Kind, Callable[[Tensor], Tensor]] = {
    "classes": lambda logits: logits.log_softmax(-1).logsumexp(0),
    "labels": _mean_of_labels,
    "values": lambda values: values.mean(0),
}

PREDICTIONS: Mapping[Kind, Callable[[Tensor], Tensor]] = {
    "classes": lambda logits: logits.softmax(1),
    "labels": torch.sigmoid,
    "values": lambda values: values,
}


def _draw_any_size(count: int, n: int, generator: torch.Generator) -> Bool[Tensor, "{count} {n}"]:
    """Coalitions whose sizes are uniform on 0..n: every player is in with the same, uniform probability."""
    return draw_trusted_bernoulli(torch.rand(count, generator=generator, device=generator.device), n, generator)
