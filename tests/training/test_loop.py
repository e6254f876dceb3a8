from __future__ import annotations

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from safetensors.torch import load_file
from torch import Tensor, nn
from torch._C._distributed_c10d import HashStore
from torch.optim.optimizer import register_optimizer_step_pre_hook

import fwshapley as fw
import runs
from fwshapley._internal.openmp import is_command
from fwshapley.training import loop as training
from fwshapley.training import shared_state
from fwshapley.training.batches import Batch, Loss, Shard
from fwshapley.training.budget import Budget, History, TrainingOptions
from fwshapley.training.checkpoint import HeldInterrupts
from fwshapley.training.loop import schedule, train
from fwshapley.training.shared_state import FairLock
from models import TableModel, rows, seeded

ROWS, COLUMNS = 40, 3
X = rows(ROWS, COLUMNS)
Y = X.sum(1, keepdim=True).tanh()
X4 = rows(10, 4, seed=1)
RUNS = Path(runs.__file__)


class Learner(nn.Module):
    """A module in which everything that could spoil a resumption is at work: dropout, BatchNorm, a counting buffer."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(COLUMNS, 32)
        hidden = nn.Linear(32, 32)  # large enough for Muon
        self.rest = nn.Sequential(nn.BatchNorm1d(32), nn.Dropout(0.2), nn.Tanh(), hidden, nn.Tanh(), nn.Linear(32, 1))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        out: Tensor = self.rest(self.first(x))
        return out


def squared_error(module: nn.Module, batch: Batch) -> Tensor:
    mine = batch.shard.of(batch.rows)
    return (module(X[mine]) - Y[mine]).square().mean()


def error_on_all(module: nn.Module) -> float:
    return (module(X) - Y).square().mean().item()


OF_TRAIN = {"n_rows": ROWS, "device": torch.device("cpu"), "validate": None, "description": "training"}


def run(module: nn.Module, loss: Loss = squared_error, **changes: Any) -> History:  # noqa: ANN401 - options of training
    arguments = {name: changes.pop(name, default) for name, default in OF_TRAIN.items()}
    options: dict[str, Any] = {"budget": Budget(steps=20), "batch_size": 8, "learning_rate": 1e-2, "progress": False}
    options["optimizer"] = "muon"  # and AdamW, for other parameters than weights of layers
    return train(module, loss, TrainingOptions(**options | changes), **arguments)


def assert_same_state(one: nn.Module, other: nn.Module) -> None:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    assert all(torch.equal(left, right) for left, right in pairs)


def failing_at(step: int, failure: Loss) -> Loss:
    """Return the loss, but another from a step on."""
    calls = iter(range(step - 1))

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        return failure(module, batch) if next(calls, None) is None else squared_error(module, batch)

    return loss


def diverge(module: nn.Module, batch: Batch) -> Tensor:
    return squared_error(module, batch) * math.nan


def interrupt(_module: nn.Module, _batch: Batch) -> Tensor:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "seconds or steps"),
        ({"seconds": 0}, "seconds must be positive"),
        ({"seconds": math.inf}, "seconds must be finite"),
        ({"steps": 0}, "steps must be at least 1"),
    ],
)
def test_a_budget_that_allows_nothing_is_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Budget(**options)


@pytest.mark.usefixtures("unchecked")
def test_half_a_step_is_no_budget() -> None:
    with pytest.raises(TypeError, match="steps must be a whole number"):
        Budget(steps=1.5)  # type: ignore[arg-type]


def test_a_budget_ends_with_whichever_comes_first() -> None:
    assert Budget(seconds=10, steps=100).spent(step=50, seconds=2) == 0.5
    assert Budget(seconds=10, steps=100).spent(step=10, seconds=8) == 0.8
    assert Budget(steps=4).spent(step=4, seconds=1e9) == 1


def test_a_part_of_a_budget_is_a_share_of_both_and_a_step_at_least() -> None:
    assert Budget(seconds=10, steps=50).part(0.4) == Budget(seconds=4, steps=20)
    assert Budget(steps=1).part(0.1) == Budget(steps=1)
    assert Budget(seconds=10).part(0.5) == Budget(seconds=5)


def test_the_learning_rate_warms_up_and_falls_to_zero() -> None:
    rates = [schedule(spent) for spent in torch.linspace(0, 1, 201).tolist()]
    peak = rates.index(max(rates))
    assert 0 < rates[0] < 0.05
    assert max(rates) == pytest.approx(1, abs=1e-2)
    assert peak == pytest.approx(0.05 * 200, abs=1)
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert schedule((1 + 0.05) / 2) == pytest.approx(0.5)
    assert schedule(1.0) == schedule(1.7) == pytest.approx(0)


@pytest.mark.parametrize(("optimizer", "count"), [("muon", 2), ("adamw", 1)])
def test_optimizers_follow_the_schedule_and_gradients_are_clipped(optimizer: str, count: int) -> None:
    seen: list[tuple[float, float]] = []
    module = Learner()

    def look(optimizer: torch.optim.Optimizer, *_: object) -> None:
        gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
        seen.append((optimizer.param_groups[0]["lr"], float(nn.utils.get_total_norm(gradients))))

    handle = register_optimizer_step_pre_hook(look)
    try:
        run(module, lambda module, batch: 1e6 * squared_error(module, batch), optimizer=optimizer)
    finally:
        handle.remove()
    assert [rate for rate, _ in seen[::count]] == pytest.approx([1e-2 * schedule(step / 20) for step in range(20)])
    assert [rate for rate, _ in seen[count - 1 :: count]] == [rate for rate, _ in seen[::count]]
    assert [norm for _, norm in seen[::count]] == pytest.approx([1] * 20, rel=1e-3)


def test_small_gradients_are_not_clipped() -> None:
    norms: list[float] = []
    module = nn.Linear(COLUMNS, 1)

    def look(*_: object) -> None:
        gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
        norms.append(float(nn.utils.get_total_norm(gradients)))

    handle = register_optimizer_step_pre_hook(look)
    try:
        run(module, lambda module, _: 1e-3 * module(torch.ones(1, COLUMNS)).sum())
    finally:
        handle.remove()
    assert norms == pytest.approx([1e-3 * (COLUMNS + 1) ** 0.5] * 20, rel=1e-3)


def test_training_learns() -> None:
    module = seeded(Learner).eval()
    before = error_on_all(module)
    history = run(module, budget=Budget(steps=100), validate=error_on_all)
    assert history.stopped == "budget"
    assert history.steps == 100
    assert not module.training
    assert error_on_all(module) < 0.3 * before
    assert error_on_all(module) == pytest.approx(min(value for _, value in history.validation))
    assert [step for step, _ in history.validation] == list(range(5, 101, 5))


def test_the_same_seed_gives_the_same_training_and_another_seed_another() -> None:
    one, same, other = seeded(Learner), seeded(Learner), seeded(Learner)
    histories = [run(one), run(same), run(other, seed=1)]
    assert_same_state(one, same)
    assert histories[0].loss == histories[1].loss != histories[2].loss


def test_training_leaves_the_global_randomness_as_it_was() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    run(seeded(Learner))
    assert torch.equal(torch.get_rng_state(), before)


def test_every_epoch_is_a_new_order_of_all_rows() -> None:
    drawn: list[list[int]] = []

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        drawn.append(batch.rows.tolist())
        return squared_error(module, batch)

    run(Learner(), loss, budget=Budget(steps=10))
    epochs = [list(chain(*drawn[:5])), list(chain(*drawn[5:]))]
    assert [sorted(epoch) for epoch in epochs] == [list(range(ROWS))] * 2
    assert epochs[0] != epochs[1]


def test_a_batch_larger_than_the_data_is_all_of_it() -> None:
    sizes: list[int] = []

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        sizes.append(len(batch.rows))
        return squared_error(module, batch)

    run(Learner(), loss, batch_size=64, learning_rate=1e-3, budget=Budget(steps=3))
    assert sizes == [ROWS] * 3


def test_without_validation_the_last_state_is_kept() -> None:
    module = Learner()
    assert run(module).validation == []
    assert int(module.calls) == 20


def test_the_best_state_is_kept_with_its_buffers() -> None:
    module, weights = Learner(), {}

    def validate(found: nn.Module) -> float:
        assert isinstance(found, Learner)
        assert not found.training
        calls = int(found.calls)
        weights[calls] = found.first.weight.detach().clone()
        return float(abs(calls - 9))

    history = run(module, batch_size=8, learning_rate=1e-3, patience=20, validate=validate)
    assert history.steps == 20
    assert int(module.calls) == 9
    assert torch.equal(module.first.weight, weights[9])
    assert not torch.equal(module.first.weight, weights[20])


def test_a_warm_start_keeps_a_state_until_a_better_one_is_found() -> None:
    module, before = seeded(Learner), seeded(Learner)
    history = run(module, validate=lambda _: 1.0, warm_start=True)
    assert [step for step, _ in history.validation][:2] == [0, 1]
    assert_same_state(module, before)
    run(module, validate=error_on_all, warm_start=True)
    assert error_on_all(module) < error_on_all(before.eval())


def test_training_stops_where_there_is_no_progress() -> None:
    module = Learner()
    history = run(module, batch_size=8, learning_rate=1e-3, n_validations=10, patience=3, validate=lambda _: 1.0)
    assert history.stopped == "no progress"
    assert [step for step, _ in history.validation] == [2, 4, 6, 8]
    assert history.steps == 8
    assert int(module.calls) == 2


def test_a_loss_that_diverges_ends_training_with_advice_and_the_last_good_state(tmp_path: Path) -> None:
    module, good = seeded(Learner), seeded(Learner)
    options: dict[str, Any] = {"learning_rate": 1e-3, "n_validations": 5, "validate": error_on_all}
    with pytest.raises(KeyboardInterrupt):
        run(good, failing_at(9, interrupt), **options)  # left as it was after the look at step 8
    with pytest.warns(UserWarning, match=r"training diverged at step 11: the loss is nan. Lower the learning rate"):
        history = run(module, failing_at(11, diverge), checkpoint=tmp_path / "run", **options)
    assert history.stopped == "diverged"
    assert history.steps == 11
    assert_same_state(module, good)
    resumed = Learner()
    assert run(resumed, checkpoint=tmp_path / "run", resume=True, **options).stopped == "diverged"
    assert_same_state(resumed, good)


def test_a_loss_that_diverges_before_any_good_state_is_an_error() -> None:
    with pytest.raises(FloatingPointError, match=r"at step 1: the loss is nan.*no good state"):
        run(Learner(), diverge, validate=error_on_all)


@pytest.mark.parametrize("validate", [None, error_on_all])
@pytest.mark.parametrize("looks", [1, 5])
def test_without_a_good_state_a_loss_that_diverges_is_an_error_and_the_module_as_before(
    looks: int, validate: Callable[[nn.Module], float] | None
) -> None:
    module, start = seeded(Learner), seeded(Learner)
    with pytest.raises(FloatingPointError, match=r"at step 2: the loss is nan.*no good state"):
        run(module, failing_at(2, diverge), batch_size=8, learning_rate=1e-3, n_validations=looks, validate=validate)
    assert_same_state(module, start)
    assert not module.training


def test_a_validation_loss_that_is_never_finite_is_an_error() -> None:
    module, start = seeded(Learner), seeded(Learner)
    with pytest.raises(FloatingPointError, match="validation loss was never finite"):
        run(module, validate=lambda _: math.nan)
    assert_same_state(module, start)
    with pytest.raises(FloatingPointError, match="no good state"):
        run(
            seeded(Learner),
            failing_at(12, diverge),
            validate=lambda _: math.nan,
            batch_size=8,
            learning_rate=1e-3,
            n_validations=5,
        )


def test_parameters_that_are_not_finite_are_no_good_state() -> None:
    def spoil(module: nn.Module, batch: Batch) -> Tensor:
        """Return a finite loss whose gradient is not."""
        value = squared_error(module, batch)
        return value + (value - value.detach()).sqrt()

    module, good = seeded(Learner), seeded(Learner)
    with pytest.raises(KeyboardInterrupt):
        run(good, failing_at(5, interrupt), batch_size=8, learning_rate=1e-3, n_validations=5)
    with pytest.warns(UserWarning, match=r"diverged at step 8: .*no longer finite.*state of step 4,"):
        run(module, failing_at(8, spoil), batch_size=8, learning_rate=1e-3, n_validations=5)
    assert_same_state(module, good)


def test_without_validation_divergence_leaves_the_state_of_the_last_look() -> None:
    module, good = seeded(Learner), seeded(Learner)
    with pytest.raises(KeyboardInterrupt):
        run(
            good, failing_at(9, interrupt), batch_size=8, learning_rate=1e-3, n_validations=5
        )  # the last state is kept: that of step 8
    with pytest.warns(UserWarning, match=r"diverged at step 11.*The state of step 8,"):
        run(module, failing_at(11, diverge), batch_size=8, learning_rate=1e-3, n_validations=5)
    assert_same_state(module, good)


def fail(_module: nn.Module, _batch: Batch) -> Tensor:
    raise ZeroDivisionError


class FailingValidation:
    """A validation loss that grows, and fails at the fourth look."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error, self.looks = error, 0

    def __call__(self, _module: nn.Module) -> float:
        self.looks += 1
        if self.looks == 4:
            raise self.error
        return float(self.looks)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("where", ["loss", "validate"])
