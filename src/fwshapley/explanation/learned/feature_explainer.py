"""Explain a model in one forward pass: train once, then explain any input under any weighting."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import pandas as pd
import torch
from jaxtyping import Bool
from numpy import ndarray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import nn

from fwshapley._internal.checks import Array, check_checkpoint, check_choice, check_flag, check_path, check_whole
from fwshapley.coalitions import make_generator
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.inputs.input_checks import Augment, Outputs
from fwshapley.explanation.inputs.input_reading import Transform
from fwshapley.explanation.inputs.predictions import Predictions
from fwshapley.explanation.interop import OtherInterfaces
from fwshapley.explanation.learned.distillation import distill
from fwshapley.explanation.learned.error_model import CALIBRATION_CALLS, CALIBRATION_INPUTS, ErrorModel, calibrate
from fwshapley.explanation.learned.fidelity import Fidelity
from fwshapley.explanation.learned.fitted import Fitted
from fwshapley.explanation.learned.fitting import MakeNetwork, NetworkName, ObjectiveName, fit_explainer
from fwshapley.explanation.learned.onnx_export import export_explainer
from fwshapley.explanation.learned.persistence import MissingModel, load_parts, save_explainer
from fwshapley.explanation.learned.quality import Quality
from fwshapley.explanation.learned.quality_measurement import (
    MEASURED_INPUTS,
    MIN_INPUTS,
    divide_budget,
    measure,
    measured_weightings,
    warn_if_poor,
)
from fwshapley.explanation.learned.refinement import refine
from fwshapley.explanation.learned.removal import RemovalName
from fwshapley.explanation.learned.sampled_values import sample_inputs
from fwshapley.games.masked_model import MaskedModel, PredictionGame
from fwshapley.games.scales import Output
from fwshapley.objectives import Objective
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue, Total
from fwshapley.superpixels import FindPlayers
from fwshapley.tables.unusable_entries import UnusableEntry, mark_usable
from fwshapley.training.batches import derive_seed
from fwshapley.training.budget import Budget, History, TrainingOptions, check_budget

DEFAULT_BUDGET = Budget(seconds=120)


class FeatureExplainer(OtherInterfaces, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Predicts weighted Shapley values of a model's features in one forward pass.

    `fit` trains two networks. The surrogate reproduces the model from a part of the features; its predictions define
    the game v(S). The explaining network is trained on sampled coalitions S, without ground truth, so that its output
    is the semivalue phi_i(v) of each player i (docs/math.md, section 3).

    Args:
        model: a torch module that returns logits, or values with output="raw", alone or as an entry of a dict, a tuple
            or an object (see `fwshapley.explanation.SelectOutput`); it is copied to single precision and never changed.
            Or a model or a pipeline of transformers, of texts or images. Or a function, which is called with arrays or
            DataFrames, or with tensors if it takes no arrays. Or a fitted estimator with predict_proba or predict.
        players: made by `grid`, `segments` or `groups`, or for texts by `tokens`, `words` or `sentences`; None is one
            player per column of a table, or the tokens of a pipeline.
        surrogate: "auto" trains one: a copy of an image model, a new network for tables and functions. A module is
            trained in its place. A `Surrogate` is used as it is. None explains the model itself with filled inputs.
        objective: "multilinear" learns all semivalues at once, "kernel" the one passed as `weights`; or an objective
            with options, such as `fwshapley.objectives.Kernel(fw.Shapley(), constraint="normalize")` (FastSHAP's).
        weights: for objective="kernel", the semivalue to learn.
        output: scale of the values: "probability" of a class or its "logit" (log odds); "label_probability" or
            "label_logit" for independent labels; or the model's "raw" outputs. "auto" is the probability of the
            classes of a module; of other models, probabilities if it returns them.
        network: the explaining network: "auto" (a small U-Net on the grid of the players that starts from the feature
            maps of a convolutional surrogate; a perceptron for tables; a transformer that starts from the surrogate if
            that is one), "unet" (the paper's), "slim" (a small one), or a function that makes one from inputs to
            (batch, players, channels), given the number of channels.
        removal: what replaces hidden features if the surrogate fills them: "zero", "mean", a baseline (one input) or
            background data (several inputs, averaged over). "auto" is the mean in a table and zero in an image, or
            a value that no pixel has if zero is plausible and the surrogate is trained. In a transformer, "attention"
            to hidden words or patches is masked, which is "auto" where the model allows it; the "mask_token" may
            replace words, or "zero" their embeddings.
        output_names: one per output of the model; by default the classes of an estimator.
        transform: makes a tensor of a PIL image, such as a transform of torchvision. Pictures, their paths and images
            of bytes (uint8) are passed through it; images in floating point are taken as they are. Random changes
            belong to `augment`, since inputs are transformed once.
        device: "auto" is a GPU if there is one.
        seed: of everything random.

    Example:
        >>> x = torch.randn(200, 3)
        >>> model = torch.nn.Linear(3, 4)  # log odds of four classes
        >>> explainer = fw.FeatureExplainer(model, device="cpu").fit(x, budget=fw.Budget(steps=20), progress=False)
        >>> explainer.explain(x[:5], weights=fw.Beta(4, 1)).values.shape  # inputs, players, outputs
        torch.Size([5, 3, 4])
    """

    error_model_: ErrorModel | None = None
    """Predicts how far off values are, once `calibrate` has measured it."""

    metadata: dict[str, Any] | None = None
    """JSON-compatible facts to save with the explainer, such as how its inputs were read; a fit resets them."""

    _fitted: Fitted | None = None

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
        removal: RemovalName | Array = "auto",
        output_names: Sequence[str] | None = None,
        transform: Transform | None = None,
        device: str | torch.device = "auto",
        seed: int = 0,
    ) -> None:
        self.model = model
        self.players = players
        self.surrogate = surrogate
        self.objective = objective
        self.weights = weights
        self.output = output
        self.network = network
        self.removal = removal
        self.output_names = output_names
        self.transform = transform
        self.device = device
        self.seed = seed

    def __repr__(self) -> str:
        name = "a model that was not loaded" if isinstance(self.model, MissingModel) else type(self.model).__name__
        game = None if self._fitted is None else self._fitted.masked_model
        state = "not fitted" if game is None else f"fitted, {game.n_players} players"
        return f"FeatureExplainer({name}, output={(game or self).output!r}, {state})"

    def __sklearn_clone__(self) -> FeatureExplainer:
        """Return an explainer of the same model, which is not cloned, that is not fitted."""
        return type(self)(**self.get_params())

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's signature
        """Return the arguments of the constructor, but not those of the explained estimator."""
        return dict(super().get_params(deep=False))

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401 - of any argument
        """Change arguments of the constructor; the explainer is then not fitted."""
        super().set_params(**params)
        self._set_fitted(None)
        return self

    def fit(
        self,
        x_train: Array,
        x_valid: Array | None = None,
        *,
        budget: Budget = DEFAULT_BUDGET,
        batch_size: int = 64,
        n_coalitions: int = 16,
        learning_rate: float = 6e-3,
        augment: Augment | None = None,
        compiled: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        warm_start: bool = False,
        progress: bool = True,
    ) -> Self:
        """Train the surrogate and the explaining network within a budget, and measure how good the values are.

        The values of held-out inputs are compared with sampled ones: `quality_`. A line on standard error says how good
        they are, and a `QualityWarning` if they are hardly better than zeros or than the mean values of each class.

        Args:
            x_train: inputs; no labels are needed, since the model's own predictions are explained. An array, or a list
                of arrays or pictures, a Dataset or a DataLoader, from which all inputs are collected. Images may have
                channels first or last, or none. A torch module gets channels first, a function the layout of x_train.
            x_valid: other inputs, to select the best state and stop early; by default a tenth of x_train, at most 512.
            budget: seconds or steps, of which a trained surrogate takes 30 %: less if it makes no more progress, and up
                to 60 % for a table if it misses more than 1 % of the model's variance by then. Seconds count everything
                except compilation: where predictions take long, fewer inputs calibrate, validate and give the fidelity.
                8 % of the seconds are for measuring the quality of the values, but at least one second (or a fifth of
                them) and at most ten. It is not measured with fewer than 8 held-out inputs, or if 8 would take longer.
            batch_size: inputs per step, four times as many for the surrogate; fewer if seconds would otherwise end
                after less than about 100 steps (50 of the surrogate).
            n_coalitions: coalitions per input, at least 2.
            learning_rate: peak learning rate of the explaining network; a transformer trains by AdamW at a twentieth
                of it.
            augment: changes a batch of inputs at random, (inputs, generator) -> inputs.
            compiled: compile both networks; on a GPU it pays off after a minute or two.
            checkpoint: folder to save to every 20 seconds, and when interrupted.
            resume: continue from the checkpoint.
            warm_start: go on with the networks of the last fit, or of a loaded explainer, if there are any. The budget
                is that of this call. A network is left as it is unless its validation loss becomes lower.
            progress: show progress bars.
        """
        started = time.monotonic()
        if isinstance(self.model, MissingModel):
            raise RuntimeError(  # noqa: TRY004 - the state is wrong, not a type
                "this explainer was loaded without its model; to fit it again, pass model=... to load"
            )
        _check_no_labels(x_train, x_valid)
        check_budget(budget)
        batch_size = check_whole("batch_size", batch_size)
        check_whole("n_coalitions", n_coalitions, minimum=2)
        check_flag("warm_start", warm_start)
        start = self._fitted if warm_start else None
        training, measuring = divide_budget(budget, batch_size * n_coalitions)
        options = TrainingOptions(
            training,
            batch_size,
            learning_rate,
            optimizer="muon",
            compiled=compiled,
            seed=self.seed if start is None else _seed_after(start),
            checkpoint=check_checkpoint(checkpoint, resume=resume),
            resume=resume,
            progress=progress,
            warm_start=start is not None,
            started=started,
        )
        fitted = fit_explainer(
            self,
            x_train,
            x_valid,
            options,
            n_coalitions=n_coalitions,
            augment=augment,
            measuring=measuring,
            start=start,
        )
        self._set_fitted(fitted)
        return self

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: Outputs = "auto",
        total: Total | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        errors: bool = False,
        method: Literal["network", "auto"] = "network",
        progress: bool = True,
    ) -> Attribution:
        """Explain inputs: in one pass of the network, or with method="auto" by what was measured to be good enough.

        `print(attribution)` and its `provenance` say which method was used, and its relative error on held-out inputs.

        Args:
            x: a batch of inputs, in any form that `fit` takes; or a single image, which is a batch of one, so that
                values have an axis for images all the same.
            weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
            outputs: "all"; "predicted", the class that the model predicts, which takes a pass of the model; names or
                numbers of some; or numbers for each input. "auto" is the positive one of two classes, otherwise all.
            total: "raw" is the semivalue itself; "efficient" shifts it to sum to v(all players) - v(empty coalition).
                "auto" is raw, except for the kernel objective, which learns efficient values only.
            batch_size: inputs at once.
            errors: also return how far off the values are likely to be, as `expected_error`; it needs `calibrate` first
                and takes one more pass of the surrogate.
            method: "network" takes one pass, however many weightings are requested. "auto" takes it if the relative
                error measured for each weighting, or for the nearest one that was measured, is at most 0.5. Otherwise
                it calls `refine` or `sample`, whichever reaches that error sooner, for every input.
            progress: show progress if inputs are refined or sampled.
        """
        check_flag("errors", errors)
        check_choice("method", method, ("network", "auto"))
        fitted, error_model = self.fitted_, self.error_model_
        if errors and method == "auto":
            raise ValueError("errors=True is for method='network'; values of refine and sample have standard errors")
        if errors and error_model is None:
            raise ValueError("errors=True needs a calibrated explainer; call calibrate(x_valid) first")
        if method == "auto":
            return self._explain_as_planned(x, weights, outputs, total, batch_size, progress=progress)
        attribution = fitted.explain(x, weights, outputs, total, batch_size)
        return error_model.expect(self, attribution) if errors and error_model else attribution

    def usable(self, x: Array) -> Bool[ndarray, " rows"]:
        """Return which inputs can be explained: not those with missing or unknown entries that there is no rule for.

        Args:
            x: a batch of inputs.
        """
        entries = self.find_unusable(x)
        fitted = self.fitted_
        count = len(x) if fitted.schema is not None else len(fitted.check_inputs(x, finite=False))
        return mark_usable(entries, count)

    def find_unusable(self, x: Array) -> list[UnusableEntry]:
        """Return the entries for which `explain` refuses inputs: where each is, what is there, and what is wrong.

        Args:
            x: a batch of inputs.
        """
        return self.fitted_.find_unusable(x)

    def predictions(self, x: Array) -> Predictions:
        """Return what the model and the surrogate predict from complete inputs; takes one pass of each.

        Explanations are of the surrogate: do not trust them for inputs in `differ`.
        """
        return self.fitted_.predictions(x)

    def refine(
        self,
        x: Array,
        *,
        n_calls: int = 256,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: Outputs = "auto",
        seed: int | torch.Generator = 0,
        progress: bool = True,
    ) -> Attribution:
        """Correct values with sampled coalitions: unbiased raw values, with standard errors in `stderr`.

        It pays off if the surrogate is large; if it is small, `least_squares_values(explainer.game(x), ...)` with more
        calls may be faster. Refined values are better than the network's if `stderr` is below its `expected_error`.

        Args:
            x: a batch of inputs.
            n_calls: evaluations of the surrogate per input, at least 34, shared by all outputs and weightings.
            weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
            outputs: as in `explain`.
            seed: an integer, or a generator on the explainer's device.
            progress: show a progress bar.
        """
        return refine(self, x, n_calls=n_calls, weights=weights, outputs=outputs, seed=seed, progress=progress)

    def sample(
        self,
        x: Array,
        *,
        n_calls: int | Literal["auto"] = "auto",
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: Outputs = "auto",
        total: Total = "raw",
        seed: int | torch.Generator = 0,
        progress: bool = True,
    ) -> Attribution:
        """Estimate values from sampled coalitions alone, without the network, with standard errors in `stderr`.

        This is `least_squares_values` of the game of each input, for many inputs at once, which is much faster.

        Args:
            x: a batch of inputs.
            n_calls: evaluations of the surrogate per input, at least 4 * players + 32 (or all 2**players), shared by
                all outputs and weightings; "auto" is 8 per player, but at least 256.
            weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
            outputs: as in `explain`.
            total: "raw" or "efficient", as in `explain`.
            seed: an integer, or a generator on the explainer's device.
            progress: show a progress bar.
        """
        return sample_inputs(
            self, x, n_calls=n_calls, weights=weights, outputs=outputs, total=total, seed=seed, progress=progress
        )

    def measure_quality(
        self,
        x: Array,
        *,
        n_inputs: int | None = MEASURED_INPUTS,
        n_calls: int | Literal["auto"] = "auto",
        weights: Semivalue | Sequence[Semivalue] | None = None,
        seed: int | torch.Generator = 0,
        progress: bool = True,
    ) -> Quality:
        """Measure how good the values of the network, of `refine` and of `sample` are; the result is also `quality_`.

        `fit` does so within its budget. Here each input is sampled twice, however long that takes.

        Args:
            x: inputs that the explainer was not trained on, at least 8.
            n_inputs: how many of them to use at most, chosen by the seed; None is all.
            n_calls: coalitions of each input in each run, as in `sample`.
            weights: a semivalue or a list of them; by default Shapley, Beta(4, 1) and Beta(1, 4), or the one that was
                learned.
            seed: an integer, or a generator on the explainer's device.
            progress: show a progress bar.
        """
        fitted = self.fitted_
        inputs = fitted.check_inputs(x, "x")
        if len(inputs) < MIN_INPUTS:
            raise ValueError(f"x must contain at least {MIN_INPUTS} inputs to measure quality on, got {len(inputs)}")
        if n_inputs is not None:
            check_whole("n_inputs", n_inputs, minimum=MIN_INPUTS)
        weightings = measured_weightings(fitted) if weights is None else fitted.check_weights(weights)
        generator = make_generator(seed, fitted.device)
        quality = measure(
            fitted, inputs, weightings, generator=generator, n_inputs=n_inputs, n_calls=n_calls, progress=progress
        )
        warn_if_poor(quality, stacklevel=3)
        self._fitted = replace(fitted, quality=quality)
        return quality

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
        """Measure how far off values are, so that `explain(..., errors=True)` can predict it for new inputs.

        Each input takes two runs of `refine`. Half of the inputs fit the error model, the others judge it.

        Args:
            x: inputs that the explainer was not trained on, at least 8.
            n_inputs: how many of them to use at most, chosen by the seed; None is all.
            n_calls: of each run of `refine`.
            weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
            seed: an integer, or a generator on the explainer's device.
            progress: show progress bars.
        """
        model = calibrate(self, x, n_inputs=n_inputs, n_calls=n_calls, weights=weights, seed=seed, progress=progress)
        self.error_model_ = model
        return model

    def compile(self) -> Self:
        """Compile the computation of values; the first call with each batch size is slow, and last bits may differ."""
        fitted = self.fitted_
        self._fitted = replace(fitted, compiled_values=torch.compile(fitted.values, mode="reduce-overhead"))
        return self

    def game(self, x: Array | pd.Series, players: Players | FindPlayers | None = None) -> PredictionGame:
        """Return the game of one input that is explained, which any estimator can check.

        Args:
            x: one input.
            players: other players of an image than those that were learned, or a function that makes them of it, such
                as `Superpixels(50)`. The surrogate is the same, and has been trained with the learned ones.
        """
        return self.fitted_.game(x, players)

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
        """Return an explainer of the same game with a smaller network, trained to reproduce this one's.

        Args:
            x_train: training inputs.
            x_valid: validation inputs; by default some of x_train, held out.
            network: the new network, as in the constructor; "slim" is for images.
            budget: seconds or steps.
            batch_size: inputs per step.
            learning_rate: peak learning rate.
            augment: changes a batch of inputs at random.
            compiled: compile the networks during training.
            progress: show a progress bar.
        """
        check_budget(budget)
        batch_size = check_whole("batch_size", batch_size)
        training, measuring = divide_budget(budget, calls_per_step=batch_size)
        options = TrainingOptions(
            training, batch_size, learning_rate, compiled=compiled, seed=self.seed, progress=progress
        )
        explainer = type(self)(**self.get_params() | {"network": network})
        fitted = distill(self.fitted_, x_train, x_valid, network, options=options, augment=augment, measuring=measuring)
        explainer._set_fitted(fitted)  # noqa: SLF001 - of this class
        explainer.metadata = self.metadata
        return explainer

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the explainer to a folder, completely or not at all: tensors and facts, no code."""
        save_explainer(self, check_path("folder", folder))

    def to_onnx(self, path: str | os.PathLike[str], *, surrogate: str | os.PathLike[str] | None = None) -> None:
        """Write the explaining network to an ONNX file, which `fw.load_onnx` runs without torch.

        The weighting is an input of its graph: inputs (batch, ...) and mixtures (weights, maps) give values (weights,
        batch, players, outputs), their coefficients (batch, players, maps, outputs), and predictions (batch, outputs)
        of the surrogate. `fw.load_onnx(path).mixtures(weights)` computes mixtures. It needs `fwshapley[export]`.

        Args:
            path: the file; an existing one is replaced.
            surrogate: also write the surrogate, to another file: inputs and coalitions (batch, players) give values
                (batch, outputs).
        """
        file = None if surrogate is None else check_path("surrogate", surrogate)
        export_explainer(self, check_path("path", path), file)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        model: nn.Module | Any = None,  # noqa: ANN401 - a function or an estimator
        surrogate: nn.Module | None = None,
        network: MakeNetwork | None = None,
        transform: Transform | None = None,
        device: str | torch.device = "auto",
    ) -> FeatureExplainer:
        """Read an explainer that was saved.

        Args:
            path: the folder, or the file in it.
            model: a module of the model's architecture, trained or not, whose copy gets the saved tensors; or the
                function or estimator. It is needed to load explainers of images by a module; other explainers need it
                only for outputs="predicted" and to be fitted again. `fit` explains this model as it is passed, with a
                surrogate that is trained again, unless the explainer was made with a `Surrogate`.
            surrogate: a module of the architecture of the surrogate network, if you passed one; `fit` trains a copy of
                it, or of the saved one.
            network: makes the explaining network, if you passed a function.
            transform: of pictures, if you passed one; it is not saved.
            device: where it runs.
        """
        parts = load_parts(
            check_path("path", path),
            model=model,
            surrogate=surrogate,
            network=network,
            transform=transform,
            device=device,
        )
        explainer = cls(MissingModel() if model is None else model, device=device, **parts.arguments)
        explainer._fitted, explainer.error_model_, explainer.metadata = parts.fitted, parts.error_model, parts.metadata
        return explainer

    @property
    def fitted_(self) -> Fitted:
        """The frozen result of the last fit, with everything that explaining needs."""
        if self._fitted is None:
            raise NotFittedError("this explainer is not fitted; call fit(x_train) first, or load one that is")
        return self._fitted

    @property
    def players_(self) -> Players:
        """Players of the fit: those of the constructor, or the columns of the table."""
        return self.fitted_.players

    @property
    def output_names_(self) -> tuple[str, ...]:
        """Names of the outputs: those of the constructor, or those of the model."""
        return self.fitted_.output_names

    @property
    def histories_(self) -> dict[str, History]:
        """History of each training run: "surrogate", "explainer", "student"."""
        return dict(self.fitted_.histories)

    @property
    def fidelity_(self) -> Fidelity | None:
        """How well the surrogate reproduces the model; None if the fit did not train it."""
        return self.fitted_.fidelity

    @property
    def quality_(self) -> Quality | None:
        """How good the network's values are on held-out inputs; None if that was not measured."""
        return self.fitted_.quality

    @property
    def masked_model_(self) -> MaskedModel:
        """The value of coalitions of any inputs."""
        return self.fitted_.masked_model

    @property
    def surrogate_(self) -> nn.Module:
        """The surrogate, a module on (inputs, coalitions)."""
        return self.fitted_.masked_model.surrogate

    @property
    def network_(self) -> nn.Module:
        """The explaining network, from inputs to (batch, players, channels)."""
        return self.fitted_.network

    def _explain_as_planned(
        self,
        x: Array,
        weights: Semivalue | Sequence[Semivalue] | None,
        outputs: Outputs,
        total: Total | Literal["auto"],
        batch_size: int | Literal["auto"],
        *,
        progress: bool,
    ) -> Attribution:
        """Explain inputs by the method that the measured quality suggests."""
        fitted = self.fitted_
        if fitted.quality is None:
            raise ValueError("method='auto' needs measured quality; call measure_quality(x_valid) first")
        scale = fitted.check_total(total)
        weightings = fitted.check_weights(weights)
        plan = fitted.quality.choose(weightings, fitted.players.n_players, scale)
        options: dict[str, Any] = {"weights": weights, "outputs": outputs, "seed": self.seed, "progress": progress}
        if plan.method == "network" or plan.n_calls is None:
            return fitted.explain(x, weights, outputs, total, batch_size)
        if plan.method == "refinement":
            attribution = self.refine(x, n_calls=plan.n_calls, **options)
        else:
            attribution = self.sample(x, n_calls=plan.n_calls, total=scale, **options)
        error = plan.error if math.isfinite(plan.error) else None
        return replace(attribution, provenance={**attribution.provenance, "relative_error": error})

    def _set_fitted(self, fitted: Fitted | None) -> None:
        """Replace the result of the last fit, and forget what depended on it."""
        self._fitted, self.error_model_, self.metadata = fitted, None, None


def _check_no_labels(x_train: Array, x_valid: Array | None) -> None:
    """Raise an error that says that no labels are needed if the second argument of `fit` looks like labels."""
    if x_valid is None or len(getattr(x_train, "shape", ())) <= 1:
        return
    flat_list = isinstance(x_valid, list | tuple) and len(x_valid) > 0 and not hasattr(x_valid[0], "__len__")
    if flat_list or len(getattr(x_valid, "shape", ())) == 1:
        raise ValueError(
            f"x_valid, the second argument of fit, must be inputs like x_train, got {len(x_valid)} single entries. If "
            "these are labels, leave them out: fit(x_train) needs none, because it explains the model's own predictions"
        )


def _seed_after(start: Fitted) -> int:
    """Return a seed of other batches than those of an earlier fit."""
    return derive_seed(start.seed, "warm start", start.histories["explainer"].steps) % 2**31
