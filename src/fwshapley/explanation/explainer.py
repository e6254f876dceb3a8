"""Explain a model in one forward pass: train once, then every prediction, under any weighting."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fwshapley._internal.checks import (
    Array,
    check_choice,
    check_flag,
    check_names,
    check_path,
    check_seed,
    check_whole,
)
from fwshapley._internal.tensors import as_tensor, to_precision
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.black_box import find_function
from fwshapley.explanation.error_model import CALIBRATION_CALLS, CALIBRATION_INPUTS, ErrorModel, calibrate
from fwshapley.explanation.fitting import (
    EXPLAINED_AT_ONCE,
    SURROGATE_SHARE,
    Fitted,
    MakeNetwork,
    NetworkName,
    Plan,
    fit_network,
    fit_student,
    make_network,
    needs_training,
    prepare_surrogate,
    teach_surrogate,
)
from fwshapley.explanation.inputs import (
    MOST_HELD_OUT,
    Outputs,
    as_inputs,
    check_budget,
    check_explained,
    check_finite,
    check_inputs,
    choose_device,
    choose_outputs,
    find_model,
    hold_out,
)
from fwshapley.explanation.interop import choose_targets, spread_over_inputs, to_shap
from fwshapley.explanation.options import ObjectiveName, choose_objective, choose_total, choose_weightings
from fwshapley.explanation.persistence import load_fitted, save_fitted
from fwshapley.explanation.refinement import refine
from fwshapley.explanation.surrogate import (
    PREDICTIONS,
    Augment,
    Fidelity,
    Predictions,
    Removal,
    answer,
    check_removal,
    predict,
)
from fwshapley.games.masked_model import KINDS, MOST_ELEMENTS, MaskedModel, Output, PredictionGame
from fwshapley.objectives import Objective, SumConstraint, shift_to_total
from fwshapley.players import Players, columns
from fwshapley.semivalues import Kernel as KernelKind
from fwshapley.semivalues import Semivalue, Total
from fwshapley.tables.network_encoding import TableSchema, describe_table
from fwshapley.training.budget import Budget, History, Recipe
from fwshapley.version import __version__

if TYPE_CHECKING:
    import shap

DEFAULT_BUDGET = Budget(seconds=120)


class FidelityWarning(UserWarning):
    """The surrogate does not say what the model says, so explanations are of another model."""


class FeatureExplainer:
    """Predicts the weighted Shapley values of a model's features in one forward pass.

    Args:
        model: a torch module that returns logits, or values if output="raw"; it is copied and never changed. Or a black
            box, asked about arrays or DataFrames as you hold them: a function that returns probabilities or values, or
            an estimator with predict_proba or predict, as scikit-learn's.
        players: what is credited: `grid`, `segments` or `groups`; None is one player per column of a table.
        surrogate: "auto" trains one: a copy of an image model, a fresh network for tables and black boxes. A module is
            trained in its place. A `Surrogate` is used as it is. None explains the model itself on filled inputs.
        objective: "multilinear" learns every weighting at once, "kernel" the one given by `weights`; or one of the
            objectives of `fwshapley.objectives` with options of its own.
        weights: for objective="kernel", the semivalue to learn.
        output: what a coalition is worth: the "probability" of a class or its "logit" (log odds); "label_probability"
            or "label_logit" where classes do not exclude each other, or there is but one; or the model's "raw" outputs.
            "auto" is the probability of the classes of a module; of a black box, probabilities where it returns such.
        network: "auto" (an encoder started from the surrogate; a perceptron for tables), "unet" (the paper's), "slim"
            (a small one), or a function that makes one from inputs to (batch, players, channels), given the channels.
        removal: what hidden features become where the surrogate fills them: "zero", "mean", a baseline (one input) or
            background data (several, averaged over). "auto" is the mean of a table and zero in an image, or out of
            range where zero is a plausible value and the surrogate is trained.
        kernel: for objective="kernel", the "exact" one or the "paper"'s.
        constraint: for objective="kernel", how the sum v(everyone) - v(nobody) enters training: not at all if the loss
            is centered by size, "center"; "normalize" is FastSHAP's, "penalty" and "none" are for comparison.
        output_names: one per output of the model; by default those of an estimator's classes.
        device: "auto" is CUDA where there is one.
        seed: of everything random.

    Attributes:
        histories: what training went through, by part: "surrogate", "explainer", "student".
        fidelity: how well the surrogate stands in for the model; None where it was not trained here.
        error_model: how far off answers are likely to be, once `calibrate` has measured it.
        metadata: anything to be saved with it, as JSON holds it, such as how its inputs were read; a fit forgets it.
        players_: what is credited: the players given, or the columns of the table that it was fitted with.
        output_names_: of the model's outputs: those given, or those of the model itself.

    Example:
        >>> explainer = FeatureExplainer(model, grid(32, 32, patch=2)).fit(x_train, budget=Budget(seconds=300))
        >>> explainer.explain(x_test, weights=Beta(4, 1)).plot()
    """

    def __init__(
        self,
        model: nn.Module | Any,  # noqa: ANN401 - a function or an estimator
        players: Players | None = None,
        *,
        surrogate: nn.Module | Literal["auto"] | None = "auto",
        objective: ObjectiveName | Objective = "multilinear",
        weights: Semivalue | None = None,
        output: Output | Literal["auto"] = "auto",
        network: MakeNetwork | NetworkName = "auto",
        removal: Literal["auto", "zero", "mean"] | Array = "auto",
        kernel: KernelKind = "exact",
        constraint: SumConstraint = "center",
        output_names: Sequence[str] | None = None,
        device: str | torch.device = "auto",
        seed: int = 0,
    ) -> None:
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        check_choice("output", output, ("auto", *get_args(Output)))
        check_choice("kernel", kernel, get_args(KernelKind))
        check_choice("constraint", constraint, get_args(SumConstraint))
        if not isinstance(model, nn.Module):
            find_function(model)  # or say what a model is
        if not isinstance(players, Players) and players is not None:
            raise TypeError(f"players must come from columns, groups, grid or segments, got {type(players).__name__}")
        if not isinstance(surrogate, nn.Module) and surrogate is not None:
            check_choice("surrogate", surrogate, ("auto",))
        if not callable(network):
            check_choice("network", network, get_args(NetworkName))
        self.model, self.surrogate, self.output, self.network = model, surrogate, output, network
        self.device = choose_device(device)
        self.players = players
        self.objective = choose_objective(objective, weights, kernel, constraint)
        self.removal: Removal = check_removal(removal)
        self.output_names = None if output_names is None else check_names("output_names", output_names)
        self.seed = check_seed(seed)
        self.histories_: dict[str, History] = {}
        self.fidelity_: Fidelity | None = None
        self.error_model_: ErrorModel | None = None
        self.metadata: dict[str, Any] | None = None
        self._fitted: Fitted | None = None
        self._quick: Callable[[Tensor, Tensor], Tensor] | None = None
        self._example_shape: tuple[int, ...] = ()

    def __repr__(self) -> str:
        name = "a model that is not here" if isinstance(self.model, _Missing) else type(self.model).__name__
        state = "not fitted" if self._fitted is None else f"fitted, {self._fitted.masked_model.n_players} players"
        output = self.output if self._fitted is None else self._fitted.masked_model.output
        return f"FeatureExplainer({name}, output={output!r}, {state})"

    def get_params(self, *, deep: bool = True) -> dict[str, Any]:
        """Return the arguments it was made with, in scikit-learn's manners."""
        del deep  # the model's own arguments are not the explainer's
        return dict(self._arguments)

    def set_params(self, **changes: Any) -> Self:  # noqa: ANN401 - of any argument
        """Change some arguments; what was fitted is forgotten."""
        unknown = changes.keys() - self._arguments.keys()
        if unknown:
            raise ValueError(f"there is no {', '.join(sorted(unknown))} to set; there are {', '.join(self._arguments)}")
        vars(self).update(vars(type(self)(**self._arguments | changes)))
        return self

    def __sklearn_clone__(self) -> FeatureExplainer:
        """Return an explainer that is not fitted, of the same model: fitted, if it is an estimator."""
        return type(self)(**self._arguments)

    def fit(
        self,
        x_train: Array,
        x_valid: Array | None = None,
        *,
        budget: Budget = DEFAULT_BUDGET,
        batch_size: int = 64,
        n_coalitions: int = 16,
        learning_rate: float = 3e-3,
        augment: Augment | None = None,
        compiled: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool = True,
    ) -> Self:
        """Train surrogate and explainer within the budget.

        Args:
            x_train: inputs; no labels are needed.
            x_valid: other inputs, to select and stop by; by default a tenth of x_train is held out, at most 512.
            budget: seconds or steps; a surrogate to be trained takes 30 % of it. Seconds count all that is done, but
                for compilation; at least half of them are left to training.
            batch_size: inputs a step; four times as many for the surrogate.
            n_coalitions: coalitions of each of them, at least 2.
            learning_rate: its peak.
            augment: changes a batch of inputs at random, (inputs, generator) -> inputs.
            compiled: whether to compile surrogate and explainer; on a GPU it pays after a minute or two.
            checkpoint: folder to save progress in, every 20 seconds and when interrupted.
            resume: go on from there.
            progress: whether to show progress bars.
        """
        if resume and checkpoint is None:
            raise ValueError("resume=True goes on from a folder of checkpoints: pass checkpoint=...")
        check_budget(budget)
        folder = None if checkpoint is None else check_path("checkpoint", checkpoint)
        recipe = Recipe(check_whole("batch_size", batch_size), learning_rate, compiled=compiled)
        plan = Plan(budget, recipe, check_whole("n_coalitions", n_coalitions, minimum=2), augment, folder, resume, progress)
        if isinstance(self.model, _Missing):
            advice = "to fit it again, pass model=... to load"
            raise RuntimeError(f"this explainer was loaded without its model; {advice}")  # noqa: TRY004 - a state
        form = self._find_form(x_train, x_valid)
        x = check_inputs(x_train, "x_train", form)
        x, valid = hold_out(x, self.seed) if x_valid is None else (x, check_inputs(x_valid, "x_valid", form))
        plan.check_folder()
        self._fit(x, valid, form, plan)
        return self

    def _fit(self, x: Tensor, valid: Tensor, form: TableSchema | None, plan: Plan) -> None:
        """Train both parts; nothing of the explainer changes unless all goes well."""
        players = self._choose_players(x, form)
        players.check(valid)
        few = x[:MOST_HELD_OUT].to(self.device)
        model, output, names = find_model(self.model, few[:64], self.output, self.output_names, form=form)
        removal = self.removal
        if not isinstance(removal, str):
            removal = to_precision(as_tensor(removal), x.dtype) if form is None else form.encode(removal)
        surrogate = prepare_surrogate(
            self.surrogate,
            model,
            players,
            x,
            output=output,
            removal=removal,
            form=form,
            device=self.device,
            seed=self.seed,
        )
        masked = MaskedModel(surrogate, output, players.n_players, self.device)
        example = few if players.is_image else x.to(self.device)

        def make() -> tuple[Objective, nn.Module, Tensor]:
            objective = self.objective.calibrate(masked, few, torch.Generator(self.device).manual_seed(self.seed))
            base = masked.empty_values(few[:1])[0]
            channels = objective.maps * len(base)
            network = make_network(self.network, surrogate, players, example, channels, seed=self.seed, form=form)
            return objective, network, base

        histories, fidelity = {}, None
        if needs_training(self.surrogate):
            make()  # a rehearsal, so that what cannot be explained is refused before the surrogate is trained
            histories["surrogate"], fidelity = teach_surrogate(
                surrogate, model, players, x, valid, output=output, seed=self.seed, plan=plan
            )
            if fidelity.is_poor:
                advice = (
                    "explanations will be of the surrogate; train longer, or give a better network as surrogate=..."
                )
                warnings.warn(f"{fidelity}: {advice}", FidelityWarning, stacklevel=3)
            plan = plan.with_last_share(1 - SURROGATE_SHARE)
        objective, network, base = make()
        histories["explainer"] = fit_network(network, objective, masked, x, valid, seed=self.seed, plan=plan)
        network.requires_grad_(requires_grad=False)
        self.histories_, self.fidelity_, self.error_model_, self.metadata = histories, fidelity, None, None
        self._fitted, self._quick = Fitted(players, masked, network, objective, base, names, model, form), None
        self._example_shape = (2, *x.shape[1:])

    def _find_form(self, x: Array, x_valid: Array | None) -> TableSchema | None:
        """Return the form of the table that is explained; None for images, and for what is neither."""
        image = self.players is not None and self.players.is_image
        if image or np.ndim(x) != 2:  # noqa: PLR2004 - rows and columns
            return None
        return describe_table(x, any_model=not isinstance(self.model, nn.Module), more=x_valid)

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: Outputs = "all",
        total: Total | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        errors: bool = False,
    ) -> Attribution:
        """Explain inputs: one encoder and one decoder pass, however many weightings are asked for.

        Args:
            x: a batch of inputs; a large one is explained in chunks.
            weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
            outputs: "all"; "predicted", the class that the model gives, for one pass of it more; names or numbers of
                some; or numbers for each input.
            total: "raw" for the semivalue itself; "efficient" shifts it to sum to v(everyone) - v(nobody). "auto" is
                raw where it is known; the kernel objective knows efficient values only.
            batch_size: inputs at once.
            errors: whether to say how far off values are likely to be, in `expected_error`, for one pass of the
                surrogate more; `calibrate` comes first.
        """
        fitted, error_model = self.fitted_, self.error_model_
        check_flag("errors", errors)
        if errors and error_model is None:
            raise ValueError("expected errors are not known yet: call calibrate(x_valid) first")
        inputs = as_inputs(x, form=fitted.encoding)
        self._check_fits(inputs, fitted)
        if inputs.device.type == "cpu":
            check_finite(inputs, fitted.encoding)
        several = choose_weightings(self.objective, weights)
        total = choose_total(self.objective, total)
        most = min(EXPLAINED_AT_ONCE, max(1, MOST_ELEMENTS // inputs[:1].numel()))
        chunk = most if batch_size == "auto" else check_whole("batch_size", batch_size)
        numbers = choose_outputs(outputs, len(inputs), fitted.output_names, fitted.masked_model.output)
        chosen = [None] * len(inputs.split(chunk)) if numbers is None else numbers.split(chunk)
        everything = isinstance(outputs, str) and outputs == "all"
        parts = [
            self._explain_batch(fitted, batch.to(self.device), several, some, total, everything=everything)
            for batch, some in zip(inputs.split(chunk), chosen, strict=True)
        ]
        if inputs.device.type != "cpu":  # last, since it waits for the GPU
            check_finite(inputs, fitted.encoding)
        if len(parts) > 1:
            parts = [(torch.cat([part[0] for part in parts], 1), torch.cat([part[1] for part in parts]))]
        values, explained = parts[0]
        check_explained(values, inputs)
        attribution = Attribution(
            values=values[0] if weights is None or isinstance(weights, Semivalue) else values,
            base_values=fitted.base_values.expand(len(inputs), -1) if everything else fitted.base_values[explained],
            outputs=explained,
            inputs=inputs,
            weights=several[0] if weights is None or isinstance(weights, Semivalue) else several,
            total=total,
            players=fitted.players,
            output_names=fitted.output_names,
            provenance=self.provenance,
        )
        return error_model.expect(self, attribution) if errors and error_model else attribution

    def predictions(self, x: Array) -> Predictions:
        """Return what the model and the surrogate say of inputs, for a pass of each.

        Explanations are of the surrogate: where it decides otherwise than the model, in `differ`, do not trust them.
        """
        fitted = self.fitted_
        inputs = check_inputs(x, form=fitted.encoding)
        self._check_fits(inputs, fitted)
        inputs, output = inputs.to(self.device), fitted.masked_model.output
        everyone = torch.ones(len(inputs), fitted.masked_model.n_players, dtype=torch.bool, device=self.device)
        said = PREDICTIONS[KINDS[output]](answer(fitted.masked_model.surrogate, inputs, everyone))
        known = None if fitted.model is None else predict(fitted.model, inputs, output).to(said)
        return Predictions(known, said, KINDS[output])

    def refine(
        self,
        x: Array,
        *,
        n_calls: int = 256,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: Outputs = "all",
        seed: int | torch.Generator = 0,
        progress: bool = True,
    ) -> Attribution:
        """Mend answers by sampled coalitions: raw values without bias, with standard errors in `stderr`.

        It pays where the surrogate is large, since calls go to that. Where it is small,
        `least_squares_values(explainer.game(x), ...)` with more calls may be faster. Refined values are better than
        the network's where their `stderr` is below its `expected_error`; with few calls and many players it is not.

        Args:
            x: a batch of inputs.
            n_calls: evaluations of the surrogate for each input, at least 34; they serve all outputs and weightings.
                Time grows faster than they do up to 1,024, and in proportion to them from there on.
            weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
            outputs: as `explain` takes them.
            seed: whole number, or a generator on the explainer's device.
            progress: whether to show a progress bar.
        """
        return refine(self, x, n_calls=n_calls, weights=weights, outputs=outputs, seed=seed, progress=progress)

    def calibrate(
        self,
        x: Array,
        *,
        n_inputs: int | None = CALIBRATION_INPUTS,
        n_calls: int = CALIBRATION_CALLS,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        seed: int | torch.Generator = 0,
        progress: bool = True,
    ) -> ErrorModel:
        """Measure how far off answers are, so that `explain(..., errors=True)` can say it of new inputs.

        Each input that is used takes two runs of `refine`: with the defaults 48 inputs and 128 calls a run, some
        seconds if the surrogate is small. `error_model` judges itself by half of the inputs.

        Args:
            x: inputs that it was not trained on, at least 8.
            n_inputs: most of them to use, chosen by the seed; None is all.
            n_calls: of each of two runs of `refine` that answers are held against.
            weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
            seed: whole number, or a generator on the explainer's device.
            progress: whether to show progress bars.
        """
        self.error_model_ = calibrate(self, x, n_inputs=n_inputs, n_calls=n_calls, weights=weights, seed=seed, progress=progress)
        return self.error_model_

    def _explain_batch(
        self,
        fitted: Fitted,
        x: Float[Tensor, "batch ..."],
        weights: Sequence[Semivalue],
        outputs: Int[Tensor, "batch outputs"] | None,
        total: Total,
        *,
        everything: bool,
    ) -> tuple[Float[Tensor, "weights batch players outputs"], Int[Tensor, "batch outputs"]]:
        """Values of a batch, and the numbers of the outputs they are of; None is the one predicted."""
        mixtures = fitted.objective.mixtures(weights, x.device)
        with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            values = (fitted.values if self._quick is None else self._quick)(x, mixtures)
        if total == "efficient":
            gain = fitted.masked_model.full_values(x) - fitted.base_values
            values = shift_to_total(values, gain.expand(len(weights), -1, -1))
        if outputs is None:
            outputs = predict(self._require_model(fitted), x, fitted.masked_model.output).argmax(1, keepdim=True)
        numbers = outputs.to(self.device, non_blocking=True)
        if not everything:
            values = values.gather(-1, numbers[None, :, None].expand(*values.shape[:3], -1))
        return values, numbers

    def __call__(
        self,
        x: Array,
        *,
        weights: Semivalue | None = None,
        outputs: Outputs = "all",
        total: Total = "efficient",
    ) -> shap.Explanation:
        """Explain inputs as shap's explainers do; values are shifted to add up to what the surrogate predicts."""
        form = self.fitted_.encoding
        shown = form.select_columns(x) if isinstance(x, pd.DataFrame) and form is not None and form.is_frame else x
        return to_shap(self.explain(x, weights=weights, outputs=outputs, total=total), data=shown)

    def attribute(
        self,
        inputs: Array,
        target: int | Int[Tensor, " batch"] | None = None,
        *,
        weights: Semivalue | None = None,
        total: Total | Literal["auto"] = "auto",
    ) -> Float[Tensor, "batch ..."]:
        """Explain inputs as captum's methods do: a tensor of their shape, each position with its player's value.

        Args:
            inputs: a batch.
            target: number of the output to explain, or one per input; None where there is but one.
            weights: as `explain` takes them.
            total: as `explain` takes it.
        """
        fitted = self.fitted_
        chosen = choose_targets(target, len(inputs), len(fitted.base_values))
        return spread_over_inputs(self.explain(inputs, weights=weights, outputs=chosen, total=total))

    def compile(self) -> Self:
        """Compile the way from inputs to values by torch.compile; the first call with each batch size is slow then.

        Results may differ in the last bits.
        """
        compiled = torch.compile(self.fitted_.values, mode="reduce-overhead")
        # The next call of what is compiled overwrites what this one returned.
        self._quick = lambda x, mixtures: compiled(x, mixtures).clone()
        return self

    def game(self, x: Array | pd.Series) -> PredictionGame:
        """Return the game of one input that is being explained, so that anything can be audited."""
        fitted = self.fitted_
        dimensions = fitted.players.assignment.ndim + fitted.players.is_image
        if isinstance(x, pd.Series):
            several: Array = x.to_frame().T
        else:
            several = x if np.ndim(x) > dimensions or hasattr(x, "columns") else as_tensor(x)[None]
        one = check_inputs(several, form=fitted.encoding)
        self._check_fits(one, fitted)
        if len(one) != 1:
            raise ValueError(f"a game is that of one input, got {len(one)}")
        return PredictionGame(fitted.masked_model, one.to(self.device))

    def distill(
        self,
        x_train: Array,
        x_valid: Array | None = None,
        *,
        network: MakeNetwork | NetworkName = "slim",
        budget: Budget = DEFAULT_BUDGET,
        batch_size: int = 256,
        learning_rate: float = 2e-3,
        augment: Augment | None = None,
        compiled: bool = False,
        progress: bool = True,
    ) -> FeatureExplainer:
        """Return an explainer of the same game with a smaller network, taught by this one.

        Args:
            x_train: inputs to learn from.
            x_valid: inputs to select by; by default some of x_train, held out.
            network: the student, as the constructor takes it; "slim" is for images, a table needs another.
            budget: seconds or steps.
            batch_size: inputs a step.
            learning_rate: its peak.
            augment: changes a batch of inputs at random.
            compiled: whether to compile the student while it learns.
            progress: whether to show a progress bar.
        """
        fitted = self.fitted_
        check_budget(budget)
        x = check_inputs(x_train, "x_train", fitted.encoding)
        self._check_fits(x, fitted)
        x, valid = hold_out(x, self.seed) if x_valid is None else (x, check_inputs(x_valid, "x_valid", fitted.encoding))
        self._check_fits(valid, fitted)
        few = x[:MOST_HELD_OUT].to(self.device)
        channels = fitted.objective.maps * len(fitted.base_values)
        student = make_network(
            network, fitted.masked_model.surrogate, fitted.players, few, channels, seed=self.seed, form=fitted.encoding
        )
        plan = Plan(budget, Recipe(batch_size, learning_rate, compiled=compiled), 2, augment, None, False, progress)
        history = fit_student(student, fitted.network, x, valid, device=self.device, seed=self.seed, plan=plan)
        taught = copy.copy(self)
        taught.network, taught._quick, taught.error_model_ = network, None, None  # noqa: SLF001 - its own kind
        taught._arguments = self._arguments | {"network": network}  # noqa: SLF001 - its own kind
        taught.histories_ = self.histories_ | {"student": history}
        taught._fitted = replace(fitted, network=student.requires_grad_(requires_grad=False))  # noqa: SLF001 - its own kind
        return taught

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the explainer to a folder, whole or not at all: tensors and facts, never code."""
        fitted, place = self.fitted_, check_path("folder", folder)
        if place.is_file():
            raise NotADirectoryError(f"{place} is a file: choose another folder")
        facts = {
            "example": self._example_shape,
            "metadata": self.metadata,
            "histories": {name: asdict(each) for name, each in self.histories_.items()},
            "fidelity": None if self.fidelity_ is None else asdict(self.fidelity_),
            "errors": None if self.error_model_ is None else self.error_model_.facts(),
        }
        given = {"objective": self.objective, "removal": self.removal, "output_names": self.output_names}
        save_fitted(place, fitted, self._arguments | given, facts)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        model: nn.Module | Any = None,  # noqa: ANN401 - a function or an estimator
        surrogate: nn.Module | None = None,
        network: MakeNetwork | None = None,
        device: str | torch.device = "auto",
    ) -> FeatureExplainer:
        """Read an explainer that was saved.

        Args:
            folder: where it is.
            model: a module of the model's architecture, trained or not, whose copy gets the tensors that were saved; or
                the black box. Explainers of images by a module need it; others only for outputs="predicted" and to be
                fitted again. `fit` explains this model as it is given, with a surrogate trained anew, unless the
                explainer was made with a `Surrogate`.
            surrogate: a module of the architecture of the surrogate network, if it was one of your own; `fit` trains a
                copy of it, or of the network that was saved if there is none.
            network: makes the explaining network, if it was one of your own.
            device: where it shall run.
        """
        where = choose_device(device)
        fitted, arguments, facts = load_fitted(
            Path(folder), model=model, surrogate=surrogate, network=network, device=where
        )
        loaded = cls(_Missing() if model is None else model, device=where, **arguments)
        loaded.histories_ = {name: History.from_facts(each) for name, each in facts["histories"].items()}
        loaded.fidelity_ = None if facts["fidelity"] is None else Fidelity.from_facts(facts["fidelity"])
        loaded.error_model_ = None if facts["errors"] is None else ErrorModel.from_facts(facts["errors"])
        loaded.metadata = facts["metadata"]
        loaded._fitted, loaded._example_shape = fitted, tuple(facts["example"])
        return loaded

    @property
    def players_(self) -> Players:
        """What is credited: the players given, or the columns of the table that it was fitted with."""
        return self.fitted_.players

    @property
    def output_names_(self) -> tuple[str, ...]:
        """Names of the outputs: those given, or those of the model that it was fitted to."""
        return self.fitted_.output_names

    @property
    def masked_model_(self) -> MaskedModel:
        """What coalitions of any inputs are worth: the games of all inputs at once."""
        return self.fitted_.masked_model

    @property
    def surrogate_(self) -> nn.Module:
        """What the game asks: a module on (inputs, coalitions)."""
        return self.fitted_.masked_model.surrogate

    @property
    def network_(self) -> nn.Module:
        """What explains: a module from inputs to (batch, players, channels)."""
        return self.fitted_.network

    @property
    def provenance(self) -> dict[str, Any]:
        """How the explainer came about, as JSON holds it."""
        return {
            "fwshapley": __version__,
            "torch": torch.__version__,
            "output": self.output if self._fitted is None else self._fitted.masked_model.output,
            "objective": type(self.objective).__name__.lower(),
            "seed": self.seed,
            "training": {
                name: {"steps": each.steps, "seconds": round(each.seconds, 2), "stopped": each.stopped}
                for name, each in self.histories_.items()
            },
            "fidelity": None if self.fidelity_ is None else asdict(self.fidelity_),
        }

    @property
    def fitted_(self) -> Fitted:
        """What the last fit left behind."""
        if self._fitted is None:
            raise RuntimeError("this explainer is not fitted yet: call fit(x_train) first, or load one that is")
        return self._fitted

    def _require_model(self, fitted: Fitted) -> nn.Module:
        if fitted.model is None:
            raise RuntimeError("only the model knows what it predicts: pass model=... to load, or name the outputs")
        return fitted.model

    def _choose_players(self, x: Tensor, form: TableSchema | None) -> Players:
        """Return the players given, or the columns of a table."""
        players = self.players
        if players is None:
            if x.ndim != 2:  # noqa: PLR2004 - rows and columns
                shape = tuple(x.shape)
                raise ValueError(f"inputs of shape {shape} are no table: say who plays, e.g. players=grid(...)")
            players = columns(x.shape[1], None if form is None else form.names)
        players.check(x)
        if form is not None and form.is_frame:
            players = players.for_table(form.names)
        return players

    def _check_fits(self, x: Tensor, fitted: Fitted) -> None:
        """Raise unless x is a batch of inputs such as it was fitted with."""
        players, channels = fitted.players, self._example_shape[1]
        players.check(x)
        if players.is_image and x.shape[1] != channels:
            height, width = players.assignment.shape
            expected = f"(batch, {channels}, {height}, {width})"
            raise ValueError(
                f"it was fitted with images of {channels} channel{'s' * (channels != 1)}: expected {expected}, "
                f"got {tuple(x.shape)}"
            )


class _Missing(nn.Module):
    """In place of the model of an explainer that was loaded without it."""


load = FeatureExplainer.load
"""`FeatureExplainer.load`, under the name that one looks for."""
