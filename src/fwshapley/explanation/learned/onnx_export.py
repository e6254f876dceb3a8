"""Learned explainers as ONNX files, which run without torch and without this package.

The graph of an explainer has the weighting as an input: the mixture of the basis functions (docs/math.md, eq. 9), which
`fwshapley.serving.mixtures` computes from alpha and beta. What else is needed to interpret its outputs is JSON in the
metadata of the file.
"""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor, nn

from fwshapley._internal.checks import shorten
from fwshapley._internal.files import check_writable_file, written_whole
from fwshapley._internal.onnx_facts import EXPLAINER, FACTS_KEY, FORMAT, SURROGATE
from fwshapley.explanation.learned.black_box import BlackBox
from fwshapley.explanation.learned.surrogate import TableSurrogate
from fwshapley.games.masked_model import LINKS

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer
    from fwshapley.explanation.learned.fitted import Fitted

NOISY = ("torch.onnx", "onnxscript", "onnx_ir")
"""Loggers that report each step of an export."""

MAX_LETTERS = 200


class ExplanationGraph(nn.Module):
    """What an explainer computes of complete inputs: values, their coefficients, and what the surrogate predicts.

    Args:
        fitted: the result of a fit; its modules are shared, not copied.

    Attributes:
        output_names: of `forward`.
    """

    def __init__(self, fitted: Fitted) -> None:
        super().__init__()
        self.network, self.surrogate = fitted.network, fitted.masked_model.surrogate
        self.maps, self.n_players = fitted.objective.maps, fitted.players.n_players
        self.output = fitted.masked_model.output
        self.output_names = ["values", "coefficients", "predictions"]
        if isinstance(self.surrogate, TableSurrogate):
            self.output_names.append("disagreement")

    def forward(
        self, inputs: Float[Tensor, "batch ..."], mixtures: Float[Tensor, "weights maps"]
    ) -> tuple[Float[Tensor, "*shape"], ...]:
        """Return raw values, coefficients, predictions, and half of the difference of a surrogate's two networks."""
        coefficients = self.network(inputs).float().unflatten(2, (self.maps, -1))
        values = torch.einsum("wj,bnjo->wbno", mixtures, coefficients)
        everyone = torch.ones_like(inputs.flatten(1)[:, :1], dtype=torch.bool).expand(-1, self.n_players)
        link = LINKS[self.output]
        if not isinstance(self.surrogate, TableSurrogate):
            return values, coefficients, link(self.surrogate(inputs, everyone).float())
        one, other = self.surrogate.members(inputs, everyone).float()
        return values, coefficients, link((one + other) / 2), (link(one) - link(other)) / 2


class CoalitionGraph(nn.Module):
    """The value of one coalition of each input, on the scale of the values.

    Args:
        fitted: the result of a fit; its modules are shared, not copied.
    """

    def __init__(self, fitted: Fitted) -> None:
        super().__init__()
        self.surrogate, self.output = fitted.masked_model.surrogate, fitted.masked_model.output

    def forward(
        self, inputs: Float[Tensor, "batch ..."], coalitions: Bool[Tensor, "batch players"]
    ) -> Float[Tensor, "batch outputs"]:
        """Return v(S)."""
        return LINKS[self.output](self.surrogate(inputs, coalitions).float())


