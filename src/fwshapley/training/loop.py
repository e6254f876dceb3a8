"""The one training loop, on accelerate: budget, schedule, validation, checkpoints, many processes.

Everything random in a step follows from (seed, step), so that a run killed at any moment goes on from its last
checkpoint as if nothing had happened: bit for bit on a CPU, for a budget in steps.

Dropout draws from torch's global generators, which all threads share, and accelerate keeps its state in its classes. So
threads that train take turns, step by step, and each step finds the generators and the state that belong to its run.
"""

from __future__ import annotations

import atexit
import hashlib
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from jaxtyping import Int
from torch import Tensor, nn

from fwshapley._internal.bundle import load_bundle, save_bundle
from fwshapley._internal.files import check_checkpoint
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.turns import Turns
from fwshapley.training.budget import Batch, Budget, FewStepsWarning, History, Loss, Recipe, Shard
from fwshapley.training.interrupts import HeldInterrupts

WARM_UP = 0.05
LARGEST_NORM = 1.0
CHECKPOINT_SECONDS = 20.0
REPORT_STEPS = 25
PERCENT = 100
FEWEST_STEPS = 50
"""Steps below which a network has hardly learned anything when its seconds are over."""

LOOK_SHARE = 0.2
"""Most of the time that looks at the validation loss may take, where the budget is in seconds."""

LEAST_TRAINING = 0.5
"""Share of a budget in seconds that is left to training, however long it took to prepare."""
FORWARD_NAMES = ("forward", "_original_forward")
"""What accelerate sets on a module that it prepares for mixed precision."""

SHARED = (PartialState, AcceleratorState, GradientState)
"""Classes of accelerate that keep their state for the whole process."""

State = dict[type, dict[str, Any]]

_turns = Turns()


def train(
    module: nn.Module,
    loss: Loss,
    *,
    rows: int,
    recipe: Recipe,
    budget: Budget,
    seed: int,
    device: torch.device,
    validate: Callable[[nn.Module], float] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    began: float | None = None,
    identity: Mapping[str, Any] | None = None,
    description: str = "training",
    progress: bool = True,
) -> History:
    """Train a module in place, leave its best state in it (buffers too), and return what happened.

    AdamW, gradients clipped at norm 1, bf16 on CUDA. The best state is that of the lowest validation loss where
    `validate` is given, else the last. The module always ends in evaluation mode, with its best state so far and
    without wrappers, also after an error or Ctrl-C.

    If the loss is not finite, training stops: with a warning if a good state was found, which is kept; otherwise with a
    FloatingPointError, and the module has the state that it started with.

    A budget in seconds counts everything from the call on, validation included, which is done less often where it takes
    long. Only the first step of a compiled module is not counted.

    Threads that train take turns, step by step, because torch has one global generator per device; so do not start
    training in another thread from `loss` or `validate` and wait for it.

    Args:
        module: what is trained.
        loss: its mean loss on a batch.
        rows: number of rows that batches are drawn from, each epoch in a new order.
        recipe: batch size, learning rate and the like.
        budget: after which it ends; the schedule is sized by it.
        seed: of everything random.
        device: where it runs.
        validate: validation loss of the module, which is in evaluation mode then.
        checkpoint: file to save to every 20 seconds, at the end, and when interrupted.
        resume: go on from the checkpoint, if there is one and it is of the same run.
        began: when the seconds of the budget began, by `time.monotonic`, if that was before the call. Half of them are
            left to a new run in any case.
        identity: what else makes it the same run, as JSON holds it.
        description: for the progress bar and for messages.
        progress: whether to show a bar.
    """
    check_checkpoint(checkpoint, "checkpoint=...")
    run = _Run(
        module,
        loss,
        rows=rows,
        recipe=recipe,
        budget=budget,
        seed=seed,
        device=device,
        validate=validate,
        identity=identity or {},
        description=description,
    )
    try:
        run.start(began)
        if resume and checkpoint is not None and checkpoint.exists():
            run.load(checkpoint)
        _go_on(run, checkpoint, progress=progress)
    finally:
        run.finish()
    run.warn_of_few_steps()
    return run.history


def _go_on(run: _Run, checkpoint: Path | None, *, progress: bool) -> None:
    """Take steps until the run is over, and save it from time to time."""
    total = run.budget.steps or PERCENT
    held = HeldInterrupts(enabled=run.shard.count == 1)  # of several processes, some would wait for the others
    with ProgressBar(run.description, total, enabled=progress and run.is_main) as bar, held:
        shown, saved = 0, time.monotonic()
        while not run.history.stopped:
            run.step()
            if run.history.loss and run.history.loss[-1][0] == run.history.steps:
                done = math.floor(total * min(run.spent, 1.0))
                bar.advance(done - shown, note=run.note())
                shown = done
            overdue, interrupted = time.monotonic() - saved > CHECKPOINT_SECONDS, held.pending
            if checkpoint is not None and (overdue or interrupted or run.history.stopped):
                run.save(checkpoint)
                saved = time.monotonic()
            if interrupted:
                break


