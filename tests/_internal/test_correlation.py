from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from fwshapley._internal.correlation import pearson, spearman

ONE, OTHER = torch.randn(2, 5, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_rows_are_correlated_one_by_one() -> None:
    found = pearson(ONE, OTHER)
    assert found.shape == (5,)
    for row, (one, other) in enumerate(zip(ONE.numpy(), OTHER.numpy(), strict=True)):
        assert float(found[row]) == pytest.approx(np.corrcoef(one, other)[0, 1])


def test_equal_numbers_share_a_rank() -> None:
    one, other = ONE[0].round(), OTHER[0].round()
    assert len(one.unique()) < len(one)
    assert float(spearman(one, other)) == pytest.approx(stats.spearmanr(one.numpy(), other.numpy()).statistic)
    assert float(spearman(ONE[0], ONE[0].exp())) == pytest.approx(1)


def test_a_constant_is_correlated_with_nothing() -> None:
    assert float(pearson(torch.ones(4), torch.arange(4.0))) == 0
    assert float(spearman(torch.ones(4), torch.arange(4.0))) == 0
