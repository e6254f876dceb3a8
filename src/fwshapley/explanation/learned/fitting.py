"""The steps of a fit: check the arguments, train a surrogate, then train the network that explains it.

`fit_explainer` can be read from top to bottom. Each training ends in `fwshapley.training.loop.train`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fwshapley._internal.checks import (
    Array,
    check_callable,
    check_choice,
    check_kind,
    check_names,
    check_seed,
)
from fwshapley._internal.files import check_writable_file
from fwshapley._internal.progress import announce
from fwshapley._internal.safetensors_file import digest
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.wording import duration
from fwshapley.explanation.inputs.input_checks import (
    MAX_VALIDATION_ROWS,
    Augment,
    check_inputs,
    freeze_model,
    hold_out,
    is_table,
)
from fwshapley.explanation.inputs.input_reading import read_inputs
from fwshapley.explanation.inputs.predictions import predict, split_inputs
from fwshapley.explanation.learned.black_box import BlackBox
from fwshapley.explanation.learned.fidelity import Fidelity, FidelityWarning, measure_fidelity
from fwshapley.explanation.learned.fitted import Fitted
from fwshapley.explanation.learned.masked_transformer import MaskedTransformer
from fwshapley.explanation.learned.pace import Pace, measure_pace
from fwshapley.explanation.learned.quality_measurement import Allowance, with_quality
from fwshapley.explanation.learned.removal import check_removal
from fwshapley.explanation.learned.surrogate import (
    UNIT_ROWS,
    TableSurrogate,
    is_trained_by_fit,
    make_surrogate,
    move,
    take_batch,
    train_surrogate,
    uses_bf16,
)
from fwshapley.explanation.learned.transformer_models import adapt_model, limit_players, split_pipeline
from fwshapley.games.masked_model import MaskedModel
from fwshapley.games.scales import Output
from fwshapley.networks.image_network import ImageNetwork
from fwshapley.networks.mlp import ColumnKinds, TableNetwork
from fwshapley.networks.transformer import TransformerNetwork
from fwshapley.networks.unet import UNet
from fwshapley.objectives import Kernel, Multilinear, Objective, Sample, SumConstraint
from fwshapley.players import Players, columns
from fwshapley.semivalues import KernelKind, Semivalue, check_semivalue
from fwshapley.superpixels import check_fixed_players
from fwshapley.tables.network_encoding import TableSchema, describe_table
from fwshapley.tables.trained_categories import find_categories
from fwshapley.text_players import TextPlayers
from fwshapley.training.batches import Batch, Shard, derive_seed
from fwshapley.training.budget import Budget, History, TrainingOptions
from fwshapley.training.loop import train
from fwshapley.training.shared_state import private_randomness

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

ObjectiveName = Literal["multilinear", "kernel"]
NetworkName = Literal["auto", "unet", "slim"]
MakeNetwork = Callable[[int], nn.Module]
"""Makes a network from inputs to (batch, players, channels), given the number of channels."""

PARTS = ("surrogate", "surrogate_2", "explainer")
"""What a fit trains, one after the other: the second round of a surrogate only if it pays. Each has a checkpoint."""

UNET_WIDTHS: Mapping[NetworkName, int] = {"unet": 64, "slim": 32}
SURROGATE_SHARE = 0.3
"""Share of the budget for a round of the surrogate's training; what a round leaves goes to the explaining network."""

OF_COPY: Mapping[str, Any] = {"optimizer": "adamw", "learning_rate": 3e-3, "weight_decay": 1e-2}
OF_TABLE: Mapping[str, Any] = {"optimizer": "muon", "learning_rate": 7e-3, "weight_decay": 0.1}
OF_TRANSFORMER: Mapping[str, Any] = {"optimizer": "adamw", "learning_rate": 5e-5, "weight_decay": 1e-2}
"""How surrogates are trained: copies of models and networks that are passed; a `TableSurrogate`, which is new; and a
transformer, which is fine-tuned as its model was."""

ENOUGH_EXPLAINED = 0.99
"""Share of the model's variance from which the surrogate of a table gets no second round."""

SURROGATE_BATCHES = 4
"""A batch of the surrogate has this many times as many inputs, since each takes one pass rather than many."""

VALIDATION_COALITIONS = 32

