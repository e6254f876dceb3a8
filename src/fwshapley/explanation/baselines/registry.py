"""The baselines by name: one row each, which says what it needs and which weightings it can give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice, check_kind, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.baselines.gradients import DIFFERENTIATED_ELEMENTS, gradcam, integrated_gradients, saliency
from fwshapley.explanation.baselines.peers import check_installed
from fwshapley.explanation.baselines.request import Request, Unweighted
from fwshapley.explanation.baselines.sampling import (
    kernel_shap,
    least_squares,
    multilinear,
    permutation,
    shapley_sampling,
)
from fwshapley.explanation.baselines.simple import class_mean, random
from fwshapley.explanation.explainer import FeatureExplainer
from fwshapley.explanation.fitting import EXPLAINED_AT_ONCE
from fwshapley.explanation.inputs import Outputs
from fwshapley.explanation.options import choose_weightings
from fwshapley.games.masked_model import KINDS
from fwshapley.semivalues import Semivalue, Shapley

Need = Literal["captum", "scikit-learn", "model", "gradients", "images", "classes", "examples"]
Weightings = Literal["none", "Shapley", "any", "learned"]


@dataclass(frozen=True)
class Method:
    """A row of the registry.

    Attributes:
        compute: from a `Request` and its options, which are keyword-only, to values (weights, batch, players, outputs).
        weightings: which it can give: "none" if it weighs no coalitions, "Shapley" alone, "any", or those that the
            explainer has "learned".
        needs: libraries; the model, also where an explainer was loaded; its gradients; inputs that are images; outputs
            that are classes; examples.
    """

    compute: Callable[..., Tensor]
    weightings: Weightings
    needs: tuple[Need, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """Options that it takes, with their defaults; one that has none must be given."""
        parameters = inspect.signature(self.compute).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


BASELINES: Mapping[str, Method] = {
    "saliency": Method(saliency, "none", ("captum", "model", "gradients")),
    "integrated gradients": Method(integrated_gradients, "none", ("captum", "model", "gradients")),
    "gradcam": Method(gradcam, "none", ("captum", "model", "gradients", "images")),
    "kernel shap": Method(kernel_shap, "Shapley", ("captum", "scikit-learn")),
    "shapley sampling": Method(shapley_sampling, "Shapley", ("captum",)),
    "permutation": Method(permutation, "any"),
    "least squares": Method(least_squares, "any"),
    "multilinear": Method(multilinear, "any"),
    "class mean": Method(class_mean, "learned", ("model", "classes", "examples")),
    "random": Method(random, "none"),
}
"""By name. Options of each are keyword-only arguments of its `compute`, where they are explained."""


def baseline(name: str, explainer: FeatureExplainer, **options: Any) -> Baseline:  # noqa: ANN401 - a row's own
    """Return another method for the model, players, surrogate and scale of a fitted explainer, with the same verb.

    Args:
        name: one of `BASELINES`.
        explainer: a fitted one.
        options: those of the method: `calls` (game calls an input; 4 a player and 2048 by default) and `seed` for
            methods that sample, `steps` and `start` for integrated gradients, `layer` and `relu` for gradcam,
            `examples` for the class mean.

    Example:
        >>> baseline("least squares", explainer, calls=4096).explain(x_test, weights=Beta(4, 1))
    """
    return Baseline(name, explainer, options)


class Baseline:
    """A method of `BASELINES`, ready to explain; made by `baseline`."""

    def __init__(self, name: str, explainer: FeatureExplainer, options: Mapping[str, Any]) -> None:
        check_choice("name", name, tuple(BASELINES))
        check_kind("explainer", explainer, FeatureExplainer)
        check_kind("options", options, Mapping)
        self.name, self.explainer, self.options, self.method = name, explainer, dict(options), BASELINES[name]
        unknown = [option for option in options if option not in self.method.options]
        if unknown:
            known = f"it takes {', '.join(self.method.options)}" if self.method.options else "it takes none"
            raise TypeError(f"{name} has no option {unknown[0]!r}; {known}")
        self._fitted = explainer.fitted_
        self._check_needs()

    def __repr__(self) -> str:
        options = "".join(f", {name}={_as_fact(value)!r}" for name, value in self.options.items())
        return f"baseline({self.name!r}{options})"

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: Outputs = "all",
        batch_size: int | Literal["auto"] = "auto",
        progress: bool = True,
    ) -> Attribution:
        """Explain inputs, as `FeatureExplainer.explain` does.

        The explainer is run once too, since it reads the inputs and knows which outputs are meant.

        Args:
            x: a batch of inputs.
            weights: a semivalue or a list of them; by default Shapley, or the one that the explainer learned. A method
                of the Shapley value alone gives that by default, whatever the explainer learned; one that weighs no
                coalitions takes none.
            outputs: "all", "predicted", names or numbers of some, or numbers for each input.
            batch_size: inputs at once; methods that sample take one after another.
            progress: show progress when it takes long: a bar on a terminal, lines elsewhere.
        """
        several = self._weightings(weights)
        asked = self.explainer.explain(x, outputs=outputs, batch_size=batch_size)
        most = min(EXPLAINED_AT_ONCE, max(1, DIFFERENTIATED_ELEMENTS // asked.inputs[0].numel()))
        chunk = most if batch_size == "auto" else check_whole("batch_size", batch_size)
        with ProgressBar(f"explaining by {self.name}", len(asked), enabled=progress) as bar:
            request = Request(
                self.explainer, self._fitted, asked.players, asked.inputs, asked.outputs, several, chunk, bar
            )
            values = self.method.compute(request, **self.options)
        if not bool(values.isfinite().all()):
            raise ValueError(f"{self.name} gave values that are not finite; are the model's outputs and gradients?")
        single = weights is None or isinstance(weights, Semivalue)
        return replace(
            asked,
            values=values[0] if single else values,
            weights=several[0] if single else several,
            total=asked.total if self.method.weightings == "learned" else "raw",
            stderr=None,
            expected_error=None,
            provenance={**asked.provenance, "baseline": self._provenance},
        )

    def _weightings(self, weights: Semivalue | Sequence[Semivalue] | None) -> list[Semivalue]:
        """Return the weightings to compute, or say which methods can."""
        kind = self.method.weightings
        if weights is None and kind in ("none", "Shapley"):
            return [Unweighted(self.name) if kind == "none" else Shapley()]
        several = choose_weightings(self.explainer.objective, weights)
        if kind == "none" or (kind == "Shapley" and any(each != Shapley() for each in several)):
            able = [name for name, row in BASELINES.items() if row.weightings in ("any", "learned")]
            what = "weighs no coalitions, so it takes no weights" if kind == "none" else "gives the Shapley value alone"
            raise ValueError(f"{self.name} {what}; baselines that give any weighting: {', '.join(able)}")
        return several

    def _check_needs(self) -> None:
        """Raise unless the explainer has what the method needs; gradients are asked for when there are inputs."""
        needs, name = self.method.needs, self.name
        for library in needs:
            if library in ("captum", "scikit-learn"):
                check_installed(name, library)
        if "model" in needs and self._fitted.model is None:
            raise RuntimeError(
                f"{name} needs the model, which this explainer was loaded without: pass model=... to load"
            )
        if "images" in needs and not self._fitted.players.is_image:
            raise ValueError(f"{name} needs feature maps of images, and these players divide a table")
        output = self._fitted.masked.output
        if "classes" in needs and KINDS[output] != "classes":
            raise ValueError(f"{name} goes by the class predicted, and output={output!r} has none")
        examples = self.options.get("examples", ())
        if "examples" in needs and (not isinstance(examples, Sized) or not len(examples)):
            raise ValueError(f"{name} averages over examples: pass examples=..., some inputs")

    @property
    def _provenance(self) -> dict[str, Any]:
        """What it was made by, as JSON holds it."""
        options = self.method.options | self.options
        facts = {"name": self.name, "options": {name: _as_fact(value) for name, value in options.items()}}
        libraries = [each for each in self.method.needs if each in ("captum", "scikit-learn")]
        return facts | {library: version(library) for library in libraries}


def _as_fact(value: Any) -> Any:  # noqa: ANN401 - any option
    """Return a plain value as it is, an array as its shape in words."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    return f"array {tuple(np.shape(value))}"
