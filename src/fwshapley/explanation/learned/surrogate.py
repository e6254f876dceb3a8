"""Surrogates: networks that predict from a part of the features, trained to reproduce a model (paper, section 2.5).

Most models cannot handle missing features. A surrogate sees a random coalition of each input's features, of a size that
is uniform on 0..n, and is trained to predict what the model predicts from the complete input. The best surrogate is
the model's mean prediction given the visible features.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fwshapley._internal.checks import check_callable, check_choice, check_kind, check_whole
from fwshapley.coalitions import draw_trusted_bernoulli
from fwshapley.explanation.inputs.input_checks import TABLE_AXES, Augment, check_examples, freeze_module, run_model
from fwshapley.explanation.inputs.predictions import (
    MAX_ROWS,
    as_columns,
    predict,
    split_inputs,
    surrogate_outputs,
)
from fwshapley.explanation.learned.black_box import BlackBox
from fwshapley.explanation.learned.fidelity import divergence
from fwshapley.explanation.learned.masked_transformer import MaskedTransformer
from fwshapley.explanation.learned.removal import encode_removal, make_fill
from fwshapley.games.masked_model import MAX_ELEMENTS, MaskedModel, has_fast_bf16
from fwshapley.games.scales import KINDS, Kind, Output
from fwshapley.networks.cnn import SmallCNN
from fwshapley.networks.mlp import MLP, BinnedCoordinates, ColumnKinds, Rescale, spread_of
from fwshapley.players import Players
from fwshapley.tables.network_encoding import TableSchema
from fwshapley.training.batches import Batch, derive_seed
from fwshapley.training.budget import History, TrainingOptions
from fwshapley.training.loop import train
from fwshapley.training.shared_state import private_randomness

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

UNIT_ROWS = 1024
"""Inputs that the units of values are measured on."""

WIDTH = 128
"""Width of each of the two networks of a `TableSurrogate`."""

MIXED_ROWS = 2**19
"""Most mixed rows of a table; see `mix_rows`."""

MIXED_PER_ROW = 3
"""Mixed rows in a batch for each other row. Their targets have no noise, and they take longest to learn."""

MIXED_TIME = 0.1
"""Largest share of a budget in seconds for the predictions of mixed rows."""

TARGET_TIME = 0.1
"""Largest share of a budget in seconds for predictions of the training inputs in advance."""

FIRST_TARGETS = 64
"""Inputs that are predicted first; then twice as many, and so on."""


def _mean_of_labels(logits: Float[Tensor, "fills rows labels"]) -> Float[Tensor, "rows labels"]:
    """Log odds of the mean probability."""
    log_yes = functional.logsigmoid(logits).logsumexp(0)
    log_no = functional.logsigmoid(-logits).logsumexp(0)
    return log_yes - log_no


MEANS: Mapping[Kind, Callable[[Tensor], Tensor]] = {
    "classes": lambda logits: logits.log_softmax(-1).logsumexp(0),
    "labels": _mean_of_labels,
    "values": lambda values: values.mean(0),
}
"""The mean prediction over several fills, as logits or values."""


class MixedRows(NamedTuple):
    """Rows of a table that are made of two others each.

    Attributes:
        x: the rows.
        targets: what the model predicts for them.
    """

    x: Float[Tensor, "rows columns"]
    targets: Float[Tensor, "rows outputs"]


class Targets:
    """What a model predicts from its training inputs: each once, in advance or when a batch needs it.

    In advance, large chunks are faster. But with many inputs, a short budget would be over before training starts.

    Args:
        model: predicts.
        x: the inputs.
        output: of the model.
        device: of the targets.
        seconds: after which no more are predicted in advance.
    """

    def __init__(
        self, model: nn.Module, x: Float[Tensor, "rows ..."], output: Output, *, device: torch.device, seconds: float
    ) -> None:
        self._model, self._x, self._output, self._device = model, x, output, device
        self._known = torch.zeros(len(x), dtype=torch.bool)
        self._values = predict(model, x[:1], output).to(device).repeat(len(x), 1)
        started, begin, count = time.monotonic(), 0, FIRST_TARGETS
        while begin < len(x) and 3 * (time.monotonic() - started) < seconds:  # the next chunk takes twice as long
            self._predict(torch.arange(begin, min(begin + count, len(x))))
            begin, count = begin + count, min(2 * count, MAX_ROWS)

    def of(self, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows outputs"]:
        """Return the predictions of some inputs."""
        unknown = rows[~self._known[rows]]
        if len(unknown):
            self._predict(unknown)
        return self._values[rows.to(self._device, non_blocking=True)]

    def _predict(self, rows: Int[Tensor, " rows"]) -> None:
        values = predict(self._model, self._x[rows.to(self._x.device)], self._output)
        self._values[rows.to(self._device)] = values.to(self._device)
        self._known[rows] = True


class Surrogate(nn.Module):
    """A network on inputs whose hidden features are filled.

    Args:
        network: from filled inputs to outputs.
        players: which features belong to which player.
        fill: what replaces hidden positions, (fills, ...) broadcast against inputs. With several fills (background
            data), the prediction is their mean: of probabilities, or of values.
        tell_mask: the network also gets the mask of visible pixels, as a last channel of an image.
        kind: what the network returns: logits of "classes" or "labels", or "values".

    Example:
        >>> surrogate = fw.explanation.Surrogate(torch.nn.Linear(3, 2), fw.columns(3), torch.zeros(1, 3))
        >>> surrogate(torch.ones(5, 3), torch.ones(5, 3, dtype=torch.bool)).shape
        torch.Size([5, 2])
    """

    fill: Tensor

    def __init__(
        self, network: nn.Module, players: Players, fill: Tensor, *, tell_mask: bool = False, kind: Kind = "classes"
    ) -> None:
        super().__init__()
        check_kind("network", network, nn.Module)
        check_kind("players", players, Players)
        check_kind("fill", fill, Tensor)
        check_choice("kind", kind, get_args(Kind))
        _check_fill(fill, players, missing=isinstance(network, BlackBox))
        self.network, self.players, self.tell_mask, self.kind = network, players, tell_mask, kind
        self.register_buffer("fill", fill)

    def forward(
        self, x: Float[Tensor, "batch ..."], coalitions: Bool[Tensor, "batch players"]
    ) -> Float[Tensor, "batch outputs"]:
        """Logits or values."""
        mask = self.players.spread(coalitions)
        outputs = [self._predict_filled(x, mask, fill) for fill in self.fill.to(x.dtype)]
        return outputs[0] if len(outputs) == 1 else MEANS[self.kind](torch.stack(outputs).float())

    def with_players(self, players: Players) -> Surrogate:
        """Return a surrogate with the same network and fill for other players of the same inputs.

        Args:
            players: of inputs of the same size.
        """
        return Surrogate(self.network, players, self.fill, tell_mask=self.tell_mask, kind=self.kind).eval()

    def _predict_filled(self, x: Tensor, mask: Tensor, fill: Tensor) -> Tensor:
        filled = torch.where(mask, x, fill)
        if self.tell_mask:
            filled = torch.cat([filled, mask.to(x.dtype)], 1)
        return as_columns(self.network(filled if isinstance(self.network, BlackBox) else filled.float()))


class TableSurrogate(nn.Module):
    """Two perceptrons on the visible columns of a table and the mask of visible players; it predicts their mean.

    They are trained on different batches. So how much they disagree tells how far off their mean is, also where the
    best prediction is not known because columns are hidden.

    Args:
        x: rows that give the scales of the columns.
        players: which columns belong to which player.
        n_outputs: number of outputs.
        column_kinds: what the columns contain; by default numbers, none missing.
        targets: outputs that give the units of values.

    Example:
        >>> surrogate = fw.explanation.TableSurrogate(torch.randn(50, 3), fw.columns(3), n_outputs=2)
        >>> surrogate(torch.ones(5, 3), torch.zeros(5, 3, dtype=torch.bool)).shape
        torch.Size([5, 2])
    """

    order: Tensor

    def __init__(
        self,
        x: Float[Tensor, "rows columns"],
        players: Players,
        n_outputs: int,
        *,
        column_kinds: ColumnKinds = ColumnKinds(),  # noqa: B008 - immutable
        targets: Float[Tensor, "rows outputs"] | None = None,
    ) -> None:
        super().__init__()
        check_kind("players", players, Players)
        if players.is_image:
            raise ValueError("players must be of the columns of a table, got players of an image")
        players.check(check_examples("x", x, missing=any(column_kinds.gaps)))
        check_whole("n_outputs", n_outputs)
        self.players = players
        self.coordinates = BinnedCoordinates(x, column_kinds)
        width = self.coordinates.count + players.n_players
        self.networks = nn.ModuleList(MLP(width, n_outputs, width=WIDTH) for _ in range(2))
        self.rescale = Rescale(n_outputs, targets)
        player = torch.from_numpy(players.assignment)[self.coordinates.owner]
        self.register_buffer("order", player.argsort(stable=True), persistent=False)
        self.counts = player.bincount(minlength=players.n_players).tolist()

    def forward(
        self, x: Float[Tensor, "batch columns"], coalitions: Bool[Tensor, "batch players"]
    ) -> Float[Tensor, "batch outputs"]:
        """Logits or values: the mean of both networks; in training mode, each network has every second part.

        Three quarters of a batch may be mixed rows, of which both networks thus have as many, and processes that share
        a batch row by row divide it among the networks as one process does.
        """
        if not self.training:
            return self.members(x, coalitions).mean(0)
        parts = self._encode(x, coalitions).chunk(2 * (1 + MIXED_PER_ROW))
        outputs: Tensor = self.rescale(torch.cat([self.networks[n % 2](part) for n, part in enumerate(parts)]))
        return outputs

    def members(
        self, x: Float[Tensor, "batch columns"], coalitions: Bool[Tensor, "batch players"]
    ) -> Float[Tensor, "2 batch outputs"]:
        """Logits or values of each network."""
        inputs = self._encode(x, coalitions)
        return torch.stack([self.rescale(network(inputs)) for network in self.networks])

    def predict_coalitions(
        self, x: Float[Tensor, "batch columns"], coalitions: Bool[Tensor, "batch coalitions players"]
    ) -> Float[Tensor, "batch coalitions outputs"]:
        """Logits or values of several coalitions of each row; the first layer of both networks is computed once a row.

        That layer is linear, so what each player adds to it does not depend on the others.
        """
        parts = self.coordinates(x)[:, self.order].split(self.counts, 1)
        shown = coalitions.to(parts[0].dtype)
        outputs = []
        for network in cast("Iterable[MLP]", self.networks):
            weight = network.first.weight.T
            of_coordinates, of_mask = weight[: len(self.order)], weight[len(self.order) :]
            blocks = of_coordinates[self.order].split(self.counts)
            added = torch.stack([part @ block for part, block in zip(parts, blocks, strict=True)], 1) + of_mask
            outputs.append(network.finish(torch.baddbmm(network.first.bias, shown, added)))
        predicted: Tensor = self.rescale(torch.stack(outputs).mean(0))
        return predicted

    def _encode(self, x: Tensor, coalitions: Tensor) -> Float[Tensor, "batch inputs"]:
        coordinates = self.coordinates(x)
        mask = self.players.spread(coalitions).to(coordinates.dtype).index_select(1, self.coordinates.owner)
        return torch.cat([coordinates * mask, coalitions.to(coordinates.dtype)], 1)


def make_surrogate(
    explainer: FeatureExplainer,
    model: nn.Module,
    x: Float[Tensor, "rows ..."],
    *,
    output: Output,
    players: Players,
    schema: TableSchema | None,
    device: torch.device,
) -> Surrogate | TableSurrogate | MaskedTransformer:
    """Return the surrogate that an explainer asks for, on a device, untrained unless it was passed ready for use.

    Args:
        explainer: gives surrogate, removal and seed.
        model: a frozen copy of the model, on the device.
        x: training inputs.
        output: scale of the values.
        players: of the game.
        schema: of a table.
        device: of the surrogate.
    """
    has_units = KINDS[output] == "values"
    targets = predict(model, x[: UNIT_ROWS if has_units else 1], output)
    units = targets if has_units else None
    requested = explainer.surrogate
    removal = explainer.removal
    if isinstance(requested, Surrogate | TableSurrogate):
        ready = copy.deepcopy(requested).eval().requires_grad_(requires_grad=False)
        move(ready, device, players)
        _check_ready(ready, players, x[:1].to(device), targets.shape[1])
        return ready
    with private_randomness(device):
        torch.manual_seed(explainer.seed)
        if isinstance(model, MaskedTransformer):
            if not isinstance(requested, nn.Module):
                return copy.deepcopy(model)
            like = MaskedTransformer(requested, model.inputs)
            return MaskedTransformer(freeze_module(like, x[:2].to(device)).get_submodule("model"), like.inputs).eval()
        if requested == "auto" and not players.is_image:
            if not isinstance(removal, str) or removal != "auto":
                raise ValueError(
                    "removal must be 'auto' for a table with surrogate='auto', which gets the mask and fills nothing; "
                    "pass a network as surrogate=..., or surrogate=None, to use another removal"
                )
            kinds = ColumnKinds() if schema is None else schema.kinds
            made: Surrogate | TableSurrogate = TableSurrogate(
                x, players, targets.shape[1], column_kinds=kinds, targets=units
            )
        else:
            fill = _choose_fill(removal, players, x, schema, is_trained=requested is not None)
            is_fresh = requested == "auto" and isinstance(model, BlackBox)
            if is_fresh:
                network: nn.Module = SmallCNN(x.shape[1] + 1, targets.shape[1], min(x.shape[-2:]), targets=units)
            elif isinstance(requested, nn.Module):
                network = freeze_module(requested, x[:2].to(device))
            else:
                network = copy.deepcopy(model)
            made = Surrogate(network, players, fill, tell_mask=is_fresh, kind=KINDS[output])
    move(made, device, players)
    return made.eval()


def is_trained_by_fit(surrogate: object) -> bool:
    """Whether `fit` trains the surrogate, rather than using the model or a `Surrogate` as it is."""
    return surrogate is not None and not isinstance(surrogate, Surrogate | TableSurrogate)


def train_surrogate(
    masked_model: MaskedModel,
    model: nn.Module,
    x: Float[Tensor, "rows ..."],
    x_valid: Float[Tensor, "valid ..."],
    options: TrainingOptions,
    *,
    augment: Augment | None = None,
    identity: Mapping[str, Any] | None = None,
) -> History:
    """Train a surrogate in place: KL divergence from the model's probabilities, or squared error of values.

    The surrogate and the model must be on the same device. Inputs are moved there batch by batch.

    Args:
        masked_model: the surrogate, a module on (inputs, coalitions), and what its outputs mean.
        model: the model that the surrogate should reproduce, a torch module.
        x: training inputs.
        x_valid: inputs that select the best state.
        options: budget, batch size, seed and so on; seconds count from the call, or from `options.started`.
        augment: changes a batch of inputs at random.
        identity: what else must agree for a checkpoint to be resumed.

    Example:
        >>> model, x = torch.nn.Linear(3, 2), torch.randn(64, 3)
        >>> surrogate = fw.explanation.TableSurrogate(x, fw.columns(3), 2)
        >>> masked_model = fw.games.MaskedModel(surrogate, "probability", 3, torch.device("cpu"))
        >>> options = fw.training.TrainingOptions(fw.Budget(steps=5), batch_size=16, progress=False)
        >>> fw.explanation.train_surrogate(masked_model, model, x[8:], x[:8], options).steps
        5
    """
    started = time.monotonic()
    check_kind("masked_model", masked_model, MaskedModel)
    check_kind("model", model, nn.Module)
    check_kind("options", options, TrainingOptions)
    surrogate, output, device = masked_model.surrogate, masked_model.output, masked_model.device
    missing = isinstance(model, BlackBox)
    x, x_valid = check_examples("x", x, missing=missing), check_examples("x_valid", x_valid, missing=missing).to(device)
    if x_valid.shape[1:] != x.shape[1:]:
        raise ValueError(f"x_valid must have shape (rows, *{tuple(x.shape[1:])}) as x, got {tuple(x_valid.shape)}")
    run_model(model, x[:1].to(device))
    if augment is not None:
        check_callable("augment", augment)
    seconds = math.inf if options.budget.seconds is None else options.budget.seconds
    if options.budget.seconds is None and (options.budget.steps or 0) * options.batch_size < len(x):
        seconds = 0.0  # not every input is going to be used
    targets = None if augment else Targets(model, x, output, device=device, seconds=TARGET_TIME * seconds)
    valid_targets = predict(model, x_valid, output).to(device)
    unit = spread_of(valid_targets) if KINDS[output] == "values" else torch.ones((), device=device)
    generator = torch.Generator(device).manual_seed(options.seed)
    valid_coalitions = _draw_coalitions(len(x_valid), masked_model.n_players, generator)
    mixed = None
    if isinstance(surrogate, TableSurrogate) and augment is None:
        mixed_seconds = math.inf if options.budget.seconds is None else MIXED_TIME * options.budget.seconds
        needed = MIXED_PER_ROW * options.batch_size * (options.budget.steps or MIXED_ROWS)
        mixed = mix_rows(model, x, surrogate.players, output, most=needed, seconds=mixed_seconds, seed=options.seed)
        x_valid, valid_targets = x_valid.repeat(2, 1), valid_targets.repeat(2, 1)
        valid_coalitions = torch.cat([valid_coalitions, torch.ones_like(valid_coalitions)])

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        coalitions = batch.shard.of(_draw_coalitions(len(batch.rows), masked_model.n_players, batch.generator))
        inputs = batch.shard.of(take_batch(x, batch, augment))
        if targets is None:
            target = predict(model, inputs, output).to(device)
        else:
            target = targets.of(batch.shard.of(batch.rows))
        if mixed is not None:
            count = MIXED_PER_ROW * len(batch.rows)
            rows = batch.shard.of(torch.randint(len(mixed.x), (count,), generator=batch.generator, device=device))
            inputs = torch.cat([inputs, mixed.x[rows.to(mixed.x.device)].to(device)])
            coalitions = torch.cat([coalitions, coalitions.new_ones(len(rows), coalitions.shape[1])])
            target = torch.cat([target, mixed.targets[rows].to(device)])
        return divergence(module(inputs, coalitions) / unit, target / unit, output).mean()

    def validate(module: nn.Module) -> float:
        outputs = surrogate_outputs(module, x_valid, valid_coalitions)
        return float(divergence(outputs / unit, valid_targets / unit, output).mean())

    surrogate.requires_grad_(requires_grad=True)
    try:
        return train(
            surrogate,
            loss,
            options if options.started is not None else replace(options, started=started),
            n_rows=len(x),
            device=device,
            validate=validate,
            identity=identity,
            description="training the surrogate",
            mixed_precision=uses_bf16(masked_model, x),
        )
    finally:
        surrogate.requires_grad_(requires_grad=False)


def mix_rows(
    model: nn.Module,
    x: Float[Tensor, "rows columns"],
    players: Players,
    output: Output,
    *,
    most: int,
    seconds: float,
    seed: int,
) -> MixedRows:
    """Return rows of which some columns are those of another row, with the model's predictions.

    For complete inputs, the best surrogate is the model itself, whatever the inputs are. So it can be learned from more
    rows than there are, of any distribution, since no column of theirs is hidden.

    Args:
        model: predicts the rows.
        x: rows of the table.
        players: columns of the same player come from the same row.
        output: of the model.
        most: number of rows that are needed; there may be fewer.
        seconds: after which no more rows are predicted.
        seed: of everything random.
    """
    stop = time.monotonic() + seconds
    generator = torch.Generator(x.device).manual_seed(derive_seed(seed, "mixed rows", 0))
    count = min(most, MIXED_ROWS, max(MAX_ELEMENTS // x.shape[1], 1))
    one, other = torch.randint(len(x), (2, count), generator=generator, device=x.device)
    share = torch.rand(count, generator=generator, device=x.device)
    replaced = players.spread(draw_trusted_bernoulli(share, players.n_players, generator))
    rows = torch.where(replaced, x[other], x[one])
    targets = []
    for chunk in split_inputs(rows):
        targets.append(predict(model, chunk, output))
        if time.monotonic() > stop:
            break
    predicted = torch.cat(targets)
    return MixedRows(rows[: len(predicted)], predicted)


def take_batch(x: Float[Tensor, "rows ..."], batch: Batch, augment: Augment | None) -> Float[Tensor, "batch ..."]:
    """Return the inputs of a batch on the device of its generator, changed at random if asked for."""
    device = batch.generator.device
    inputs = x[batch.rows.to(x.device, non_blocking=True)]
    if device.type == "cuda" and not inputs.is_cuda:
        inputs = inputs.pin_memory()  # or a copy would wait for all that the GPU has to do before it
    inputs = inputs.to(device, non_blocking=True)
    if augment is None:
        return inputs
    changed: object = augment(inputs, batch.generator)
    if not isinstance(changed, Tensor) or changed.shape != inputs.shape:
        result = tuple(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
        raise ValueError(f"augment must return inputs of shape {tuple(inputs.shape)}, it returned {result}")
    return changed


def move(module: nn.Module, device: torch.device, players: Players) -> None:
    """Move a module to a device, in place; convolutions are fastest with channels last in memory."""
    module.to(device)
    if players.is_image:
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # missing from torch's stubs


def uses_bf16(masked_model: MaskedModel, x: Float[Tensor, "rows ..."]) -> bool:
    """Whether to train with a surrogate's outputs in bf16: not on a CPU for tables, where casting takes longer."""
    device = masked_model.device
    return has_fast_bf16(device) and (device.type == "cuda" or x.ndim > TABLE_AXES)