def schedule(spent: float) -> float:
    """Share of the peak learning rate: linear warm-up, then half a cosine to zero."""
    if spent < WARM_UP:
        return (spent + 1e-3) / (WARM_UP + 1e-3)
    return 0.5 * (1 + math.cos(math.pi * min((spent - WARM_UP) / (1 - WARM_UP), 1.0)))


class _Run:
    """A module on its way: what a step changes, and what a checkpoint holds."""

    def __init__(
        self,
        module: nn.Module,
        loss: Loss,
        *,
        rows: int,
        recipe: Recipe,
        budget: Budget,
        seed: int,
        device: torch.device,
        validate: Callable[[nn.Module], float] | None,
        identity: Mapping[str, Any],
        description: str,
    ) -> None:
        self.module, self.loss, self.rows, self.recipe, self.budget = module, loss, rows, recipe, budget
        self.seed, self.device, self.validate, self.description = seed, device, validate, description
        self.extra_identity = dict(identity)
        # One process may train on several devices, one after the other; several share the group they are in.
        self._states: State = {kind: {} for kind in SHARED}
        if torch.distributed.is_initialized():
            with own_randomness(device):  # while no other thread has exchanged it
                self._states[PartialState] = dict(PartialState._shared_state)  # noqa: SLF001 - accelerate has no other way
        with self._turn():
            self.accelerator = Accelerator(
                cpu=device.type == "cpu",
                mixed_precision="bf16" if device.type == "cuda" else "no",
                device_placement=False,  # the module is where it was asked to be
            )
            self.is_main = bool(self.accelerator.is_main_process)
            self.shard = Shard(self.accelerator.process_index, self.accelerator.num_processes)
        if self.shard.count > 1:
            atexit.register(_leave_group)
        if min(rows, recipe.batch_size) < self.shard.count:
            raise ValueError(
                f"a batch of {min(rows, recipe.batch_size)} rows is too small for {self.shard.count} processes: each "
                "needs a row at least"
            )
        self._own_forward = {name: module.__dict__[name] for name in FORWARD_NAMES if name in module.__dict__}
        self.history = History()
        self.best = self._copy_state()
        self.best_step: int | None = None
        self.best_loss, self.looks_without_progress = math.inf, 0
        self.prepared: Any = None
        self.stepper: Any = None
        self._clock = self._preparation = 0.0
        self._is_first_step = True
        self._look_seconds = self._looked_seconds = 0.0

    def start(self, began: float | None) -> None:
        """Make the module ready to be trained; the seconds of the budget may have begun before."""
        self._clock = time.monotonic()
        if self.budget.seconds is not None and began is not None:
            most = (1 - LEAST_TRAINING) * self.budget.seconds
            self._preparation = min(max(self._clock - began, 0.0), most)
        self.module.to(self.device).train()
        trained = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        rate, decay = self.recipe.learning_rate, self.recipe.weight_decay
        self.optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=decay, fused=self.device.type == "cuda")
        callable_module = torch.compile(self.module) if self.recipe.compiled else self.module
        with self._turn():
            self.prepared, self.stepper = self.accelerator.prepare(callable_module, self.optimizer)
        self.generator = torch.Generator(self.device)

    @property
    def spent(self) -> float:
        """Fraction of the budget that is gone, once a last look is taken."""
        return self.budget.spent(self.history.steps, self.history.seconds + self._look_seconds)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Keep other threads waiting, with torch's generators for us to seed and accelerate's state ours."""
        with own_randomness(self.device):
            theirs = _exchange_state(self._states)
            try:
                yield
            finally:
                self._states = _exchange_state(theirs)

    def note(self) -> str:
        rate = self.history.steps / max(self.history.seconds, 1e-9)
        return f"loss {self.history.loss[-1][1]:.4g}, {rate:.1f} steps/s"

    def step(self) -> None:
        """Take one step; report, look at the validation loss and stop where that is due."""
        with self._turn():
            self._step()

    def _step(self) -> None:
        history, before = self.history, self.spent
        value = self._descend(before)
        history.steps += 1
        self._count_seconds(value)
        look = self._is_look_due(before)
        if look or history.steps % REPORT_STEPS == 1 or self.device.type == "cpu":
            current = float(self.accelerator.reduce(value, "mean"))
            if not math.isfinite(current):
                self._stop_diverged(f"the loss is {current}")
                return
            if look or history.steps % REPORT_STEPS == 1:
                history.loss.append((history.steps, current))
        if look:
            self._look()
            self._look_seconds = self._count_seconds(value)
            self._looked_seconds += self._look_seconds
        if self.spent >= 1:
            history.stopped = history.stopped or "budget"
        if history.stopped in {"budget", "no progress"} and self.best_step is None:
            self._stop_diverged("the validation loss was never finite")

    def _is_look_due(self, before: float) -> bool:
        """Whether to look after a step: as often as the recipe says, but for looks that would take too much time."""
        if self.spent >= 1:
            return True
        due = math.floor(self.spent * self.recipe.looks) > math.floor(before * self.recipe.looks)
        affordable = LOOK_SHARE * self.history.seconds
        return due and (self.budget.seconds is None or self._looked_seconds + self._look_seconds <= affordable)

    def finish(self) -> None:
        """Leave the best state in the module, and let go of the wrappers around it."""
        if self.history.stopped == "diverged" or (self.validate is not None and self.best_step is not None):
            self.module.load_state_dict(self.best)
        self.module.zero_grad(set_to_none=True)
        self.module.eval()
        for name in FORWARD_NAMES:  # or it would autocast ever after; accelerate's own way breaks compiled modules
            self.module.__dict__.pop(name, None)
        self.module.__dict__.update(self._own_forward)
        with self._turn():
            self.prepared, self.stepper = self.accelerator.free_memory(self.prepared, self.stepper)

    def warn_of_few_steps(self) -> None:
        """Warn of a run that got to take only a few steps before its seconds were over."""
        steps, seconds, budget = self.history.steps, self.history.seconds, self.budget
        by_time = budget.seconds is not None and (budget.steps is None or steps < budget.steps)
        if self.history.stopped != "budget" or not by_time or steps >= FEWEST_STEPS:
            return
        advice = "Give it more seconds, or smaller batches"
        passive = os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE"
        if self.device.type == "cpu" and torch.get_num_threads() > 1 and not passive:
            advice += (
                ". If other processes use this machine, threads that wait for each other may slow it down many times: "
                "start Python with OMP_WAIT_POLICY=PASSIVE in the environment, or call torch.set_num_threads(1)"
            )
        told = f"{self.description} took only {steps} steps in {seconds:.1f} s, too few to learn much. {advice}"
        warnings.warn(told, FewStepsWarning, stacklevel=3)

    def _descend(self, spent: float) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.learning_rate * schedule(spent)
        rows = _draw_rows(self.rows, self.recipe.batch_size, self.history.steps, self.seed)
        self.generator.manual_seed(_mix(self.seed, "step", self.history.steps))
        torch.manual_seed(_mix(self.seed, f"layers of process {self.shard.index}", self.history.steps))  # dropout
        share = len(self.shard.of(rows)) * self.shard.count / len(rows)
        with self.accelerator.autocast():
            value = share * self.loss(self.prepared, Batch(rows, self.shard, self.generator, spent))
        self.accelerator.backward(value)
        self.accelerator.clip_grad_norm_(self.prepared.parameters(), LARGEST_NORM)
        self.stepper.step()
        self.stepper.zero_grad(set_to_none=True)
        return value.detach()

    def _count_seconds(self, value: Tensor) -> float:
        """Add the time since the last call, by the slowest process's clock, and return it.

        The first call adds the time that preparation took. The first step of a compiled module, which compiles, does
        not count.
        """
        compiled = self._is_first_step and self.recipe.compiled
        if compiled:
            float(value)
        now = time.monotonic()
        took = self._preparation + (0.0 if compiled else now - self._clock)
        self._clock, self._preparation, self._is_first_step = now, 0.0, False
        if self.shard.count > 1:
            clock = torch.tensor([took], device=self.device, dtype=torch.float32)
            took = float(self.accelerator.gather(clock).max())
        self.history.seconds += took
        return took

    def _look(self) -> None:
        if self.validate is None:
            if all(bool(parameter.isfinite().all()) for parameter in self.module.parameters()):
                self.best, self.best_step = self._copy_state(), self.history.steps
            else:
                self._stop_diverged("its parameters are no longer finite")
            return
        self.module.eval()
        with torch.no_grad(), self.accelerator.autocast():
            score = torch.tensor(self.validate(self.module), device=self.device)
        self.module.train()
        current = float(self.accelerator.reduce(score, "mean"))
        self.history.validation.append((self.history.steps, current))
        if current < self.best_loss:
            self.best, self.best_loss, self.looks_without_progress = self._copy_state(), current, 0
            self.best_step = self.history.steps
            return
        self.looks_without_progress += 1
        if self.looks_without_progress >= self.recipe.patience:
            self.history.stopped = "no progress"

    def _stop_diverged(self, what: str) -> None:
        """End the run with the last good state; raise an error if there is none."""
        self.history.stopped = "diverged"
        advice = (
            f"{self.description} diverged at step {self.history.steps}: {what}. Lower the learning rate (now "
            f"{self.recipe.learning_rate:g}), or check that the model's outputs are finite on masked inputs"
        )
        if self.best_step is None:
            raise FloatingPointError(f"{advice}; no good state had been reached yet")
        warnings.warn(f"{advice}. The state of step {self.best_step} is kept, the last good one", stacklevel=4)

    def _copy_state(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.module.state_dict().items()}

    @property
    def _identity(self) -> dict[str, Any]:
        """What must not change between a checkpoint and its resumption."""
        recipe = {name: value for name, value in asdict(self.recipe).items() if name != "compiled"}
        run = {"description": self.description, "rows": self.rows, "seed": self.seed}
        return {**run, **recipe, **asdict(self.budget), **self.extra_identity}

    def save(self, path: Path) -> None:
        if not self.is_main:
            return
        tensors = {f"module.{name}": tensor for name, tensor in self.module.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        for index, entry in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in entry.items()}
        facts = {
            "identity": self._identity,
            "history": asdict(self.history),
            "best_loss": repr(self.best_loss),
            "best_step": self.best_step,
            "looks_without_progress": self.looks_without_progress,
        }
        save_bundle(path, "checkpoint", facts, tensors)

    def load(self, path: Path) -> None:
        facts, tensors = load_bundle(path, "checkpoint")
        changed = [name for name, value in self._identity.items() if facts["identity"].get(name) != value]
        if changed:
            differs = "differs" if len(changed) == 1 else "differ"
            raise ValueError(
                f"{path} is the checkpoint of another run: {', '.join(changed)} {differs}; resume with the same data "
                "and arguments, or start anew with resume=False"
            )
        parts: dict[str, dict[str, Tensor]] = {"module": {}, "best": {}, "optimizer": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        self.module.load_state_dict(parts["module"])
        self.best = {name: tensor.to(self.device) for name, tensor in parts["best"].items()}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["optimizer"].items():
            index, _, entry = name.partition(".")
            moments.setdefault(int(index), {})[entry] = tensor
        self.optimizer.load_state_dict({"state": moments, "param_groups": self.optimizer.state_dict()["param_groups"]})
        for parameter, entries in self.optimizer.state.items():  # files keep no memory format, which fused steps need
            for entry, moment in entries.items():
                if moment.shape == parameter.shape:
                    entries[entry] = torch.empty_like(parameter).copy_(moment)
        self.history = History.from_facts(facts["history"])
        self.best_loss, self.looks_without_progress = float(facts["best_loss"]), facts["looks_without_progress"]
        self.best_step = facts["best_step"]
        self._clock, self._preparation = time.monotonic(), 0.0


@contextmanager
def own_randomness(device: torch.device) -> Iterator[None]:
    """Seed torch's global generators freely (layers and dropout use them) and leave them as they were.

    Threads take turns in here, or one would seed what the other draws from.
    """
    with _turns, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def load_optimizer() -> None:
    """Let torch import what it imports with the first optimizer of a process, which takes a second or more."""
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])


def _exchange_state(new: State) -> State:
    """Give accelerate's classes another state, and return the one that they had."""
    old: State = {kind: dict(kind._shared_state) for kind in SHARED}  # noqa: SLF001 - accelerate has no other way
    for kind, state in new.items():
        kind._shared_state.clear()  # type: ignore[attr-defined] # noqa: SLF001 - as above
        kind._shared_state.update(state)  # type: ignore[attr-defined] # noqa: SLF001 - as above
    return old


def _leave_group() -> None:
    """Leave the process group at the end, or its threads may abort a process that is ending."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _draw_rows(rows: int, batch_size: int, step: int, seed: int) -> Int[Tensor, " batch"]:
    """Rows of a step's batch: each epoch is a new permutation."""
    epoch, position = divmod(step, max(rows // batch_size, 1))
    return _epoch_order(rows, epoch, seed)[position * batch_size : (position + 1) * batch_size]


@lru_cache(maxsize=2)
def _epoch_order(rows: int, epoch: int, seed: int) -> Int[Tensor, " rows"]:
    return torch.randperm(rows, generator=torch.Generator().manual_seed(_mix(seed, "epoch", epoch)))


def _mix(seed: int, purpose: str, number: int) -> int:
    """Return a seed that differs for every seed, purpose and number."""
    digest = hashlib.blake2b(f"{seed}, {purpose}, {number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
