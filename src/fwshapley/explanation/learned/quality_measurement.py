"""Measure the quality of an explainer: its network, refinement and sampling, against two samplings of an input."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from fwshapley._internal.progress import ProgressBar, announce
from fwshapley._internal.wording import duration
from fwshapley.explanation.learned.fitted import MAX_BATCH, Fitted
from fwshapley.explanation.learned.quality import GOOD_ERROR, MethodScores, Quality, QualityWarning, Score
from fwshapley.explanation.learned.refinement.control_variate import network_values
from fwshapley.explanation.learned.refinement.correction import refine_values
from fwshapley.explanation.learned.sampled_values import check_calls, sample_values
from fwshapley.games.scales import KINDS
from fwshapley.objectives import Kernel
from fwshapley.semivalues import Beta, Semivalue, Shapley
from fwshapley.training.budget import Budget

MEASURED_WEIGHTINGS = (Shapley(), Beta(4, 1), Beta(1, 4))
"""Weightings that are measured for explainers that learn all of them."""

MEASURED_INPUTS = 64
MIN_INPUTS = 8
"""Most inputs that are measured by default, and fewest; refinement is measured on the fewest."""

MAX_INPUTS_OF_MEANS = 512
"""Most inputs that class means are computed from."""

BUDGET_SHARE, MAX_SHARE = 0.08, 0.2
MIN_SECONDS, MAX_SECONDS = 1.0, 10.0
"""Share of a training budget that `fit` reserves for measuring: more for short budgets, less for long ones."""

MEANS_ARE_ZEROS = 0.95
"""Relative error of class means from which on they are called zeros."""

SAMPLING_SHARE = 0.6
"""Share of that time after which sampling ends; the rest is for refinement."""

PROBED_CALLS = 64

MIN_ANNOUNCED_SECONDS = 5.0
"""Time of training from which on it is told that quality was not measured."""


class Allowance(NamedTuple):
    """What measuring may cost: seconds, and calls of the surrogate; None is any number."""

    seconds: float | None = None
    calls: int | None = None


def divide_budget(budget: Budget, calls_per_step: int) -> tuple[Budget, Allowance]:
    """Return the part of a budget that is for training, and what measuring may cost.

    Args:
        budget: of a fit.
        calls_per_step: of the surrogate, in a step of the explaining network.
    """
    seconds = None
    if budget.seconds is not None:
        share = min(max(BUDGET_SHARE * budget.seconds, MIN_SECONDS), MAX_SECONDS)
        seconds = min(share, MAX_SHARE * budget.seconds)
    calls = None if budget.steps is None else int(BUDGET_SHARE * budget.steps * calls_per_step)
    if budget.seconds is None or seconds is None:
        return budget, Allowance(seconds, calls)
    return Budget(budget.seconds - seconds, budget.steps), Allowance(seconds, calls)


def with_quality(fitted: Fitted, x: Float[Tensor, "rows ..."], allowance: Allowance, *, progress: bool) -> Fitted:
    """Return a fit with its quality on held-out inputs, and say it; without, if that would cost too much.

    Args:
        fitted: a fit.
        x: encoded inputs that it was not trained on.
        allowance: what measuring may cost.
        progress: say how good it is, or that it is not known.
    """
    began = time.monotonic()
    n_inputs = _affordable_inputs(fitted, x, allowance)
    if n_inputs < MIN_INPUTS:
        missing = f"it takes {MIN_INPUTS} held-out inputs and a larger budget; call measure_quality(x)"
        is_long = max(history.seconds for history in fitted.histories.values()) >= MIN_ANNOUNCED_SECONDS
        announce("quality of the explanations", "not measured", missing, enabled=progress and is_long)
        return replace(fitted, quality=None)
    generator = torch.Generator(fitted.device).manual_seed(fitted.seed)
    quality = measure(
        fitted, x, measured_weightings(fitted), generator=generator, n_inputs=n_inputs, seconds=allowance.seconds
    )
    announce(
        "quality of the explanations",
        str(quality),
        *_about_break_even(quality, fitted),
        f"measured in {duration(time.monotonic() - began)}",
        enabled=progress,
    )
    warn_if_poor(quality, stacklevel=5)
    return replace(fitted, quality=quality)


def _about_break_even(quality: Quality, fitted: Fitted) -> list[str]:
    """Say from how many inputs on training takes less time than sampling, if the network is good."""
    inputs = quality.break_even(fitted.histories["explainer"].seconds, fitted.players.n_players)
    if quality.error > GOOD_ERROR or not math.isfinite(inputs):
        return []
    return [f"training takes less time than sampling from about {math.ceil(inputs):,} inputs on"]


def warn_if_poor(quality: Quality, *, stacklevel: int) -> None:
    """Warn if the network has learned little, and say what would help."""
    score = quality.scores[0]
    if not score.is_poor:
        return
    simple = "zeros" if score.class_mean.error > MEANS_ARE_ZEROS else "mean values of other inputs"
    warnings.warn(
        f"the explanations are hardly better than {simple}: {quality}. Pass a larger budget, or "
        "explain(x, method='auto'), refine or sample, which use sampled coalitions of each input",
        QualityWarning,
        stacklevel=stacklevel,
    )


def measured_weightings(fitted: Fitted) -> list[Semivalue]:
    """Return the weightings that are measured by default."""
    objective = fitted.objective
    return [objective.weights] if isinstance(objective, Kernel) else list(MEASURED_WEIGHTINGS)


def measure(
    fitted: Fitted,
    x: Float[Tensor, "rows ..."],
    weightings: Sequence[Semivalue],
    *,
    generator: torch.Generator,
    n_inputs: int | None = MEASURED_INPUTS,
    n_calls: int | Literal["auto"] = "auto",
    seconds: float | None = None,
    progress: bool = False,
) -> Quality:
    """Compare the values of all methods with two samplings of each input.

    Args:
        fitted: a fit.
        x: encoded inputs that it was not trained on, at least 8.
        weightings: the semivalues to measure.
        generator: chooses inputs and coalitions.
        n_inputs: how many inputs to sample at most; None is all.
        n_calls: coalitions of each input in each run.
        seconds: time after which no more inputs are sampled; None is any.
        progress: show progress if it takes long.
    """
    clock = _Clock(time.monotonic(), seconds)
    n_calls = check_calls(n_calls, _most_players(fitted, x))
    most = len(x) if n_inputs is None else min(n_inputs, len(x))
    chosen = torch.randperm(len(x), generator=generator, device=generator.device)[: max(most, MAX_INPUTS_OF_MEANS)]
    x = x[chosen.to(x.device)].to(fitted.device)
    task = _Task(fitted, x, _measured_outputs(fitted, x), weightings, n_calls, generator, clock)
    predicted = task.predict()
    means = task.average_others(predicted.values)
    with ProgressBar("measuring quality", most, enabled=progress) as bar:
        sampled = task.sample_twice(most, bar)
    halves = sampled.values
    count = halves.shape[2]
    refined = task.refine()
    if fitted.players.varies:  # scores leave out the players that an input does not have
        lacking = ~fitted.masked_model.members(x)[:, :, None]
        halves = halves.masked_fill(lacking[:count], math.nan)
    scores = tuple(
        MethodScores(
            weights,
            network=Score.of(predicted.values[number, :count], *halves[:, number]),
            class_mean=Score.of(means[number, :count], *halves[:, number]),
            sampling=Score.of_samplings(*halves[:, number]),
            refinement=None if refined is None else Score.of(refined.values[number], *halves[:, number, :MIN_INPUTS]),
        )
        for number, weights in enumerate(weightings)
    )
    timed = {"network": predicted, "sampling": sampled} | ({} if refined is None else {"refinement": refined})
    times = {method: values.seconds for method, values in timed.items()}
    return Quality(scores, n_inputs=count, n_calls=n_calls, seconds=times)


class _Clock(NamedTuple):
    """When measuring began, and the seconds that it may take; None is any number."""

    began: float
    seconds: float | None

    def has(self, seconds: float, share: float = 1.0) -> bool:
        """Whether something can still be done that takes some seconds, within a share of the time."""
        return self.seconds is None or time.monotonic() + seconds < self.began + share * self.seconds


class _Timed(NamedTuple):
    """Values, (weights, inputs, players, outputs) at the end, and the seconds that they took per input."""

    values: Float64[Tensor, "*halves weights inputs players outputs"]
    seconds: float


class _Task(NamedTuple):
    """Inputs to measure the methods on.

    Attributes:
        fitted: the network and the game.
        x: the inputs, on its device.
        outputs: numbers of the measured outputs, for each input.
        weightings: the semivalues.
        n_calls: coalitions of each input in each run.
        generator: of the coalitions.
        clock: of the time that is left.
    """

    fitted: Fitted
    x: Float[Tensor, "inputs ..."]
    outputs: Int[Tensor, "inputs outputs"]
    weightings: Sequence[Semivalue]
    n_calls: int
    generator: torch.Generator
    clock: _Clock

    def predict(self) -> _Timed:
        """Values of all inputs by the network."""
        began, parts = time.monotonic(), []
        for x, outputs in zip(self.x.split(MAX_BATCH), self.outputs.split(MAX_BATCH), strict=True):
            values = network_values(self.fitted, x, self.weightings)
            parts.append(values.gather(3, outputs[None, :, None].expand(*values.shape[:3], -1)))
        values = torch.cat(parts, 1)
        values.sum().item()  # waits for the device
        return _Timed(values, (time.monotonic() - began) / len(self.x))

    def average_others(
        self, values: Float64[Tensor, "weights inputs players outputs"]
    ) -> Float64[Tensor, "weights inputs players outputs"]:
        """Mean values of the other inputs, of the same class if outputs are classes; zeros if there is no other."""
        same = torch.ones(len(self.x), len(self.x), dtype=torch.bool, device=self.x.device)
        if KINDS[self.fitted.masked_model.output] == "classes":
            same = self.outputs == self.outputs.T
        others = same.fill_diagonal_(False).double()
        return torch.einsum("ij,wjpo->wipo", others / others.sum(1, keepdim=True).clamp(min=1), values)

    def sample_twice(self, most: int, bar: ProgressBar) -> _Timed:
        """Two samplings of as many inputs as there is time for, at least one group."""
        parts: list[Tensor] = []
        times: list[float] = []
        done, count = 0, MIN_INPUTS
        options: dict[str, Any] = {"n_calls": self.n_calls, "generator": self.generator}
        while done < most and (not times or self.clock.has(2 * count * times[-1], SAMPLING_SHARE)):
            x, outputs = self.x[done : min(done + count, most)], self.outputs[done : min(done + count, most)]
            began = time.monotonic()
            halves = [
                sample_values(self.fitted.masked_model, x, outputs, self.weightings, **options).values for _ in range(2)
            ]
            parts.append(torch.stack(halves))
            times.append((time.monotonic() - began) / (2 * len(x)))
            bar.advance(len(x))
            done += len(x)
            count = done  # more inputs at once take less time each
        return _Timed(torch.cat(parts, 2), min(times))

    def refine(self) -> _Timed | None:
        """Refined values of a few inputs; None if there is no time for them."""
        began, took = time.monotonic(), 0.0
        parts: list[Tensor] = []
        options: dict[str, Any] = {"n_calls": self.n_calls, "generator": self.generator}
        for x, outputs in zip(self.x[:MIN_INPUTS].split(1), self.outputs[:MIN_INPUTS].split(1), strict=True):
            if not self.clock.has((MIN_INPUTS - len(parts)) * took):
                return None
            parts.append(refine_values(self.fitted, x, outputs, self.weightings, **options).values)
            took = (time.monotonic() - began) / len(parts)
        return _Timed(torch.cat(parts, 1), took)


def _affordable_inputs(fitted: Fitted, x: Float[Tensor, "rows ..."], allowance: Allowance) -> int:
    """Return how many inputs may be sampled twice; 0 if the time of a few calls says that the fewest would not do."""
    n_calls = check_calls("auto", _most_players(fitted, x))
    most = min(len(x), MEASURED_INPUTS)
    if allowance.calls is not None:
        most = min(most, allowance.calls // (2 * n_calls))
    if allowance.seconds is None or most < MIN_INPUTS:
        return most
    coalitions = torch.ones(1, PROBED_CALLS, fitted.players.n_players, dtype=torch.bool, device=fitted.device)
    took = 0.0
    for _ in range(2):  # the first call may prepare the device
        began = time.monotonic()
        fitted.masked_model(x[:1].to(fitted.device), coalitions).sum().item()
        took = time.monotonic() - began
    expected = 2 * MIN_INPUTS * n_calls / PROBED_CALLS * took
    return most if expected < SAMPLING_SHARE * allowance.seconds else 0


def _most_players(fitted: Fitted, x: Float[Tensor, "rows ..."]) -> int:
    """Return the largest number of players of some inputs."""
    return int(fitted.masked_model.counts(x[:MAX_INPUTS_OF_MEANS]).max())


def _measured_outputs(fitted: Fitted, x: Float[Tensor, "inputs ..."]) -> Int[Tensor, "inputs outputs"]:
    """Return the class that the surrogate predicts for each input, or all outputs if they are not classes."""
    game = fitted.masked_model
    if KINDS[game.output] == "classes":
        return torch.cat([game.full_values(some) for some in x.split(MAX_BATCH)]).argmax(1, keepdim=True)
    return torch.arange(len(fitted.output_names), device=x.device).expand(len(x), -1)
