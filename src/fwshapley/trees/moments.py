"""What a semivalue contributes to the values of a tree: moments over t, and weights of shared nodes.

A player counts for a leaf by how many others on the leaf's path are in the coalition it joins. For a semivalue that is
a mixture over t ("every other player has joined with probability t"), the probability that m given others are in and l
given others are out is

    E[t^m (1-t)^l] = w_k(m) / C(k, m),    k = m + l,

where w_k is the law of how many of k given others are in the coalition (`Semivalue.membership_law`). The right side
also exists for a law over sizes that is no such mixture, so that `Cardinality` needs no method of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.special import comb

from fwshapley.semivalues import Semivalue

MAX_NODE_WEIGHT = 1e5
"""Largest sum of absolute node weights: it multiplies rounding errors of 1e-16."""


class Channels(NamedTuple):
    """Quantities that the engines sum over leaves, and how semivalues follow from them.

    Attributes:
        moments: (channels, l, m), E[t^m (1-t)^l] for m + l <= degree, and 0 beyond; mind the order.
        mixing: (channels, weightings), the semivalues as linear combinations of the channels.
    """

    moments: Float64[ndarray, "channels powers powers"]
    mixing: Float64[ndarray, "channels weightings"]


def moments(semivalue: Semivalue, n_players: int, degree: int) -> Float64[ndarray, "{degree}+1 {degree}+1"]:
    """E[t^m (1-t)^l] under a semivalue for m + l <= degree; 0 beyond.

    Args:
        semivalue: the weighting.
        n_players: number of players of the game; a mixture over t does not depend on it.
        degree: the largest m + l, below the number of players.

    Example:
        >>> from fwshapley.semivalues import Shapley
        >>> moments(Shapley(), 9, 1).tolist()  # the integral of 1, 1 - t and t
        [[1.0, 0.5], [0.5, 0.0]]
    """
    law = semivalue.membership_law(degree + 1 if semivalue.is_mixture else n_players, degree)
    m, l = np.ogrid[: degree + 1, : degree + 1]  # noqa: E741 - as in the equation
    inside = m + l <= degree
    k = np.where(inside, m + l, 0)
    return np.where(inside, law[k, np.broadcast_to(m, k.shape)] / comb(k, np.where(inside, m, 0)), 0.0)


def channels(weightings: Sequence[Semivalue], n_players: int, degree: int) -> Channels:
    """Return as few channels as serve all weightings: one each, or shared nodes if there are more weightings.

    Args:
        weightings: the semivalues.
        n_players: number of players of the game.
        degree: the largest m + l that is needed: one less than the most players on a path.
    """
    of_nodes = [index for index, weights in enumerate(weightings) if weights.is_mixture]
    if len(of_nodes) <= degree + 1:
        own = [moments(weights, n_players, degree) for weights in weightings]
        return Channels(np.ascontiguousarray(np.stack([moment.T for moment in own])), np.eye(len(own)))
    others = [index for index in range(len(weightings)) if index not in of_nodes]
    nodes = shared_nodes(degree + 1)
    own = [moments(weightings[index], n_players, degree) for index in others]
    mixing = np.zeros((len(nodes) + len(own), len(weightings)))
    mixing[: len(nodes), of_nodes] = node_weights([weightings[index] for index in of_nodes], nodes, n_players, degree)
    mixing[len(nodes) + np.arange(len(own)), others] = 1
    stacked = np.stack([moment.T for moment in (*_moments_at(nodes, degree), *own)])
    return Channels(np.ascontiguousarray(stacked), mixing)


def shared_nodes(count: int) -> Float64[ndarray, " {count}"]:
    """Gauss-Legendre nodes in (0, 1), at which polynomials of degree count - 1 are known completely."""
    x, _ = np.polynomial.legendre.leggauss(count)
    return (1 + x) / 2


def node_weights(
    weightings: Sequence[Semivalue], nodes: Float64[ndarray, " nodes"], n_players: int, degree: int
) -> Float64[ndarray, "nodes weightings"]:
    """Weights lambda with E[p(t)] = sum over nodes of lambda p(node), for every polynomial p of this degree.

    For a mixture over t they are means of the Lagrange polynomials of the nodes, by the semivalue's own quadrature.
    For other laws they solve the equations for the Bernstein polynomials, whose means are the law of k = degree others.

    Raises:
        ValueError: the law is so uneven that its weights would magnify rounding errors.
    """
    weights = np.stack([_weights_of(semivalue, nodes, n_players, degree) for semivalue in weightings], 1)
    sizes = np.abs(weights).sum(0)
    if sizes.max() > MAX_NODE_WEIGHT:
        raise ValueError(
            f"{weightings[int(sizes.argmax())]} is too uneven a law over sizes for paths with {degree + 1} different "
            "players: rounding errors would be magnified; use a background, or shallower trees"
        )
    return weights


def _weights_of(
    semivalue: Semivalue, nodes: Float64[ndarray, " nodes"], n_players: int, degree: int
) -> Float64[ndarray, " nodes"]:
    if semivalue.is_mixture:
        t, mass = semivalue.quadrature((len(nodes) + 1) // 2)
        return _lagrange(nodes, t) @ mass
    m = np.arange(degree + 1)
    binomials = comb(degree, m)
    bernstein = binomials * nodes[:, None] ** m * (1 - nodes[:, None]) ** (degree - m)
    means = semivalue.membership_law(n_players, degree)[degree]
    return np.linalg.lstsq(bernstein.T, means, rcond=None)[0]


def _lagrange(nodes: Float64[ndarray, " nodes"], t: Float64[ndarray, " points"]) -> Float64[ndarray, "nodes points"]:
    """Lagrange polynomials of the nodes at some points: products over k != j of (t - node_k) / (node_j - node_k)."""
    same = np.eye(len(nodes), dtype=bool)
    gaps = np.where(same, 1.0, nodes[:, None] - nodes)
    factors = np.where(same[..., None], 1.0, (t - nodes[:, None]) / gaps[..., None])
    return factors.prod(1)


def _moments_at(nodes: Float64[ndarray, " nodes"], degree: int) -> Float64[ndarray, "nodes powers powers"]:
    """t^m (1-t)^l at each node, for m + l <= degree."""
    m, l = np.ogrid[: degree + 1, : degree + 1]  # noqa: E741 - as in the equation
    t = nodes[:, None, None]
    return np.where(m + l <= degree, t**m * (1 - t) ** l, 0.0)
