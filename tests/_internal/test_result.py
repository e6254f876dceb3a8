from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fwshapley import Banzhaf, Beta, Estimate, LeaveOneOut, Semivalue, Shapley


def make(weights: Semivalue | list[Semivalue], outputs: int | None = None) -> Estimate:
    front = (len(weights),) if isinstance(weights, list) else ()
    shape = (*front, 3) if outputs is None else (*front, 3, outputs)
    values = torch.arange(torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)
    return Estimate(values, values / 10, values + 5, n_calls=7, weights=weights, total="raw", method="hand")


@pytest.mark.parametrize("weights", [Shapley(), [Shapley()], [Beta(4, 1), Banzhaf()]])
@pytest.mark.parametrize("outputs", [None, 2])
def test_results_come_back_from_their_file(
    weights: Semivalue | list[Semivalue], outputs: int | None, tmp_path: Path
) -> None:
    result = make(weights, outputs)
    result.save(tmp_path / "estimate.safetensors")
    loaded = Estimate.load(tmp_path / "estimate.safetensors")
    assert loaded.weights == weights
    assert (loaded.n_calls, loaded.total, loaded.method) == (7, "raw", "hand")
    for name in Estimate.per_weighting:
        assert torch.equal(getattr(loaded, name), getattr(result, name))


def test_of_chooses_one_of_a_list() -> None:
    result = make([Beta(4, 1), Banzhaf()], outputs=2)
    chosen = result.of(Banzhaf())
    assert chosen.weights == Banzhaf()
    assert torch.equal(chosen.values, result.values[1])
    assert torch.equal(chosen.stderr, result.stderr[1])
    assert chosen.of(Banzhaf()) is chosen
    assert torch.equal(chosen.stacked().values, result.values[1:])


def test_of_refuses_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="weights"):
        make([Shapley(), Banzhaf()]).of(LeaveOneOut())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("weights", ["Shapley", Shapley, None])
def test_of_refuses_what_is_no_semivalue(weights: object) -> None:
    with pytest.raises(TypeError, match="weights"):
        make(Shapley()).of(weights)  # type: ignore[arg-type]


def test_a_list_of_one_is_a_list() -> None:
    result = make([Shapley()])
    assert result.values.shape == (1, 3)
    assert result.stacked() is result
    assert result.unstacked().values.shape == (3,)
    with pytest.raises(ValueError, match="2 weightings"):
        make([Shapley(), Banzhaf()]).unstacked()


@pytest.mark.parametrize("outputs", [None, 2])
def test_table_has_a_row_per_weighting_output_and_player(outputs: int | None) -> None:
    result = make([Beta(4, 1), Banzhaf()], outputs)
    table = result.to_dataframe()
    assert len(table) == result.values.numel()
    for weighting, weights in enumerate(result.weightings):
        for player in range(3):
            rows = table[(table.weights == str(weights)) & (table.player == player)]
            assert rows.value.tolist() == result.values[weighting, player].reshape(-1).tolist()
            assert rows.stderr.tolist() == result.stderr[weighting, player].reshape(-1).tolist()
    assert list(make(Shapley()).to_dataframe()) == ["player", "value", "stderr"]


@pytest.mark.parametrize("outputs", [None, 2])
def test_plot_has_a_panel_per_weighting_and_output(outputs: int | None) -> None:
    assert len(make([Beta(4, 1), Banzhaf()], outputs).plot().axes) == 2 * (outputs or 1)