class TorchNetwork:
    """Runs the graph of an explainer in torch, as `fwshapley.serving` runs an ONNX file: arrays in, arrays out.

    Args:
        explainer: a fitted explainer.
    """

    def __init__(self, explainer: FeatureExplainer) -> None:
        self.graph = ExplanationGraph(explainer.fitted_).eval()
        self.device = explainer.fitted_.device

    def __call__(self, names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the outputs with these names.

        Args:
            names: of outputs.
            feeds: inputs by name.
        """
        inputs, mixtures = (torch.from_numpy(feeds[name]).to(self.device) for name in ("inputs", "mixtures"))
        with torch.no_grad():
            outputs = dict(zip(self.graph.output_names, self.graph(inputs, mixtures), strict=True))
        return [outputs[name].cpu().numpy() for name in names]


def describe_explainer(explainer: FeatureExplainer, kind: str = EXPLAINER) -> dict[str, Any]:
    """Return everything but the network that explaining needs, JSON-compatible.

    Args:
        explainer: a fitted explainer.
        kind: of the file.
    """
    fitted, error_model = explainer.fitted_, explainer.error_model_
    return {
        "format": FORMAT,
        "kind": kind,
        "players": fitted.players.facts() | {"assignment": fitted.players.assignment.tolist()},
        "output_names": list(fitted.output_names),
        "output": fitted.masked_model.output,
        "base_values": fitted.base_values.cpu().tolist(),
        "objective": fitted.objective.facts(),
        "schema": None if fitted.schema is None else fitted.schema.facts(),
        "input_shape": list(fitted.input_shape),
        "tells_disagreement": isinstance(fitted.masked_model.surrogate, TableSurrogate),
        "error_model": None if error_model is None else error_model.facts(),
        "provenance": fitted.provenance,
        "metadata": explainer.metadata,
    }


def export_explainer(explainer: FeatureExplainer, path: Path, surrogate: Path | None) -> None:
    """Write the graph of an explainer to an ONNX file, and that of its surrogate to another one.

    Args:
        explainer: a fitted explainer.
        path: of the explainer's graph: inputs, mixtures -> values, coefficients, predictions.
        surrogate: of the surrogate's graph: inputs, coalitions -> values; None writes none.
    """
    fitted = explainer.fitted_
    _check_exportable(fitted)
    for name, file in {"path": path, "surrogate": surrogate}.items():
        if file is not None:
            check_writable_file(file, name)
    if surrogate == path:
        raise ValueError(f"surrogate must be another file than path, got {str(path)!r} for both")
    dtype = torch.float32 if fitted.schema is None else fitted.schema.dtype
    inputs = torch.zeros(2, *fitted.input_shape, dtype=dtype)
    mixtures = torch.ones(2, fitted.objective.maps)
    graph = ExplanationGraph(fitted)
    _export(graph, {"inputs": inputs, "mixtures": mixtures}, graph.output_names, path, describe_explainer(explainer))
    if surrogate is not None:
        coalitions = torch.ones(2, fitted.players.n_players, dtype=torch.bool)
        examples = {"inputs": inputs, "coalitions": coalitions}
        _export(CoalitionGraph(fitted), examples, ["values"], surrogate, describe_explainer(explainer, SURROGATE))


def _check_exportable(fitted: Fitted) -> None:
    """Raise an error that names what an ONNX file cannot contain, or what is not installed."""
    fitted.check_same_players("an ONNX file")
    if any(isinstance(module, BlackBox) for module in fitted.masked_model.surrogate.modules()):
        raise ValueError(
            "surrogate=None explains a function by calling it, and an ONNX file cannot contain a function: fit with "
            "surrogate='auto', which trains a network"
        )
    try:
        import onnx  # noqa: F401, PLC0415 - of an extra
        import onnxscript  # noqa: F401, PLC0415 - as above
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is missing: install it with pip install 'fwshapley[export]'"
        ) from error


def _export(
    graph: nn.Module, examples: Mapping[str, Tensor], outputs: Sequence[str], path: Path, facts: Mapping[str, Any]
) -> None:
    """Write one graph, whose inputs have a first axis of any length, with its facts."""
    axes = {"inputs": "batch", "coalitions": "batch", "mixtures": "weights"}
    on_cpu = copy.deepcopy(graph).cpu().eval()
    with _quiet():
        try:
            program = torch.onnx.export(
                on_cpu,
                tuple(examples.values()),
                dynamo=True,
                input_names=list(examples),
                output_names=list(outputs),
                dynamic_shapes={name: {0: axes[name]} for name in examples},
                verbose=False,
                external_data=False,
            )
        except Exception as error:  # whatever the network of a user makes torch raise
            names = f"{type(_network_of(graph)).__name__} of the explainer"
            raise ValueError(f"the {names} cannot be exported to ONNX: {shorten(str(error), MAX_LETTERS)}") from error
        assert program is not None  # noqa: S101 - it is for dynamo=True
        program.model.metadata_props[FACTS_KEY] = json.dumps(facts)
        with written_whole(path) as temporary:
            program.save(str(temporary), external_data=False)


def _network_of(graph: nn.Module) -> nn.Module:
    return graph.get_submodule("network" if isinstance(graph, ExplanationGraph) else "surrogate")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the reports and warnings of the exporter, which are about its own parts."""
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