FIDELITY_SHARE, PILOT_SHARE, VALIDATION_SHARE = 0.04, 0.03, 0.05
"""Shares of a budget in seconds for the fidelity of the surrogate, for calibrating the objective, and for coalitions
that validate the explaining network. Where predictions take long, each has fewer inputs."""

FIDELITY_CALLS, PILOT_CALLS = 12, 200
"""Predictions that these take for an input: of all deciles, and at all knots."""

MIN_PILOT, MIN_VALIDATED = 2, 4
LEAST_SURROGATE_STEPS, LEAST_STEPS = 50, 100
"""Steps that a budget in seconds should allow, or batches get smaller."""

MIN_SURROGATE_BATCH, MIN_BATCH = 8, 4
STEP_COST = 4
"""Predictions that a training step of the surrogate costs for an input: forward, backward, and the target."""

MIN_ANNOUNCED_SECONDS = 5.0
"""Time from which on it is told how the budget was divided."""

CHECKED_ROWS = 64
"""Inputs that the model's outputs are checked on."""


class Task(NamedTuple):
    """What a fit works with.

    Attributes:
        x: training inputs.
        x_valid: validation inputs.
        schema: of a table; None for images and other tensors.
        players: of the game.
        model: a frozen copy of the model.
        output_names: one per output.
        masked_model: the surrogate, and the game that it defines.
        pace: how long predictions take.
    """

    x: Float[Tensor, "rows ..."]
    x_valid: Float[Tensor, "valid ..."]
    schema: TableSchema | None
    players: Players
    model: nn.Module
    output_names: tuple[str, ...]
    masked_model: MaskedModel
    pace: Pace

    @property
    def examples(self) -> Float[Tensor, "some ..."]:
        """A few training inputs on the device of the fit."""
        return self.x[:MAX_VALIDATION_ROWS].to(self.masked_model.device)

    @property
    def valid_few(self) -> Float[Tensor, "some ..."]:
        """As many validation inputs as the surrogate can be judged on within the budget."""
        cost = FIDELITY_CALLS * self.pace.surrogate + 2 * self.pace.model
        return self.x_valid[: self.pace.afford(FIDELITY_SHARE, cost, least=MIN_VALIDATED, most=len(self.x_valid))]


def fit_explainer(
    explainer: FeatureExplainer,
    x_train: Array,
    x_valid: Array | None,
    options: TrainingOptions,
    *,
    n_coalitions: int,
    augment: Augment | None,
    measuring: Allowance,
    start: Fitted | None = None,
) -> Fitted:
    """Train a surrogate and an explaining network for an explainer, which is not changed; return the result.

    Args:
        explainer: gives the arguments of the constructor.
        x_train: training inputs.
        x_valid: validation inputs; None holds out some of x_train.
        options: budget, batch size and learning rate of the explaining network; `checkpoint` is a folder.
        n_coalitions: per input in a step of the explaining network.
        augment: changes a batch of inputs at random.
        measuring: what measuring the quality of the result may cost.
        start: an earlier result, whose networks are trained further; None makes new ones. It is not changed.
    """
    objective = check_arguments(explainer)
    if augment is not None:
        check_callable("augment", augment)
    check_checkpoints(options)
    if start is None:
        task = prepare_task(explainer, x_train, x_valid, options)
    else:
        task = _continue_task(explainer, start, x_train, x_valid, options)
    histories: dict[str, History] = {}
    fidelity = None if start is None else start.fidelity
    begin = 0.0
    if is_trained_by_fit(explainer.surrogate):
        if start is None:  # tried once, so that errors appear before the surrogate is trained
            start_network(explainer, task, objective, n_pilot=MIN_PILOT)
        histories["surrogate"], fidelity = _fit_surrogate(task, options, augment)
        if fidelity.is_poor:
            advice = "Explanations are of the surrogate; train longer, or pass a better network as surrogate=..."
            warnings.warn(f"{fidelity}. {advice}", FidelityWarning, stacklevel=3)
        begin = _share_of(options.budget, histories["surrogate"])
        announce(
            "trained the surrogate",
            f"{histories['surrogate'].steps:,} steps in {duration(histories['surrogate'].seconds)}",
            f"{begin:.0%} of the budget (it {fidelity.summary}); the explainer gets the rest",
            enabled=options.progress and histories["surrogate"].seconds >= MIN_ANNOUNCED_SECONDS,
        )
    calibrated, network = start_network(explainer, task, objective)
    if start is not None:
        calibrated = start.objective  # its units are those of the network's outputs
        network.load_state_dict(start.network.state_dict())
    last_part = part_of_options(options, "explainer", begin, 1)
    histories["explainer"] = _fit_network(
        network, calibrated, task, last_part, n_coalitions=n_coalitions, augment=augment
    )
    if start is not None:
        earlier = start.histories
        histories = {
            name: earlier[name].followed_by(histories[name]) if name in histories else earlier[name] for name in earlier
        }
    fitted = Fitted(
        players=task.players,
        masked_model=task.masked_model,
        network=network.requires_grad_(requires_grad=False),
        objective=calibrated,
        base_values=task.masked_model.empty_values(task.examples[:1])[0],
        output_names=task.output_names,
        model=task.model,
        schema=task.schema,
        input_shape=tuple(task.x.shape[1:]),
        seed=explainer.seed,
        histories=histories,
        fidelity=fidelity,
        transform=explainer.transform,
    )
    return with_quality(fitted, task.x_valid, measuring, progress=options.progress)


