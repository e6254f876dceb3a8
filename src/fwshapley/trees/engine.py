"""Values of all trees of an ensemble for one game: which engine serves which tree, in bounded memory.

Trees with few players on each path are served by `code_tables`, in time linear in rows plus background; others by
`pattern_pairs` (interventional) or at shared nodes (path-dependent). All are exact. Small tables are kept for the next
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64
from numpy import ndarray

from fwshapley.semivalues import Semivalue
from fwshapley.trees.background_counts import count_codes
from fwshapley.trees.code_tables import Targets, tabulate
from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.interactions import pair_targets, tabulate_pairs
from fwshapley.trees.layout import choose_layout
from fwshapley.trees.lookup import add_mixed, look_up, look_up_few, order_tables
from fwshapley.trees.moments import Channels, channels, node_weights, shared_nodes
from fwshapley.trees.path_dependent import find_edges, values_at_nodes
from fwshapley.trees.paths import Branches, count_players, find_branches
from fwshapley.trees.pattern_pairs import MAX_PLAYERS, add_pairs

if TYPE_CHECKING:
    from fwshapley.trees.gpu import Conditions

MIN_TABLE_PLAYERS, MAX_TABLE_PLAYERS = 8, 14
"""Players on a path up to which tables are always used, and up to which they are used for many rows."""

MIN_TABLE_ROWS = 8
"""Rows from which the background is counted for tables of long paths: for fewer, pairs take less time than counting."""

PAIRS_PER_ENTRY = 16
"""Pairs of a row and a background row that take as long as an entry of a table."""

MIN_BITS, MAX_BITS = 8, 11
"""Longest codes of branches of several leaves, for short paths and for long ones."""

TABLES_AT_ONCE = 2**23
"""Numbers of the tables that are computed at once: 64 MB."""

KEPT_TABLES = 2**25
"""Numbers of all tables, or of the counts of a part, that are kept for the next call: 256 MB."""

SUMS_AT_ONCE = 2**26
"""Numbers that are summed up at once, for a block of rows: 512 MB."""


Values = Float64[ndarray, "weightings rows targets outputs"]


class Background(NamedTuple):
    """Rows that stand in for hidden features, as `TreeEnsemble.encode` returns them, and weights that sum to 1."""

    rows: Float64[ndarray, "background features"]
    weight: Float64[ndarray, " background"]


class Part(NamedTuple):
    """Trees that are computed together, and the outputs that they have.

    Trees of a boosted classifier have one output each: a part for each output.
    """

    roots: Int32[ndarray, " trees"]
    most_players: Int32[ndarray, " trees"]
    outputs: Int64[ndarray, " some"]
    value: Float64[ndarray, "nodes some"]


@dataclass(eq=False)
class Engine:
    """Computes values and interactions of encoded rows.

    Args:
        ensemble: the trees.
        player_of: the player that each feature belongs to.
        n_players: number of players.
        background: for the interventional game; None for the path-dependent one.
        device: "cpu", or a GPU, on which tables are looked up; a few rows, and trees without tables, stay on the CPU.
    """

    ensemble: TreeEnsemble
    player_of: Int32[ndarray, " features"]
    n_players: int
    background: Background | None
    device: str = "cpu"

    def __post_init__(self) -> None:
        self._parts = list(_find_parts(self.ensemble, self.player_of))
        longest = max((int(part.most_players.max(initial=0)) for part in self._parts), default=0)
        if self.background is not None and longest > MAX_PLAYERS:
            raise ValueError(
                f"a path of this model has {longest} different players, and with a background exact values are "
                f"computed for at most {MAX_PLAYERS}; use no background, or group columns as players"
            )
        self._kept: dict[tuple[Any, ...], Any] = {}
        self._tables: dict[tuple[Any, ...], list[Any]] = {}
        self._columns = None if self.background is None else np.ascontiguousarray(self.background.rows.T)
        self._gpu = None
        if self.device != "cpu":
            from fwshapley.trees.gpu import Gpu  # noqa: PLC0415 - it needs torch

            self._gpu = Gpu(self.device)

    def values(
        self, x: Float64[ndarray, "rows features"], weightings: Sequence[Semivalue]
    ) -> Float64[ndarray, "weightings rows players outputs"]:
        """Return the semivalues of the players of each row.

        Args:
            x: rows, as `TreeEnsemble.encode` returns them.
            weightings: the semivalues.
        """
        values = np.zeros((len(weightings), len(x), self.n_players, self.ensemble.n_outputs))
        most = table_players(len(x), None if self.background is None else len(self.background.rows))
        for number, part in enumerate(self._parts):
            is_narrow = part.most_players <= most
            chosen = self._new_values(values, part)
            if is_narrow.any():
                deepest = int(part.most_players[is_narrow].max())  # the same tables for other numbers of rows
                degree = max(deepest - 1, 0)
                shared = self._keep(
                    ("channels", number, degree, tuple(weightings)),
                    partial(channels, weightings, self.n_players, degree),
                )
                for begin, end in self._blocks(len(x), self.n_players * len(part.outputs) * len(shared.moments)):
                    self._look_up(number, deepest, shared, x[begin:end], chosen[:, begin:end], pairs=False)
            if not is_narrow.all():
                self._add_wide(part, ~is_narrow, x, weightings, chosen)
            if chosen is not values:
                values[..., part.outputs] = chosen
        return values

    def interactions(
        self, x: Float64[ndarray, "rows features"], weightings: Sequence[Semivalue]
    ) -> Float64[ndarray, "weightings rows pairs outputs"]:
        """Return the interaction index of each pair of players i < j, in the order of `numpy.triu_indices(n, 1)`."""
        n_pairs = self.n_players * (self.n_players - 1) // 2
        values = np.zeros((len(weightings), len(x), n_pairs, self.ensemble.n_outputs))
        if not n_pairs:
            return values
        for number, part in enumerate(self._parts):
            most = int(part.most_players.max(initial=0))
            if most > MAX_TABLE_PLAYERS:
                raise ValueError(
                    f"interactions are computed for paths with at most {MAX_TABLE_PLAYERS} different players, but a "
                    f"path of this model has {most}; group columns as players, or fit shallower trees"
                )
            shared = channels(weightings, self.n_players, max(most - 1, 0))
            chosen = self._new_values(values, part)
            for begin, end in self._blocks(len(x), n_pairs * len(part.outputs) * len(shared.moments)):
                self._look_up(number, most, shared, x[begin:end], chosen[:, begin:end], pairs=True)
            if chosen is not values:
                values[..., part.outputs] = chosen
        return values

    @staticmethod
    def _new_values(values: Values, part: Part) -> Float64[ndarray, "weightings rows targets some"]:
        """Return zeros for the outputs of a part: the values themselves, if it has all outputs."""
        some = len(part.outputs)
        return values if some == values.shape[-1] else np.zeros((*values.shape[:-1], some))

    def _look_up(
        self,
        number: int,
        most: int,
        shared: Channels,
        x: Float64[ndarray, "rows features"],
        values: Values,
        *,
        pairs: bool,
    ) -> None:
        """Add the values of the trees of a part that have at most so many players on a path, by tables."""
        part = self._parts[number]
        bits = int(np.clip(most, MIN_BITS, MAX_BITS))
        branches = self._branches(number, most, bits)
        targets = pair_targets(branches, self.n_players) if pairs else Targets(branches.players, branches.player)
        names = self.n_players * (self.n_players - 1) // 2 if pairs else self.n_players
        width = len(part.outputs) * len(shared.moments)
        layout = choose_layout(len(x), width, on_gpu=self._gpu is not None)
        key = (number, most, bits, pairs, layout, shared.moments.tobytes())
        splits = self.ensemble.splits
        made = self._made_tables(key, branches, targets, shared, part.value)
        if self._gpu is not None and layout.lanes:
            on_gpu = self._gpu.look_up(self._conditions(number, most, bits), made, x, names, width)
            self._gpu.add_mixed(on_gpu, shared.mixing, values)
            return
        sums = np.zeros((len(x), names, width))
        for first, offsets, plan, tables in made:
            if layout.lanes:
                look_up(splits, branches, plan, first, layout, tables, x, sums)
            else:
                look_up_few(splits, branches, targets, first, offsets, tables, x, sums)
        add_mixed(sums, shared.mixing, values)

    def _made_tables(
        self,
        key: tuple[Any, ...],
        branches: Branches,
        targets: Targets,
        shared: Channels,
        value: Float64[ndarray, "nodes some"],
    ) -> Iterator[tuple[int, Int64[ndarray, " starts"], Any, Any]]:
        """Yield the tables of some branches at a time: the first branch, where tables begin, their order, and they.

        For a GPU, the order and the tables are there. Small tables are kept until newer ones need their memory: those
        of one row and those of many have different layouts, and calls of both kinds may alternate.
        """
        if key in self._tables:
            yield from self._tables[key]
            return
        number, most, bits, pairs, layout, _ = key
        numbers = np.diff(targets.begin) * layout.padded << branches.bits
        made: list[tuple[int, Int64[ndarray, " starts"], Any, Any]] = []
        for first, offsets in _chunks(numbers):
            counts = self._counts_of(number, most, bits, first, len(offsets) - 1)
            compute = tabulate_pairs if pairs else tabulate
            tables = compute(branches, first, value, shared.moments, *counts, offsets, layout)
            if self._gpu is not None and layout.lanes:
                whole = order_tables(branches, targets, first, offsets, layout, at_once=len(offsets) - 1)
                made.append((first, offsets, *self._gpu.upload(whole, tables)))
            else:
                made.append((first, offsets, order_tables(branches, targets, first, offsets, layout), tables))
            yield made[-1]
            if numbers.sum() > KEPT_TABLES:
                made.clear()
        if made:
            self._tables = _newest(self._tables | {key: made})

    def _add_wide(
        self,
        part: Part,
        is_wide: Bool[ndarray, " trees"],
        x: Float64[ndarray, "rows features"],
        weightings: Sequence[Semivalue],
        values: Values,
    ) -> None:
        """Add the values of the trees of a part that are not served by tables."""
        roots = part.roots[is_wide]
        degree = int(part.most_players[is_wide].max()) - 1
        splits = self.ensemble.splits
        if self.background is None:
            t = shared_nodes(degree + 1)
            mixing = node_weights(weightings, t, self.n_players, degree)
            edges = find_edges(splits, self.ensemble.cover, roots, self.player_of)
            for begin, end in self._blocks(len(x), self.n_players * len(part.outputs) * len(t)):
                sums = np.zeros((end - begin, self.n_players, len(part.outputs), len(t)))
                values_at_nodes(splits, edges, part.value, t, x[begin:end], sums)
                add_mixed(sums, mixing, values[:, begin:end])
            return
        shared = channels(weightings, self.n_players, degree)
        at_once = min(2048, max(1, SUMS_AT_ONCE // (16 * self.n_players * len(part.outputs) * len(shared.moments))))
        for begin in range(0, len(x), at_once):
            end = min(len(x), begin + at_once)
            total: Any = 0.0
            for start in range(0, len(self.background.rows), 2**14):
                rows, weight = (array[start : start + 2**14] for array in self.background)
                total = total + add_pairs(
                    splits,
                    roots,
                    self.player_of,
                    self.n_players,
                    part.value,
                    shared.moments,
                    x[begin:end],
                    rows,
                    weight,
                ).sum(0)
            add_mixed(total, shared.mixing, values[:, begin:end])

    def _branches(self, number: int, most: int, bits: int) -> Branches:
        """Return the branches of a part's trees with at most so many players on a path."""
        part = self._parts[number]
        roots = part.roots[part.most_players <= most]
        splits, cover = self.ensemble.splits, self.ensemble.cover
        return self._keep(
            ("branches", number, most, bits), lambda: find_branches(splits, cover, roots, self.player_of, bits)
        )

    def _conditions(self, number: int, most: int, bits: int) -> Conditions:
        """Return the conditions of a part's branches, on the GPU."""
        gpu, branches = self._gpu, self._branches(number, most, bits)
        assert gpu is not None  # noqa: S101 - the caller has checked it
        return self._keep(("conditions", number, most, bits), lambda: gpu.conditions(self.ensemble.splits, branches))

    def _counts_of(
        self, number: int, most: int, bits: int, first: int, n_branches: int
    ) -> tuple[Int64[ndarray, " starts"], Float64[ndarray, " counts"]]:
        """Return the background's weight of each code of some branches, and where those of a branch begin."""
        branches = self._branches(number, most, bits)
        codes = 1 << branches.bits.astype(np.int64)
        offsets = _offsets(codes[first : first + n_branches])
        if self.background is None or self._columns is None:
            return offsets, np.empty(0)
        columns, weight = self._columns, self.background.weight

        def count(start: int, starts: Int64[ndarray, " starts"]) -> Float64[ndarray, " counts"]:
            if self._gpu is not None and (weight == weight[0]).all():
                return self._gpu.count_codes(self._conditions(number, most, bits), start, starts, columns)
            return count_codes(self.ensemble.splits, branches, start, starts, columns, weight)

        if codes.sum() > KEPT_TABLES:
            return offsets, count(first, offsets)
        counts = self._keep(("counts", number, most, bits), lambda: count(0, _offsets(codes)))
        start = codes[:first].sum()
        return offsets, counts[start : start + offsets[-1]]

    def _keep(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is made
        """Return what was made before for a key; only the latest plan of each part is kept."""
        if key not in self._kept:
            for other in [other for other in self._kept if other[:2] == key[:2]]:
                del self._kept[other]
            self._kept[key] = make()
        return self._kept[key]

    @staticmethod
    def _blocks(rows: int, numbers_per_row: int) -> Iterator[tuple[int, int]]:
        """Yield where blocks of rows begin and end."""
        at_once = max(1, SUMS_AT_ONCE // max(numbers_per_row, 1))
        for begin in range(0, rows, at_once):
            yield begin, min(rows, begin + at_once)


def _newest(tables: dict[tuple[Any, ...], list[Any]]) -> dict[tuple[Any, ...], list[Any]]:
    """Return the tables that were made last, as many as may be kept."""
    kept, numbers = {}, 0
    for key, made in reversed(tables.items()):
        numbers += sum(int(offsets[-1]) for _, offsets, *_ in made)
        if numbers > KEPT_TABLES:
            break
        kept[key] = made
    return dict(reversed(kept.items()))


def table_players(rows: int, background: int | None) -> int:
    """Return the most players on a path for which tables pay.

    A table of k players costs about 2**k. Without a background it saves time for each row, with one for each pair of a
    row and a background row; but counting the background for tables takes as long as the pairs of several rows.

    Args:
        rows: number of explained rows.
        background: number of background rows; None without a background.
    """
    if background is None:
        bits = np.log2(max(rows, 1))
    elif rows < MIN_TABLE_ROWS:
        bits = MIN_TABLE_PLAYERS
    else:
        bits = np.log2(rows * background / PAIRS_PER_ENTRY)
    return int(np.clip(bits, MIN_TABLE_PLAYERS, MAX_TABLE_PLAYERS))


def _find_parts(ensemble: TreeEnsemble, player_of: Int32[ndarray, " features"]) -> Iterator[Part]:
    """Yield the trees of each output, if no tree has several; else all trees."""
    most_players = count_players(ensemble.splits, ensemble.roots, player_of)
    tree_of = np.searchsorted(np.sort(ensemble.roots), np.arange(len(ensemble.feature)), side="right") - 1
    order = np.argsort(ensemble.roots)
    has_output = np.zeros((ensemble.n_trees, ensemble.n_outputs), dtype=bool)
    for output in range(ensemble.n_outputs):
        has_output[order[tree_of[ensemble.value[:, output] != 0]], output] = True
    if ensemble.n_outputs > 1 and has_output.sum(1).max(initial=0) <= 1:
        for output in range(ensemble.n_outputs):
            trees = has_output[:, output]
            if trees.any():
                value = np.ascontiguousarray(ensemble.value[:, [output]])
                yield Part(ensemble.roots[trees], most_players[trees], np.array([output]), value)
    elif ensemble.n_trees:
        yield Part(ensemble.roots, most_players, np.arange(ensemble.n_outputs), ensemble.value)


def _chunks(numbers: Int64[ndarray, " branches"]) -> Iterator[tuple[int, Int64[ndarray, " starts"]]]:
    """Yield the first branch of each chunk, and where the tables of its branches begin."""
    ends = np.cumsum(numbers)
    first = 0
    while first < len(numbers):
        start = ends[first] - numbers[first]
        last = max(first + 1, int(np.searchsorted(ends, start + TABLES_AT_ONCE, side="right")))
        yield first, _offsets(numbers[first:last])
        first = last


def _offsets(sizes: Int64[ndarray, " n"]) -> Int64[ndarray, " n+1"]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
