"""The two parts of a fit: teach a surrogate to accept masked inputs, then a network to explain it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, cast, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fwshapley._internal.bundle import digest
from fwshapley._internal.checks import Array
from fwshapley._internal.files import check_checkpoint
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.black_box import BlackBox
from fwshapley.explanation.inputs import Outputs
from fwshapley.explanation.surrogate import (
    Augment,
    Fidelity,
    Surrogate,
    TableSurrogate,
    in_chunks,
    make_fill,
    measure_fidelity,
    predict,
    take,
    train_surrogate,
)
from fwshapley.games.masked_model import KINDS, MaskedModel, Output
from fwshapley.networks.cnn import SmallCNN
from fwshapley.networks.encoder import ImageNetwork
from fwshapley.networks.mlp import ColumnKinds, TableNetwork
from fwshapley.networks.unet import UNet
from fwshapley.objectives import Objective, Sample
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue
from fwshapley.tables.network_encoding import TableSchema
from fwshapley.training.budget import Batch, Budget, History, Recipe, Shard
from fwshapley.training.loop import own_randomness, train

NetworkName = Literal["auto", "unet", "slim"]
MakeNetwork = Callable[[int], nn.Module]
"""Makes a network from inputs to (batch, players, channels), given the number of channels."""

PARTS = ("surrogate", "explainer")
"""What a fit trains, one after the other; each has a checkpoint of its name."""

UNET_WIDTHS: Mapping[NetworkName, int] = {"unet": 64, "slim": 32}
SURROGATE_SHARE, SURROGATE_BATCHES = 0.3, 4
VALIDATION_INPUTS, VALIDATION_MASKS = 512, 32
UNIT_ROWS = 1024
EXPLAINED_AT_ONCE = 256


@dataclass(frozen=True)
class Plan:
    """How a fit goes: the arguments of `FeatureExplainer.fit`, and when its seconds began, by `time.monotonic`."""

    budget: Budget
    recipe: Recipe
    masks: int
    augment: Augment | None
    checkpoints: Path | None
    resume: bool
    progress: bool
    began: float = field(default_factory=time.monotonic)

    def with_last_share(self, share: float) -> Plan:
        """Return the plan of the last part, which may spend a share of the budget; the seconds before are others'."""
        before = (1 - share) * (self.budget.seconds or 0.0)
        return replace(self, budget=self.budget.part(share), began=self.began + before)

    def check_folder(self) -> None:
        """Refuse a folder that checkpoints cannot be written to, or to overwrite those of an earlier run."""
        paths = [path for path in map(self.checkpoint, PARTS) if path is not None]
        for path in paths:
            check_checkpoint(path, "checkpoint=...")
        if not self.resume and any(path.exists() for path in paths):
            raise ValueError(
                f"{self.checkpoints} holds the checkpoints of an earlier run: go on with resume=True, or name another "
                "folder"
            )

    def identify(self, **parts: Tensor | nn.Module) -> dict[str, str]:
        """Return fingerprints of what a run depends on; none where nothing is saved that might be resumed."""
        if self.checkpoints is None:
            return {}
        tensors = {
            name: part.state_dict() if isinstance(part, nn.Module) else {"": part} for name, part in parts.items()
        }
        return {name: digest(each) for name, each in tensors.items()}

    def checkpoint(self, name: str) -> Path | None:
        """File of a part."""
        return None if self.checkpoints is None else self.checkpoints / f"{name}.safetensors"


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves behind.

    Attributes:
        players: what is credited.
        masked_model: the game that is explained.
        network: from inputs to (batch, players, channels).
        objective: how its output is read.
        base_values: what nobody is worth.
        output_names: one per output.
        model: a copy of what is explained, which says what it predicts; None if it was not at hand.
        encoding: of the table that is explained; None for images.
    """

    players: Players
    masked_model: MaskedModel
    network: nn.Module
    objective: Objective
    base_values: Float[Tensor, " outputs"]
    output_names: tuple[str, ...]
    model: nn.Module | None
    encoding: TableSchema | None

    def values(
        self, x: Float[Tensor, "batch ..."], mixtures: Float[Tensor, "weights maps"]
    ) -> Float[Tensor, "weights batch players outputs"]:
        """Values under the weightings that the objective's mixtures are of, in single precision after the network."""
        out = self.network(x).float()
        with torch.autocast(x.device.type, enabled=False):
            return self.objective.contract(out, mixtures)


@runtime_checkable
class FittedExplainer(Protocol):
    """An explainer, as what builds on its answers needs it."""

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: Outputs = "all",
    ) -> Attribution:
        """Explain inputs."""
        ...

    @property
    def fitted_(self) -> Fitted: ...