def test_a_run_that_fails_leaves_the_module_with_its_best_state_and_without_wrappers(
    where: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_state, "Accelerator", HalfPrecise)
    module, first = seeded(Learner), seeded(Learner)
    loss = failing_at(12, interrupt if error is KeyboardInterrupt else fail) if where == "loss" else squared_error
    own, state = given_accelerator(), torch.get_rng_state()
    validate = FailingValidation(error if where == "validate" else RuntimeError)
    with pytest.raises(error):
        run(module, loss, validate=validate, batch_size=8, learning_rate=1e-3, n_validations=5)
    with pytest.raises(KeyboardInterrupt):
        run(
            first, failing_at(5, interrupt), batch_size=8, learning_rate=1e-3, n_validations=5
        )  # the first look was after step 4
    assert_same_state(module, first)
    assert not module.training
    assert "forward" not in vars(module)
    assert all(parameter.grad is None for parameter in module.parameters())
    assert own.state.mixed_precision == "no"
    assert torch.equal(torch.get_rng_state(), state)


def given_accelerator() -> Accelerator:
    """Return an accelerator as a user may have made one."""
    PartialState._reset_state()  # noqa: SLF001 - as in a new process
    AcceleratorState._reset_state(reset_partial_state=True)  # noqa: SLF001 - as above
    return Accelerator(cpu=True)


