"""Semivalues: how much a player's contribution counts, by the size of the coalition it joins.

A semivalue of an n-player game v is

    phi_i = sum over S without i of p(|S|) * (v(S + i) - v(S)),    p >= 0,  sum_s C(n-1, s) p(s) = 1.

Everything here follows from one law, `log_join_law`: w(s) = C(n-1, s) p(s), the probability that the
coalition a player joins has size s. p is too small for a float from about a thousand players on, so only w is
ever exponentiated. Equations: docs/math.md, sections 1 and 2.

The direction of Beta(alpha, beta) is that of Kwon & Zou (2022): **a large alpha favors small coalitions**.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, SupportsIndex, get_args

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice, check_numbers, check_real, check_whole

Kernel = Literal["exact", "paper"]

MOST_NODES = 2**14
"""Of a quadrature: so many take two gigabytes."""

SMALLEST_PARAMETER, LARGEST_PARAMETER = 1e-300, 1e300
"""Of Beta: beyond these, products with the number of players are no longer floats."""

MOST_PLAYERS = 10**7
"""A law of so many players, with what it is computed from, takes about a gigabyte."""


@dataclass(frozen=True)
class Semivalue(ABC):
    """One weighting of coalition sizes: immutable, hashable, comparable, and written to and read from JSON.

    A subclass gives `log_join_law`; weights, kernels and size laws follow from it.
    """

    @abstractmethod
    def log_join_law(self, n: int) -> Float[Tensor, " {n}"]:
        """Log w(s), s = 0..n-1: log probability that the coalition a player joins has size s."""

    def quadrature(self, nodes: int) -> tuple[Float[Tensor, " nodes"], Float[Tensor, " nodes"]]:
        """Points t and weights such that the semivalue is the weighted sum of the Banzhaf(t) values.

        Leave-one-out is the point t = 1. The rule is exact for games of up to 2 * nodes players.
        A law that is not a mixture over t has none and raises TypeError.
        """
        check_whole("nodes", nodes)
        raise TypeError(f"{self} is not known as a mixture of Banzhaf(t) values, so it has no quadrature over t")

    def join_law(self, n: int) -> Float[Tensor, " {n}"]:
        """w(s), s = 0..n-1: probability that the coalition a player joins has size s."""
        return self.log_join_law(n).exp()

    def membership_law(self, n: int, most: int) -> Float[Tensor, "{n} {most}+1"]:
        """Probability that m = 0..most of k = 0..n-1 given other players are in the coalition joined.

        Row n-1 is the join law. Each row follows from the next by leaving a player out at random ("thinning"), as
        w_k(m) = w_{k+1}(m) (k+1-m)/(k+1) + w_{k+1}(m+1) (m+1)/(k+1): n**2 operations, once.
        """
        most = check_whole("most", most, minimum=0)
        law, rows = self.join_law(n), []
        for k in range(n - 1, -1, -1):
            rows.append(torch.nn.functional.pad(law[: most + 1], (0, max(most + 1 - len(law), 0))))
            m = torch.arange(k, dtype=torch.float64)
            law = (law[:-1] * (k - m) + law[1:] * (m + 1)) / max(k, 1)
        return torch.stack(rows[::-1])

    def log_weights(self, n: int) -> Float[Tensor, " {n}"]:
        """Log p(s), s = 0..n-1: log weight of one coalition of size s; docs/math.md, eq. 2."""
        return self.log_join_law(n) - log_binomials(n - 1)

    def log_kernel(self, n: int) -> Float[Tensor, " {n}-1"]:
        """Log of the exact least-squares weight of one coalition of size s = 1..n-1; docs/math.md, eq. 4.

        m(s) = p(s-1) + p(s), which is B(s+beta-1, n-s+alpha-1) / B(alpha, beta) for Beta(alpha, beta).
        """
        log_weights = self.log_weights(n)
        return torch.logaddexp(log_weights[:-1], log_weights[1:])

    def log_paper_kernel(self, n: int) -> Float[Tensor, " {n}-1"]:
        """Log of the FW-Shapley paper's least-squares weight, s = 1..n-1; docs/math.md, eq. 5.

        q(s) = (n-1) * n w(s-1) / (C(n, s) s (n-s)) = p(s-1) (n-1) / (n-s). Exact for Beta(1, beta) alone,
        up to a factor; kept for comparison.
        """
        log_weights = self.log_weights(n)[:-1]
        return log_weights + math.log(max(n - 1, 1)) - (n - proper_sizes(n)).log()

    def size_law(self, n: int, kernel: Kernel = "exact") -> Float[Tensor, " {n}-1"]:
        """Probability that a coalition drawn for least squares has size s = 1..n-1; docs/math.md, eq. 6.

        P(s) is proportional to C(n, s) m(s) = n (w(s-1) / s + w(s) / (n-s)), or to C(n, s) q(s).
        """
        mass = self._size_mass(n, kernel)
        if len(mass) and not mass.any():
            raise ValueError(
                f"the {kernel} kernel of {self} is zero for every size 1..{n - 1}, so there is no size law"
            )
        return mass / mass.sum()

    def error_per_loss(self, n: int) -> float:
        """Squared error of a prediction per unit of its excess least-squares loss; docs/math.md, eq. 8.

        ||psi - phi||**2 = error_per_loss * (L(psi) - L(phi)) where L is the expected squared residual under
        `size_law` and psi sums to what phi does: Proposition 2.2 as an identity. It is sum_s C(n, s) m(s).
        """
        return float(self._size_mass(n, "exact").sum())

    def _size_mass(self, n: int, kernel: Kernel) -> Float[Tensor, " {n}-1"]:
        check_choice("kernel", kernel, get_args(Kernel))
        join_law, sizes = self.join_law(n), proper_sizes(n)
        if kernel == "paper":
            return n * (n - 1) * join_law[:-1] / (sizes * (n - sizes))
        return n * (join_law[:-1] / sizes + join_law[1:] / (n - sizes))

    def to_json(self) -> str:
        """Write as JSON, e.g. {"semivalue": "Beta", "alpha": 16.0, "beta": 1.0}; `from_json` reads it back."""
        return json.dumps({"semivalue": type(self).__name__, **asdict(self)})

    @staticmethod
    def from_json(text: str) -> Semivalue:
        """Read what `to_json` wrote. Raises ValueError naming what is unknown or missing."""
        try:
            fields = json.loads(text)
            kind = SEMIVALUES[fields.pop("semivalue")]
            return kind(**fields)
        except (json.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            known = ", ".join(SEMIVALUES)
            raise ValueError(f"not a semivalue ({error!r}); expected JSON with semivalue = {known}: {text}") from error


@dataclass(frozen=True)
class Beta(Semivalue):
    """Beta(alpha, beta)-weighted Shapley value: p(s) = B(s+beta, n-1-s+alpha) / B(alpha, beta).

    A large alpha favors small coalitions, a large beta large ones; (1, 1) is the Shapley value.

    Reference: Kwon & Zou, "Beta Shapley: a unified and noise-reduced data valuation framework", 2022.
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            value = check_real(name, getattr(self, name))
            if value <= 0:
                raise ValueError(f"{name} must be positive, got {value:g}")
            if not SMALLEST_PARAMETER <= value <= LARGEST_PARAMETER:
                raise ValueError(
                    f"{name} must be between {SMALLEST_PARAMETER:g} and {LARGEST_PARAMETER:g}, got {value:g}; "
                    "LeaveOneOut() is the limit of a small alpha"
                )
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return "Shapley" if self.alpha == self.beta == 1 else f"Beta({self.alpha:g}, {self.beta:g})"

    def log_join_law(self, n: int) -> Float[Tensor, " {n}"]:
        """Beta-binomial law; its neighbors' ratio needs no Beta function and is near 1.

        w(s+1)/w(s) = (n-1-s)(s+beta) / ((s+1)(n-2-s+alpha))
        """
        n = check_players(n)
        s = torch.arange(n - 1, dtype=torch.float64)
        numerator = (n - 1 - s) * (s + self.beta)
        denominator = (s + 1) * (n - 2 - s + self.alpha)
        excess = ((n - 1 - s) * (self.beta - 1) - (s + 1) * (self.alpha - 1)) / denominator
        # log1p keeps the digits of a ratio near 1, of which a million are summed; log those of a tiny one.
        return _law_from_ratios(
            torch.where(excess.abs() < 0.5, excess.log1p(), numerator.log() - denominator.log())  # noqa: PLR2004 - a half
        )

    def membership_law(self, n: int, most: int) -> Float[Tensor, "{n} {most}+1"]:
        """Beta-binomial laws of every k: w_k(0) is a product over players, w_k(m+1)/w_k(m) as in the join law.

        w_{k+1}(0)/w_k(0) = (alpha+k) / (alpha+beta+k)
        """
        most = check_whole("most", most, minimum=0)
        k = torch.arange(check_players(n), dtype=torch.float64)
        # No term cancels, however far alpha and beta are apart: log1p keeps a ratio near 1, log one near 0.
        odds_of_missing = (self.alpha + k[:-1]) / self.beta
        log_missed = torch.where(
            odds_of_missing > 1,
            -(self.beta / (self.alpha + k[:-1])).log1p(),
            (self.alpha + k[:-1]).log() - (self.alpha + self.beta + k[:-1]).log(),
        )
        log_nobody = torch.cat([torch.zeros(1, dtype=torch.float64), log_missed.cumsum(0)])
        return _columns_from_ratios(
            log_nobody,
            [
                (k - m).clamp(min=0).log()
                + math.log(m + self.beta)
                - math.log(m + 1)
                - ((k - m - 1).clamp(min=0) + self.alpha).log()
                for m in range(most)
            ],
        )

    def quadrature(self, nodes: int) -> tuple[Float[Tensor, " nodes"], Float[Tensor, " nodes"]]:
        """Gauss-Jacobi rule for t ~ Beta(beta, alpha), by the eigenvalues of its Jacobi matrix.

        The weights are normalized eigenvector entries, so no Beta function over- or underflows.
        """
        nodes = check_whole("nodes", nodes)
        if nodes > MOST_NODES:
            raise ValueError(f"nodes must be at most {MOST_NODES:,}, got {nodes:,}: memory grows with their square")
        alpha, beta = self.alpha, self.beta
        k = np.arange(1, nodes, dtype=np.float64)
        degree = 2 * k - 2 + alpha + beta
        diagonal = np.concatenate(
            [[(beta - alpha) / (alpha + beta)], (beta - alpha) / degree * ((alpha + beta - 2) / (degree + 2))]
        )
        # For k = 1 the last factor, (k-2+alpha+beta) / (degree-1), is 1 also where it reads 0/0.
        last = np.divide(k - 2 + alpha + beta, degree - 1, out=np.ones_like(k), where=k > 1)
        # The factors are ordered so that none of them overflows.
        off_diagonal = (
            2 * np.sqrt((k - 1 + alpha) / degree) * np.sqrt((k - 1 + beta) / degree * k * last / (degree + 1))
        )
        x, vectors = eigh_tridiagonal(diagonal, off_diagonal)
        return torch.from_numpy((1 + x) / 2).clamp(0, 1), torch.from_numpy(vectors[0] ** 2)