def needs_training(surrogate: nn.Module | Literal["auto"] | None) -> bool:
    """Whether a surrogate is to be trained, rather than used as it is."""
    return surrogate is not None and not isinstance(surrogate, (Surrogate, TableSurrogate))


def prepare_surrogate(
    surrogate: nn.Module | Literal["auto"] | None,
    model: nn.Module,
    players: Players,
    x: Float[Tensor, "rows ..."],
    *,
    output: Output,
    removal: Literal["auto", "zero", "mean"] | Tensor,
    form: TableSchema | None,
    device: torch.device,
    seed: int,
) -> nn.Module:
    """Return a surrogate on a device, untrained unless it was given ready.

    Args:
        surrogate: as `FeatureExplainer` takes it.
        model: a frozen copy of the model, on that device.
        players: what is credited.
        x: inputs to train on.
        output: what a coalition is worth.
        removal: what hidden features become.
        form: of the table.
        device: where the surrogate is.
        seed: of new layers.
    """
    targets = predict(model, x[:UNIT_ROWS], output)
    if isinstance(surrogate, (Surrogate, TableSurrogate)):
        ready = copy.deepcopy(surrogate).eval().requires_grad_(requires_grad=False)
        place(ready, device, players)
        _check_ready(ready, players, x[:1].to(device), targets.shape[1])
        return ready
    with own_randomness(device):
        torch.manual_seed(seed)
        if surrogate == "auto" and not players.is_image:
            made: nn.Module = _fresh_table_surrogate(players, x, targets, output=output, removal=removal, form=form)
        else:
            made = _filling_surrogate(surrogate, model, players, x, targets, output=output, removal=removal, form=form)
    place(made, device, players)
    return made.eval()


def _fresh_table_surrogate(
    players: Players,
    x: Float[Tensor, "rows columns"],
    targets: Float[Tensor, "some outputs"],
    *,
    output: Output,
    removal: Literal["auto", "zero", "mean"] | Tensor,
    form: TableSchema | None,
) -> TableSurrogate:
    """Return a perceptron that is told what is hidden."""
    if not isinstance(removal, str) or removal != "auto":
        raise ValueError(
            "the surrogate of a table is told what is hidden and fills nothing: leave removal='auto', or give a "
            "surrogate network of your own (or None) that removal applies to"
        )
    units = targets if KINDS[output] == "values" else None
    return TableSurrogate(x, players, targets.shape[1], kinds=kinds_of(form), targets=units)


def _filling_surrogate(
    surrogate: nn.Module | Literal["auto"] | None,
    model: nn.Module,
    players: Players,
    x: Float[Tensor, "rows ..."],
    targets: Float[Tensor, "some outputs"],
    *,
    output: Output,
    removal: Literal["auto", "zero", "mean"] | Tensor,
    form: TableSchema | None,
) -> Surrogate:
    """Return a network on filled inputs: the model or its copy, one that was given, or a fresh one for a black box."""
    if isinstance(removal, str) and form is not None and any(form.kinds.categories):
        raise ValueError(
            "no category is the mean of others: give removal as a row or several of the table (background data)"
        )
    if isinstance(removal, str) and removal == "auto":  # out of range is for networks that will learn what it means
        removal = "mean" if not players.is_image else "zero" if surrogate is None else "auto"
    fresh = surrogate == "auto" and isinstance(model, BlackBox)
    if fresh:
        units = targets if KINDS[output] == "values" else None
        network: nn.Module = SmallCNN(x.shape[1] + 1, targets.shape[1], min(x.shape[-2:]), targets=units)
    else:
        network = copy.deepcopy(surrogate) if isinstance(surrogate, nn.Module) else copy.deepcopy(model)
    return Surrogate(network, players, make_fill(removal, x), tell_mask=fresh, kind=KINDS[output])


