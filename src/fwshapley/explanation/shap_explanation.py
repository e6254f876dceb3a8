"""Explanations as shap's plots take them. Nothing here imports torch."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Shaped
from numpy import ndarray

from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.text.text_attribution import TextAttribution, values_of_texts

if TYPE_CHECKING:
    from shap import Explanation


def to_shap(attribution: Attribution, data: Array | None = None) -> Explanation:
    """Return an attribution as shap's plots take it; values and base value add up to the prediction.

    If a surrogate was explained, that is its prediction. A warning tells if the model's own differs for some inputs.

    Args:
        attribution: of one weighting, with total="efficient".
        data: inputs to show beside the values; by default those that were explained.
    """
    try:
        from shap import Explanation  # noqa: PLC0415 - optional, and slow to import
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("shap.Explanation needs shap: pip install shap") from error
    if attribution.total != "efficient":
        raise ValueError("total must be 'efficient' for shap, whose plots add values up to the prediction; got 'raw'")
    if isinstance(attribution.weights, list):
        raise ValueError("weights must be one semivalue for shap, got a list")  # noqa: TRY004 - other methods accept a list
    gaps = attribution.gaps()
    if gaps is not None:
        gaps.warn()
    if isinstance(attribution, TextAttribution):
        return _of_texts(attribution, Explanation)
    values, base, outputs = map(to_numpy, (attribution.values, attribution.base_values, attribution.outputs))
    shown = to_numpy(attribution.inputs if data is None else data)
    names: list[str] | str | None = None
    if len(outputs) and (outputs == outputs[:1]).all():  # the same outputs for every input
        names = [attribution.output_names[number] for number in outputs[0]]
    if values.shape[2] == 1:  # shap has no axis for a single output, and takes a list of names for one
        values, base = values[..., 0], base[:, 0]
        names = names and names[0]
    return Explanation(
        values=np.asarray(values),
        base_values=base,
        data=shown if shown.shape == values.shape[:2] else None,
        feature_names=list(attribution.players.names),
        output_names=names,
    )


def _of_texts(attribution: TextAttribution, make: type[Explanation]) -> Explanation:
    """Return an attribution of texts as shap's text plot takes it: a list of words for each, with what is between them.

    Args:
        attribution: of texts.
        make: shap's Explanation.
    """
    outputs = to_numpy(attribution.outputs)
    single = outputs.shape[1] == 1
    parts = [part[:, 0] if single else part for part in values_of_texts(attribution)]
    base = to_numpy(attribution.base_values)
    names = [attribution.output_names[number] for number in outputs[0]] if (outputs == outputs[:1]).all() else None
    return make(
        values=_ragged(parts),
        base_values=base[:, 0] if single else base,
        data=_ragged([np.array(words, dtype=object) for words in _words_and_gaps(attribution)]),
        output_names=names[0] if names and single else names,
    )


def _words_and_gaps(attribution: TextAttribution) -> list[list[str]]:
    """Return the players of each text as strings that together are the text."""
    texts = []
    for text, spans in zip(attribution.texts, attribution.spans, strict=True):
        begins = [0, *(begin for begin, _ in spans[1:]), len(text)]
        texts.append([text[begin:end] for begin, end in pairwise(begins)])
    return texts


def _ragged(parts: list[ndarray]) -> Shaped[ndarray, " texts"]:
    """Return arrays of different lengths as an array of objects."""
    whole = np.empty(len(parts), dtype=object)
    whole[:] = parts
    return whole
