import itertools
import math

import pytest
import torch
from torch import Tensor

from fwshapley import Banzhaf, Beta, Cardinality, LeaveOneOut, Semivalue, Shapley
from fwshapley.estimators.proxy_sample import ENUMERATED, FOLDS, MIN_UNITS, Sample, draw_sample, proxy_size_law

WEIGHTINGS: list[Semivalue] = [Shapley(), Beta(4, 1), Beta(1, 16), Banzhaf()]


def draw(weights: Semivalue, n: int, calls: int, seed: int = 0) -> Sample:
    law = proxy_size_law([weights], n)
    paired = torch.allclose(law, law.flip(0), rtol=1e-9, atol=0)
    return draw_sample(law, calls, paired=paired, generator=torch.Generator().manual_seed(seed))


def weights_by_size(sample: Sample, n: int) -> Tensor:
    """Sum of the weights of each size's coalitions, which should be 1."""
    size_share = sample.size_share.repeat_interleave(2 if sample.paired else 1)
    return torch.zeros(n + 1, dtype=torch.float64).index_add_(0, sample.coalitions.sum(1), size_share)


@pytest.mark.parametrize("weights", WEIGHTINGS, ids=str)
def test_samples_use_the_calls_and_fill_every_fold(weights: Semivalue) -> None:
    for n, calls in itertools.product([3, 4, 5, 8, 9, 20, 61], [40, 41, 127, 500, 3000]):
        sample = draw(weights, n, calls)
        everything = 2**n - 2
        assert min(calls, everything) - 1 <= len(sample.coalitions) <= min(calls, everything)
        for stratum, units in enumerate(sample.units_by_stratum().tolist()):
            folds = sample.fold[sample.stratum == stratum]
            if float(sample.share[stratum]) == 1:
                assert set(folds.tolist()) == {ENUMERATED}
            else:
                assert units >= MIN_UNITS
                assert set(folds.tolist()) == set(range(FOLDS))


@pytest.mark.parametrize("weights", WEIGHTINGS, ids=str)
@pytest.mark.parametrize("n", [6, 9, 30])
def test_sizes_have_weight_one_on_average(weights: Semivalue, n: int) -> None:
    runs = torch.stack([weights_by_size(draw(weights, n, 45, seed), n) for seed in range(100)])
    error = runs.std(0) / math.sqrt(len(runs))
    seen = (runs > 0).sum(0) >= 20  # from fewer, the error of a rare size is not known
    assert bool(((runs.mean(0) - 1).abs() <= 4 * error + 1e-9)[1:n][seen[1:n]].all())
    assert bool(seen.any())


def test_coalitions_are_distinct_where_drawn_without_replacement() -> None:
    sample = draw(Shapley(), 9, 400)
    without = (sample.share > 0)[sample.stratum]
    heads = sample.heads[without]
    assert len(heads) == len(heads.unique(dim=0))
    assert bool(without.all())


def test_everything_is_enumerated_with_enough_calls() -> None:
    for weights, n in itertools.product(WEIGHTINGS, range(2, 9)):
        sample = draw(weights, n, 2**n - 2)
        assert len(sample.coalitions.unique(dim=0)) == len(sample.coalitions) == 2**n - 2
        assert bool((sample.share == 1).all())


def test_sizes_without_weight_are_not_drawn() -> None:
    assert draw(LeaveOneOut(), 9, 100).coalitions.sum(1).tolist() == [8] * 9
    only_two = Cardinality([0, 0, 1, 0, 0, 0, 0, 0])
    assert set(draw(only_two, 8, 60).coalitions.sum(1).tolist()) == {2, 3}
