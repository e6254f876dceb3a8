from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import nn

import fwshapley as fw
from fwshapley.explanation.learned.fitting import make_network, part_of_options
from fwshapley.explanation.learned.surrogate import is_trained_by_fit, move
from fwshapley.players import columns
from models import ImageModel, TableModel, images, rows, seeded

GRID = fw.grid(8, 8, patch=4)
OPTIONS = fw.training.TrainingOptions(fw.Budget(seconds=10, steps=50), 8, checkpoint=Path("folder"), started=100.0)


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
        ("cpu", GRID, [torch.device("cpu"), torch.channels_last]),
        ("cpu", columns(3), [torch.device("cpu")]),
    ],
)
def test_image_networks_keep_channels_last(device: str, players: fw.players.Players, moves: list[object]) -> None:
    module = Recorder()
    move(module, torch.device(device), players)
    assert module.moves == moves


def test_what_is_ready_needs_no_training() -> None:
    ready = fw.explanation.Surrogate(seeded(TableModel), columns(4), torch.zeros(1, 4))
    assert [is_trained_by_fit(surrogate) for surrogate in (None, "auto", seeded(TableModel), ready)] == [
        False,
        True,
        True,
        False,
    ]
    assert not is_trained_by_fit(fw.explanation.TableSurrogate(rows(5, 4), columns(4), 2))


def test_parts_of_a_fit_share_the_budget_and_have_checkpoints_of_their_own() -> None:
    first, last = part_of_options(OPTIONS, "surrogate", 0, 0.3), part_of_options(OPTIONS, "explainer", 0.3, 1)
    assert (first.budget, last.budget) == (fw.Budget(seconds=3, steps=15), fw.Budget(seconds=7, steps=35))
    assert first.checkpoint == Path("folder/surrogate.safetensors")
    assert first.started == 100
    assert last.started == pytest.approx(103)
    assert last.batch_size == OPTIONS.batch_size


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
    surrogate = fw.explanation.Surrogate(seeded(ImageModel), GRID, torch.zeros(1, 1, 1, 1)).eval()
    before = torch.get_rng_state()
    one, same, other = (make_network(kind, surrogate, GRID, images(2), 6, seed=seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(same[name], tensor) for name, tensor in one.items())
    assert not all(torch.equal(other[name], tensor) for name, tensor in one.items())
