"""Teach a model to accept masked inputs (paper, section 2.5): what remains of a prediction when features are hidden.

The surrogate matches the model's prediction for the whole input while it sees only a random coalition of it, with
sizes uniform on 0..n. Its limit is the model's mean prediction given what is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from fwshapley.checks import Array, check_choice
from fwshapley.games.masking import MOST_ELEMENTS, Output
from fwshapley.networks.mlp import MLP, Standardise
from fwshapley.players import Players
from fwshapley.sampling import draw_bernoulli, draw_trusted_bernoulli
from fwshapley.training import Batch, Budget, History, Recipe, train

Removal = Literal["auto", "zero", "mean"] | Tensor
"""What takes the place of hidden features: a rule, one input (a baseline), or several (background data)."""

PLAUSIBLE_ZEROS = 0.01
PREDICTION_ROWS = 2048
SURROGATE_BATCH = 256
DECILES = 10

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""Changes a batch of inputs at random, e.g. flips images; what comes out are inputs like any other."""


class Surrogate(nn.Module):
    """A network on inputs of which only a coalition is shown; the rest is filled.

    Args:
        network: what sees the filled input.
        players: which part belongs to whom.
        fill: what hidden positions become, (fills, ...) broadcast against inputs. With several (background data), the
            prediction is their mean: of class probabilities, or of raw outputs.
        tell_mask: whether the network also gets the mask, as a last channel of an image.
        classes: whether outputs are logits of classes.
    """

    fill: Tensor

    def __init__(
        self, network: nn.Module, players: Players, fill: Tensor, *, tell_mask: bool = False, classes: bool = True
    ) -> None:
        super().__init__()
        self.network, self.players, self.tell_mask, self.classes = network, players, tell_mask, classes
        self.register_buffer("fill", fill)

    def forward(
        self, x: Float[Tensor, "batch ..."], coalitions: Bool[Tensor, "batch players"]
    ) -> Float[Tensor, "batch outputs"]:
        """Network outputs: logits or raw values."""
        mask = self.players.spread(coalitions)
        answers = [self._answer(x, mask, fill) for fill in self.fill.to(x.dtype)]
        if len(answers) == 1:
            return answers[0]
        every = torch.stack(answers).float()
        return every.log_softmax(-1).logsumexp(0) if self.classes else every.mean(0)

    def _answer(self, x: Tensor, mask: Tensor, fill: Tensor) -> Tensor:
        shown = torch.where(mask, x, fill)
        if self.tell_mask:
            shown = torch.cat([shown, mask.to(x.dtype)], 1)
        return as_columns(self.network(shown))


class TableSurrogate(nn.Module):
    """A fresh perceptron on standardised [x * s, s]."""

    def __init__(self, x: Float[Tensor, "rows columns"], players: Players, outputs: int) -> None:
        super().__init__()
        self.players = players
        self.standardise = Standardise(x)
        self.network = MLP(x.shape[1] + players.n_players, outputs)

    def forward(
        self, x: Float[Tensor, "batch columns"], coalitions: Bool[Tensor, "batch players"]
    ) -> Float[Tensor, "batch outputs"]:
        """Network outputs: logits or raw values."""
        shown = self.standardise(x) * self.players.spread(coalitions)
        out: Tensor = self.network(torch.cat([shown, coalitions.to(x.dtype)], 1))
        return out


def make_surrogate(
    network: nn.Module | None, players: Players, x: Tensor, *, outputs: int, removal: Removal, classes: bool
) -> nn.Module:
    """Return a surrogate, untrained: the network on filled inputs, or without one a fresh perceptron for tables.

    removal="auto" hides pixels as zero, unless zero is a plausible value (more than 1 % of the data, as the background
    of digits is): then as a value that no pixel has, half the range below the smallest.
    """
    if network is None:
        return TableSurrogate(x, players, outputs)
    return Surrogate(network, players, make_fill(removal, x), classes=classes)


def check_removal(removal: Literal["auto", "zero", "mean"] | Array) -> Removal:
    """Return removal as a rule or a tensor."""
    if not isinstance(removal, str):
        filled = torch.as_tensor(removal)
        if not bool(filled.isfinite().all()):
            raise ValueError("removal holds NaN or infinite values; mend them first")
        return filled
    check_choice("removal", removal, ("auto", "zero", "mean"))
    return cast("Removal", removal)


def make_fill(removal: Removal, x: Float[Tensor, "rows ..."]) -> Float[Tensor, "fills ..."]:
    """Return what hidden positions become."""
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
        return x.mean(0, keepdim=True)
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
) -> History:
    """Train in place: KL divergence from the model's classes, or squared error for raw outputs.

    Model and surrogate are on the device to train on; inputs may be elsewhere and go there batch by batch.
    """
    device = device_of(surrogate)
    surrogate.requires_grad_(requires_grad=True)
    targets = None if augment else predict(model, x, output).to(device)
    x_valid = x_valid.to(device)
    valid_targets = predict(model, x_valid, output).to(device)
    valid_coalitions = _draw_any_size(len(x_valid), n_players, torch.Generator(device).manual_seed(seed))

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        coalitions = batch.shard.of(_draw_any_size(len(batch.rows), n_players, batch.generator))
        inputs = batch.shard.of(take(x, batch, augment))
        rows = batch.shard.of(batch.rows).to(device, non_blocking=True)
        known = predict(model, inputs, output).to(device) if targets is None else targets[rows]
        return divergence(module(inputs, coalitions), known, output).mean()

    def validate(module: nn.Module) -> float:
        out = answer(module, x_valid, valid_coalitions)
        return float(divergence(out, valid_targets, output).mean())

    history = train(
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
        identity=identity,
        description="training the surrogate",
        progress=progress,
    )
    surrogate.requires_grad_(requires_grad=False)
    return history


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
    """KL divergence of class probabilities from logits, or squared error of raw outputs, row by row."""
    if output == "raw":
        return (out.float() - target).square().sum(1)
    return functional.kl_div(out.float().log_softmax(1), target, reduction="none").sum(1)


def predict(model: nn.Module, x: Float[Tensor, "rows ..."], output: Output) -> Float[Tensor, "rows outputs"]:
    """What a model itself says of whole inputs: class probabilities, or its raw outputs."""
    device, modes = device_of(model), {module: module.training for module in model.modules()}
    model.eval()
    with torch.no_grad():
        out = torch.cat([as_columns(model(rows.to(device))).float() for rows in in_chunks(x)])
    for module, mode in modes.items():
        module.training = mode
    return out if output == "raw" else out.softmax(1)


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
        agreement: share of inputs whose most likely class it gets right when all is shown; None for raw outputs.
        prior_distance: largest difference between what it says of nobody and the model's mean prediction.
    """

    divergence: tuple[float, ...]
    agreement: float | None
    prior_distance: float

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Fidelity:
        """Return what was saved as JSON."""
        return cls(**{**facts, "divergence": tuple(facts["divergence"])})


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
    prior = nobody if output == "raw" else nobody.softmax(1)
    return Fidelity(
        divergence=tuple(deciles),
        agreement=None if output == "raw" else float((whole.argmax(1) == target.argmax(1)).double().mean()),
        prior_distance=float((prior[0] - target.mean(0)).abs().max()),
    )


def _draw_any_size(count: int, n: int, generator: torch.Generator) -> Bool[Tensor, "{count} {n}"]:
    """Coalitions whose sizes are uniform on 0..n: every player is in with the same, uniform probability."""
    return draw_trusted_bernoulli(torch.rand(count, generator=generator, device=generator.device), n, generator)
