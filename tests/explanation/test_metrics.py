from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fwshapley.explanation.metrics import (
    area,
    areas,
    exclusion_curve,
    exclusion_curves,
    inclusion_curve,
    inclusion_curves,
    measure_agreement,
    skill,
)

X = torch.zeros(2, 4)
VALUES = torch.tensor([[3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0]])
LABELS = torch.tensor([1, 1])


def decided_by_the_first_player(_x: Tensor, coalitions: Tensor) -> Tensor:
    """Class 1 while player 0 is shown."""
    return torch.stack([0.5 + torch.zeros(len(coalitions)), coalitions[:, 0].float()], 1)


def test_inclusion_shows_the_most_important_first() -> None:
    # the first input shows player 0 at once, the second only at the very end
    curve = inclusion_curve(decided_by_the_first_player, X, VALUES, LABELS, steps=4)
    assert curve.tolist() == [0, 0.5, 0.5, 0.5, 1]


def test_curves_of_each_input_average_to_the_curve() -> None:
    curves = inclusion_curves(decided_by_the_first_player, X, VALUES, LABELS, steps=4)
    assert curves.tolist() == [[0, 1, 1, 1, 1], [0, 0, 0, 0, 1]]
    assert areas(curves).tolist() == [0.875, 0.125]
    whole = area(inclusion_curve(decided_by_the_first_player, X, VALUES, LABELS, steps=4))
    assert float(areas(curves).mean()) == pytest.approx(whole)


def test_soft_curves_are_the_score_of_the_label() -> None:
    curves = inclusion_curves(
        decided_by_the_first_player, X, VALUES, torch.tensor([0, 1]), steps=4, score="probability"
    )
    assert curves.tolist() == [[0.5] * 5, [0, 0, 0, 0, 1]]


@pytest.mark.usefixtures("unchecked")
def test_a_score_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="score must be one of 'kept', 'probability'"):
        inclusion_curves(decided_by_the_first_player, X, VALUES, LABELS, score="soft")  # type: ignore[arg-type]


def test_exclusion_hides_the_most_important_first() -> None:
    curve = exclusion_curve(decided_by_the_first_player, X, VALUES, LABELS, steps=4)
    assert curve.tolist() == [1, 0.5, 0.5, 0.5, 0]
    curves = exclusion_curves(decided_by_the_first_player, X, VALUES, LABELS, steps=4)
    assert curves.tolist() == [[1, 0, 0, 0, 0], [1, 1, 1, 1, 0]]


def test_area_is_the_mean_height_of_a_share_of_the_curve() -> None:
    curve = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0])
    assert area(curve) == pytest.approx(0.875)
    assert area(curve, share=0.25) == pytest.approx(0.5)
    assert area(torch.ones(5), share=0.5) == pytest.approx(1)
    with pytest.raises(ValueError, match="use more steps"):
        area(curve, share=0.01)


def test_agreement_of_a_scaled_and_shifted_copy() -> None:
    reference = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    same = measure_agreement(reference, reference)
    assert (same.pearson, same.pearson_10, same.nrmse, same.level) == pytest.approx((1, 1, 0, 0))
    scaled = measure_agreement(0.5 * reference + 3, reference)
    assert (scaled.pearson, scaled.nrmse) == pytest.approx((1, 0.5))
    assert scaled.level > 1


def test_agreement_pools_squared_errors_over_inputs() -> None:
    reference = torch.tensor([[1.0, -1.0], [10.0, -10.0]])
    estimate = torch.tensor([[0.0, 0.0], [10.0, -10.0]])
    found = measure_agreement(estimate, reference)
    assert found.nrmse == pytest.approx((2 / 202) ** 0.5)
    assert found.pearson == pytest.approx(0.5)  # a constant correlates with nothing


def test_equal_values_are_shown_in_order() -> None:
    seen: list[Tensor] = []

    def remember(_x: Tensor, coalitions: Tensor) -> Tensor:
        seen.append(coalitions)
        return torch.zeros(1, 2)

    inclusion_curve(remember, torch.zeros(1, 4), torch.zeros(1, 4), torch.tensor([0]), steps=4)
    assert_close(torch.cat(seen).int(), torch.ones(5, 4).int().tril(-1)[:, :4])


def test_skill_is_the_place_between_random_and_best() -> None:
    assert skill(0.7, random=0.5, best=0.9) == pytest.approx(0.5)
    assert skill(0.3, random=0.4, best=0.2) == pytest.approx(0.5)  # exclusion: the lower the better
    with pytest.raises(ValueError, match="random and best must differ"):
        skill(0.5, random=0.5, best=0.5)


def test_curves_are_made_in_chunks_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = inclusion_curve(decided_by_the_first_player, X, VALUES, LABELS, steps=4)
    seen = []

    def watched(x: Tensor, coalitions: Tensor) -> Tensor:
        seen.append((len(x), torch.is_grad_enabled()))
        return decided_by_the_first_player(x, coalitions)

    monkeypatch.setattr("fwshapley.explanation.metrics.INPUTS_AT_ONCE", 1)
    assert_close(inclusion_curve(watched, X, VALUES, LABELS, steps=4), whole)
    assert seen == [(1, False)] * 10
