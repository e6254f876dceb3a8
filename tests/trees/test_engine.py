from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64
from numpy import ndarray

from fwshapley import Beta, Cardinality, LeaveOneOut, Semivalue, Shapley
from fwshapley.trees import code_tables, lookup
from fwshapley.trees import engine as engine_module
from fwshapley.trees.engine import Background, Engine, table_players
from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.paths import count_players, encode_block, find_branches
from trees.brute_trees import random_ensemble, random_rows, weightings

Rows = Float64[ndarray, "rows columns"]


def values(
    monkeypatch: pytest.MonkeyPatch,
    ensemble: TreeEnsemble,
    background: Background | None,
    x: Rows,
    weights: list[Semivalue],
    **limits: int,
) -> Float64[ndarray, "weightings rows players outputs"]:
    for name, limit in limits.items():
        monkeypatch.setattr(engine_module, name, limit)
    n = ensemble.n_features
    return Engine(ensemble, np.arange(n, dtype=np.int32), n, background).values(x, weights)


@pytest.mark.parametrize("with_background", [True, False])
@pytest.mark.parametrize("trees", [{"depth": 8, "features": 9}, {"depth": 12, "features": 18, "split": 0.95}])
def test_all_engines_agree(monkeypatch: pytest.MonkeyPatch, trees: dict[str, Any], *, with_background: bool) -> None:
    ensemble = random_ensemble(1, outputs=2, **trees)
    n = ensemble.n_features
    x, z = random_rows(2, 30, n), random_rows(3, 20, n)
    background = Background(z, np.full(20, 0.05)) if with_background else None
    weights = [Shapley(), Beta(4, 1), Beta(0.3, 2.7), LeaveOneOut(), Cardinality(np.linspace(0, 1, n))]
    tables = values(monkeypatch, ensemble, background, x, weights, MIN_TABLE_PLAYERS=14, MAX_TABLE_PLAYERS=14)
    others = values(monkeypatch, ensemble, background, x, weights, MIN_TABLE_PLAYERS=0, MAX_TABLE_PLAYERS=0)
    mixed = values(monkeypatch, ensemble, background, x, weights, MIN_TABLE_PLAYERS=6, MAX_TABLE_PLAYERS=6)
    np.testing.assert_allclose(others, tables, atol=1e-11)
    np.testing.assert_allclose(mixed, tables, atol=1e-11)


@pytest.mark.parametrize("most_bits", [1, 4, 8, 12])
def test_tables_do_not_depend_on_the_branches(monkeypatch: pytest.MonkeyPatch, most_bits: int) -> None:
    ensemble, x = random_ensemble(4, depth=7), random_rows(2, 30)
    background = Background(random_rows(3, 20), np.full(20, 0.05))
    expected = values(monkeypatch, ensemble, background, x, weightings(6))
    limits = {"TABLES_AT_ONCE": 1000, "SUMS_AT_ONCE": 500, "KEPT_TABLES": 10}
    limits |= {"MIN_BITS": most_bits, "MAX_BITS": most_bits}
    found = values(monkeypatch, ensemble, background, x, weightings(6), **limits)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_values_depend_neither_on_the_layout_of_tables_nor_on_blocks(
    monkeypatch: pytest.MonkeyPatch, outputs: int
) -> None:
    ensemble, x = random_ensemble(5, outputs=outputs, trees=90), random_rows(2, 100)
    player_of = np.arange(6, dtype=np.int32)
    engine = Engine(ensemble, player_of, 6, Background(random_rows(3, 20), np.full(20, 0.05)))
    for count in range(1, 10):  # one number per target, vectors with padding, and two vectors
        chosen = weightings(6)[:count]
        many = engine.values(x, chosen)
        few = np.concatenate([engine.values(x[begin : begin + 10], chosen) for begin in range(0, 100, 10)], 1)
        np.testing.assert_allclose(many, few, atol=1e-12)
        with monkeypatch.context() as patch:
            patch.setattr(lookup, "MAX_BLOCK_ROWS", 64)
            np.testing.assert_array_equal(engine.values(x, chosen), many)


def test_kept_tables_serve_other_rows() -> None:
    ensemble, x = random_ensemble(5), random_rows(2, 6)
    player_of = np.arange(6, dtype=np.int32)
    engine = Engine(ensemble, player_of, 6, None)
    first, again = engine.values(x[:3], [Shapley()]), engine.values(x[3:], [Shapley()])
    other = engine.values(x, [Beta(4, 1)])
    assert np.array_equal(np.concatenate([first, again], 1), engine.values(x, [Shapley()]))
    assert np.array_equal(other, Engine(ensemble, player_of, 6, None).values(x, [Beta(4, 1)]))


def test_tables_of_one_row_and_of_many_are_both_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(*arguments: Any) -> Any:  # noqa: ANN401 - those of `tabulate`
        made.append(1)
        return code_tables.tabulate(*arguments)

    monkeypatch.setattr(engine_module, "tabulate", counted)
    engine = Engine(random_ensemble(4, depth=5), np.arange(6, dtype=np.int32), 6, None)
    x = random_rows(2, 1000)
    engine.values(x[:1], [Shapley()])
    engine.values(x, [Shapley()])
    once = len(made)
    for rows in (1, 1000, 1):
        engine.values(x[:rows], [Shapley()])
    assert len(made) == once
    monkeypatch.setattr(engine_module, "KEPT_TABLES", 100)  # less than the tables of one weighting
    engine.values(x, [Beta(4, 1)])
    engine.values(x, [Beta(4, 1)])
    assert len(made) >= once + 2