def teach_surrogate(
    surrogate: nn.Module,
    model: nn.Module,
    players: Players,
    x: Float[Tensor, "rows ..."],
    x_valid: Float[Tensor, "valid ..."],
    *,
    output: Output,
    seed: int,
    plan: Plan,
) -> tuple[History, Fidelity]:
    """Train a prepared surrogate in place with its share of the budget; say how that went and how faithful it is."""
    # A black box has no tensors to know it by, so what it says must do.
    known = predict(model, x_valid[:UNIT_ROWS], output) if isinstance(model, BlackBox) else model
    identity = {"output": output} | plan.identify(
        x=x, x_valid=x_valid, players=torch.from_numpy(players.assignment), model=known, surrogate=surrogate
    )
    history = train_surrogate(
        surrogate,
        model,
        x,
        x_valid,
        n_players=players.n_players,
        output=output,
        budget=plan.budget.part(SURROGATE_SHARE),
        seed=seed,
        recipe=Recipe(batch_size=SURROGATE_BATCHES * plan.recipe.batch_size, compiled=plan.recipe.compiled),
        augment=plan.augment,
        checkpoint=plan.checkpoint("surrogate"),
        resume=plan.resume,
        identity=identity,
        progress=plan.progress,
        began=plan.began,
    )
    fidelity = measure_fidelity(surrogate, model, x_valid, n_players=players.n_players, output=output, seed=seed)
    return history, fidelity


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
    asked = replace(masked, mixed_precision=masked.device.type == "cuda")
    if plan.recipe.compiled:
        asked = replace(asked, surrogate=cast("nn.Module", torch.compile(masked.surrogate)))
    fixed = torch.Generator(masked.device).manual_seed(seed)
    calibrated = ("level", "unit", "spread")  # measured, so perhaps not the same to the last bit
    learned = {name: value for name, value in objective.facts().items() if name not in calibrated}
    identity = {"masks": plan.masks, "output": masked.output, "objective": learned} | plan.identify(
        x=x, x_valid=x_valid, surrogate=masked.surrogate, network=network
    )
    shared = objective.sample(masked, x_valid[:VALIDATION_INPUTS].to(masked.device), VALIDATION_MASKS, fixed, Shard())

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        inputs = take(x, batch, plan.augment)
        sample = objective.sample(asked, inputs, plan.masks, batch.generator, batch.shard)
        return precise_loss(module(sample.x), sample)

    def validate(module: nn.Module) -> float:
        out = torch.cat([module(part) for part in in_chunks(shared.x)])
        return float(precise_loss(out, shared))

    def precise_loss(out: Tensor, sample: Sample) -> Tensor:
        with torch.autocast(out.device.type, enabled=False):  # sums over players would be rounded
            return objective.loss(out.float(), sample).mean()

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
        began=plan.began,
        identity=identity,
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
    asked = torch.compile(teacher) if plan.recipe.compiled else teacher
    with torch.no_grad():
        wanted = teacher(shared).float()

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        inputs = batch.shard.of(take(x, batch, plan.augment))
        with torch.no_grad():
            target = asked(inputs).float()
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
        began=plan.began,
        description="distilling the explainer",
        progress=plan.progress,
    )


def make_network(
    kind: MakeNetwork | NetworkName,
    surrogate: nn.Module,
    players: Players,
    example: Float[Tensor, "rows ..."],
    channels: int,
    *,
    seed: int,
    form: TableSchema | None = None,
) -> nn.Module:
    """Return an untrained network on the device of the example: (batch, ...) to (batch, players, channels)."""
    with own_randomness(example.device):
        torch.manual_seed(seed)
        if callable(kind):
            network = kind(channels) if dtype_of(form) == torch.float32 else nn.Sequential(Single(), kind(channels))
        elif not players.is_image:
            if kind != "auto":
                raise ValueError(f"network={kind!r} is for images; tables take 'auto' or a function that makes one")
            network = TableNetwork(example, players.n_players, channels, kinds=kinds_of(form))
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


class Single(nn.Module):
    """Single precision, which a user's network expects."""

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """Inputs in it."""
        return x.float()


def dtype_of(form: TableSchema | None) -> torch.dtype:
    """Precision of inputs: double for the tables of black boxes."""
    return torch.float32 if form is None else form.dtype


def kinds_of(form: TableSchema | None) -> ColumnKinds:
    """What the columns of a table hold; numbers, if nothing is known of it."""
    return ColumnKinds() if form is None else form.kinds


def place(module: nn.Module, device: torch.device, players: Players) -> None:
    """Move a module to a device, in place; on a GPU, convolutions are fastest with channels last in memory."""
    module.to(device)
    if players.is_image and device.type == "cuda":
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # missing from torch's stubs


def _check_ready(surrogate: Surrogate | TableSurrogate, players: Players, x: Tensor, outputs: int) -> None:
    """Raise unless a surrogate that was given is one of these players and outputs."""
    if not np.array_equal(surrogate.players.assignment, players.assignment):
        raise ValueError("the surrogate given was made for other players than the explainer's")
    everyone = torch.ones(1, players.n_players, dtype=torch.bool, device=x.device)
    with torch.no_grad():
        found = surrogate(x, everyone).shape[1]
    if found != outputs:
        raise ValueError(f"the surrogate given has {found} outputs, the model {outputs}")
