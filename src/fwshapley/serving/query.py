"""What a request asks for: weightings, outputs, totals. All of it comes from clients, so all of it is checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fwshapley.semivalues import Beta, Semivalue, Total
from fwshapley.serving.request_errors import RequestError

KNOWN = ("alpha", "beta", "weights", "outputs", "total", "errors", "coefficients")
"""Names of parameters."""

MAX_WEIGHTINGS = 16
TOTALS: tuple[Literal["auto", "raw", "efficient"], ...] = ("auto", "raw", "efficient")


@dataclass(frozen=True)
class Query:
    """What to compute for the instances of a request.

    Attributes:
        weights: semivalues; None is Shapley, or the one that a network learned.
        is_list: whether a list of them was asked for, so that values get an axis for them.
        outputs: as `ExportedExplainer.explain` takes them.
        total: "auto", "raw" or "efficient".
        errors: also expected errors.
        coefficients: also the coefficients of the basis, for a page that weighs them itself.
    """

    weights: tuple[Semivalue, ...] | None = None
    is_list: bool = False
    outputs: str | tuple[str | int, ...] = "auto"
    total: Literal["auto"] | Total = "auto"
    errors: bool = False
    coefficients: bool = False


def read_query(parameters: object) -> Query:
    """Return the query of the "parameters" of a request; raise a RequestError that names a wrong one.

    Args:
        parameters: of the request, as JSON has them.
    """
    if parameters is None:
        return Query()
    if not isinstance(parameters, Mapping):
        raise RequestError("parameters must be an object", "parameters")
    unknown = [name for name in parameters if name not in KNOWN]
    if unknown:
        raise RequestError(f"unknown parameter; known are {', '.join(KNOWN)}", f"parameters.{str(unknown[0])[:40]}")
    weights, is_list = _read_weights(parameters)
    return Query(
        weights=weights,
        is_list=is_list,
        outputs=_read_outputs(parameters.get("outputs", "auto")),
        total=_read_total(parameters.get("total", "auto")),
        errors=_read_flag(parameters, "errors"),
        coefficients=_read_flag(parameters, "coefficients"),
    )


def _read_weights(parameters: Mapping[str, Any]) -> tuple[tuple[Semivalue, ...] | None, bool]:
    """Return semivalues, and whether they are a list."""
    given = parameters.get("weights")
    pair = [parameters.get(name) for name in ("alpha", "beta")]
    if given is None:
        if pair == [None, None]:
            return None, False
        for name, value in zip(("alpha", "beta"), pair, strict=True):
            if value is None:
                raise RequestError("alpha and beta must be given together", f"parameters.{name}")
        return (_read_weighting(pair, "parameters.alpha"),), False
    if pair != [None, None]:
        raise RequestError("give either weights, or alpha and beta", "parameters.weights")
    listed = _from_text(given, "parameters.weights")
    if not isinstance(listed, list):
        return (_read_weighting(listed, "parameters.weights"),), False
    if not 0 < len(listed) <= MAX_WEIGHTINGS:
        raise RequestError(f"weights must be a list of 1 to {MAX_WEIGHTINGS} semivalues", "parameters.weights")
    return tuple(_read_weighting(one, f"parameters.weights[{place}]") for place, one in enumerate(listed)), True


def _read_weighting(given: object, field: str) -> Semivalue:
    """Return a semivalue given as [alpha, beta], or as the object that `Semivalue.to_json` writes."""
    try:
        if isinstance(given, Mapping):
            return Semivalue.from_json(json.dumps(given))
        if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2:  # noqa: PLR2004 - alpha and beta
            return Beta(*given)
    except (TypeError, ValueError) as error:
        raise RequestError(str(error), field) from error
    raise RequestError(
        'a semivalue must be [alpha, beta] or an object such as {"semivalue": "Banzhaf", "t": 0.5}', field
    )


def _read_outputs(given: object) -> str | tuple[str | int, ...]:
    field = "parameters.outputs"
    if isinstance(given, str) and not given.startswith("["):
        return given if given in ("auto", "all", "predicted") else (given,)
    listed = _from_text(given, field)
    is_plain = isinstance(listed, list) and all(
        isinstance(one, str | int) and not isinstance(one, bool) for one in listed
    )
    if not isinstance(listed, list) or not listed or not is_plain:
        raise RequestError("outputs must be 'auto', 'all', 'predicted', or a list of names or numbers", field)
    return tuple(listed)


def _read_total(given: object) -> Literal["auto"] | Total:
    for total in TOTALS:
        if given == total:
            return total
    raise RequestError(f"total must be one of {', '.join(TOTALS)}", "parameters.total")


def _read_flag(parameters: Mapping[str, Any], name: str) -> bool:
    given = parameters.get(name, False)
    if not isinstance(given, bool):
        raise RequestError(f"{name} must be true or false", f"parameters.{name}")
    return given


def _from_text(given: object, field: str) -> object:
    """Return a parameter; those of the Open Inference Protocol have lists and objects as JSON in a text."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (json.JSONDecodeError, RecursionError) as error:
        raise RequestError(f"the text is not JSON: {error}", field) from error
