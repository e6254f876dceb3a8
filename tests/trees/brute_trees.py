"""Games of tree ensembles straight from their definitions, and random ensembles to play them on."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from fwshapley import Banzhaf, Beta, Cardinality, LeaveOneOut, Semivalue, Shapley
from fwshapley.semivalues import FEASIBLE_SET
from fwshapley.trees.decisions import goes_left
from fwshapley.trees.ensemble import TreeEnsemble

Game = Callable[[frozenset[int]], Float64[ndarray, " outputs"]]


def weightings(n: int) -> list[Semivalue]:
    """The Shapley value and the paper's eight weightings, real parameters, and laws that are no Beta mixture."""
    law = np.random.default_rng(n).random(n)
    return [Shapley(), *FEASIBLE_SET, Beta(0.3, 2.7), Banzhaf(), Banzhaf(0.2), LeaveOneOut(), Cardinality(law)]


def random_ensemble(
    seed: int,
    *,
    trees: int = 3,
    depth: int = 5,
    features: int = 6,
    outputs: int = 1,
    one_output_each: bool = False,
    split: float = 0.85,
) -> TreeEnsemble:
    """Trees with random splits, some of them categorical (the last feature), missing values and empty nodes."""
    generator = np.random.default_rng(seed)
    nodes: list[dict[str, object]] = []

    def grow(levels: int, cover: float, output: int) -> int:
        number = len(nodes)
        node: dict[str, object] = {"cover": cover, "value": np.zeros(outputs), "feature": -1, "left": -1, "right": -1}
        node |= {"threshold": 0.0, "categories": -1}
        node |= {"missing_left": generator.random() < 0.5, "unseen_left": generator.random() < 0.5}
        nodes.append(node)
        if not levels or generator.random() > split:
            used = slice(output, output + 1) if one_output_each else slice(None)
            node["value"][used] = generator.normal(size=outputs)[used]  # type: ignore[index]
            return number
        feature = int(generator.integers(features))
        node |= {"feature": feature, "threshold": float(generator.normal())}
        if feature == features - 1:
            node["categories"] = int(generator.integers(2))
        share = generator.uniform(0.1, 0.9) if generator.random() < 0.95 else 1.0
        node["left"] = grow(levels - 1, cover * share, output)
        node["right"] = grow(levels - 1, cover * (1 - share), output)
        return number

    roots = [grow(depth, 100.0, tree % outputs) for tree in range(trees)]
    types = {"feature": np.int32, "left": np.int32, "right": np.int32, "categories": np.int32}
    names = ("feature", "left", "right", "categories", "threshold", "cover", "value", "missing_left", "unseen_left")
    arrays: dict[str, Any] = {name: np.array([node[name] for node in nodes], dtype=types.get(name)) for name in names}
    return TreeEnsemble(
        **arrays,
        category_sets=np.array([[True, False, True], [False, True, True]]),
        roots=np.array(roots, dtype=np.int32),
        base=generator.normal(size=outputs),
        feature_names=tuple(f"f{number}" for number in range(features)),
        output_names=tuple(f"o{number}" for number in range(outputs)),
        output="margin",
        has_classes=outputs > 2,
        input_dtype="float64",
    )


def random_rows(seed: int, rows: int, features: int = 6) -> Float64[ndarray, "rows columns"]:
    """Normal numbers, some of them missing; the last column has category codes, one of them unseen."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, features))
    x[:, -1] = generator.integers(0, 4, rows)
    x[generator.random(x.shape) < 0.1] = np.nan
    return x


def interventional_game(
    ensemble: TreeEnsemble,
    x: Float64[ndarray, " columns"],
    background: Float64[ndarray, "rows columns"],
    weight: Float64[ndarray, " rows"],
    player_of: Int[ndarray, " columns"],
) -> Game:
    """v(S): mean prediction of the background rows with the columns of S taken from x."""
    return lambda s: weight @ ensemble.predict(np.where(np.isin(player_of, list(s)), x, background))


def path_game(ensemble: TreeEnsemble, x: Float64[ndarray, " columns"], player_of: Int[ndarray, " columns"]) -> Game:
    """v(S): splits on the columns of S send x on, others divide it by the training weights."""

    def value(node: int, s: frozenset[int]) -> Float64[ndarray, " outputs"]:
        feature = ensemble.feature[node]
        if feature < 0:
            return ensemble.value[node]
        left, right = int(ensemble.left[node]), int(ensemble.right[node])
        if player_of[feature] in s:
            return value(left if goes_left(ensemble.splits, node, x[feature]) else right, s)
        cover = ensemble.cover
        below = cover[left] + cover[right]
        share = cover[left] / below if below > 0 else 0.5
        return share * value(left, s) + (1 - share) * value(right, s)

    return lambda s: ensemble.base + sum(value(int(root), s) for root in ensemble.roots)


def semivalues_of(game: Game, n: int, weights: Sequence[Semivalue]) -> Float64[ndarray, "weightings players outputs"]:
    """phi_i = sum over S without i of p(|S|) (v(S + i) - v(S))."""
    worth = {s: game(s) for s in subsets(n)}
    values = []
    for semivalue in weights:
        p = [mass / math.comb(n - 1, size) for size, mass in enumerate(semivalue.join_law(n))]
        values.append([sum(p[len(s)] * (worth[s | {i}] - worth[s]) for s in worth if i not in s) for i in range(n)])
    return np.array(values)


def interactions_of(
    game: Game, n: int, weights: Sequence[Semivalue]
) -> Float64[ndarray, "weightings players players outputs"]:
    """I_ij = sum over S without i, j of (p(s) + p(s+1)) (v(S+i+j) - v(S+i) - v(S+j) + v(S)); 0 for i = j."""
    worth = {s: game(s) for s in subsets(n)}
    values = np.zeros((len(weights), n, n, len(game(frozenset()))))
    for number, semivalue in enumerate(weights):
        p = [mass / math.comb(n - 1, size) for size, mass in enumerate(semivalue.join_law(n))]
        for i, j in itertools.permutations(range(n), 2):
            values[number, i, j] = sum(
                (p[len(s)] + p[len(s) + 1]) * (worth[s | {i, j}] - worth[s | {i}] - worth[s | {j}] + worth[s])
                for s in worth
                if not {i, j} & s
            )
    return values


def subsets(n: int) -> list[frozenset[int]]:
    """All coalitions of n players."""
    return [frozenset(s) for size in range(n + 1) for s in itertools.combinations(range(n), size)]