def Shapley() -> Beta:  # noqa: N802 - reads as one more semivalue beside Beta and Banzhaf
    """Return the Shapley value, Beta(1, 1): every coalition size counts the same."""
    return Beta(1, 1)


@dataclass(frozen=True)
class Banzhaf(Semivalue):
    """Weighted Banzhaf value: every other player has joined with probability t, independently.

    t = 1/2 is the Banzhaf value: every coalition counts the same.
    """

    t: float = 0.5

    def __post_init__(self) -> None:
        t = check_real("t", self.t)
        if not 0 < t < 1:
            raise ValueError(f"t must lie strictly between 0 and 1, got {t:g}; t = 1 is LeaveOneOut()")
        object.__setattr__(self, "t", t)

    def __str__(self) -> str:
        return f"Banzhaf({self.t:g})"

    def log_join_law(self, n: int) -> Float[Tensor, " {n}"]:
        """Binomial law: w(s+1)/w(s) = (n-1-s)/(s+1) * t/(1-t)."""
        n = check_players(n)
        s = torch.arange(n - 1, dtype=torch.float64)
        log_odds = math.log(self.t) - math.log1p(-self.t)
        return _law_from_ratios((n - 1 - s).log() - (s + 1).log() + log_odds)

    def membership_law(self, n: int, most: int) -> Float[Tensor, "{n} {most}+1"]:
        """Binomial laws of every k."""
        most = check_whole("most", most, minimum=0)
        k = torch.arange(check_players(n), dtype=torch.float64)
        log_odds = math.log(self.t) - math.log1p(-self.t)
        return _columns_from_ratios(
            k * math.log1p(-self.t), [(k - m).clamp(min=0).log() - math.log(m + 1) + log_odds for m in range(most)]
        )

    def quadrature(self, nodes: int) -> tuple[Float[Tensor, " 1"], Float[Tensor, " 1"]]:
        """Return the one point t, whatever the number of nodes."""
        check_whole("nodes", nodes)
        return torch.tensor([self.t], dtype=torch.float64), torch.ones(1, dtype=torch.float64)


