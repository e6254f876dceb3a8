"""How long and how a network is trained, and the history of a training run. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from fwshapley._internal.checks import check_choice, check_flag, check_kind, check_real, check_seed, check_whole

OptimizerName = Literal["muon", "adamw"]


class FewStepsWarning(UserWarning):
    """The time budget of a training run ended after so few steps that the network has learned little.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore", fw.training.FewStepsWarning)
    """


@dataclass(frozen=True)
class Budget:
    """How long to train: seconds, steps, or whichever ends first.

    Args:
        seconds: wall-clock time, positive.
        steps: steps of the optimizer.

    Example:
        >>> fw.Budget(seconds=120).spent(step=1000, seconds=30)
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
        """Return the fraction of the budget that is used up after some steps and seconds."""
        by_step = step / self.steps if self.steps else 0.0
        by_time = seconds / self.seconds if self.seconds else 0.0
        return max(by_step, by_time)

    def part(self, share: float) -> Budget:
        """Return a share of the budget, which must be above 0; at least one step."""
        if check_real("share", share) <= 0:
            raise ValueError(f"share must be above 0, got {share:g}")
        return Budget(
            seconds=None if self.seconds is None else share * self.seconds,
            steps=None if self.steps is None else max(1, round(share * self.steps)),
        )


def check_budget(budget: object) -> None:
    """Raise a TypeError that shows what a budget looks like unless it is one."""
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget, e.g. Budget(seconds=60), got {budget!r}")


@dataclass(frozen=True)
class TrainingOptions:
    """How a network is trained: everything about a training run except the network, its loss and its data.

    Attributes:
        budget: seconds or steps, over which the learning rate is scheduled.
        batch_size: rows per step, over all processes.
        learning_rate: peak; it rises over the first 5 % of the budget and then falls to zero along a cosine.
        weight_decay: decoupled from the gradients, as in AdamW.
        optimizer: "muon" for the weights of layers and AdamW for other parameters, or "adamw" for all.
        n_validations: how often the validation loss is computed; less often if that would take a fifth of a budget in
            seconds.
        patience: validations without a lower loss after which training stops.
        compiled: compile the network; the first step, which compiles, does not count against the budget.
        seed: of everything random.
        checkpoint: file to save to every 20 seconds, at the end, and when interrupted.
        resume: continue from the checkpoint if there is one.
        progress: show a progress bar.
        warm_start: the network is trained already. Its state is kept unless a better one is found, and training does
            not stop early, since the learning rate has to fall before that can happen.
        started: when the seconds of the budget began, by `time.monotonic`; None is when training starts. At least half
            of the seconds are left to training.

    Example:
        >>> fw.training.TrainingOptions(fw.Budget(steps=100), batch_size=32).learning_rate
        0.001
    """

    budget: Budget
    batch_size: int
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    optimizer: OptimizerName = "adamw"
    n_validations: int = 20
    patience: int = 10
    compiled: bool = False
    seed: int = 0
    checkpoint: Path | None = None
    resume: bool = False
    progress: bool = True
    warm_start: bool = False
    started: float | None = None

    def __post_init__(self) -> None:
        check_budget(self.budget)
        for name in ("batch_size", "n_validations", "patience"):
            check_whole(name, getattr(self, name))
        if check_real("learning_rate", self.learning_rate) <= 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate:g}")
        if check_real("weight_decay", self.weight_decay) < 0:
            raise ValueError(f"weight_decay must not be negative, got {self.weight_decay:g}")
        check_choice("optimizer", self.optimizer, get_args(OptimizerName))
        for name in ("compiled", "resume", "progress", "warm_start"):
            check_flag(name, getattr(self, name))
        check_seed(self.seed)
        if self.checkpoint is not None:
            check_kind("checkpoint", self.checkpoint, Path)


@dataclass
class History:
    """What happened in a training run.

    Attributes:
        steps: number of steps.
        seconds: of the budget that were used, including preparation and validation, but not a first step that compiles.
        loss: (step, loss of its batch), for some steps.
        validation: (step, validation loss), for every validation.
        stopped: why training ended; "" while it continues.

    Example:
        >>> x = torch.randn(100, 3)
        >>> explainer = fw.FeatureExplainer(torch.nn.Linear(3, 2), surrogate=None, device="cpu")
        >>> explainer.fit(x, budget=fw.Budget(steps=5), progress=False).histories_["explainer"].stopped
        'budget'
    """

    steps: int = 0
    seconds: float = 0.0
    loss: list[tuple[int, float]] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)
    stopped: Literal["", "budget", "no progress", "diverged"] = ""

    def followed_by(self, other: History) -> History:
        """Return the history of this run and another one that continued it.

        Args:
            other: counts its steps and seconds from its own start.
        """
        return History(
            steps=self.steps + other.steps,
            seconds=self.seconds + other.seconds,
            loss=self.loss + [(self.steps + step, value) for step, value in other.loss],
            validation=self.validation + [(self.steps + step, value) for step, value in other.validation],
            stopped=other.stopped,
        )

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> History:
        """Return the history that was saved as JSON."""
        pairs = {name: [(int(step), value) for step, value in facts[name]] for name in ("loss", "validation")}
        return cls(**{**facts, **pairs})