def test_paths_of_forty_players_are_exact() -> None:
    n = 40
    chain = _chain(n)
    x, z = np.zeros((1, n)), np.ones((1, n))
    x[0, :3] = 1
    z[0, 3:20] = 0
    # The leaf is reached by coalitions with players 20..39 and without 0..2, whoever else is in: A = 20 players, B = 3.
    player_of = np.arange(n, dtype=np.int32)
    found = Engine(chain, player_of, n, Background(z, np.ones(1))).values(x, [Shapley()])
    t = np.polynomial.legendre.leggauss(60)
    node, mass = (1 + t[0]) / 2, t[1] / 2
    gain, loss = mass @ (node**19 * (1 - node) ** 3), -mass @ (node**20 * (1 - node) ** 2)
    # Players 0..2 are met by neither, so that the leaf is never reached unless the background meets them.
    assert found.shape == (1, 1, n, 1)
    np.testing.assert_allclose(found[0, 0, :, 0], 0, atol=1e-15)
    z[0, :3] = 0
    found = Engine(chain, player_of, n, Background(z, np.ones(1))).values(x, [Shapley()])
    expected = np.concatenate([np.full(3, loss), np.zeros(17), np.full(20, gain)])
    np.testing.assert_allclose(found[0, 0, :, 0], expected, rtol=1e-10)
    path = Engine(chain, player_of, n, None).values(x, [Shapley(), Beta(16, 1)])
    assert abs(path[0].sum() - (0 - 0.5**n)) < 1e-14


def test_too_long_paths_are_refused() -> None:
    n = 70
    background = Background(np.ones((1, n)), np.ones(1))
    with pytest.raises(ValueError, match="70 different players"):
        Engine(_chain(n), np.arange(n, dtype=np.int32), n, background)
    with pytest.raises(ValueError, match="at most 14"):
        Engine(_chain(n), np.arange(n, dtype=np.int32), n, None).interactions(np.zeros((1, n)), [Shapley()])
    path = Engine(_chain(n), np.arange(n, dtype=np.int32), n, None).values(np.zeros((1, n)), [Shapley()])
    np.testing.assert_allclose(path.sum(), 1 - 0.5**n, rtol=1e-12)


def test_tables_serve_short_paths_and_many_rows() -> None:
    assert [table_players(rows, None) for rows in (0, 1, 1000, 10_000, 10**9)] == [8, 8, 9, 13, 14]
    assert [table_players(rows, 1000) for rows in (0, 1, 10, 1000, 10**9)] == [8, 8, 9, 14, 14]
    assert [table_players(rows, 10**6) for rows in (7, 8)] == [8, 14]


def test_codes_of_branches_follow_the_decisions() -> None:
    ensemble, x = random_ensemble(6, depth=7), random_rows(2, 200)
    player_of = np.arange(6, dtype=np.int32)
    assert count_players(ensemble.splits, ensemble.roots, player_of).max() <= 6
    leaves = ensemble.apply(x)
    branches = find_branches(ensemble.splits, ensemble.cover, ensemble.roots, player_of, 5)
    reached = np.zeros(len(x), dtype=int)
    for branch in range(len(branches.bits)):
        block = np.empty((1, len(x)), np.uint32)
        encode_block(ensemble.splits, branches, branch, np.ascontiguousarray(x.T), block, 1)
        codes = block[0]
        for leaf in range(branches.leaves[branch], branches.leaves[branch + 1]):
            factors = slice(branches.factors[leaf], branches.factors[leaf + 1])
            is_met = (codes[:, None] & branches.care[factors]) == branches.want[factors]
            assert np.array_equal(is_met.all(1), (leaves == branches.leaf[leaf]).any(1))
            reached += is_met.all(1)
    assert (reached == ensemble.n_trees).all()


def _chain(n: int) -> TreeEnsemble:
    """One tree whose path splits on each of n features in turn: x <= 0.5 goes on to a leaf of value 1, at share 1/2."""
    inner = np.arange(n)
    feature = np.concatenate([inner, np.full(n + 1, -1)]).astype(np.int32)
    left = np.concatenate([inner[1:], [n], np.full(n + 1, -1)]).astype(np.int32)
    right = np.concatenate([n + 1 + inner, np.full(n + 1, -1)]).astype(np.int32)
    value = np.zeros((2 * n + 1, 1))
    value[n] = 1
    cover = np.concatenate([0.5**inner, [0.5**n], 0.5 ** (inner + 1)])
    return TreeEnsemble(
        feature=feature,
        left=left,
        right=right,
        threshold=np.full(2 * n + 1, 0.5),
        value=value,
        cover=cover,
        roots=np.zeros(1, dtype=np.int32),
        base=np.zeros(1),
        feature_names=tuple(f"f{number}" for number in range(n)),
        output_names=("o",),
        output="value",
        input_dtype="float64",
    )
