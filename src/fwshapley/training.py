"""The one training loop, on accelerate: budget, schedule, validation, checkpoints, many processes.

Everything random in a step follows from (seed, step), so that a run killed at any moment goes on from its last
checkpoint as if nothing had happened: bit for bit on a CPU, for a budget in steps.
"""

from __future__ import annotations

import atexit
import hashlib
import math
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
from accelerate.state import AcceleratorState, PartialState
from jaxtyping import Int
from torch import Tensor, nn

from fwshapley.interrupts import HeldInterrupts
from fwshapley.progress import ProgressBar
from fwshapley.recipes import Batch, Budget, History, Loss, Recipe, Shard
from fwshapley.storage import load_bundle, save_bundle

WARM_UP = 0.05
LARGEST_NORM = 1.0
CHECKPOINT_SECONDS = 20.0
REPORT_STEPS = 25
PERCENT = 100
FORWARD_NAMES = ("forward", "_original_forward")
"""What accelerate sets on a module that it prepares for mixed precision."""


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
    identity: Mapping[str, Any] | None = None,
    description: str = "training",
    progress: bool = True,
) -> History:
    """Train a module in place, leave its best state in it (buffers too), and return what happened.

    AdamW, gradients clipped at norm 1, bf16 on CUDA. The best state is that of the lowest validation loss where
    `validate` is given, else the last. A loss that is not finite ends the run with a warning and advice; the last good
    state is kept.

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
        identity: what else makes it the same run, as JSON holds it.
        description: for the progress bar and for messages.
        progress: whether to show a bar.
    """
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
    if resume and checkpoint is not None and checkpoint.exists():
        run.load(checkpoint)
    total = budget.steps or PERCENT
    held = HeldInterrupts(enabled=run.shard.count == 1)  # of several processes, some would wait for the others
    with ProgressBar(description, total, enabled=progress and run.is_main) as bar, own_randomness(device), held:
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
    run.finish()
    return run.history


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
        # One process may train on several devices, one after the other; several share the group they are in. An
        # accelerator of the user's own finds its state again in the end.
        self._theirs = [(kind, dict(kind._shared_state)) for kind in (PartialState, AcceleratorState)]  # noqa: SLF001
        AcceleratorState._reset_state(reset_partial_state=not torch.distributed.is_initialized())  # noqa: SLF001
        self.accelerator = Accelerator(
            cpu=device.type == "cpu",
            mixed_precision="bf16" if device.type == "cuda" else "no",
            device_placement=False,  # the module is where it was asked to be
        )
        if self.accelerator.num_processes > 1:
            atexit.register(_leave_group)
        if min(rows, recipe.batch_size) < self.accelerator.num_processes:
            raise ValueError(
                f"a batch of {min(rows, recipe.batch_size)} rows is too small for {self.accelerator.num_processes} "
                "processes: each needs a row at least"
            )
        self.module, self.loss, self.rows, self.recipe, self.budget = module, loss, rows, recipe, budget
        self.seed, self.device, self.validate, self.description = seed, device, validate, description
        self.extra_identity = dict(identity)
        module.to(device).train()
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.optimiser = torch.optim.AdamW(
            trained, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=device.type == "cuda"
        )
        self._own_forward = {name: module.__dict__[name] for name in FORWARD_NAMES if name in module.__dict__}
        callable_module = torch.compile(module) if recipe.compiled else module
        self.prepared, self.stepper = self.accelerator.prepare(callable_module, self.optimiser)
        self.shard = Shard(self.accelerator.process_index, self.accelerator.num_processes)
        self.generator = torch.Generator(device)
        self.history = History()
        self.best = self._copy_state()
        self.best_loss, self.looks_without_progress = math.inf, 0
        self._clock: float | None = None

    @property
    def is_main(self) -> bool:
        return bool(self.accelerator.is_main_process)

    @property
    def spent(self) -> float:
        return self.budget.spent(self.history.steps, self.history.seconds)

    def note(self) -> str:
        rate = self.history.steps / max(self.history.seconds, 1e-9)
        return f"loss {self.history.loss[-1][1]:.4g}, {rate:.1f} steps/s"

    def step(self) -> None:
        """Take one step; report, look at the validation loss and stop where that is due."""
        history, before = self.history, self.spent
        value = self._descend(before)
        history.steps += 1
        self._count_seconds(value)
        look = math.floor(self.spent * self.recipe.looks) > math.floor(before * self.recipe.looks)
        if look or history.steps % REPORT_STEPS == 1 or self.device.type == "cpu":
            current = float(self.accelerator.reduce(value, "mean"))
            if not math.isfinite(current):
                self._stop_diverged(current)
                return
            if look or history.steps % REPORT_STEPS == 1:
                history.loss.append((history.steps, current))
        if look:
            self._look()
        if self.spent >= 1:
            history.stopped = history.stopped or "budget"

    def finish(self) -> None:
        """Leave the best state in the module, and let go of the wrappers around it."""
        self.module.load_state_dict(self.best)
        self.module.eval()
        for name in FORWARD_NAMES:  # or it would autocast ever after; accelerate's own way breaks compiled modules
            self.module.__dict__.pop(name, None)
        self.module.__dict__.update(self._own_forward)
        self.prepared, self.stepper = self.accelerator.free_memory(self.prepared, self.stepper)
        for kind, state in self._theirs:
            if state:
                kind._shared_state.clear()  # noqa: SLF001 - accelerate has no other way
                kind._shared_state.update(state)  # noqa: SLF001 - as above

    def _descend(self, spent: float) -> Tensor:
        for group in self.optimiser.param_groups:
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

    def _count_seconds(self, value: Tensor) -> None:
        """Add the time of this step, but for the first of a process, which compiles: the slowest process's clock."""
        if self._clock is None:
            float(value)
            self._clock = time.monotonic()
            return
        now = time.monotonic()
        took, self._clock = now - self._clock, now
        if self.shard.count > 1:
            clock = torch.tensor([took], device=self.device, dtype=torch.float32)
            took = float(self.accelerator.gather(clock).max())
        self.history.seconds += took

    def _look(self) -> None:
        if self.validate is None:
            self.best = self._copy_state()
            return
        self.module.eval()
        with torch.no_grad(), self.accelerator.autocast():
            score = torch.tensor(self.validate(self.module), device=self.device)
        self.module.train()
        current = float(self.accelerator.reduce(score, "mean"))
        self.history.validation.append((self.history.steps, current))
        if current < self.best_loss:
            self.best, self.best_loss, self.looks_without_progress = self._copy_state(), current, 0
            return
        self.looks_without_progress += 1
        if self.looks_without_progress >= self.recipe.patience:
            self.history.stopped = "no progress"

    def _stop_diverged(self, current: float) -> None:
        advice = (
            f"{self.description} diverged at step {self.history.steps}: the loss is {current}. Lower the learning rate "
            f"(now {self.recipe.learning_rate:g}), or check that the model's outputs are finite on masked inputs"
        )
        if not self.history.validation and self.validate is not None:
            raise FloatingPointError(f"{advice}; no good state had been reached yet")
        self.history.stopped = "diverged"
        warnings.warn(f"{advice}. The last good state is kept", stacklevel=4)

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
        for index, entry in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{name}": tensor for name, tensor in entry.items()}
        facts = {
            "identity": self._identity,
            "history": asdict(self.history),
            "best_loss": repr(self.best_loss),
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
        parts: dict[str, dict[str, Tensor]] = {"module": {}, "best": {}, "optimiser": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        self.module.load_state_dict(parts["module"])
        self.best = {name: tensor.to(self.device) for name, tensor in parts["best"].items()}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["optimiser"].items():
            index, _, entry = name.partition(".")
            moments.setdefault(int(index), {})[entry] = tensor
        self.optimiser.load_state_dict({"state": moments, "param_groups": self.optimiser.state_dict()["param_groups"]})
        for parameter, entries in self.optimiser.state.items():  # files keep no memory format, which fused steps need
            for entry, moment in entries.items():
                if moment.shape == parameter.shape:
                    entries[entry] = torch.empty_like(parameter).copy_(moment)
        self.history = History.from_facts(facts["history"])
        self.best_loss, self.looks_without_progress = float(facts["best_loss"]), facts["looks_without_progress"]


@contextmanager
def own_randomness(device: torch.device) -> Iterator[None]:
    """Seed torch's global generators freely (layers and dropout use them) and leave them as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


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
