import numpy as np
import pytest
from scipy.special import beta as beta_function

from fwshapley import Banzhaf, Beta, Cardinality, Semivalue, Shapley
from fwshapley.trees.moments import channels, moments, node_weights, shared_nodes
from trees.brute_trees import weightings


@pytest.mark.parametrize(("a", "b"), [(1, 1), (16, 1), (1, 4), (0.3, 2.7)])
def test_moments_of_beta_are_ratios_of_beta_functions(a: float, b: float) -> None:
    found = moments(Beta(a, b), 99, 7)
    for m in range(8):
        for others in range(8 - m):
            assert found[m, others] == pytest.approx(beta_function(b + m, a + others) / beta_function(b, a), rel=1e-13)


def test_moments_of_banzhaf_are_powers() -> None:
    found = moments(Banzhaf(0.2), 5, 3)
    assert found[2, 1] == pytest.approx(0.2**2 * 0.8)


def test_a_law_over_sizes_has_the_moments_of_the_semivalue_that_it_is() -> None:
    law = Cardinality(Beta(4, 1).join_law(12))
    np.testing.assert_allclose(moments(law, 12, 6), moments(Beta(4, 1), 12, 6), atol=1e-14)


@pytest.mark.parametrize("degree", [0, 3, 8, 11])
def test_channels_mix_to_the_moments(degree: int) -> None:
    semivalues = weightings(12) + [Beta(a, 2) for a in range(1, 9)]
    shared = channels(semivalues, 12, degree)
    mixed = np.einsum("clm,cw->wml", shared.moments, shared.mixing)
    assert len(shared.moments) <= max(degree + 2, 2)
    for number, semivalue in enumerate(semivalues):
        np.testing.assert_allclose(mixed[number], moments(semivalue, 12, degree), atol=1e-13)


@pytest.mark.parametrize("semivalue", [Shapley(), Beta(64, 1), Beta(0.3, 2.7)], ids=str)
def test_node_weights_integrate_polynomials(semivalue: Semivalue) -> None:
    nodes = shared_nodes(12)
    weights = node_weights([semivalue], nodes, 40, 11)[:, 0]
    for power in range(12):
        assert weights @ nodes**power == pytest.approx(moments(semivalue, 40, 11)[power, 0], rel=1e-10)


def test_uneven_laws_on_long_paths_are_refused() -> None:
    law = np.zeros(30)
    law[15] = 1
    with pytest.raises(ValueError, match="too uneven"):
        node_weights([Cardinality(law)], shared_nodes(30), 30, 29)