@dataclass(frozen=True)
class LeaveOneOut(Semivalue):
    """Contribution to everyone else together: v(N) - v(N - i)."""

    def __str__(self) -> str:
        return "leave-one-out"

    def log_join_law(self, n: int) -> Float[Tensor, " {n}"]:
        """All mass on size n-1."""
        law = torch.zeros(check_players(n), dtype=torch.float64)
        law[-1] = 1
        return law.log()

    def membership_law(self, n: int, most: int) -> Float[Tensor, "{n} {most}+1"]:
        """All of the k others are there."""
        k, m = torch.arange(check_players(n)), torch.arange(check_whole("most", most, minimum=0) + 1)
        return (k[:, None] == m).double()

    def quadrature(self, nodes: int) -> tuple[Float[Tensor, " 1"], Float[Tensor, " 1"]]:
        """Return the one point t = 1, whatever the number of nodes."""
        check_whole("nodes", nodes)
        return torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)


@dataclass(frozen=True)
class Cardinality(Semivalue):
    """Any law over coalition sizes, for games of as many players as there are weights.

    Args:
        weights: weights[s] is proportional to w(s) = C(n-1, s) p(s), the probability that the coalition a
            player joins has size s = 0..n-1. They are normalized. They are not the weights p(s) of one coalition,
            which underflow at large n: for those there is `from_log_weights`.
    """

    weights: tuple[float, ...]

    def __init__(self, weights: Array) -> None:
        law = check_numbers("weights", weights).cpu()
        if law.ndim != 1 or not len(law):
            raise ValueError(f"weights must be one number per coalition size 0..n-1, got shape {tuple(law.shape)}")
        if not bool((law.isfinite() & (law >= 0)).all()):
            at = int((~(law.isfinite() & (law >= 0))).nonzero()[0])
            raise ValueError(f"weights must be finite and not negative, got {law[at]:g} for size {at}")
        if not law.any():
            raise ValueError("weights must not all be zero")
        if not math.isclose(
            float(law.sum()), 1, rel_tol=1e-12
        ):  # what is a law already stays as it is, to the last bit
            law = law / law.max()  # so that the sum neither over- nor underflows
            law = law / law.sum()
        object.__setattr__(self, "weights", tuple(law.tolist()))

    @classmethod
    def from_log_weights(cls, log_weights: Array) -> Cardinality:
        """From log p(s), s = 0..n-1, the log weight of one coalition, as `Semivalue.log_weights` returns."""
        log_p = check_numbers("log_weights", log_weights).cpu()
        if (
            log_p.ndim != 1
            or not len(log_p)
            or not bool((log_p < math.inf).all())
            or not bool((log_p > -math.inf).any())
        ):
            raise ValueError("log_weights must be one number per coalition size 0..n-1, not NaN and not all -inf")
        log_law = log_p + log_binomials(len(log_p) - 1)
        return cls((log_law - log_law.max()).exp())

    def __str__(self) -> str:
        return f"Cardinality(n={len(self.weights)})"

    def log_join_law(self, n: int) -> Float[Tensor, " {n}"]:
        """The given law; only for the n it was given for."""
        if check_players(n) != len(self.weights):
            raise ValueError(
                f"these weights are for games of {len(self.weights)} players (one weight per size), not {n}"
            )
        return torch.tensor(self.weights, dtype=torch.float64).log()


