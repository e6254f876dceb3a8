"""The baselines by name: one row each, with what it needs and which weightings it can compute."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice, check_kind, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley.estimators import least_squares_values, multilinear_values, permutation_values
from fwshapley.explanation.attribution import Attribution, Unweighted
from fwshapley.explanation.baselines.gradients import DIFFERENTIATED_ELEMENTS, gradcam, integrated_gradients, saliency
from fwshapley.explanation.baselines.sampling import kernel_shap, sample, shapley_sampling
from fwshapley.explanation.baselines.simple import class_mean, random
from fwshapley.explanation.baselines.task import BaselineTask
from fwshapley.explanation.inputs.input_checks import Outputs
from fwshapley.explanation.learned.feature_explainer import FeatureExplainer
from fwshapley.explanation.learned.fitted import MAX_BATCH
from fwshapley.games.scales import KINDS
from fwshapley.semivalues import Semivalue, Shapley

Need = Literal["captum", "scikit-learn", "model", "gradients", "images", "classes", "examples"]
Weightings = Literal["none", "Shapley", "any", "learned"]

MODULES = {"captum": "captum", "scikit-learn": "sklearn"}
"""Import names of the libraries among the needs."""


@dataclass(frozen=True)
class BaselineMethod:
    """A row of the registry.

    Attributes:
        compute: from a `BaselineTask` and keyword-only options to values (weights, batch, players, outputs).
        weightings: which it can compute: "none" if it does not weigh coalitions, "Shapley" alone, "any", or those that
            the explainer has "learned".
        needs: libraries; the model (which a loaded explainer may not have); gradients of the model; images; outputs
            that are classes; examples.

    Example:
        >>> fw.explanation.baselines.BASELINES["kernel_shap"].options
        {'n_calls': None, 'seed': 0}
    """

    compute: Callable[..., Tensor]
    weightings: Weightings
    needs: tuple[Need, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """Options with their defaults; an option without one is required."""
        parameters = inspect.signature(self.compute).parameters.values()
        return {option.name: option.default for option in parameters if option.kind is option.KEYWORD_ONLY}

    @property
    def libraries(self) -> list[str]:
        """Libraries that it needs."""
        return [need for need in self.needs if need in MODULES]


BASELINES: Mapping[str, BaselineMethod] = {
    "saliency": BaselineMethod(saliency, "none", ("captum", "model", "gradients")),
    "integrated_gradients": BaselineMethod(integrated_gradients, "none", ("captum", "model", "gradients")),
    "gradcam": BaselineMethod(gradcam, "none", ("captum", "model", "gradients", "images")),
    "kernel_shap": BaselineMethod(kernel_shap, "Shapley", ("captum", "scikit-learn")),
    "shapley_sampling": BaselineMethod(shapley_sampling, "Shapley", ("captum",)),
    "permutation": BaselineMethod(partial(sample, permutation_values), "any"),
    "least_squares": BaselineMethod(partial(sample, least_squares_values), "any"),
    "multilinear": BaselineMethod(partial(sample, multilinear_values), "any"),
    "class_mean": BaselineMethod(class_mean, "learned", ("model", "classes", "examples")),
    "random": BaselineMethod(random, "none"),
}
"""Methods by name. Their options are the keyword-only arguments of `compute`."""


def baseline(name: str, explainer: FeatureExplainer, **options: Any) -> Baseline:  # noqa: ANN401 - depends on the row
    """Return another method for the model, players, surrogate and scale of a fitted explainer.

    Args:
        name: one of `BASELINES`.
        explainer: a fitted explainer.
        options: of the method: `n_calls` (game calls per input; by default 4 per player and 2048) and `seed` for
            methods that sample, `steps` and `start` for integrated_gradients, `layer` and `relu` for gradcam,
            `examples` for class_mean.

    Example:
        >>> x = torch.randn(64, 5)
        >>> explainer = fw.FeatureExplainer(lambda rows: rows[:, 0] * rows[:, 1])
        >>> explainer = explainer.fit(x, budget=fw.Budget(steps=20), progress=False)
        >>> sampled = fw.baseline("least_squares", explainer, n_calls=32).explain(x[:2], weights=fw.Beta(4, 1))
        >>> sampled.values.shape
        torch.Size([2, 5, 1])
    """
    return Baseline(name, explainer, options)


class Baseline:
    """A method of `BASELINES`, ready to explain; made by `baseline`.

    Args:
        name: one of `BASELINES`.
        explainer: a fitted explainer.
        options: of the method.

    Example:
        >>> explainer = fw.FeatureExplainer(torch.nn.Linear(4, 2))
        >>> explainer = explainer.fit(torch.randn(64, 4), budget=fw.Budget(steps=5), progress=False)
        >>> fw.explanation.baselines.baseline("random", explainer, seed=1)
        baseline('random', seed=1)
    """

    def __init__(self, name: str, explainer: FeatureExplainer, options: Mapping[str, Any]) -> None:
        check_choice("name", name, tuple(BASELINES))
        check_kind("explainer", explainer, FeatureExplainer)
        check_kind("options", options, Mapping)
        self.name = name
        self.explainer = explainer
        self.options = dict(options)
        self.method = BASELINES[name]
        unknown = [option for option in options if option not in self.method.options]
        if unknown:
            expected = ", ".join(self.method.options) or "none"
            raise TypeError(f"options of {name} are {expected}; got {unknown[0]!r}")
        self._check_needs()

    def __repr__(self) -> str:
        options = "".join(f", {name}={_as_fact(value)!r}" for name, value in self.options.items())
        return f"baseline({self.name!r}{options})"

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: Outputs = "auto",
        batch_size: int | Literal["auto"] = "auto",
        progress: bool = True,
    ) -> Attribution:
        """Explain inputs, as `FeatureExplainer.explain` does.

        The explainer runs once too, since it reads the inputs and chooses the outputs.

        Args:
            x: a batch of inputs.
            weights: a semivalue or a list of them; by default Shapley, or the one that the explainer learned. The
                default of methods that compute Shapley values alone is Shapley. Methods that do not weigh coalitions
                accept none.
            outputs: as in `FeatureExplainer.explain`.
            batch_size: inputs at once; methods that sample take one after another.
            progress: show progress if it takes long: a bar on a terminal, lines elsewhere.
        """
        weightings = self._choose_weightings(weights)
        explained = self.explainer.explain(x, outputs=outputs, batch_size=batch_size)
        most = min(MAX_BATCH, max(1, DIFFERENTIATED_ELEMENTS // explained.inputs[0].numel()))
        chunk = most if batch_size == "auto" else check_whole("batch_size", batch_size)
        with ProgressBar(f"explaining by {self.name}", len(explained), enabled=progress) as bar:
            task = BaselineTask(
                self.explainer, self.explainer.fitted_, explained.inputs, explained.outputs, weightings, chunk, bar
            )
            values = self.method.compute(task, **self.options)
        if not bool(values.isfinite().all()):
            raise ValueError(
                f"{self.name} returned values that are not finite; check the outputs and gradients of the model"
            )
        result = replace(
            explained,
            values=values,
            weights=weightings,
            total=explained.total if self.method.weightings == "learned" else "raw",
            stderr=None,
            expected_error=None,
            provenance={
                **explained.provenance,
                "method": self.name,
                "relative_error": None,
                "baseline": self._provenance,
            },
        )
        return result if isinstance(weights, (list, tuple)) else result.unstacked()

    def _choose_weightings(self, weights: Semivalue | Sequence[Semivalue] | None) -> list[Semivalue]:
        """Return the weightings to compute, or raise an error that lists the methods that can compute them."""
        kind = self.method.weightings
        if weights is None and kind in ("none", "Shapley"):
            return [Unweighted(self.name) if kind == "none" else Shapley()]
        weightings = self.explainer.fitted_.check_weights(weights)
        if kind == "none" or (kind == "Shapley" and any(weighting != Shapley() for weighting in weightings)):
            able = ", ".join(name for name, row in BASELINES.items() if row.weightings in ("any", "learned"))
            limit = "does not weigh coalitions" if kind == "none" else "computes Shapley values alone"
            raise ValueError(f"weights: {self.name} {limit}; baselines for any weighting are {able}")
        return weightings

    def _check_needs(self) -> None:
        """Raise unless the explainer has what the method needs; gradients are checked on the first inputs."""
        needs, name, fitted = self.method.needs, self.name, self.explainer.fitted_
        fitted.check_same_players(name)
        for library in self.method.libraries:
            if find_spec(MODULES[library]) is None:
                raise ModuleNotFoundError(f"{name} needs {library}: pip install 'fwshapley[baselines]'")
        if "model" in needs and fitted.model is None:
            raise RuntimeError(f"{name} needs the model, which was not loaded: pass model=... to load")
        if "images" in needs and not fitted.players.is_image:
            raise ValueError(f"{name} needs images, and these players are columns of a table")
        output = fitted.masked_model.output
        if "classes" in needs and KINDS[output] != "classes":
            raise ValueError(f"{name} needs predicted classes, and output={output!r} has none")
        examples = self.options.get("examples", ())
        if "examples" in needs and (not isinstance(examples, Sized) or not len(examples)):
            raise ValueError(f"{name} averages over examples: pass examples=..., a batch of inputs")

    @property
    def _provenance(self) -> dict[str, Any]:
        """Name, options and versions, for JSON."""
        options = self.method.options | self.options
        facts = {"name": self.name, "options": {name: _as_fact(value) for name, value in options.items()}}
        return facts | {library: version(library) for library in self.method.libraries}


def _as_fact(value: Any) -> Any:  # noqa: ANN401 - any option
    """Return a plain value as it is, an array as its shape in words."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    return f"array {tuple(np.shape(value))}"
