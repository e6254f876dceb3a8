from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import nn

import fwshapley as fw
from fwshapley.explanation.fitting import Plan, make_network, needs_training, place
from fwshapley.players import columns
from models import ImageModel, TableModel, images, rows, seeded

GRID = fw.grid(8, 8, patch=4)
PLAN = Plan(fw.Budget(seconds=10, steps=50), fw.Recipe(8), 2, None, Path("folder"), resume=False, progress=False)


class Recorder(nn.Module):
    """Remembers where it was moved."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[object] = []

    def to(self, *arguments: object, **options: object) -> Recorder:
        self.moves += [*arguments, *options.values()]
        return self


@pytest.mark.parametrize(
    ("device", "players", "moves"),
    [
        ("cuda", GRID, [torch.device("cuda"), torch.channels_last]),
        ("cuda", columns(3), [torch.device("cuda")]),
        ("cpu", GRID, [torch.device("cpu")]),
    ],
)
def test_on_a_gpu_image_networks_keep_channels_last(device: str, players: fw.Players, moves: list[object]) -> None:
    module = Recorder()
    place(module, torch.device(device), players)
    assert module.moves == moves


def test_what_is_ready_needs_no_training() -> None:
    ready = fw.Surrogate(seeded(TableModel), columns(4), torch.zeros(1, 4))
    assert [needs_training(each) for each in (None, "auto", seeded(TableModel), ready)] == [False, True, True, False]
    assert not needs_training(fw.TableSurrogate(rows(5, 4), columns(4), 2))


def test_a_plan_has_a_checkpoint_for_each_part_and_can_be_shared() -> None:
    assert PLAN.checkpoint("surrogate") == Path("folder/surrogate.safetensors")
    assert PLAN.with_last_share(0.5).budget == fw.Budget(seconds=5, steps=25)
    assert PLAN.with_last_share(0.5).recipe == PLAN.recipe


def test_the_seconds_of_the_last_part_begin_after_those_of_the_others() -> None:
    assert PLAN.with_last_share(0.7).began == pytest.approx(PLAN.began + 0.3 * 10)


def test_checkpoints_that_cannot_be_written_are_noticed_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    explainer = fw.FeatureExplainer(seeded(TableModel))
    for checkpoints in (tmp_path / "file", tmp_path / "file" / "new"):
        with pytest.raises(NotADirectoryError, match=r"file is a file.*checkpoint="):
            explainer.fit(rows(40, 4), budget=fw.Budget(steps=2), checkpoint=checkpoints)


@pytest.mark.parametrize("kind", ["auto", "unet", "slim"])
def test_a_network_follows_from_its_seed_and_leaves_the_global_randomness_alone(
    kind: Literal["auto", "unet", "slim"],
) -> None:
    surrogate = fw.Surrogate(seeded(ImageModel), GRID, torch.zeros(1, 1, 1, 1)).eval()
    before = torch.get_rng_state()
    one, same, other = (make_network(kind, surrogate, GRID, images(2), 6, seed=seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(same[name], tensor) for name, tensor in one.items())
    assert not all(torch.equal(other[name], tensor) for name, tensor in one.items())
