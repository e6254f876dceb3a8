"""What `fwshapley explain` does with a learned explainer: load it, explain, and say how far to trust it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

import fwshapley as fw
from fwshapley._internal.wording import counted, listed, listed_whole, shortened
from fwshapley.cli.console import print_notes
from fwshapley.cli.explanation_files import Explanations, Predictor
from fwshapley.cli.fit_record import SavedExplainer
from fwshapley.cli.input_files import Inputs
from fwshapley.cli.input_format import InputFormat
from fwshapley.cli.model_loading import as_in_file, find_model
from fwshapley.cli.request import Request
from fwshapley.explanation.inputs.predictions import Predictions

MAX_WARNINGS = 3
"""Inputs with a warning of their own; more share a line."""

MAX_LISTED = 10


def load_learned(path: Path, saved: SavedExplainer, name: str | None, device: str) -> fw.FeatureExplainer:
    """Load an explainer, with its model where one is named; the folder never determines which code runs."""
    if name is None:
        if saved.needs_model is not None:
            raise ValueError(
                f"{path} contains the weights of a {saved.needs_model}, not its code: give "
                f"{saved.how_to_name_model('a module of the same architecture, trained or not')}"
            )
        return fw.FeatureExplainer.load(path, device=device)
    model = find_model(name, saved.output)
    if isinstance(model, nn.Module) == saved.is_black_box:
        expected, actual = "a torch module", "a function or an estimator"
        if saved.is_black_box:
            expected, actual = actual, expected
        raise TypeError(f"{path} explains {expected}, and {name} is {actual}; is () missing or too much at its end?")
    return fw.FeatureExplainer.load(path, model=as_in_file(model, saved.record.format.layout), device=device)


def explain_learned(
    explainer: fw.FeatureExplainer, batch: Inputs, read_as: InputFormat, request: Request
) -> Explanations:
    """Return values by the method that was asked for: by default the network's, if they were measured to be good."""
    if request.refine is not None:
        count = counted(request.refine * len(batch), "coalition")
        of_each = f"{request.refine:,} coalitions for each of {counted(len(batch), 'input')}"
        print_notes([f"refining with {of_each}: {count} in all"])
    predictions = explainer.predictions(batch.x)
    outputs, predicted_by = _choose_outputs(explainer, predictions, request)
    options: dict[str, Any] = {"weights": request.weights, "outputs": outputs}
    if request.refine is None:
        is_planned = request.method == "auto" and not request.errors and explainer.quality_ is not None
        method: Literal["auto", "network"] = "auto" if is_planned else "network"
        attribution = explainer.explain(batch.x, total=request.total, errors=request.errors, method=method, **options)
    else:
        attribution = explainer.refine(batch.x, n_calls=request.refine, **options)
    predictions = predictions.to("cpu")
    predicted: dict[Predictor, Tensor] = {} if predictions.model is None else {"the model": predictions.model}
    predicted["the surrogate"] = predictions.surrogate
    return Explanations(
        attribution=attribution.to("cpu").stacked(),
        inputs=batch,
        format=read_as,
        predictions=predicted,
        kind=predictions.kind,
        predicted_by=predicted_by,
        differ=predictions.differ,
    )


def check_errors(explainer: fw.FeatureExplainer, request: Request) -> None:
    """Raise an error if errors are asked for, and the explainer cannot estimate them."""
    if request.errors and explainer.error_model_ is None:
        raise ValueError("--errors needs an explainer fitted with --calibrate; or give --refine for standard errors")


def about_surrogate(explainer: fw.FeatureExplainer, results: Explanations) -> list[str]:
    """Say who predicts the outputs, how far the surrogate agrees with the model, and on which inputs it does not."""
    about_quality = _about_quality(explainer, results)
    return [*about_quality, *_about_outputs(explainer, results.predicted_by), *_warnings(results)]


def _about_quality(explainer: fw.FeatureExplainer, results: Explanations) -> list[str]:
    """Say why values were sampled, or warn that those of the network are poor or were not measured."""
    quality, facts = explainer.quality_, results.attribution.provenance
    if facts["method"] != "network":
        is_planned = facts["relative_error"] is not None
        return [f"the network, which takes one pass, is not good enough: {quality}"] if is_planned else []
    if quality is None:
        return ["quality: not measured by the fit; --refine 256 gives values with standard errors"]
    return [f"warning: hardly better than zeros or than means of a class: {quality}"] if quality.is_poor else []


def _choose_outputs(
    explainer: fw.FeatureExplainer, predictions: Predictions, request: Request
) -> tuple[Any, Predictor | None]:
    """Return outputs as `FeatureExplainer.explain` takes them, and who predicts them if they are those predicted."""
    are_classes = predictions.kind == "classes"
    outputs = request.choose_outputs(explainer.output_names_, are_classes=are_classes)
    if outputs != "predicted" or not are_classes:
        return outputs, None
    if predictions.model is not None:
        return predictions.model.argmax(1, keepdim=True), "the model"
    return predictions.surrogate.argmax(1, keepdim=True), "the surrogate"


def _about_outputs(explainer: fw.FeatureExplainer, predicted_by: Predictor | None) -> list[str]:
    if predicted_by != "the surrogate":
        return [] if predicted_by is None else [f"outputs: predicted by {predicted_by}"]
    share = None if explainer.fidelity_ is None else explainer.fidelity_.agreement
    agreement = "" if share is None else f", which agrees with the model on {share:.1%} of inputs"
    return [f"outputs: predicted by the surrogate{agreement}; give --model to use the model's predictions"]


def _warnings(results: Explanations) -> list[str]:
    """Warn of inputs for which the surrogate, which is explained, predicts something else than the model."""
    if results.differ is None or not results.differ.any():
        return []
    places = results.differ.nonzero()[:, 0].tolist()
    if len(places) <= MAX_WARNINGS:
        lines = (f"{results.name(place)}: {_contradiction(results, place)}" for place in places)
        return [f"warning: {line}: do not trust this explanation" for line in lines]
    names = listed_whole(map(results.name, places), MAX_LISTED)
    count = f"{len(places):,} of {counted(len(results.inputs), 'input')}"
    return [
        f"warning: surrogate and model predict different classes for {count}: do not trust the explanations of {names}"
    ]


def _contradiction(results: Explanations, place: int) -> str:
    """Return what the model predicts for an input, and what the surrogate predicts instead."""
    names, predictions = results.attribution.output_names, results.predictions
    both = predictions["the model"][place], predictions["the surrogate"][place]
    if results.kind == "classes":
        model, surrogate = (shortened(names[int(outputs.argmax())]) for outputs in both)
        return f"the model predicts {model}, the surrogate {surrogate}"
    labels = ((both[0] > 1 / 2) != (both[1] > 1 / 2)).nonzero()[:, 0].tolist()
    return f"model and surrogate differ on {listed(names[label] for label in labels)}"