SEMIVALUES: dict[str, type[Semivalue]] = {kind.__name__: kind for kind in (Beta, Banzhaf, LeaveOneOut, Cardinality)}

FEASIBLE_SET: tuple[Beta, ...] = tuple(
    Beta(alpha, beta) for alpha, beta in [(1, 16), (1, 8), (1, 4), (1, 2), (2, 1), (4, 1), (8, 1), (16, 1)]
)
"""The paper's eight (alpha, beta): one of them is 1, the other a power of two up to 16."""


def join_laws(weights: Semivalue | Sequence[Semivalue], n: int) -> Float[Tensor, "*several {n}"]:
    """Join law of one semivalue, or of several stacked in front."""
    if not isinstance(weights, (list, tuple)):
        return check_semivalue(weights).join_law(n)
    if not weights:
        raise ValueError("weights is an empty list; give at least one semivalue")
    return torch.stack([check_semivalue(each).join_law(n) for each in weights])


def check_semivalue(weights: object) -> Semivalue:
    """Return weights if it is a semivalue, or raise an error that shows one."""
    if isinstance(weights, Semivalue):
        return weights
    if weights is Shapley:
        raise TypeError("weights must be a semivalue; Shapley is a function: write Shapley()")
    hint = "; here one at a time" if isinstance(weights, (list, tuple)) else ""
    raise TypeError(f"weights must be a semivalue such as Shapley() or Beta(4, 1), got {weights!r}{hint}")