def prepare_task(explainer: FeatureExplainer, x_train: Array, x_valid: Array | None, options: TrainingOptions) -> Task:
    """Check the inputs and the model, and make the surrogate that `fit` is going to train or use."""
    device = choose_device(explainer.device)
    passed, wanted = split_pipeline(explainer.model, explainer.players)
    wanted = limit_players(passed, wanted)
    reading: dict[str, Any] = {
        "players": wanted,
        "transform": explainer.transform,
        "progress": options.progress,
    }
    x_train, layout, is_new = read_inputs(x_train, "x_train", **reading)
    x_valid = None if x_valid is None else read_inputs(x_valid, "x_valid", **reading).x
    schema = _find_schema(passed, wanted, x_train, x_valid)
    x = check_inputs(x_train, "x_train", schema)
    valid = None if x_valid is None else check_inputs(x_valid, "x_valid", schema)
    if valid is None:
        x, valid = hold_out(x, explainer.seed, owned=is_new)
    players = _choose_players(wanted, x, schema)
    players.check(valid)
    names = None if explainer.output_names is None else check_names("output_names", explainer.output_names)
    some = x[:CHECKED_ROWS].to(device)
    adapted = adapt_model(passed, players, some, explainer.removal)
    output = adapted.output if explainer.output == "auto" else explainer.output
    names = adapted.names if names is None else names
    model, output, output_names = freeze_model(adapted.model, some, output, names, schema, layout=layout)
    surrogate = make_surrogate(explainer, model, x, output=output, players=players, schema=schema, device=device)
    game = game_of(players, surrogate, output, device)
    return Task(x, valid, schema, players, model, output_names, game, measure_pace(model, game, x, options))


def _continue_task(
    explainer: FeatureExplainer, start: Fitted, x_train: Array, x_valid: Array | None, options: TrainingOptions
) -> Task:
    """Check the inputs, and copy the surrogate of an earlier fit, to be trained further."""
    x = start.check_inputs(x_train, "x_train")
    if x_valid is None:
        x, valid = hold_out(x, explainer.seed)
    else:
        valid = start.check_inputs(x_valid, "x_valid")
    model, game = cast("nn.Module", start.model), start.masked_model
    if is_trained_by_fit(explainer.surrogate):
        game = replace(game, surrogate=copy.deepcopy(game.surrogate))
    pace = measure_pace(model, game, x, options)
    return Task(x, valid, start.schema, start.players, model, start.output_names, game, pace)


def start_network(
    explainer: FeatureExplainer, task: Task, objective: Objective, *, n_pilot: int = MAX_VALIDATION_ROWS
) -> tuple[Objective, nn.Module]:
    """Calibrate the objective to the surrogate as it is now, and make an untrained network for it.

    Args:
        explainer: gives the network and the seed.
        task: of the fit.
        objective: not calibrated.
        n_pilot: most inputs to calibrate with.
    """
    game, pace = task.masked_model, task.pace
    generator = torch.Generator(game.device).manual_seed(explainer.seed)
    count = pace.afford(PILOT_SHARE, PILOT_CALLS * pace.surrogate, least=MIN_PILOT, most=n_pilot)
    calibrated = objective.calibrate(game, task.examples[:count], generator)
    example = task.examples if task.schema is None else task.x.to(game.device)
    channels = calibrated.maps * len(task.output_names)
    network = make_network(
        explainer.network, game.surrogate, task.players, example, channels, seed=explainer.seed, schema=task.schema
    )
    return calibrated, network