def _choose_fill(
    removal: Any,  # noqa: ANN401 - as `FeatureExplainer` takes it
    players: Players,
    x: Float[Tensor, "rows ..."],
    schema: TableSchema | None,
    *,
    is_trained: bool,
) -> Float[Tensor, "fills ..."]:
    """Return what replaces hidden features in a surrogate that fills them."""
    if isinstance(removal, str) and schema is not None and any(schema.kinds.categories):
        raise ValueError(
            "removal must be one or several rows of the table (background data), since categories have no mean; got "
            f"{removal!r}"
        )
    rule = encode_removal(removal, schema, x.dtype)
    if isinstance(rule, str) and rule == "auto":
        # A value that no pixel has is only for networks that are trained to recognize it.
        rule = "mean" if not players.is_image else "auto" if is_trained else "zero"
    return make_fill(rule, x)


def _check_fill(fill: Tensor, players: Players, *, missing: bool) -> None:
    """Raise an error unless a fill has at least one row, fits the positions of the players, and is finite."""
    positions = players.assignment.shape
    try:
        fits = fill.ndim > 0 and np.broadcast_shapes(fill.shape[1:][-len(positions) :], positions) == positions
    except ValueError:
        fits = False
    if not fits or not len(fill):
        raise ValueError(f"fill must have shape (fills, ...) that fits {positions}, got {tuple(fill.shape)}")
    if not missing and not bool(fill.isfinite().all()):
        raise ValueError("fill contains NaN or infinite values; replace them first")


def _check_ready(surrogate: Surrogate | TableSurrogate, players: Players, x: Tensor, n_outputs: int) -> None:
    """Raise unless a surrogate that was passed is for these players and outputs."""
    if not np.array_equal(surrogate.players.assignment, players.assignment):
        raise ValueError("surrogate was made for other players than the explainer's; pass the same players to both")
    full = torch.ones(1, players.n_players, dtype=torch.bool, device=x.device)
    with torch.no_grad():
        count = surrogate(x, full).shape[1]
    if count != n_outputs:
        raise ValueError(f"surrogate has {count} outputs, and the model has {n_outputs}")


def _draw_coalitions(count: int, n: int, generator: torch.Generator) -> Bool[Tensor, "{count} {n}"]:
    """Draw coalitions whose sizes are uniform on 0..n: Bernoulli(t) with a uniform t for each."""
    return draw_trusted_bernoulli(torch.rand(count, generator=generator, device=generator.device), n, generator)
