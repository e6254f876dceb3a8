"""The training loop of every network: budget, learning rate, validation, checkpoints, several processes.

Each step draws a batch, computes the loss, and updates the module (`optimizers.py`) with gradients clipped at norm
1. From time to time the validation loss is computed; in the end, the module has the state with the lowest one.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fwshapley._internal.files import check_writable_file
from fwshapley._internal.progress import ProgressBar, announce
from fwshapley.training.batches import Batch, Loss, derive_seed, draw_rows
from fwshapley.training.budget import FewStepsWarning, History, TrainingOptions
from fwshapley.training.checkpoint import HeldInterrupts, Progress, Resumable
from fwshapley.training.optimizers import make_optimizers
from fwshapley.training.shared_state import PrivateAccelerator

WARM_UP = 0.05
MAX_GRADIENT_NORM = 1.0
CHECKPOINT_SECONDS = 20.0
REPORT_STEPS = 25
PERCENT = 100
TIMED_STEPS = 10
"""Steps after which the time of a run with a budget in steps is estimated."""

FEW_STEPS = 50
"""A network that got fewer steps before its time was over has learned little."""

MAX_VALIDATION_SHARE = 0.2
"""Largest share of the time that validation may take, where the budget is in seconds."""

MIN_TRAINING_SHARE = 0.5
"""Share of a budget in seconds that is left to training, however long the preparation took."""

FORWARD_NAMES = ("forward", "_original_forward")
"""Attributes that accelerate sets on a module that it prepares for mixed precision."""


def train(
    module: nn.Module,
    loss: Loss,
    options: TrainingOptions,
    *,
    n_rows: int,
    device: torch.device,
    validate: Callable[[nn.Module], float] | None = None,
    identity: Mapping[str, Any] | None = None,
    description: str = "training",
    mixed_precision: bool | None = None,
) -> History:
    """Train a module in place, leave its best state in it (also of buffers), and return what happened.

    The best state is the one with the lowest validation loss, or the last one without `validate`. The module always
    ends in evaluation mode with its best state so far and without wrappers, also after an error or Ctrl-C. If the loss
    is not finite, training stops: with a warning if there is a good state, which is kept; otherwise with a
    FloatingPointError, and the module has its initial state.

    Threads that train take turns, step by step, because torch has one global generator per device. So do not start
    training in another thread from `loss` or `validate` and wait for it.

    Args:
        module: what is trained.
        loss: mean loss of the module on a batch.
        options: budget, batch size, learning rate, seed, checkpoint and so on.
        n_rows: number of rows that batches are drawn from, each epoch in a new order.
        device: where the module is trained.
        validate: returns the validation loss of the module, which is in evaluation mode.
        identity: what else must agree for a checkpoint to be resumed, JSON-compatible.
        description: of the run, for the progress bar, messages and the checkpoint.
        mixed_precision: compute in bf16 where that is accurate enough; None is on a GPU only.

    Example:
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> loss = lambda module, batch: (module(x[batch.rows]) - 2 * x[batch.rows]).square().mean()
        >>> options = fw.training.TrainingOptions(fw.Budget(steps=20), batch_size=16, progress=False)
        >>> train(torch.nn.Linear(1, 1), loss, options, n_rows=64, device=torch.device("cpu")).steps
        20
    """
    check_writable_file(options.checkpoint, "checkpoint=...")
    facts = {"description": description, "rows": n_rows, **(identity or {})}
    mixed = device.type == "cuda" if mixed_precision is None else mixed_precision
    private = PrivateAccelerator(device, mixed_precision=mixed)
    run = _Run(module, loss, options, private, n_rows=n_rows, device=device, validate=validate, identity=facts)
    try:
        run.start()
        if options.resume and options.checkpoint is not None and options.checkpoint.exists():
            run.load(options.checkpoint)
        elif options.warm_start:
            run.consider_start()
        _take_steps(run)
    finally:
        run.finish()
    run.warn_of_few_steps()
    return run.history


def _take_steps(run: _Run) -> None:
    """Take steps until the run is over, and save it from time to time."""
    options = run.options
    total = options.budget.steps or PERCENT
    shown = options.progress and run.private.is_main
    # Ctrl-C is not delayed in one of several processes, since the others would wait for it.
    held = HeldInterrupts(enabled=run.private.shard.count == 1)
    with ProgressBar(run.description, total, enabled=shown) as bar, held:
        done = 0
        saved = time.monotonic()
        while not run.history.stopped:
            run.step()
            steps, seconds = run.history.steps, run.history.seconds
            if steps == TIMED_STEPS and options.budget.seconds is None:
                announce(run.description, f"{total:,} steps", seconds=seconds / steps * total, enabled=shown)
            if run.history.loss and run.history.loss[-1][0] == steps:
                now_done = math.floor(total * min(run.spent, 1.0))
                note = f"loss {run.history.loss[-1][1]:.4g}, {steps / max(seconds, 1e-9):.1f} steps/s"
                bar.advance(now_done - done, note=note)
                done = now_done
            overdue = time.monotonic() - saved > CHECKPOINT_SECONDS
            interrupted = held.pending
            if options.checkpoint is not None and (overdue or interrupted or run.history.stopped):
                if run.private.is_main:
                    run.save(options.checkpoint)
                saved = time.monotonic()
            if interrupted:
                break


def schedule(spent: float) -> float:
    """Return the fraction of the peak learning rate: linear warm-up, then half a cosine to zero."""
    if spent < WARM_UP:
        return (spent + 1e-3) / (WARM_UP + 1e-3)
    return 0.5 * (1 + math.cos(math.pi * min((spent - WARM_UP) / (1 - WARM_UP), 1.0)))


class _Run(Resumable):
    """One training run: the module, its optimizers and its progress."""

    def __init__(
        self,
        module: nn.Module,
        loss: Loss,
        options: TrainingOptions,
        private: PrivateAccelerator,
        *,
        n_rows: int,
        device: torch.device,
        validate: Callable[[nn.Module], float] | None,
        identity: Mapping[str, Any],
    ) -> None:
        self.module, self.loss, self.options, self.validate = module, loss, options, validate
        self.n_rows, self.device, self.identity = n_rows, device, identity
        self.private = private
        shard = private.shard
        smallest = min(n_rows, options.batch_size)
        if smallest < shard.count:
            raise ValueError(
                f"a batch of {smallest} rows is too small for {shard.count} processes; each needs at least one row"
            )
        self.progress = Progress(best=self._copy_state())
        self._forward = {name: module.__dict__[name] for name in FORWARD_NAMES if name in module.__dict__}
        self._prepared: Any = None
        self._steppers: list[Any] = []
        self._clock = self._preparation = 0.0
        self._is_first_step = True
        self._last_validation = self._all_validations = 0.0  # seconds

    @property
    def description(self) -> str:
        return str(self.identity["description"])

    @property
    def history(self) -> History:
        return self.progress.history

    @property
    def spent(self) -> float:
        """Fraction of the budget that is used up, counting one more validation."""
        return self.options.budget.spent(self.history.steps, self.history.seconds + self._last_validation)

    def start(self) -> None:
        """Prepare the module and the optimizers; the seconds of the budget may have begun before."""
        options = self.options
        began = time.monotonic() if options.started is None else options.started
        self.module.to(self.device).train()
        self.optimizers = make_optimizers(self.module, options)
        callable_module = torch.compile(self.module) if options.compiled else self.module
        with self.private.turn():
            self._prepared, *self._steppers = self.private.accelerator.prepare(callable_module, *self.optimizers)
        self.generator = torch.Generator(self.device)
        self._clock = time.monotonic()
        if options.budget.seconds is not None:  # the first optimizer of a process imports for seconds
            longest = (1 - MIN_TRAINING_SHARE) * options.budget.seconds
            self._preparation = min(max(self._clock - began, 0.0), longest)

    def consider_start(self) -> None:
        """Let the initial state be the best one until a validation loss is lower."""
        with self.private.turn():
            self._update_best()

    def step(self) -> None:
        """Take one step; report, validate and stop where that is due."""
        with self.private.turn():
            self._step()

    def _step(self) -> None:
        history = self.history
        before = self.spent
        value = self._descend(before)
        history.steps += 1
        self._count_seconds(value)
        is_validated = self._is_validation_due(before)
        is_reported = is_validated or history.steps % REPORT_STEPS == 1
        if is_reported or self.device.type == "cpu":
            current = float(self.private.accelerator.reduce(value, "mean"))
            if not math.isfinite(current):
                self._stop_diverged(f"the loss is {current}")
                return
            if is_reported:
                history.loss.append((history.steps, current))
        if is_validated:
            self._update_best()
            self._last_validation = self._count_seconds(value)
            self._all_validations += self._last_validation
        if self.spent >= 1:
            history.stopped = history.stopped or "budget"
        if history.stopped in {"budget", "no progress"} and self.progress.best_step is None:
            self._stop_diverged("the validation loss was never finite")

    def _descend(self, spent: float) -> Tensor:
        """Update the parameters by one batch; return its loss."""
        options, shard, step = self.options, self.private.shard, self.history.steps
        for group in chain.from_iterable(optimizer.param_groups for optimizer in self.optimizers):
            group["lr"] = options.learning_rate * schedule(spent)
        rows = draw_rows(self.n_rows, options.batch_size, step, options.seed)
        self.generator.manual_seed(derive_seed(options.seed, "step", step))
        torch.manual_seed(derive_seed(options.seed, f"layers of process {shard.index}", step))  # dropout
        share = len(shard.of(rows)) * shard.count / len(rows)
        with self.private.accelerator.autocast():
            value = share * self.loss(self._prepared, Batch(rows, shard, self.generator, spent))
        self.private.accelerator.backward(value)
        self.private.accelerator.clip_grad_norm_(self._prepared.parameters(), MAX_GRADIENT_NORM)
        for stepper in self._steppers:
            stepper.step()
            stepper.zero_grad(set_to_none=True)
        return value.detach()

    def _count_seconds(self, value: Tensor) -> float:
        """Add the time since the last call, by the slowest process's clock, to the history, and return it.

        The first call adds the time of the preparation. The first step of a compiled module, which compiles, does not
        count.
        """
        compiles = self._is_first_step and self.options.compiled
        if compiles:
            float(value)  # waits until the device has compiled
        now = time.monotonic()
        seconds = self._preparation + (0.0 if compiles else now - self._clock)
        self._clock = now
        self._preparation = 0.0
        self._is_first_step = False
        if self.private.shard.count > 1:
            clock = torch.tensor([seconds], device=self.device, dtype=torch.float32)
            seconds = float(self.private.accelerator.gather(clock).max())
        self.history.seconds += seconds
        return seconds

    def _is_validation_due(self, before: float) -> bool:
        """Whether to validate after a step: as often as the options say, unless that would take too much time."""
        if self.spent >= 1:
            return True
        count = self.options.n_validations
        due = math.floor(self.spent * count) > math.floor(before * count)
        affordable = MAX_VALIDATION_SHARE * self.history.seconds
        by_steps = self.options.budget.seconds is None
        return due and (by_steps or self._all_validations + self._last_validation <= affordable)

    def _update_best(self) -> None:
        """Validate, and keep the current state if it is the best; without `validate`, if it is finite."""
        progress, history = self.progress, self.history
        if self.validate is None:
            if all(bool(parameter.isfinite().all()) for parameter in self.module.parameters()):
                progress.best, progress.best_step = self._copy_state(), history.steps
            else:
                self._stop_diverged("its parameters are no longer finite")
            return
        self.module.eval()
        with torch.no_grad(), self.private.accelerator.autocast():
            score = torch.tensor(self.validate(self.module), device=self.device)
        self.module.train()
        current = float(self.private.accelerator.reduce(score, "mean"))
        history.validation.append((history.steps, current))
        if current < progress.best_loss:
            progress.best, progress.best_step = self._copy_state(), history.steps
            progress.best_loss = current
            progress.validations_without_progress = 0
            return
        progress.validations_without_progress += 1
        if progress.validations_without_progress >= self.options.patience and not self.options.warm_start:
            history.stopped = "no progress"

    def _stop_diverged(self, reason: str) -> None:
        """End the run with the last good state; raise an error if there is none."""
        self.history.stopped = "diverged"
        message = (
            f"{self.description} diverged at step {self.history.steps}: {reason}. Lower the learning rate (now "
            f"{self.options.learning_rate:g}), or check that the model's outputs are finite on masked inputs"
        )
        best_step = self.progress.best_step
        if best_step is None:
            raise FloatingPointError(f"{message}; there is no good state to keep")
        warnings.warn(f"{message}. The state of step {best_step}, the last good one, is kept", stacklevel=4)

    def _copy_state(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.module.state_dict().items()}

    def load(self, path: Path) -> None:
        super().load(path)
        self._clock, self._preparation = time.monotonic(), 0.0

    def finish(self) -> None:
        """Leave the best state in the module, and remove the wrappers around it."""
        if self.history.stopped == "diverged" or (self.validate is not None and self.progress.best_step is not None):
            self.module.load_state_dict(self.progress.best)
        self.module.zero_grad(set_to_none=True)
        self.module.eval()
        # Otherwise it would keep autocasting; accelerate's own function breaks compiled modules.
        for name in FORWARD_NAMES:
            self.module.__dict__.pop(name, None)
        self.module.__dict__.update(self._forward)
        with self.private.turn():
            self._prepared, *self._steppers = self.private.accelerator.free_memory(self._prepared, *self._steppers)

    def warn_of_few_steps(self) -> None:
        """Warn if there was time for only a few steps."""
        steps, budget = self.history.steps, self.options.budget
        ended_by_time = budget.seconds is not None and (budget.steps is None or steps < budget.steps)
        if self.history.stopped != "budget" or not ended_by_time or steps >= FEW_STEPS:
            return
        advice = "Pass more seconds or a smaller batch_size"
        passive = os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE"
        if self.device.type == "cpu" and torch.get_num_threads() > 1 and not passive:
            advice += (
                ". If other processes use this machine, torch's threads may slow each other down many times: start "
                "Python with OMP_WAIT_POLICY=PASSIVE in the environment, or call torch.set_num_threads(1)"
            )
        seconds = f"{self.history.seconds:.1f} s"
        message = f"{self.description} took only {steps} steps in {seconds}, too few to learn much. {advice}"
        warnings.warn(message, FewStepsWarning, stacklevel=3)
