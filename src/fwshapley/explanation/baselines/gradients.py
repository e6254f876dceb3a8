"""Baselines that differentiate the model, through captum: what a small change of an input would do.

They explain the model itself, on whole inputs and on the scale of the game. A player is credited with the sum over
its positions and channels; GradCAM, whose map is coarse, with its mean.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fwshapley._internal.checks import Array, check_whole
from fwshapley._internal.tensors import check_tensor
from fwshapley.explanation.baselines.peers import captum_method
from fwshapley.explanation.baselines.request import Request
from fwshapley.explanation.surrogate import Surrogate, TableSurrogate
from fwshapley.networks.encoder import FeatureTaps
from fwshapley.players import Players

DIFFERENTIATED_ELEMENTS = 2**20
"""Numbers in the inputs that are differentiated at once; the activations kept for it are many times as many."""


def saliency(request: Request) -> Float[Tensor, "1 batch players outputs"]:
    """Size of the gradient: absolute values, as published, so that no player speaks against an output."""
    _require_gradients(request)
    method = captum_method("Saliency")(request.worth)

    def attribute(x: Tensor, outputs: Tensor) -> Tensor:
        return _sum_over_players(method.attribute(_leaf(x), target=outputs), request.players)

    return request.by_batch(attribute)


def integrated_gradients(
    request: Request, *, steps: int = 50, start: float | Array | None = None
) -> Float[Tensor, "1 batch players outputs"]:
    """Gradient along the straight path from a start to the input, times its length.

    Args:
        request: what is asked.
        steps: points on the path (Gauss-Legendre).
        start: a number or an input; by default what the surrogate hides features as: its fill (the mean over several),
            or the mean of a table's columns.
    """
    _require_gradients(request)
    steps = check_whole("steps", steps)
    method = captum_method("IntegratedGradients")(request.worth)
    starts = _hidden_as(request) if start is None else _check_start(start, request)

    def attribute(x: Tensor, outputs: Tensor) -> Tensor:
        rows = max(len(x), DIFFERENTIATED_ELEMENTS // x[0].numel())
        paths = [
            method.attribute(x, baselines=each.expand_as(x), target=outputs, n_steps=steps, internal_batch_size=rows)
            for each in starts.to(x)
        ]
        return _sum_over_players(torch.stack(paths).mean(0), request.players)

    return request.by_batch(attribute)


def gradcam(
    request: Request, *, layer: str | None = None, relu: bool = True
) -> Float[Tensor, "1 batch players outputs"]:
    """Channels of the last feature map, weighted by their mean gradient.

    Args:
        request: what is asked.
        layer: name of the module that computes the map; by default the last of the lowest resolution above one pixel.
        relu: whether to keep what speaks for an output alone, as published.
    """
    _require_gradients(request)
    request = _with_own_model(request)
    module = _last_map(request) if layer is None else _find_layer(request.model, layer)
    method = captum_method("LayerGradCam")(request.worth, module)

    def attribute(x: Tensor, outputs: Tensor) -> Tensor:
        found = method.attribute(_leaf(x), target=outputs, relu_attributions=relu)
        if not isinstance(found, Tensor) or found.ndim != x.ndim:
            raise ValueError(f"layer {layer!r} computes no feature map (batch, channels, height, width); name another")
        return request.players.pool(found)[:, 0]

    return request.by_batch(attribute)


def _require_gradients(request: Request) -> None:
    """Raise unless the model can be differentiated, asked about the first input."""
    with torch.enable_grad():
        out = request.worth(_leaf(request.x[:1].to(request.explainer.device)))
    if not out.requires_grad:
        raise ValueError(
            f"{request.weights[0]} needs gradients, and {type(request.model).__name__} gives none (is it a function "
            "behind a wrapper?); use a baseline that only asks for predictions, such as 'least squares'"
        )


def _with_own_model(request: Request) -> Request:
    """Return the request with a copy of the model: captum hooks modules, which calls in other threads would run."""
    return replace(request, fitted=replace(request.fitted, model=copy.deepcopy(request.model)))


def _leaf(x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
    """Return inputs to be differentiated by; those given stay as they are."""
    return x.detach().clone().requires_grad_()


def _sum_over_players(values: Float[Tensor, "batch ..."], players: Players) -> Float[Tensor, "batch players"]:
    """Sum over the positions of each player, and over the channels of an image."""
    return players.sum(values.sum(1) if players.is_image else values)


def _hidden_as(request: Request) -> Float[Tensor, "starts ..."]:
    surrogate = request.fitted.masked_model.surrogate
    if isinstance(surrogate, Surrogate):
        return surrogate.fill
    assert isinstance(surrogate, TableSurrogate)  # noqa: S101 - the only other kind
    mean = surrogate.coordinates.mean
    if len(mean) != request.x.shape[1]:
        raise ValueError("integrated gradients cannot start from the mean of categories; say where by start=...")
    return mean[None]


def _check_start(start: float | Array, request: Request) -> Float[Tensor, "1 ..."]:
    given = check_tensor("start", start).float()
    if not bool(given.isfinite().all()):
        raise ValueError("start must be finite: it has missing or infinite numbers")
    if given.ndim and given.shape != request.x.shape[1:]:
        raise ValueError(f"start must be a number or an input {tuple(request.x.shape[1:])}, got {tuple(given.shape)}")
    return given.expand(request.x.shape[1:])[None]


def _last_map(request: Request) -> nn.Module:
    """Return the module of the model that computes the coarsest feature map, found as the default network does."""
    inside = Surrogate(request.model, request.players, torch.zeros(1, device=request.explainer.device))
    try:
        taps = FeatureTaps(inside, request.x[:1].to(request.explainer.device), request.players.n_players)
    except ValueError as error:
        name = type(request.model).__name__
        raise ValueError(
            f"gradcam is for convolutional networks, and {name} has no feature map late in it; name a layer whose "
            "output is one (batch, channels, height, width) by layer=..., or use 'saliency'"
        ) from error
    return request.model.get_submodule(taps.names[-1].removeprefix("network."))


def _find_layer(model: nn.Module, layer: str) -> nn.Module:
    try:
        return model.get_submodule(layer)
    except AttributeError as error:
        names = ", ".join(name for name, _ in model.named_modules() if name)
        raise ValueError(f"the model has no layer {layer!r}; it has {names}") from error
