"""Two processes train one network: both tests look at what one start of two processes has left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import fwshapley as fw
import runs
from models import rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes have saved what they trained together."""
    made = tmp_path_factory.mktemp("two")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*launcher, str(Path(runs.__file__)), "shared", str(made)]
    together = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own script
    assert together.returncode == 0, together.stderr
    return made


def test_two_processes_train_an_explainer_as_one_does(folder: Path) -> None:
    one, two = runs.fit_together(), fw.FeatureExplainer.load(folder / "explainer")
    x = rows(5, 4, seed=1)
    expected, found = one.explain(x).values, two.explain(x).values  # AdamW magnifies the rounding of tiny gradients
    assert float((found - expected).norm()) <= 0.05 * float(expected.norm())
    for name, history in one.histories_.items():
        assert two.histories_[name].steps == history.steps
        losses = [[loss for _, loss in each.validation] for each in (two.histories_[name], history)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-2)


def test_two_processes_learn_one_network_of_values(folder: Path) -> None:
    one, other = (load_file(folder / f"values of process {rank}.safetensors") for rank in (0, 1))
    assert one.keys() == other.keys() == {"regression", "published"}
    for method, values in one.items():
        assert torch.equal(values, other[method])
        assert bool(values.isfinite().all())
