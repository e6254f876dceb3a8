"""The two parts of a fit: teach a surrogate to accept masked inputs, then a network to explain it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fwshapley.games.masking import MaskedModel, Output
from fwshapley.networks.encoder import ImageNetwork
from fwshapley.networks.mlp import TableNetwork
from fwshapley.networks.unet import UNet
from fwshapley.objective import Objective
from fwshapley.players import Players
from fwshapley.surrogate import (
    Augment,
    Fidelity,
    Removal,
    Surrogate,
    TableSurrogate,
    make_surrogate,
    measure_fidelity,
    predict,
    take,
    train_surrogate,
)
from fwshapley.training import Batch, Budget, History, Recipe, Shard, own_randomness, train

NetworkName = Literal["auto", "unet", "slim"]
MakeNetwork = Callable[[int], nn.Module]
"""Makes a network from inputs to (batch, players, channels), given the number of channels."""

UNET_WIDTHS: Mapping[NetworkName, int] = {"unet": 64, "slim": 32}
SURROGATE_SHARE = 0.3
VALIDATION_INPUTS, VALIDATION_MASKS = 512, 32


@dataclass(frozen=True)
class Plan:
    """How a fit goes: the arguments of `FeatureExplainer.fit`."""

    budget: Budget
    recipe: Recipe
    masks: int
    augment: Augment | None
    checkpoints: Path | None
    resume: bool
    progress: bool

    def with_share(self, share: float) -> Plan:
        """Return the plan of a part that may spend a share of the budget."""
        return replace(self, budget=self.budget.part(share))

    def start_anew(self) -> None:
        """Remove what an earlier run left, unless it is to be resumed."""
        for path in () if self.resume else (self.checkpoint("surrogate"), self.checkpoint("explainer")):
            if path is not None:
                path.unlink(missing_ok=True)

    def checkpoint(self, name: str) -> Path | None:
        """File of a part."""
        return None if self.checkpoints is None else self.checkpoints / f"{name}.safetensors"


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves behind.

    Attributes:
        masked: the game that is explained.
        network: from inputs to (batch, players, channels).
        objective: how its output is read.
        base: what nobody is worth.
    """

    masked: MaskedModel
    network: nn.Module
    objective: Objective
    base: Float[Tensor, " outputs"]


def needs_training(surrogate: nn.Module | Literal["auto"] | None) -> bool:
    """Whether a surrogate is to be trained, rather than used as it is."""
    return surrogate is not None and not isinstance(surrogate, (Surrogate, TableSurrogate))


def fit_surrogate(
    surrogate: nn.Module | Literal["auto"] | None,
    model: nn.Module,
    players: Players,
    x: Float[Tensor, "rows ..."],
    x_valid: Float[Tensor, "valid ..."],
    *,
    output: Output,
    removal: Removal,
    seed: int,
    plan: Plan,
) -> tuple[nn.Module, History | None, Fidelity | None]:
    """Return a surrogate that is ready, how it was trained, and how faithful it is.

    Args:
        surrogate: as `FeatureExplainer` takes it.
        model: a frozen copy of the model, on the device to train on.
        players: what is credited.
        x: inputs to train on.
        x_valid: inputs to validate on.
        output: what a coalition is worth.
        removal: what hidden features become.
        seed: of everything random.
        plan: budget and the like.
    """
    device = players.assignment.device
    if not needs_training(surrogate) and isinstance(surrogate, nn.Module):
        ready = copy.deepcopy(surrogate).to(device).eval().requires_grad_(requires_grad=False)
        return ready, None, None
    with own_randomness(device):
        torch.manual_seed(seed)
        network = _surrogate_network(surrogate, model, players)
        outputs = predict(model, x[:1], output).shape[1]
        if removal == "auto":  # out of range is for images, and for networks that will learn what it means
            removal = "mean" if not players.is_image else "zero" if surrogate is None else "auto"
        made = make_surrogate(network, players, x, outputs=outputs, removal=removal, classes=output != "raw")
    place(made, device, players)
    if surrogate is None:
        return made.eval(), None, None
    history = train_surrogate(
        made,
        model,
        x,
        x_valid,
        n_players=players.n_players,
        output=output,
        budget=plan.budget.part(SURROGATE_SHARE),
        seed=seed,
        recipe=Recipe(batch_size=max(256, plan.recipe.batch_size), compiled=plan.recipe.compiled),
        augment=plan.augment,
        checkpoint=plan.checkpoint("surrogate"),
        resume=plan.resume,
        identity={"output": output, "inputs": fingerprint(x), "model": fingerprint(*model.state_dict().values())},
        progress=plan.progress,
    )
    return made, history, measure_fidelity(made, model, x_valid, n_players=players.n_players, output=output, seed=seed)


