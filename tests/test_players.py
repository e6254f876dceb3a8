from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

import fwshapley as fw
from brute_force import all_coalitions
from fwshapley.players import Players, columns

THREE_SIDES: Any = [1, 2, 3]
QUADRANTS = [[0, 0, 1], [2, 2, 1]]


def test_patches_are_numbered_in_reading_order() -> None:
    players = fw.grid(4, 6, patch=2)
    assert players.n_players == 6
    assert players.grid == (2, 3)
    assert players.names[4] == "(1, 1)"
    assert players.assignment[3].tolist() == [3, 3, 4, 4, 5, 5]


def test_a_coalition_of_patches_spreads_over_its_pixels() -> None:
    players = fw.grid(4, 4, patch=2)
    mask = players.spread(torch.tensor([[True, False, False, True]]))
    assert mask.shape == (1, 1, 4, 4)
    assert mask[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]


def test_columns_named_together_play_together_and_the_others_alone() -> None:
    players = fw.groups({"color": [0, 2]}, count=4)
    assert players.names == ("color", "column 1", "column 3")
    assert players.spread(torch.tensor([[True, False, True]])).int().tolist() == [[1, 0, 1, 1]]


def test_every_column_is_a_player_of_its_own() -> None:
    players = columns(3, names=["age", "income", "debt"])
    assert players.names == ("age", "income", "debt")
    coalitions = torch.tensor([[True, False, True]])
    assert torch.equal(players.spread(coalitions), coalitions)


def test_segments_follow_their_map() -> None:
    players = fw.segments(QUADRANTS)
    assert players.names == ("segment 0", "segment 1", "segment 2")
    assert players.spread(torch.tensor([[False, True, False]]))[0, 0].int().tolist() == [[0, 0, 1], [0, 0, 1]]


def test_patches_at_the_border_are_smaller_if_they_must() -> None:
    players = fw.grid(3, 5, patch=2)
    assert players.assignment.tolist() == [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]
    assert players.names[5] == "(1, 2)"
    assert players.grid is None  # networks would take the cells for equal ones


def test_segments_may_have_any_numbers() -> None:
    players = fw.segments([[7, -1], [255, 7]])
    assert players.names == ("segment -1", "segment 7", "segment 255")
    assert players.assignment.tolist() == [[1, 0], [2, 1]]


@pytest.mark.parametrize("name", ["grid", "rectangles", "uneven grid", "segments"])
def test_every_pixel_is_visible_if_its_player_is(name: str) -> None:
    players = DIVISIONS[name]
    coalitions = torch.rand(20, players.n_players, generator=torch.Generator().manual_seed(3)) < 0.5
    assert torch.equal(players.spread(coalitions)[:, 0], coalitions[:, torch.from_numpy(players.assignment)])


@pytest.mark.parametrize(
    ("players", "text"),
    [
        (fw.grid(28, 28, patch=4), "Players(49 patches of 4 x 4 pixels in 7 rows of 7, of images of 28 x 28)"),
        (
            fw.grid(28, 28, patch=5),
            "Players(36 patches of 5 x 5 pixels in 6 rows of 6, smaller at the border, of images of 28 x 28)",
        ),
        (fw.segments(QUADRANTS), "Players(3 segments of images of 2 x 3: 'segment 0', 'segment 1', 'segment 2')"),
        (columns(4, list("abcd")), "Players(4 columns: 'a', 'b', 'c' and 1 more)"),
        (fw.groups({"ends": [0, 3]}, 4), "Players(3 players of 4 columns: 'ends', 'column 1', 'column 2')"),
    ],
)
def test_players_are_printed_in_one_line(players: Players, text: str) -> None:
    assert repr(players) == str(players) == text


def test_a_map_is_averaged_over_the_pixels_of_each_player() -> None:
    maps = torch.arange(6.0).reshape(1, 1, 2, 3)
    assert_close(fw.segments(QUADRANTS).pool(maps), torch.tensor([[[0.5, 3.5, 3.5]]]))


def test_a_map_of_a_grids_own_size_is_read_off() -> None:
    maps = torch.rand(2, 3, 2, 2)
    assert torch.equal(fw.grid(8, 8, patch=4).pool(maps), maps.flatten(2))


DIVISIONS = {
    "grid": fw.grid(6, 9, patch=3),
    "rectangles": fw.grid(6, 9, patch=(2, 3)),
    "uneven grid": fw.grid(6, 9, patch=(4, 2)),
    "segments": fw.segments(torch.randperm(54, generator=torch.Generator().manual_seed(0)).reshape(6, 9) % 7),
    "columns": columns(5),
    "groups": fw.groups({"ends": [0, 4]}, count=5),
}


def by_one_hot(players: Players, maps: Tensor) -> Tensor:
    """Sum over each player's positions, by definition."""
    belongs = torch.from_numpy(np.eye(players.n_players)[players.assignment.flatten()])
    return maps.double().flatten(-players.assignment.ndim) @ belongs