def _fit_surrogate(task: Task, options: TrainingOptions, augment: Augment | None) -> tuple[History, Fidelity]:
    """Train the surrogate of a task in place, that of a table in up to two rounds; return how well it does then.

    A second round follows if the first ended with its budget rather than for lack of progress, and left a part of the
    model's variance unexplained. It starts where the first ended.
    """
    is_fresh_table = isinstance(task.masked_model.surrogate, TableSurrogate)
    is_transformer = isinstance(task.masked_model.surrogate, MaskedTransformer)
    how = OF_TABLE if is_fresh_table else OF_TRANSFORMER if is_transformer else OF_COPY
    first = replace(part_of_options(options, "surrogate", 0, SURROGATE_SHARE), **how)
    history = _train_a_round(task, first, augment)
    fidelity = measure_fidelity(task.masked_model, task.model, task.valid_few, seed=options.seed)
    if is_fresh_table and history.stopped == "budget" and fidelity.explained < ENOUGH_EXPLAINED:
        more = part_of_options(options, "surrogate_2", SURROGATE_SHARE, 2 * SURROGATE_SHARE)
        seed = derive_seed(options.seed, "second round", 0) % 2**31  # other coalitions and mixed rows
        second = replace(more, **how, seed=seed, warm_start=True)
        second = replace(second, learning_rate=second.learning_rate / 2)
        history = history.followed_by(_train_a_round(task, second, augment))
        fidelity = measure_fidelity(task.masked_model, task.model, task.valid_few, seed=options.seed)
    return history, fidelity


def _share_of(budget: Budget, history: History) -> float:
    """Share of a budget that a training run took, at most what was meant for it."""
    return min(budget.spent(history.steps, history.seconds), 2 * SURROGATE_SHARE)


def _train_a_round(task: Task, options: TrainingOptions, augment: Augment | None) -> History:
    """Train the surrogate of a task from its present state."""
    game, model, pace = task.masked_model, task.model, task.pace
    identified: Tensor | nn.Module = model
    if isinstance(model, BlackBox) and options.checkpoint is not None:  # its predictions identify it
        identified = predict(model, task.valid_few[:UNIT_ROWS], game.output)
    assignment = torch.from_numpy(task.players.assignment)
    parts = {"x": task.x, "x_valid": task.x_valid, "players": assignment, "model": identified}
    share = SURROGATE_SHARE / LEAST_SURROGATE_STEPS
    most = SURROGATE_BATCHES * options.batch_size
    batch_size = pace.afford(share, STEP_COST * pace.surrogate, least=min(MIN_SURROGATE_BATCH, most), most=most)
    _announce_batches("the surrogate", batch_size, most, LEAST_SURROGATE_STEPS, options)
    return train_surrogate(
        game,
        model,
        task.x,
        task.valid_few,
        replace(options, batch_size=batch_size),
        augment=augment,
        identity={"output": game.output} | _digests(options, parts | {"surrogate": game.surrogate}),
    )


def _announce_batches(part: str, batch_size: int, usual: int, steps: int, options: TrainingOptions) -> None:
    """Tell that batches are smaller than usual."""
    reason = f"batches of {batch_size} inputs rather than {usual}, so that the budget allows about {steps} steps"
    announce(f"training {part}", reason, enabled=options.progress and batch_size < usual)


def check_arguments(explainer: FeatureExplainer) -> Objective:
    """Raise an error that names a wrong argument of the constructor; return the objective."""
    check_choice("output", explainer.output, ("auto", *get_args(Output)))
    check_fixed_players(explainer.players)
    if explainer.surrogate is not None and not isinstance(explainer.surrogate, nn.Module):
        check_choice("surrogate", explainer.surrogate, ("auto",))
    if not callable(explainer.network):
        check_choice("network", explainer.network, get_args(NetworkName))
    check_removal(explainer.removal)
    if explainer.transform is not None:
        check_callable("transform", explainer.transform)
    check_seed(explainer.seed)
    return _choose_objective(explainer.objective, explainer.weights)


