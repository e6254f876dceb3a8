"""What a training run is given, and what it tells: how long, how, which rows of a batch, and its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fwshapley._internal.checks import check_flag, check_real, check_whole


@dataclass(frozen=True)
class Budget:
    """How long to train: seconds, steps, or whichever ends first.

    Example:
        >>> Budget(seconds=120).spent(step=1000, seconds=30)
        0.25
    """

    seconds: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.steps is None:
            raise ValueError("a budget needs seconds or steps, e.g. Budget(seconds=120)")
        if self.seconds is not None:
            object.__setattr__(self, "seconds", check_real("seconds", self.seconds))
            if self.seconds <= 0:
                raise ValueError(f"seconds must be positive, got {self.seconds}")
        if self.steps is not None:
            object.__setattr__(self, "steps", check_whole("steps", self.steps))

    def spent(self, step: int, seconds: float) -> float:
        """Fraction of the budget that is gone."""
        by_step = step / self.steps if self.steps else 0.0
        by_time = seconds / self.seconds if self.seconds else 0.0
        return max(by_step, by_time)

    def part(self, share: float) -> Budget:
        """Return a share of it, above 0."""
        if check_real("share", share) <= 0:
            raise ValueError(f"share must be above 0, got {share:g}")
        return Budget(
            seconds=None if self.seconds is None else share * self.seconds,
            steps=None if self.steps is None else max(1, round(share * self.steps)),
        )


class FewStepsWarning(UserWarning):
    """The seconds of a training were over after so few steps that it has hardly learned anything."""


@dataclass(frozen=True)
class Recipe:
    """How a module is trained.

    Attributes:
        batch_size: rows a step, over all processes.
        learning_rate: its peak; it warms up over the first 5 % of the budget and then falls to zero along a cosine.
        weight_decay: AdamW's.
        looks: how often the validation loss is taken; less often where that would take a fifth of a budget in seconds.
        patience: looks without a better validation loss after which training stops.
        compiled: whether to compile the module; its first step, which compiles, is not counted against the budget.
    """

    batch_size: int
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    looks: int = 20
    patience: int = 10
    compiled: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "looks", "patience"):
            check_whole(name, getattr(self, name))
        if check_real("learning_rate", self.learning_rate) <= 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate:g}")
        check_flag("compiled", self.compiled)
        if check_real("weight_decay", self.weight_decay) < 0:
            raise ValueError(f"weight_decay must not be negative, got {self.weight_decay:g}")


@dataclass(frozen=True)
class Shard:
    """Which rows of a batch belong to this process."""

    index: int = 0
    count: int = 1

    def of(self, rows: Tensor) -> Tensor:
        """Every count-th row, from index."""
        return rows[self.index :: self.count]


@dataclass
class History:
    """What a training run went through.

    Attributes:
        steps: taken so far.
        seconds: of the budget that were used so far, including setup and validation, but not by a first step that
            compiles.
        loss: (step, loss of its batch), now and then.
        validation: (step, validation loss), at every look.
        stopped: why it ended; "" while it goes on.
    """

    steps: int = 0
    seconds: float = 0.0
    loss: list[tuple[int, float]] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)
    stopped: Literal["", "budget", "no progress", "diverged"] = ""

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> History:
        """Return the history that was saved as JSON."""
        pairs = {name: [(int(step), value) for step, value in facts[name]] for name in ("loss", "validation")}
        return cls(**{**facts, **pairs})


@dataclass(frozen=True)
class Batch:
    """What a loss is asked about.

    Attributes:
        rows: numbers of the rows of the whole batch, on the CPU; every process has the same.
        shard: which of them this process answers for.
        generator: randomness of this step, the same on every process.
        spent: fraction of the budget that is gone.
    """

    rows: Int[Tensor, " rows"]
    shard: Shard
    generator: torch.Generator
    spent: float


Loss = Callable[[nn.Module, Batch], Float[Tensor, ""]]
"""Mean loss of a module on this process's share of a batch."""
