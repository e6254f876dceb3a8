from __future__ import annotations

import math
import time
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import fwshapley as fw
from fwshapley.explanation.learned.pace import Pace, measure_pace, time_of_input
from fwshapley.games.masked_model import MaskedModel
from fwshapley.training.budget import TrainingOptions
from models import images

GRID = fw.grid(8, 8, patch=4)


class Clock:
    """Shows the seconds that slow modules have spent."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock in place of the real one."""
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


class Slow(nn.Module):
    """A classifier that takes some seconds for each image; a step of training takes three times as long."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.inside = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
        self.clock = clock

    def __deepcopy__(self, memo: dict[int, object]) -> Slow:
        copied = Slow(self.clock, self.seconds)  # copies share it
        copied.load_state_dict(self.state_dict())
        return copied

    def forward(self, x: Tensor) -> Tensor:
        self.clock.now += self.seconds * len(x) * (3 if torch.is_grad_enabled() else 1)
        out: Tensor = self.inside(x)
        return out


def options(**arguments: object) -> TrainingOptions:
    return TrainingOptions(**{"budget": fw.Budget(seconds=10), "batch_size": 8, **arguments})  # type: ignore[arg-type]


def paced(model: nn.Module, **arguments: object) -> Pace:
    surrogate = fw.explanation.Surrogate(model, GRID, torch.zeros(1, 1, 1, 1))
    game = MaskedModel(surrogate, "probability", GRID.n_players, torch.device("cpu"))
    return measure_pace(model.requires_grad_(requires_grad=False), game, images(40), options(**arguments))


@pytest.mark.parametrize(("budget", "seconds"), [(5, 1e-3), (60, 1e-2)])
def test_a_fit_takes_its_seconds_however_slow_the_model_and_large_the_data(
    clock: Clock, budget: int, seconds: float
) -> None:
    model = Slow(clock, seconds)
    x = images(8000)  # to predict all of them takes longer than the budget
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.training.FewStepsWarning)
        warnings.simplefilter("ignore", fw.explanation.FidelityWarning)
        explainer = fw.FeatureExplainer(model, GRID, network=lambda channels: Plain(channels, clock), device="cpu")
        explainer.fit(x, x[:1000], budget=fw.Budget(seconds=budget), progress=False)
    assert clock.now <= 1.15 * budget + 3
    assert {part: (h.steps, h.stopped) for part, h in explainer.histories_.items() if h.steps < 15} == {}


class Plain(nn.Module):
    """A network that takes 0.01 s for a call."""

    def __init__(self, channels: int, clock: Clock) -> None:
        super().__init__()
        self.body = nn.Linear(64, 4 * channels)
        self.clock = clock

    def forward(self, x: Tensor) -> Tensor:
        self.clock.now += 0.01
        out: Tensor = self.body(x.flatten(1)).unflatten(1, (4, -1))
        return out


def test_the_time_of_an_input_is_measured_on_few_of_them(clock: Clock) -> None:
    asked = []

    def call(x: Tensor) -> Tensor:
        asked.append(len(x))
        clock.now += 0.004 * len(x)
        return x

    assert time_of_input(call, torch.ones(50, 1)) == pytest.approx(0.004)
    assert asked == [1, 1, 4, 16, 16, 16]
    assert time_of_input(lambda x: x, torch.ones(3, 1)) == 0


def test_a_call_that_was_interrupted_does_not_count(clock: Clock) -> None:
    pauses = iter([0.0, 0.5, 0.0, 0.0])

    def call(x: Tensor) -> Tensor:
        clock.now += 0.03 + next(pauses)
        return x

    assert time_of_input(call, torch.ones(50, 1)) == pytest.approx(0.03)


def test_what_a_budget_affords_is_between_two_limits() -> None:
    pace = Pace(budget=100)
    assert [pace.afford(0.1, cost, least=5, most=50) for cost in (0, 0.1, 0.5, 10)] == [50, 50, 20, 5]
    assert pace.afford(0.1, 10, least=5, most=3) == 3
    assert Pace().afford(0.1, 10, least=5, most=50) == 50


def test_steps_and_several_processes_have_no_limits(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Slow(clock, 1.0)
    assert paced(model, budget=fw.Budget(steps=5)) == Pace()
    assert paced(model).surrogate == pytest.approx(1)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert math.isinf(paced(model).budget)


def test_a_resumed_run_has_the_pace_of_the_earlier_one(clock: Clock, tmp_path: Path) -> None:
    first = paced(Slow(clock, 1.0), checkpoint=tmp_path / "new")
    assert paced(Slow(clock, 2.0), checkpoint=tmp_path / "new", resume=True) == first
    assert paced(Slow(clock, 2.0), checkpoint=tmp_path / "new").model == pytest.approx(2)