def _choose_objective(objective: ObjectiveName | Objective, weights: Semivalue | None) -> Objective:
    if objective == "kernel":
        if weights is None:
            raise ValueError("objective='kernel' learns one semivalue; pass it as weights=...")
        return Kernel(check_semivalue(weights))
    if weights is not None:
        raise ValueError("weights goes with objective='kernel'; other objectives have their own, so leave it out")
    if isinstance(objective, Kernel):
        check_choice("kernel", objective.kernel, get_args(KernelKind))
        check_choice("constraint", objective.constraint, get_args(SumConstraint))
    if isinstance(objective, Kernel | Multilinear):
        return objective
    check_choice("objective", objective, get_args(ObjectiveName))
    return Multilinear()


def check_checkpoints(options: TrainingOptions) -> None:
    """Refuse a checkpoint folder that cannot be written to, or that has checkpoints of a run that is not resumed."""
    folder = options.checkpoint
    if folder is None:
        return
    paths = [folder / f"{part}.safetensors" for part in PARTS]
    for path in paths:
        check_writable_file(path, "checkpoint=...")
    if not options.resume and any(path.exists() for path in paths):
        raise ValueError(
            f"checkpoint={str(folder)!r} has the checkpoints of an earlier run; continue it with resume=True, or pass "
            "another folder"
        )


def part_of_options(options: TrainingOptions, part: str, begin: float, end: float) -> TrainingOptions:
    """Return the options of one part of a fit, which may use the budget from one share to another."""
    started, seconds = options.started, options.budget.seconds
    if started is not None and seconds is not None:
        started += begin * seconds
    checkpoint = None if options.checkpoint is None else options.checkpoint / f"{part}.safetensors"
    return replace(options, budget=options.budget.part(end - begin), started=started, checkpoint=checkpoint)


def _fit_network(
    network: nn.Module,
    objective: Objective,
    task: Task,
    options: TrainingOptions,
    *,
    n_coalitions: int,
    augment: Augment | None,
) -> History:
    """Train a network in place to explain the game of a task, by an objective that is calibrated to it."""
    device = task.masked_model.device
    game = replace(task.masked_model, mixed_precision=uses_bf16(task.masked_model, task.x))
    if options.compiled:
        game = replace(game, surrogate=cast("nn.Module", torch.compile(game.surrogate)))
    generator = torch.Generator(device).manual_seed(options.seed)
    pace, cost = task.pace, VALIDATION_COALITIONS * task.pace.surrogate
    n_valid = pace.afford(VALIDATION_SHARE, cost, least=MIN_VALIDATED, most=MAX_VALIDATION_ROWS)
    valid_inputs = task.x_valid[:n_valid].to(device)
    valid_sample = objective.sample(task.masked_model, valid_inputs, VALIDATION_COALITIONS, generator, Shard())

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        inputs = take_batch(task.x, batch, augment)
        sample = objective.sample(game, inputs, n_coalitions, batch.generator, batch.shard)
        return precise_loss(module(sample.x), sample)

    def validate(module: nn.Module) -> float:
        outputs = torch.cat([module(part) for part in split_inputs(valid_sample.x)])
        return float(precise_loss(outputs, valid_sample))

    def precise_loss(outputs: Tensor, sample: Sample) -> Tensor:
        with torch.autocast(outputs.device.type, enabled=False):  # sums over players would be rounded
            return objective.loss(outputs.float(), sample).mean()

    cost = n_coalitions * pace.surrogate
    batch_size = pace.afford(1 / LEAST_STEPS, cost, least=min(MIN_BATCH, options.batch_size), most=options.batch_size)
    _announce_batches("the explainer", batch_size, options.batch_size, LEAST_STEPS, options)
    measured = ("level", "unit", "spread")  # by calibration, perhaps not the same to the last bit
    fixed = {name: value for name, value in objective.facts().items() if name not in measured}
    parts: dict[str, Tensor | nn.Module] = {"x": task.x, "x_valid": task.x_valid}
    parts |= {"surrogate": task.masked_model.surrogate, "network": network}
    identity = {"n_coalitions": n_coalitions, "output": game.output, "objective": fixed} | _digests(options, parts)
    return train(
        network,
        loss,
        replace(_with_optimizer_of(network, options), batch_size=batch_size),
        n_rows=len(task.x),
        device=device,
        validate=validate,
        identity=identity,
        description="training the explainer",
    )