@pytest.mark.parametrize("most", [1, 100, 2**22])
@pytest.mark.parametrize("name", DIVISIONS)
def test_a_map_is_summed_over_the_positions_of_each_player(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fwshapley.players.MAX_MEMBERSHIPS", most)
    players = DIVISIONS[name]
    for front in ((), (3,), (3, 2)):
        maps = torch.randn(*front, *players.assignment.shape, generator=torch.Generator().manual_seed(1))
        found = players.sum(maps)
        assert found.dtype == torch.float32
        assert_close(found, by_one_hot(players, maps).float())


@pytest.mark.parametrize("name", ["grid", "rectangles", "uneven grid", "segments"])
@pytest.mark.parametrize("size", [(6, 9), (2, 2), (12, 12)])
def test_a_mean_is_the_sum_over_the_number_of_pixels(name: str, size: tuple[int, int]) -> None:
    players = DIVISIONS[name]
    maps = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(2)).requires_grad_()
    sized = torch.nn.functional.interpolate(maps, (6, 9), mode="bilinear", align_corners=False)
    counts = torch.from_numpy(np.bincount(players.assignment.flatten()))
    found = players.pool(maps)
    assert_close(found, (by_one_hot(players, sized) / counts).float())
    (gradient,) = torch.autograd.grad(found.sum(), maps)
    assert_close(gradient.sum(), torch.tensor(2.0 * 3 * players.n_players))