def check_players(n: SupportsIndex, name: str = "n") -> int:
    """Return a number of players as an int, or raise an error where it is none or its laws would not fit in memory."""
    whole = check_whole(name, n)
    if whole > MOST_PLAYERS:
        raise ValueError(
            f"{name} must be at most {MOST_PLAYERS:,} players, got {whole:,}: a law has a number for each size"
        )
    return whole


def log_binomials(n: int) -> Float[Tensor, " {n}+1"]:
    """Log C(n, k), k = 0..n."""
    k = torch.arange(n + 1, dtype=torch.float64)
    log_factorial = torch.lgamma(k + 1)
    return log_factorial[-1] - log_factorial - log_factorial.flip(0)


def proper_sizes(n: int) -> Float[Tensor, " {n}-1"]:
    """Sizes 1..n-1 of the coalitions that are neither empty nor everyone."""
    return torch.arange(1, n, dtype=torch.float64)


def _columns_from_ratios(
    log_first: Float[Tensor, " rows"], log_ratios: Sequence[Float[Tensor, " rows"]]
) -> Float[Tensor, "rows columns"]:
    """Columns of which each is the one before times a ratio; the first may be too small for a float."""
    return torch.stack([log_first, *log_ratios], 1).cumsum(1).exp()


def _law_from_ratios(log_ratios: Float[Tensor, " ratios"]) -> Float[Tensor, " ratios+1"]:
    """Normalized log law from the logs of its neighbors' ratios.

    Summed outwards from the mode, so that rounding gathers in the tails, where there is no mass.
    """
    start = torch.zeros(1, dtype=torch.float64)
    mode = int(torch.cat([start, log_ratios.cumsum(0)]).argmax())
    below = -log_ratios[:mode].flip(0).cumsum(0).flip(0)
    above = log_ratios[mode:].cumsum(0)
    log_law = torch.cat([below, start, above])
    return log_law - log_law.logsumexp(0)
