"""What a valuation can be asked, and what comes back from its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.valuation.result import make_valuation

SEVERAL = [fw.Shapley(), fw.Beta(4, 1), fw.Banzhaf(0.2)]
VALUES = torch.tensor([0.3, -0.1, 0.0, -0.2, 0.5, -0.1], dtype=torch.float64)


def valuation(weights: fw.Semivalue | list[fw.Semivalue], references: int = 7, first: int = 0) -> fw.Valuation:
    values = torch.stack([VALUES * (1 - row) for row in range(len(weights))]) if isinstance(weights, list) else VALUES
    return fw.Valuation(
        values=values,
        stderr=values.abs() / 10,
        weights=weights,
        labels=torch.tensor([0, 1, 2, 0, 1, 2]),
        classes=("cat", "cow", "dog"),
        references=references,
        error_bound=0.001,
        provenance={"method": "5 nearest neighbors, soft", "k": 5, "reference": "given", "points": "a digest"},
        reference_keys=torch.arange(first, first + references),
    )


ONE, STACKED = valuation(fw.Beta(4, 1)), valuation(list(SEVERAL))
OTHER = valuation(fw.Beta(4, 1), 3, first=7)
"""The same points, valued by other reference points."""


def test_suspects_are_the_lowest_from_the_lowest_on() -> None:
    assert ONE.suspects().tolist() == [3, 1, 5]  # all that are negative; of equal ones the first comes first
    assert ONE.suspects(2).tolist() == [3, 1]
    assert ONE.suspects(4).tolist() == [3, 1, 5, 2]
    assert ONE.suspects(100).tolist() == [3, 1, 5, 2, 0, 4]
    assert replace(ONE, values=VALUES.abs()).suspects().tolist() == []


@pytest.mark.parametrize(("k", "message"), [(0, "k must be at least 1, got 0"), (-1, "k must be at least 1, got -1")])
def test_suspects_are_some(k: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ONE.suspects(k)


def test_one_of_several_weightings_is_chosen() -> None:
    for row, weights in enumerate(SEVERAL):
        chosen = STACKED.of(weights)
        assert chosen.weights == weights
        assert torch.equal(chosen.values, STACKED.values[row])
        assert torch.equal(chosen.stderr, STACKED.stderr[row])
        assert chosen.provenance == STACKED.provenance
    assert ONE.of(fw.Beta(4, 1)) is ONE
    assert STACKED.of(fw.Banzhaf(0.2)).suspects(1).tolist() == [4]
    with pytest.raises(ValueError, match=r"weights .*Shapley, Beta\(4, 1\), Banzhaf.*Beta\(1, 2\)"):
        STACKED.of(fw.Beta(1, 2))
    with pytest.raises(ValueError, match=r"3 weightings.*of\(Beta\(alpha=1.0"):
        STACKED.suspects()
    assert valuation([fw.Shapley()]).suspects().tolist() == valuation(fw.Shapley()).suspects().tolist()


def test_a_valuation_says_in_one_line_what_it_is() -> None:
    assert str(ONE) == "Beta(4, 1) of 6 points for 7 reference points"
    assert str(STACKED) == "Shapley, Beta(4, 1), Banzhaf(0.2) of 6 points for 7 reference points"
    assert (len(ONE), len(STACKED)) == (6, 6)


def test_a_table_has_a_row_per_point() -> None:
    table = ONE.to_dataframe()
    assert list(table) == ["label", "value", "stderr", "rank"]
    assert table["label"].tolist() == ["cat", "cow", "dog", "cat", "cow", "dog"]
    assert table["rank"].tolist() == [5, 2, 4, 1, 6, 3]  # 1 is the most suspicious
    np.testing.assert_array_equal(table["value"], ONE.values.numpy())
    np.testing.assert_array_equal(table["stderr"], ONE.stderr.numpy())
    assert table.sort_values("rank").index.tolist() == ONE.suspects(6).tolist()


def test_a_table_of_several_weightings_has_columns_for_each() -> None:
    table = STACKED.to_dataframe()
    kinds = [f"{kind} {weights}" for weights in SEVERAL for kind in ("value", "stderr", "rank")]
    assert list(table) == ["label", *kinds]
    assert table["rank Banzhaf(0.2)"].tolist() == [2, 4, 3, 6, 1, 5]
    assert set(table["rank Beta(4, 1)"]) == {1, 2, 3, 4, 5, 6}  # all values are 0 there


def test_a_table_tells_weightings_of_one_name_apart() -> None:
    two: list[fw.Semivalue] = [fw.Cardinality(torch.arange(1, 7)), fw.Cardinality(torch.ones(6))]
    table = valuation(two).to_dataframe()
    assert len(table.columns) == 1 + 2 * 3


def test_a_table_is_a_copy() -> None:
    table = ONE.to_dataframe()
    table.loc[0, "value"] = 9
    assert float(ONE.values[0]) == 0.3


# Files


@pytest.mark.parametrize("original", [ONE, STACKED, valuation([fw.LeaveOneOut()]), valuation(fw.Shapley(), 1)], ids=str)
def test_a_valuation_comes_back_from_its_file_as_it_was(tmp_path: Path, original: fw.Valuation) -> None:
    if original.references == 1:
        original = replace(original, stderr=torch.full_like(original.stderr, torch.nan))
    original.save(tmp_path / "values.safetensors")
    again = fw.Valuation.load(str(tmp_path / "values.safetensors"))
    for name in ("values", "stderr", "labels", "reference_keys"):
        assert_close(getattr(again, name), getattr(original, name), rtol=0, atol=0, equal_nan=True)
    for name in ("weights", "classes", "references", "error_bound", "provenance"):
        assert getattr(again, name) == getattr(original, name)


def test_what_was_computed_comes_back_and_merges(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(12, 2)), np.arange(12) % 2
    found, other = (
        fw.value_neighbors(x, y, (x[rows] + 0.1, y[rows]), k=3, weights=list(SEVERAL), progress=False)
        for rows in (slice(4), slice(4, 10))
    )
    found.save(tmp_path / "values.safetensors")
    again = fw.Valuation.load(tmp_path / "values.safetensors")
    assert again.provenance == found.provenance
    assert fw.Valuation.merge([other, again]).references == 10
    with pytest.raises(ValueError, match="4 reference points"):
        fw.Valuation.merge([found, again])


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def write_an_attribution(path: Path) -> None:
    torch_file = path.read_bytes()
    path.write_bytes(torch_file.replace(b'"kind":"valuation"', b'"kind":"valuatiom"'))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shorten, "is damaged"),
        (flip_a_bit, "is damaged"),
        (write_an_attribution, "contains a saved valuatiom, expected a saved valuation"),
        (lambda path: path.write_bytes(b"value,1\n"), "is damaged"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, spoil: Callable[[Path], Any], message: str) -> None:
    path = tmp_path / "values.safetensors"
    ONE.save(path)
    spoil(path)
    with pytest.raises(ValueError, match=f"values.safetensors {message}"):
        fw.Valuation.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere is missing.*valuation"):
        fw.Valuation.load(tmp_path / "nowhere")


# Merging


def test_merged_values_are_weighed_by_their_references() -> None:
    games = torch.randn(9, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    parts = [part_of(games, slice(1)), part_of(games, slice(1, 6)), part_of(games, slice(6, 9))]
    merged = fw.Valuation.merge(parts)
    assert_close(merged.values, games.mean(0))
    assert_close(merged.stderr, games.std(0) / 3)
    assert merged.references == 9
    assert_close(fw.Valuation.merge(parts[:1]).values, games[0])
    assert bool(fw.Valuation.merge(parts[:1]).stderr.isnan().all())


def part_of(games: torch.Tensor, rows: slice) -> fw.Valuation:
    """Valuation over some of the games, by (reference, point)."""
    keys = torch.arange(len(games))[rows]
    games = games[rows]
    return make_valuation(
        torch.stack([games.sum(0), games.square().sum(0)]),
        references=len(games),
        weights=fw.Shapley(),
        labels=ONE.labels,
        classes=ONE.classes,
        error_bound=0.0,
        provenance=ONE.provenance,
        reference_keys=keys,
    )


def test_merged_bounds_are_the_largest() -> None:
    assert fw.Valuation.merge([ONE, replace(OTHER, error_bound=0.01)]).error_bound == 0.01


OTHERS: dict[str, Callable[[fw.Valuation], fw.Valuation]] = {
    "weights": lambda found: replace(found, weights=fw.Shapley()),
    "labels": lambda found: replace(found, labels=found.labels.flip(0)),
    "classes": lambda found: replace(found, classes=("ant", "bee", "fly")),
    "another digest": lambda found: replace(found, provenance={**found.provenance, "points": "another"}),
    "k": lambda found: replace(found, provenance={**found.provenance, "k": 6}),
    "points": lambda found: replace(found, values=VALUES[:5], stderr=VALUES[:5], labels=found.labels[:5]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_valuations_of_different_kinds_are_not_merged(name: str) -> None:
    differing = {"another digest": "points", "points": "labels"}.get(name, name)
    with pytest.raises(ValueError, match=rf"{differing} of parts\[1\]"):
        fw.Valuation.merge([ONE, OTHERS[name](OTHER)])


def test_points_valued_by_each_other_are_not_merged() -> None:
    whole = replace(ONE, provenance={**ONE.provenance, "reference": "the other points"})
    with pytest.raises(ValueError, match="merged"):
        fw.Valuation.merge([whole, whole])


def test_nothing_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="parts"):
        fw.Valuation.merge([])


def test_values_that_are_no_means_over_reference_points_are_not_merged() -> None:
    with pytest.raises(ValueError, match=r"parts\[0\] .*retraining, tmc"):
        fw.Valuation.merge(
            [replace(ONE, provenance={"method": "retraining, tmc", "reference": "given"}, reference_keys=None)]
        )


X = np.random.default_rng(0).normal(size=(12, 2))
REFERENCES = np.random.default_rng(1).normal(size=(30, 2)), np.arange(30) % 2


def part(rows: slice, x: Any = X) -> fw.Valuation:  # noqa: ANN401 - any kind of array
    """Values of twelve points for some of the reference points, as a machine of several would find them."""
    reference = REFERENCES[0][rows], REFERENCES[1][rows]
    return fw.value_neighbors(x, np.arange(12) % 2, reference, k=3, progress=False)


@pytest.mark.parametrize("kind", [np.float64, np.float32], ids=str)
@pytest.mark.parametrize("cuts", [[slice(10), slice(10, 30)], [slice(0, 30, 3), slice(1, 30, 3), slice(2, 30, 3)]])
def test_parts_of_the_reference_merge_however_it_was_split(cuts: list[slice], kind: type) -> None:
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    parts = [part(cuts[0], x=x), *(part(rows, x=x.astype(kind)) for rows in cuts[1:])]
    merged = fw.Valuation.merge(iter(parts))
    assert_close(merged.values, part(slice(30), x=x).values, rtol=0, atol=1e-15)
    assert merged.references == 30


def test_points_with_equal_labels_are_told_apart() -> None:
    other = np.random.default_rng(5).normal(size=(12, 2))
    with pytest.raises(ValueError, match=r"points of parts\[1\] .* differ"):
        fw.Valuation.merge([part(slice(10)), part(slice(10, 20), x=other)])


REPEATED: dict[str, tuple[Callable[[], list[fw.Valuation]], int]] = {
    "the same part twice": (lambda: [part(slice(10)), part(slice(10))], 10),
    "an overlap": (lambda: [part(slice(11)), part(slice(10, 20))], 1),
    "a part within another": (lambda: [part(slice(30)), part(slice(5, 8))], 3),
    "in another order": (lambda: [part(slice(10)), part(slice(9, None, -1)), part(slice(0, 1))], 11),
    "beside the merged one": (
        lambda: [part(slice(10)), fw.Valuation.merge([part(slice(10)), part(slice(10, 20))])],
        10,
    ),
    "merged ones": (
        lambda: [fw.Valuation.merge([part(slice(5)), part(slice(first, first + 5))]) for first in (5, 10)],
        5,
    ),
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_reference_point_counts_once(name: str) -> None:
    make, number = REPEATED[name]
    parts = make()
    with pytest.raises(ValueError, match=f"^{number} reference points.*allow_repeats=True"):
        fw.Valuation.merge(parts)
    assert fw.Valuation.merge(parts, allow_repeats=True).references == sum(each.references for each in parts)


def test_reference_points_that_differ_in_their_label_alone_are_two() -> None:
    x, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2
    parts = [fw.value_neighbors(x, y, (x[:2], labels), k=3, progress=False) for labels in ([0, 1], [1, 0])]
    assert fw.Valuation.merge(parts).references == 4


def test_equal_reference_points_within_a_part_are_no_repeats() -> None:
    x, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2
    twice = fw.value_neighbors(x, y, (x[[0, 0]], y[[0, 0]]), k=3, progress=False)
    assert fw.Valuation.merge([twice, part(slice(4))]).references == 6


def test_values_of_new_points_merge_if_the_training_points_are_the_same() -> None:
    def of_new(rows: slice, seed: int = 0) -> fw.Valuation:
        x, y = np.random.default_rng(seed).normal(size=(12, 2)), np.arange(12) % 2
        valuator = fw.KNNValuator(3, progress=False).fit(x, y, (REFERENCES[0][rows], REFERENCES[1][rows]))
        return valuator.value(np.ones((2, 2)), [0, 1])

    merged = fw.Valuation.merge([of_new(slice(10)), of_new(slice(10, 30))])
    assert_close(merged.values, of_new(slice(30)).values, rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match=r"training_points of parts\[1\]"):
        fw.Valuation.merge([of_new(slice(10)), of_new(slice(10, 30), seed=1)])


# Plots


def test_a_plot_has_a_histogram_and_a_curve_per_weighting() -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional

    figure = STACKED.plot()
    assert isinstance(figure, Figure)
    axes = np.array(figure.axes).reshape(3, 2)
    below = (STACKED.values < 0).sum(1).tolist()
    titles = [f"{weights}: {number} of 6 points below 0" for weights, number in zip(SEVERAL, below, strict=True)]
    assert [cell.get_title() for cell in axes[:, 0]] == titles
    for row, (histogram, ranked) in enumerate(axes):
        assert sum(bar.get_height() for bar in histogram.patches) == 6
        curve = np.asarray(ranked.lines[0].get_ydata())
        np.testing.assert_array_equal(curve, STACKED.values[row].sort().values.numpy())
    assert len(ONE.plot().axes) == 2


@pytest.mark.parametrize(
    "values",
    [VALUES * 0, VALUES * 0 + 0.2, 0.2 + VALUES * 3e-16, VALUES * 1e-300, VALUES * 1e300],
    ids=["all 0", "all equal", "equal but for rounding", "tiny", "huge"],
)
def test_a_plot_copes_with_any_values(values: torch.Tensor, tmp_path: Path) -> None:
    figure = replace(ONE, values=values, stderr=torch.zeros(6, dtype=torch.float64)).plot()
    figure.savefig(tmp_path / "values.png")
    assert len(figure.axes) == 2


def test_a_plot_copes_without_standard_errors(tmp_path: Path) -> None:
    figure = replace(ONE, stderr=torch.full_like(VALUES, torch.nan), references=1).plot()
    figure.savefig(tmp_path / "values.png")
    curve = np.asarray(figure.axes[1].lines[0].get_ydata())
    np.testing.assert_array_equal(curve, VALUES.sort().values.numpy())