def test_many_players_are_summed_over_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dense table of positions and players would have 3 million entries here."""
    largest = 0
    players = fw.segments((torch.arange(64 * 64) % 800).reshape(64, 64))

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - torch's signature
            nonlocal largest
            found = func(*args, **(kwargs or {}))
            largest = max(largest, found.numel() if isinstance(found, Tensor) else 0)
            return found

    maps = torch.ones(2, 64, 64)
    monkeypatch.setattr("fwshapley.players.MAX_MEMBERSHIPS", 2**16)
    with Watch():  # type: ignore[no-untyped-call] # torch's own
        found = players.sum(maps)
    assert largest <= 2**16
    assert_close(found[1], torch.from_numpy(np.bincount(players.assignment.flatten())).float())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fw.grid(5, 4, patch=(2, 5)), r"patch=\(2, 5\) .* 5 x 4"),
        (lambda: fw.groups({"a": [0, 1], "b": [1]}), r"members .* 0\.\.1"),
        (lambda: fw.groups({"a": [5]}, count=3), r"members .* 0\.\.2"),
        (lambda: fw.segments([[5, 7]], names=["sky"]), "names has 1 .* 2"),
        (lambda: fw.segments(torch.zeros(3)), r"\(height, width\)"),
        (lambda: columns(2, names=["one"]), "names has 1 .* 2"),
        (lambda: columns(0), "at least 1"),
    ],
)
def test_divisions_that_make_no_sense_are_rejected(make: Callable[[], Players], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("players", "shape", "fits"),
    [
        (fw.grid(4, 4, patch=2), (2, 3, 4, 4), True),
        (fw.grid(4, 4, patch=2), (3, 4, 4), False),
        (fw.grid(4, 4, patch=2), (2, 3, 8, 8), False),
        (columns(5), (7, 5), True),
        (columns(5), (7, 4), False),
        (columns(5), (5,), False),
    ],
)
def test_inputs_must_fit_the_players(players: Players, shape: tuple[int, ...], fits: bool) -> None:  # noqa: FBT001 - a parameter
    if fits:
        players.check(torch.zeros(shape))
    else:
        with pytest.raises(ValueError, match=r"inputs must have shape"):
            players.check(torch.zeros(shape))


@pytest.mark.parametrize(("height", "width", "patch"), [(4, 6, 2), (6, 3, 3), (2, 2, 1), (4, 4, 4)])
def test_a_grid_spreads_as_its_map_of_segments_does(height: int, width: int, patch: int) -> None:
    players = fw.grid(height, width, patch=patch)
    coalitions = all_coalitions(players.n_players)
    by_index = fw.segments(players.assignment, players.names).spread(coalitions)
    assert torch.equal(players.spread(coalitions), by_index)


@pytest.mark.parametrize(
    "players",
    [fw.grid(4, 6, patch=2), fw.grid(4, 6, patch=(3, 4)), fw.segments(QUADRANTS), columns(3, ["a", "b", "c"])],
)
def test_players_survive_json(players: Players) -> None:
    again = Players.from_facts(json.loads(json.dumps(players.facts())), players.assignment)
    assert again.names == players.names
    assert again.grid == players.grid
    assert repr(again) == repr(players)
    coalitions = all_coalitions(players.n_players)
    assert torch.equal(again.spread(coalitions), players.spread(coalitions))


def test_an_assignment_is_copied_to_a_device_once() -> None:
    players, device = fw.grid(4, 4, patch=2), torch.device("cuda" if torch.cuda.is_available() else "cpu")
    copied = players.assignment_on(device)
    assert copied.device.type == device.type
    assert copied.tolist() == players.assignment.tolist()
    assert players.assignment_on(device) is copied


@pytest.mark.parametrize(
    ("members", "message"),
    [({"column 1": [0]}, "'column 1' .* rename the group"), ({"none": [], "some": [0, 1]}, "members .*'none'")],
)
def test_groups_that_would_mislead_are_refused(members: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fw.groups(members, count=2)


COLUMNS = ["city", "street", "price", "year"]


def test_columns_are_grouped_by_their_names() -> None:
    players = fw.groups({"place": ["city", "street"]}, names=["city", "street", "price"])
    assert players.names == ("place", "price")
    assert players.assignment.tolist() == [0, 0, 1]
    apart = fw.groups({"money": ["year", "price"], "place": [0]}, names=COLUMNS)  # by numbers as well
    assert apart.names == ("place", "street", "money")
    assert apart.assignment.tolist() == [0, 1, 2, 2]
    by_number = fw.groups({"money": [3, 2], "place": [0]}, names=COLUMNS)
    assert np.array_equal(by_number.assignment, apart.assignment)
    assert fw.groups({}, names=COLUMNS).names == tuple(COLUMNS)
    assert fw.groups({"city": ["city", "street"]}, names=COLUMNS).names == ("city", "price", "year")


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        ({"a": ["town"]}, {"names": COLUMNS}, "'town'.*city, street, price, year"),
        ({"a": ["city"]}, {}, "'city'.*pass names="),
        ({"a": ["city"], "b": ["street", "city"]}, {"names": COLUMNS}, "members .* once"),
        ({"a": ["city"], "b": [0]}, {"names": COLUMNS}, "members .* once"),
        ({"a": [4]}, {"names": COLUMNS}, r"members .* 0\.\.3"),
        ({"price": ["city", "street"]}, {"names": COLUMNS}, "'price' is the name of a group and of a column"),
        ({"a": []}, {"names": COLUMNS}, "members has no columns .*'a'"),
        ({"a": ["city"]}, {"names": COLUMNS, "count": 5}, "names has 4 .* 5"),
        ({"a": [0]}, {"names": ["x", "y", "y"]}, "names .*'y'"),
    ],
)
def test_groups_of_names_that_make_no_sense_are_refused(
    members: dict[str, list[int] | list[str]], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fw.groups(members, **options)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "arguments", "error", "message"),
    [
        (fw.groups, ([[0], [1, 2]],), TypeError, "members must map .* got list"),
        (fw.groups, (None,), TypeError, "members must map .* got NoneType"),
        (fw.groups, ({"a": 3},), TypeError, "group 'a' must be a list .* got 3"),
        (fw.groups, ({"a": "city"},), TypeError, "group 'a' must be a list .* got 'city'"),
        (fw.groups, ({"a": [0.5]},), TypeError, "group 'a' must be a whole number, got 0.5"),
        (fw.groups, ({"a": [True, False]},), TypeError, "group 'a' must be numbers or names, got True"),
        (fw.segments, ([[0.5, 1.2]],), ValueError, "assignment .*0.5"),
        (fw.segments, ([[0.0, float("nan")]],), ValueError, "assignment .*nan"),
        (fw.segments, ([["sky", "sea"]],), TypeError, "assignment must be an array"),
        (fw.segments, (torch.tensor([[0j, 1j]]),), TypeError, "complex"),
        (partial(fw.grid, patch=THREE_SIDES), (5, 4), ValueError, r"patch .* \(height, width\), got \[1, 2, 3\]"),
        (
            fw.columns,
            (
                2,
                ["a", "a"],
            ),
            ValueError,
            "names .* 'a'",
        ),
        (
            fw.columns,
            (
                2,
                "ab",
            ),
            TypeError,
            "names must be a list of names, got 'ab'",
        ),
        (fw.columns, (10**12,), ValueError, "count must be at most"),
        (fw.groups, ({"a": [10**12]},), ValueError, "count must be at most"),
        (partial(fw.grid, patch=1), (10**7, 10**7), ValueError, r"height \* width must be at most"),
    ],
)
def test_players_of_other_types_are_named(
    make: Callable[..., Players], arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(*arguments)


def test_segments_may_be_whole_numbers_of_any_type() -> None:
    for numbers in (torch.tensor([[0.0, 1.0]]), torch.tensor([[0, 1]], dtype=torch.uint8), [[False, True]]):
        assert fw.segments(numbers).assignment.tolist() == [[0, 1]]


def test_groups_by_name_are_found_in_a_table_of_another_order() -> None:
    players = fw.groups({"p": ["a", "b"], "q": ["c", "d"]}, names=list("abcd"))
    assert players.for_table(list("cdab")).assignment.tolist() == [1, 1, 0, 0]
    assert players.for_table(list("abcd")) is players
    with pytest.raises(ValueError, match=r"a, b, c, d.*w, x, y, z"):
        players.for_table(list("wxyz"))
    by_number = fw.groups({"p": [0, 1]}, 4)
    assert by_number.for_table(list("wxyz")) is by_number