def test_divergence_restores_the_users_accelerator_too() -> None:
    own = given_accelerator()
    before = dict(own.state.__dict__)
    with pytest.raises(FloatingPointError):
        run(Learner(), diverge)
    assert own.state.__dict__ == before


class Clock:
    """Stands in for time.monotonic: it goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let time pass as a test says."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def taking(clock: Clock, *seconds: float) -> Loss:
    """Return the loss, taking so many seconds at each step; the last number holds for all further ones."""
    durations = itertools.chain(seconds[:-1], itertools.repeat(seconds[-1]))

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        clock.now += next(durations)
        return squared_error(module, batch)

    return loss


def test_a_budget_in_seconds_counts_the_first_step(clock: Clock) -> None:
    history = run(Learner(), taking(clock, 5.0, 0.0625), budget=Budget(seconds=10))
    assert (history.stopped, history.steps, history.seconds) == ("budget", 1 + 80, 10)


def test_the_first_step_of_a_compiled_module_comes_on_top(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda module: module)
    history = run(Learner(), taking(clock, 50.0, 0.125), budget=Budget(seconds=10), compiled=True)
    assert (history.steps, history.seconds) == (1 + 80, 10)


def test_seconds_count_from_when_they_began_but_half_are_left(clock: Clock) -> None:
    for before, steps in ((2.0, 128), (0.0, 160), (-3.0, 160), (50.0, 80)):
        options = {"budget": Budget(seconds=10), "started": clock.now - before}
        history = run(Learner(), taking(clock, 0.0625), **options)
        assert (history.steps, history.seconds) == (steps, 10)


@pytest.mark.parametrize(("cost", "most"), [(0.01, 20), (1.0, 3), (4.0, 2)])
def test_looks_that_take_long_are_fewer_and_count_towards_the_budget(clock: Clock, cost: float, most: int) -> None:
    """The last look is reserved time for, as long as the look before took."""

    def validate(module: nn.Module) -> float:
        clock.now += cost
        return error_on_all(module)

    start = clock.now
    history = run(
        Learner(), taking(clock, 0.1), budget=Budget(seconds=15), validate=validate, batch_size=8, learning_rate=1e-3
    )
    assert 15 - cost - 0.2 <= history.seconds <= 15 + 0.2
    assert history.seconds == pytest.approx(clock.now - start)
    assert 1 <= len(history.validation) <= most
    assert history.validation[-1][0] == history.steps


def test_a_budget_in_steps_that_takes_long_is_announced(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    run(Learner(), taking(clock, 1.0), budget=Budget(steps=60), progress=True)
    assert "training: 60 steps, about 1.0 min" in capsys.readouterr().err
    run(Learner(), taking(clock, 1.0), budget=Budget(steps=60), progress=False)
    run(Learner(), taking(clock, 0.1), budget=Budget(steps=60), progress=True)
    assert "about" not in capsys.readouterr().err


def test_a_fit_that_got_few_steps_says_so(clock: Clock) -> None:
    with pytest.warns(fw.training.FewStepsWarning, match=r"5 steps in 10\.0 s"):
        run(Learner(), taking(clock, 2.0), budget=Budget(seconds=10))
    run(Learner(), taking(clock, 2.0), budget=Budget(seconds=10, steps=3))  # as many as were asked for


@pytest.mark.parametrize(("threads", "told"), [(1, False), (2, True)])
def test_threads_that_wait_are_named_where_there_are_several(
    threads: int,
    told: bool,  # noqa: FBT001 - a parameter of the test
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with pytest.warns(fw.training.FewStepsWarning) as caught:
        run(Learner(), taking(clock, 2.0), budget=Budget(seconds=10))
    assert ("OMP_WAIT_POLICY=PASSIVE" in str(caught[0].message)) == told


@pytest.mark.parametrize(
    ("arguments", "original", "expected"),
    [
        (["/usr/bin/fwshapley", "fit"], ["python", "/usr/bin/fwshapley", "fit"], True),
        (["-m", "fit"], ["python", "-m", "fwshapley", "fit"], True),
        (["-m", "tests"], ["python", "-m", "pytest", "fwshapley"], False),
        (["script.py", "fwshapley"], ["python", "script.py", "fwshapley"], False),
        ([], [], False),
    ],
)
def test_only_as_a_command_does_the_package_choose_how_threads_wait(
    arguments: list[str],
    original: list[str],
    expected: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert is_command(arguments, original) == expected


def test_a_checkpoint_that_cannot_be_written_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match=r"file is a file.*checkpoint"):
        run(Learner(), failing_at(1, interrupt), checkpoint=tmp_path / "file" / "run")


def test_threads_that_train_at_once_give_the_bits_of_one_after_the_other() -> None:
    alone = [seeded(Learner, seed=seed) for seed in (1, 2)]
    for seed, module in enumerate(alone, start=1):
        run(module, seed=seed)
    together = [seeded(Learner, seed=seed) for seed in (1, 2)]
    state = torch.get_rng_state()
    seeds: list[int] = []

    def loss(seed: int, module: nn.Module, batch: Batch) -> Tensor:
        seeds.append(seed)
        time.sleep(1e-4)  # the other thread may go on
        return squared_error(module, batch)

    with ThreadPoolExecutor(2) as pool:
        runs_ = [pool.submit(run, each, partial(loss, seed), seed=seed) for seed, each in enumerate(together, start=1)]
    assert [each.result().steps for each in runs_] == [20, 20]
    assert seeds != sorted(seeds)  # their steps alternate
    for one, other in zip(alone, together, strict=True):
        assert_same_state(one, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_threads_that_fit_at_once_give_the_explainers_of_one_after_the_other() -> None:
    models = [seeded(TableModel, seed=seed) for seed in (1, 2)]  # with dropout, which their surrogates have too
    alone, together = ([fw.FeatureExplainer(each, surrogate=each) for each in models] for _ in range(2))

    def pause(x: Tensor, _: torch.Generator) -> Tensor:
        time.sleep(1e-3)  # between seeding and dropout, so that the other thread may go on
        return x

    options: dict[str, Any] = {"budget": Budget(steps=20), "batch_size": 16, "n_coalitions": 4, "progress": False}
    options["augment"] = pause
    for explainer in alone:
        explainer.fit(rows(64, 4), **options)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda explainer: explainer.fit(rows(64, 4), **options), together))
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one.explain(X4).values, other.explain(X4).values)


def test_turns_go_round_and_may_be_entered_again() -> None:
    turns, order, started = FairLock(), [], threading.Event()

    def work() -> None:
        started.set()
        with turns:
            order.append("other")

    other = threading.Thread(target=work)
    with turns:
        with turns:
            other.start()
            started.wait()
        deadline = time.monotonic() + 10
        while not turns._door.locked() and time.monotonic() < deadline:  # noqa: SLF001 - until it waits
            time.sleep(1e-3)
        order.append("first")
    with turns:  # asked for after the other
        order.append("again")
    other.join()
    assert order == ["first", "other", "again"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    turns, entered, ended = FairLock(), threading.Event(), threading.Event()

    def work() -> None:
        with turns:
            entered.set()
            ended.wait()

    other = threading.Thread(target=work)
    other.start()
    entered.wait()
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # threads and fork: what is tested
        child = os.fork()
    if not child:
        with turns:
            os._exit(0)
    ended.set()
    other.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_run_that_was_interrupted_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)  # after every step
    whole, killed, resumed = seeded(Learner), seeded(Learner), seeded(Learner, seed=1)
    options: dict[str, Any] = {"validate": error_on_all, "checkpoint": tmp_path / "run.safetensors"}
    expected = run(whole, validate=error_on_all)
    with pytest.raises(KeyboardInterrupt):
        run(killed, failing_at(12, interrupt), **options)
    history = run(resumed, resume=True, **options)
    assert_same_state(resumed, whole)
    assert asdict(history) | {"seconds": 0} == asdict(expected) | {"seconds": 0}


def test_ctrl_c_lets_a_step_end_and_saves_it(tmp_path: Path) -> None:
    """The first Ctrl-C in the midst of step 12 is held back until that is done, though the next save is not due."""

    def with_signal(module: nn.Module, batch: Batch) -> Tensor:
        if next(calls) == 12:
            signal.raise_signal(signal.SIGINT)
        return squared_error(module, batch)

    calls = itertools.count(1)
    whole, stopped, resumed = seeded(Learner), seeded(Learner), seeded(Learner, seed=1)
    options: dict[str, Any] = {"validate": error_on_all, "checkpoint": tmp_path / "run.safetensors"}
    run(whole, validate=error_on_all)
    with pytest.raises(KeyboardInterrupt):
        run(stopped, with_signal, **options)
    assert next(calls) == 13
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run(resumed, failing_at(ROWS, interrupt), resume=True, **options)
    assert_same_state(resumed, whole)


def test_a_second_ctrl_c_is_not_held_back() -> None:
    with HeldInterrupts() as held:
        signal.raise_signal(signal.SIGINT)
        assert held.pending
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        held.pending = False


def test_ctrl_c_is_left_to_whoever_handles_it() -> None:
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: caught.append(number))
    try:
        with HeldInterrupts() as held:
            signal.raise_signal(signal.SIGINT)
        assert not held.pending
        assert caught == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    module, again = seeded(Learner), seeded(Learner, seed=1)
    path = tmp_path / "run.safetensors"
    history = run(module, checkpoint=path, resume=True)  # of nothing: it starts
    written = path.read_bytes()
    assert run(again, failing_at(1, interrupt), checkpoint=path, resume=True) == history
    assert_same_state(module, again)
    assert path.read_bytes() == written


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"batch_size": 4}, "batch_size"),
        ({"learning_rate": 1e-3}, "learning_rate"),
        ({"budget": Budget(steps=21)}, "steps"),
        ({"n_rows": ROWS - 1}, "rows"),
        ({"description": "something else"}, "description"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    run(Learner(), checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match=rf"is the checkpoint of another run: {named} differ"):
        run(Learner(), checkpoint=tmp_path / "run", resume=True, **changes)


def test_without_resume_a_run_starts_anew(tmp_path: Path) -> None:
    run(Learner(), checkpoint=tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        run(Learner(), failing_at(1, interrupt), checkpoint=tmp_path / "run", seed=1)


def test_a_run_is_resumed_in_the_memory_format_of_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)  # after every step
    module = nn.Conv2d(3, 2, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch's stubs
    steps, strides = iter(range(9)), []

    def loss(convolution: nn.Module, _batch: Batch) -> Tensor:
        if next(steps) == 4:
            raise KeyboardInterrupt
        return convolution(torch.ones(1, 3, 4, 4)).square().mean()

    def look(optimizer: torch.optim.Optimizer, *_: object) -> None:
        strides.append(optimizer.state[module.weight]["exp_avg"].stride())

    options: dict[str, Any] = {"budget": Budget(steps=8), "checkpoint": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        run(module, loss, **options)
    hook = register_optimizer_step_pre_hook(look)
    run(module, loss, resume=True, **options)
    hook.remove()
    assert strides == [module.weight.stride()] * 4
    assert not module.weight.is_contiguous()


class HalfPrecise(Accelerator):  # type: ignore[misc] # accelerate has no types
    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - accelerate's own
        super().__init__(**options | {"mixed_precision": "bf16"})


@pytest.mark.parametrize("compiled", [False, True])
def test_mixed_precision_ends_with_the_training(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a parameter of the test
    compile_quickly = partial(torch.compile, backend="eager")
    monkeypatch.setattr(torch, "compile", compile_quickly)
    monkeypatch.setattr(shared_state, "Accelerator", HalfPrecise)
    module = seeded(Learner)
    seen: list[torch.dtype] = []

    def loss(prepared: nn.Module, batch: Batch) -> Tensor:
        seen.append(module.get_submodule("first")(X).dtype)
        return squared_error(prepared, batch)

    run(module, loss, batch_size=8, learning_rate=1e-3, compiled=compiled, budget=Budget(steps=2))
    assert seen == [torch.bfloat16] * 2
    assert module(X).dtype == module.get_submodule("first")(X).dtype == torch.float32
    assert "forward" not in vars(module)


def test_a_recipe_can_ask_for_a_compiled_module(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[nn.Module] = []

    def compile_(module: nn.Module) -> nn.Module:
        compiled.append(module)
        return module

    monkeypatch.setattr(torch, "compile", compile_)
    module = Learner()
    run(module, batch_size=8, learning_rate=1e-3, compiled=True, budget=Budget(steps=2))
    assert compiled == [module]


def test_a_history_survives_json() -> None:
    history = History(steps=3, seconds=0.5, loss=[(1, 0.25)], validation=[(3, math.inf)], stopped="budget")
    assert History.from_facts(json.loads(json.dumps(asdict(history)))) == history


def test_shards_divide_the_rows() -> None:
    found = [Shard(index, 3).of(torch.arange(8)).tolist() for index in range(3)]
    assert found == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert Shard().of(torch.arange(8)).tolist() == list(range(8))


class SecondOfTwo(Accelerator):  # type: ignore[misc] # accelerate has no types
    """An accelerator that believes there is another process."""

    num_processes, process_index, is_main_process = 2, 1, False


def test_a_process_answers_for_its_share_of_a_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shared_state, "Accelerator", SecondOfTwo)
    module = nn.Linear(1, 1, bias=False)
    gradients: list[float] = []

    def loss(found: nn.Module, batch: Batch) -> Tensor:
        assert batch.shard == Shard(1, 2)
        assert len(batch.rows) == 5
        value: Tensor = found(torch.full((1, 1), 1e-2)).mean()
        value.register_hook(lambda gradient: gradients.append(float(gradient)))
        return value

    history = run(module, loss, batch_size=5, learning_rate=1e-3, checkpoint=tmp_path / "run")
    assert gradients == pytest.approx([2 * 2 / 5] * 20)  # two rows of five, and the mean over two processes is taken
    assert history.seconds > 0
    assert not (tmp_path / "run").exists()  # the first process writes it


def test_a_batch_that_leaves_a_process_without_a_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_state, "Accelerator", SecondOfTwo)
    with pytest.raises(ValueError, match="a batch of 1 rows is too small for 2 processes"):
        run(Learner(), batch_size=1, learning_rate=1e-3)


def test_a_process_may_train_on_one_device_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    run(Learner(), budget=Budget(steps=1))
    monkeypatch.setattr(PartialState, "default_device", torch.device("meta"))  # as if there were another
    devices: list[str] = []

    def stop(accelerator: Accelerator, *_: object) -> None:
        devices.append(accelerator.device.type)
        raise KeyboardInterrupt

    monkeypatch.setattr(Accelerator, "prepare", stop)
    for device in ("meta", "cpu", "meta"):
        with pytest.raises(KeyboardInterrupt):
            run(Learner(), device=torch.device(device))
    assert devices == ["meta", "cpu", "meta"]


@pytest.mark.slow
def test_a_fit_that_was_killed_twice_ends_as_one_that_was_not(tmp_path: Path) -> None:
    for call in (3, runs.SURROGATE_STEPS + 2):  # in the surrogate, of which 2 steps are kept; in the explainer
        command = [sys.executable, str(RUNS), "interrupted", str(tmp_path / "checkpoints"), str(call)]
        killed = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own script
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert (tmp_path / "checkpoints" / "surrogate.safetensors").exists()
    assert (tmp_path / "checkpoints" / "explainer.safetensors").exists()
    calls: list[None] = []
    runs.fit_with_dropout(tmp_path / "checkpoints", lambda: calls.append(None)).save(tmp_path / "resumed")
    assert 0 < len(calls) < runs.STEPS - runs.SURROGATE_STEPS
    runs.fit_with_dropout(None).save(tmp_path / "whole")
    resumed, whole = (load_file(tmp_path / name / "explainer.safetensors") for name in ("resumed", "whole"))
    assert resumed.keys() == whole.keys()
    assert all(torch.equal(resumed[name], tensor) for name, tensor in whole.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "call", "saved"),
    [
        ("command", 5, "out/checkpoints/surrogate_2.safetensors"),
        ("command", 8, "out/checkpoints/explainer.safetensors"),
        ("cross_fit", 11, "checkpoints/fold_2.safetensors"),
        ("retraining", 4, "run.safetensors"),
    ],
)
def test_what_was_killed_and_resumed_ends_with_the_same_bits(name: str, call: int, saved: str, tmp_path: Path) -> None:
    for folder in ("killed", "whole"):
        (tmp_path / folder).mkdir()
    command = [sys.executable, str(RUNS), name, str(tmp_path / "killed"), str(call)]
    killed = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own script
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (tmp_path / "killed" / saved).exists()
    resumed = runs.RESUMED[name](tmp_path / "killed", resume=True)
    assert torch.equal(resumed, runs.RESUMED[name](tmp_path / "whole", resume=False))


def test_the_process_group_is_left_once() -> None:
    shared_state.leave_process_group()
    torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    shared_state.leave_process_group()
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"learning_rate": math.nan}, "learning_rate must be finite"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative"),
        ({"n_validations": 0}, "n_validations must be at least 1"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused(options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"budget": Budget(steps=1), "batch_size": 8}
    with pytest.raises(ValueError, match=message):
        TrainingOptions(**arguments | options)


def test_an_accelerator_of_the_users_own_keeps_its_state() -> None:
    PartialState._reset_state()  # noqa: SLF001 - as in a new process
    AcceleratorState._reset_state(reset_partial_state=True)  # noqa: SLF001 - as above
    own = Accelerator(cpu=True, mixed_precision="bf16")
    fw.FeatureExplainer(nn.Linear(2, 2), surrogate=None).fit(
        rows(20, 2), budget=Budget(steps=1), batch_size=4, n_coalitions=2, progress=False
    )
    assert own.mixed_precision == "bf16"
    assert own.state.mixed_precision == "bf16"
    AcceleratorState._reset_state(reset_partial_state=True)  # noqa: SLF001 - for the other tests
