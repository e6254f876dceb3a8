"""Baselines that differentiate the model, through captum: the effect of a small change of an input.

They explain the model itself, on whole inputs and on the scale of the game. The value of a player is the sum over its
positions and channels; for GradCAM, whose map is coarse, the mean.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fwshapley._internal.checks import Array, check_whole
from fwshapley._internal.tensor_checks import check_tensor
from fwshapley.explanation.baselines.task import BaselineTask
from fwshapley.explanation.inputs.select_output import SelectOutput
from fwshapley.explanation.learned.surrogate import Surrogate, TableSurrogate
from fwshapley.networks.encoder import MIN_ENCODER_SHARE, FeatureTaps
from fwshapley.players import Players

DIFFERENTIATED_ELEMENTS = 2**20
"""Most numbers in the inputs that are differentiated at once; activations take many times as much memory."""


def saliency(task: BaselineTask) -> Float[Tensor, "1 batch players outputs"]:
    """Absolute values of the gradient, as published; no value is negative."""
    from captum.attr import Saliency  # noqa: PLC0415 - optional

    _require_gradients(task)
    method = Saliency(task.predict)

    def attribute(x: Tensor, outputs: Tensor) -> Tensor:
        return _sum_over_players(method.attribute(_leaf(x), target=outputs), task.players)

    return task.by_batch(attribute)


def integrated_gradients(
    task: BaselineTask, *, steps: int = 50, start: float | Array | None = None
) -> Float[Tensor, "1 batch players outputs"]:
    """Mean gradient along the straight path from a start to the input, times their difference.

    Args:
        task: what to explain.
        steps: points on the path (Gauss-Legendre).
        start: a number or an input. By default, the surrogate's fill (with several fills, the mean of the paths), or
            the mean of a table's columns.
    """
    from captum.attr import IntegratedGradients  # noqa: PLC0415 - optional

    _require_gradients(task)
    steps = check_whole("steps", steps)
    method = IntegratedGradients(task.predict)
    starts = _default_starts(task) if start is None else _check_start(start, task)

    def attribute(x: Tensor, outputs: Tensor) -> Tensor:
        rows = max(len(x), DIFFERENTIATED_ELEMENTS // x[0].numel())
        paths = [
            method.attribute(x, baselines=point.expand_as(x), target=outputs, n_steps=steps, internal_batch_size=rows)
            for point in starts.to(x)
        ]
        return _sum_over_players(torch.stack(paths).mean(0), task.players)

    return task.by_batch(attribute)


def gradcam(
    task: BaselineTask, *, layer: str | None = None, relu: bool = True
) -> Float[Tensor, "1 batch players outputs"]:
    """Channels of the last feature map, weighted by their mean gradient.

    Args:
        task: what to explain.
        layer: name of the module that computes the map; by default the last one of the lowest resolution above 1 x 1.
        relu: keep positive values alone, as published.
    """
    from captum.attr import LayerGradCam  # noqa: PLC0415 - optional

    _require_gradients(task)
    # captum registers hooks on modules, and calls in other threads would run them, so it gets a copy of the model.
    task = replace(task, fitted=replace(task.fitted, model=copy.deepcopy(task.model)))
    module = _last_map(task) if layer is None else _find_layer(task.model, layer)
    method = LayerGradCam(task.predict, module)

    def attribute(x: Tensor, outputs: Tensor) -> Tensor:
        maps = method.attribute(_leaf(x), target=outputs, relu_attributions=relu)
        if not isinstance(maps, Tensor) or maps.ndim != x.ndim:
            raise ValueError(
                f"layer must compute a feature map (batch, channels, height, width), and {layer!r} does not"
            )
        return task.players.pool(maps)[:, 0]

    return task.by_batch(attribute)


def _require_gradients(task: BaselineTask) -> None:
    """Raise unless the model is differentiable, tested on the first input."""
    with torch.enable_grad():
        out = task.predict(_leaf(task.x[:1].to(task.device)))
    if not out.requires_grad:
        raise ValueError(
            f"{task.weights[0]} needs gradients, and {type(task.model).__name__} has none (is it a wrapped function?); "
            "use a baseline that needs predictions only, such as 'least_squares'"
        )


def _leaf(x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
    """Return a copy of inputs to differentiate by."""
    return x.detach().clone().requires_grad_()


def _sum_over_players(values: Float[Tensor, "batch ..."], players: Players) -> Float[Tensor, "batch players"]:
    """Sum over the positions of each player, and over the channels of an image."""
    return players.sum(values.sum(1) if players.is_image else values)


def _default_starts(task: BaselineTask) -> Float[Tensor, "starts ..."]:
    surrogate = task.fitted.masked_model.surrogate
    if isinstance(surrogate, Surrogate):
        return surrogate.fill
    assert isinstance(surrogate, TableSurrogate)  # noqa: S101 - the only other kind
    mean = surrogate.coordinates.mean
    if len(mean) != task.x.shape[1]:
        raise ValueError("start must be given for tables with categories, which have no mean: pass a row as start=...")
    return mean[None]


def _check_start(start: float | Array, task: BaselineTask) -> Float[Tensor, "1 ..."]:
    values = check_tensor("start", start).float()
    expected = tuple(task.x.shape[1:])
    if not bool(values.isfinite().all()):
        raise ValueError("start must be finite, got missing or infinite numbers")
    if values.ndim and values.shape != expected:
        raise ValueError(f"start must be a number or an input of shape {expected}, got shape {tuple(values.shape)}")
    return values.expand(expected)[None]


def _last_map(task: BaselineTask) -> nn.Module:
    """Return the module of the model that computes the coarsest feature map, as `FeatureTaps` finds it."""
    surrogate = Surrogate(task.model, task.players, torch.zeros(1, device=task.device))
    taps = FeatureTaps(surrogate, task.x[:1].to(task.device), task.players.n_players)
    if not taps.names or taps.share < MIN_ENCODER_SHARE:
        raise ValueError(
            f"gradcam needs a convolutional network, and {type(task.model).__name__} has no late feature map; pass "
            "layer=..., the name of a module with an output (batch, channels, height, width), or use 'saliency'"
        )
    return task.model.get_submodule(taps.names[-1].removeprefix("network."))


def _find_layer(model: nn.Module, layer: str) -> nn.Module:
    model = model.model if isinstance(model, SelectOutput) else model
    try:
        return model.get_submodule(layer)
    except AttributeError as error:
        names = ", ".join(name for name, _ in model.named_modules() if name)
        raise ValueError(f"layer must be one of {names}; got {layer!r}") from error