def make_network(
    kind: MakeNetwork | NetworkName,
    surrogate: nn.Module,
    players: Players,
    example: Float[Tensor, "rows ..."],
    channels: int,
    *,
    seed: int,
    schema: TableSchema | None = None,
) -> nn.Module:
    """Return an untrained network from inputs to (batch, players, channels), on the device of the example inputs."""
    with private_randomness(example.device):
        torch.manual_seed(seed)
        if callable(kind):
            network = kind(channels)
            check_kind("network", network, nn.Module)
            network = nn.Sequential(_ToSingle(), network) if schema is not None and schema.double else network
        elif isinstance(surrogate, MaskedTransformer) and kind == "auto":
            network = surrogate.network(players, channels)
        elif not players.is_image:
            if kind != "auto":
                raise ValueError(f"network={kind!r} is for images; for tables and texts, pass 'auto' or a function")
            kinds = ColumnKinds() if schema is None else schema.kinds
            network = TableNetwork(example, players.n_players, channels, kinds=kinds)
        elif kind == "auto":
            network = ImageNetwork(surrogate, example[:1], players, channels)
        else:
            network = UNet(example.shape[1], players, channels, width=UNET_WIDTHS[kind])
    move(network, example.device, players)
    try:
        with torch.no_grad():
            shape: Any = tuple(network.eval()(example[:1]).shape)
    except Exception as error:
        if not callable(kind):
            raise
        raise ValueError(f"network failed on one input: {type(error).__name__}: {error}") from error
    if shape != (1, players.n_players, channels):
        raise ValueError(
            f"network must return shape (1, {players.n_players} players, {channels} channels) for one input, it "
            f"returned {shape}"
        )
    return network


class _ToSingle(nn.Module):
    """Converts to single precision, which a user's network expects."""

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        return x.float()


def _find_schema(
    model: Any,  # noqa: ANN401 - any model
    players: Players | None,
    x: Array,
    x_valid: Array | None,
) -> TableSchema | None:
    """Return the schema of a table; None for images, and for inputs that are neither."""
    of_image = players is not None and players.is_image
    if of_image or not is_table(x):
        return None
    if isinstance(model, nn.Module):
        return describe_table(x, any_model=False, more=x_valid)
    return describe_table(x, any_model=True, more=x_valid, trained=find_categories(model))


def game_of(players: Players, surrogate: nn.Module, output: Output, device: torch.device) -> MaskedModel:
    """Return the game of a surrogate; texts differ in their number of players."""
    count = players.count if isinstance(players, TextPlayers) else None
    return MaskedModel(surrogate, output, players.n_players, device, count=count)


def _with_optimizer_of(network: nn.Module, options: TrainingOptions) -> TrainingOptions:
    """Return the options with the optimizer and the learning rate that suit a network."""
    if not isinstance(network, TransformerNetwork):  # others start at random
        return options
    return replace(options, optimizer="adamw", learning_rate=options.learning_rate * network.rate_factor)


def _choose_players(players: Players | None, x: Tensor, schema: TableSchema | None) -> Players:
    """Return the players that were passed, or the columns of a table."""
    if players is None:
        if x.ndim != 2:  # noqa: PLR2004 - rows and columns
            raise ValueError(
                f"x_train must be a table, got shape {tuple(x.shape)}; pass players=fw.grid(...) or fw.segments(...) "
                "for images"
            )
        players = columns(x.shape[1], None if schema is None else schema.names)
    players.check(x)
    return players.for_table(schema.names) if schema is not None and schema.is_frame else players


def _digests(options: TrainingOptions, parts: Mapping[str, Tensor | nn.Module]) -> dict[str, str]:
    """Return digests of what a run depends on; none if nothing is saved that could be resumed."""
    if options.checkpoint is None:
        return {}
    tensors = {name: part.state_dict() if isinstance(part, nn.Module) else {"": part} for name, part in parts.items()}
    return {name: digest(part) for name, part in tensors.items()}
