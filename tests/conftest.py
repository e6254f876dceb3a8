"""Turns on shape checks of the package, before anything imports it, and holds what several tests share."""

import gc
import os

from jaxtyping import install_import_hook

# An int will do where a float is asked for; beartype cannot see what Self is from a method alone.
CHECKER_OPTIONS = "is_pep484_tower=True, hint_overrides=beartype.FrozenDict({beartype.typing.Self: object})"
install_import_hook("fwshapley", f"beartype.beartype(conf=beartype.BeartypeConf({CHECKER_OPTIONS}))")

from collections.abc import Callable, Iterator  # noqa: E402 - the hook comes first

import hypothesis  # noqa: E402
import jaxtyping  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from fwshapley import Banzhaf, Beta, Cardinality, LeaveOneOut, Semivalue, Shapley  # noqa: E402
from fwshapley._internal import progress  # noqa: E402
from fwshapley.games import FunctionGame  # noqa: E402
from fwshapley.games.knn import Ties, Utility  # noqa: E402

progress.FIRST_LINE_SECONDS = 3600.0  # or what a command says would depend on how busy the machine is
torch.set_num_threads(1)  # the tensors are small: threads would only wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")  # nor shall those of the programs that tests start
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50)
hypothesis.settings.load_profile("repeatable")

SEMIVALUES: dict[str, Callable[[int], Semivalue]] = {
    "Shapley": lambda _: Shapley(),
    "Beta(16,1)": lambda _: Beta(16, 1),
    "Beta(1,4)": lambda _: Beta(1, 4),
    "Beta(0.3,2.7)": lambda _: Beta(0.3, 2.7),
    "Banzhaf": lambda _: Banzhaf(),
    "Banzhaf(0.2)": lambda _: Banzhaf(0.2),
    "LeaveOneOut": lambda _: LeaveOneOut(),
    "Cardinality": lambda n: Cardinality(torch.rand(n, generator=torch.Generator().manual_seed(n))),
}


@pytest.fixture(params=SEMIVALUES.values(), ids=list(SEMIVALUES))
def semivalue_for(request: pytest.FixtureRequest) -> Callable[[int], Semivalue]:
    """Every kind of semivalue, for a number of players."""
    make: Callable[[int], Semivalue] = request.param
    return make


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """LightGBM and XGBoost change the number of OpenMP's threads for the whole process, and so torch's rounding."""
    torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without the types' run-time checks, so that the package's own errors about wrong types are met."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def smooth_game() -> Callable[..., FunctionGame]:
    """Return small tanh networks on masks: games such as models are."""

    def make(n: int, outputs: int | None = None, seed: int = 0) -> FunctionGame:
        generator = torch.Generator().manual_seed(seed)
        inner = torch.randn(n, 16, generator=generator, dtype=torch.float64)
        outer = torch.randn(16, outputs or 1, generator=generator, dtype=torch.float64) / 4

        def worth(coalitions: Tensor) -> Tensor:
            values = torch.tanh(coalitions.double() @ inner - 0.5) @ outer
            return values.squeeze(1) if outputs is None else values

        return FunctionGame(worth, n_players=n)

    return make


UTILITIES: list[tuple[Utility, Ties]] = [
    ("soft", "lowest"),
    ("normalized", "lowest"),
    ("vote", "lowest"),
    ("vote", "shared"),
]
every_utility = pytest.mark.parametrize(("utility", "ties"), UTILITIES, ids=map("-".join, UTILITIES))


@pytest.fixture(autouse=True, scope="module")
def quick_collection() -> Iterator[None]:
    """Let the collections that accelerate asks for after every training pass over what was there before."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