def fit_network(
    network: nn.Module,
    objective: Objective,
    masked: MaskedModel,
    x: Float[Tensor, "rows ..."],
    x_valid: Float[Tensor, "valid ..."],
    *,
    seed: int,
    plan: Plan,
) -> History:
    """Train a network in place to explain a game, by an objective that was calibrated to it."""
    asked = masked
    if plan.recipe.compiled:
        asked = replace(masked, surrogate=cast("nn.Module", torch.compile(masked.surrogate)))
    fixed = torch.Generator(masked.device).manual_seed(seed)
    shared = objective.sample(masked, x_valid[:VALIDATION_INPUTS].to(masked.device), VALIDATION_MASKS, fixed, Shard())

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        inputs = take(x, batch, plan.augment)
        sample = objective.sample(asked, inputs, plan.masks, batch.generator, batch.shard)
        return objective.loss(module(sample.x).float(), sample).mean()

    def validate(module: nn.Module) -> float:
        return float(objective.loss(module(shared.x).float(), shared).mean())

    return train(
        network,
        loss,
        rows=len(x),
        recipe=plan.recipe,
        budget=plan.budget,
        seed=seed,
        device=masked.device,
        validate=validate,
        checkpoint=plan.checkpoint("explainer"),
        resume=plan.resume,
        identity={
            "masks": plan.masks,
            "output": masked.output,
            "objective": type(objective).__name__,
            "network": type(network).__name__,
            "inputs": fingerprint(x),
            "surrogate": fingerprint(*masked.surrogate.state_dict().values()),
        },
        description="training the explainer",
        progress=plan.progress,
    )


def fit_student(
    student: nn.Module,
    teacher: nn.Module,
    x: Float[Tensor, "rows ..."],
    x_valid: Float[Tensor, "valid ..."],
    *,
    device: torch.device,
    seed: int,
    plan: Plan,
) -> History:
    """Train a student in place to give the teacher's outputs, which are in units of the game."""
    shared = x_valid[:VALIDATION_INPUTS].to(device)
    with torch.no_grad():
        wanted = teacher(shared).float()

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        inputs = batch.shard.of(take(x, batch, plan.augment))
        with torch.no_grad():
            target = teacher(inputs).float()
        return functional.mse_loss(module(inputs).float(), target)

    def validate(module: nn.Module) -> float:
        return float(functional.mse_loss(module(shared).float(), wanted))

    return train(
        student,
        loss,
        rows=len(x),
        recipe=plan.recipe,
        budget=plan.budget,
        seed=seed,
        device=device,
        validate=validate,
        checkpoint=plan.checkpoint("student"),
        resume=plan.resume,
        description="distilling the explainer",
        progress=plan.progress,
    )


def fingerprint(*tensors: Tensor) -> str:
    """Tell tensors from others: their sizes and sums, to as many digits as sums on a GPU can be relied on."""
    sums = [(tensor.numel(), float(tensor.double().sum()), float(tensor.double().abs().sum())) for tensor in tensors]
    count, total, size = (sum(column) for column in zip(*sums, strict=True))
    return f"{count} numbers, sum {total / max(size, 1e-300):.4g} of {size:.5g}"


def make_network(
    kind: MakeNetwork | NetworkName,
    surrogate: nn.Module,
    players: Players,
    example: Float[Tensor, "rows ..."],
    channels: int,
    *,
    seed: int,
) -> nn.Module:
    """Return an untrained network on the device of the example: (batch, ...) to (batch, players, channels)."""
    with own_randomness(example.device):
        torch.manual_seed(seed)
        if callable(kind):
            network = kind(channels)
        elif not players.is_image:
            if kind != "auto":
                raise ValueError(f"network={kind!r} is for images; tables take 'auto' or a function that makes one")
            network = TableNetwork(example, players.n_players, channels)
        elif kind == "auto":
            network = ImageNetwork(surrogate, example[:1], players, channels)
        else:
            network = UNet(example.shape[1], players, channels, width=UNET_WIDTHS[kind])
    place(network, example.device, players)
    with torch.no_grad():
        found = tuple(network.eval()(example[:1]).shape)
    if found != (1, players.n_players, channels):
        raise ValueError(
            f"the network returned shape {found} for one input, expected (1, {players.n_players} players, "
            f"{channels} channels)"
        )
    return network


def place(module: nn.Module, device: torch.device, players: Players) -> None:
    """Move a module to a device, in place; on a GPU, convolutions are fastest with channels last in memory."""
    module.to(device)
    if players.is_image and device.type == "cuda":
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # missing from torch's stubs


def _surrogate_network(
    surrogate: nn.Module | Literal["auto"] | None, model: nn.Module, players: Players
) -> nn.Module | None:
    """Return the network inside a surrogate: the model's copy, or one that was given; None for a fresh perceptron."""
    if surrogate is None:
        return model
    if isinstance(surrogate, nn.Module):
        return copy.deepcopy(surrogate)
    return copy.deepcopy(model) if players.is_image else None
