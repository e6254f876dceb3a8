"""Semivalues: how much a player's marginal contribution counts, by the size of the coalition it joins.

A semivalue of an n-player game v is

    phi_i = sum over S without i of p(|S|) * (v(S + i) - v(S)),    p >= 0,  sum_s C(n-1, s) p(s) = 1.

Everything here follows from one law, `log_join_law`: w(s) = C(n-1, s) p(s), the probability that the coalition a player
joins has size s. From about a thousand players on, p(s) underflows, so only w(s) is ever exponentiated. Equations:
docs/math.md, sections 1 and 2. All arrays are numpy float64; this module does not import torch.

The direction of Beta(alpha, beta) follows Kwon & Zou (2022): **a large alpha favors small coalitions**.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, SupportsIndex, get_args

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from fwshapley._internal.checks import Array, check_choice, check_numbers, check_real, check_whole

KernelKind = Literal["exact", "paper"]

Total = Literal["raw", "efficient"]
"""What values sum to: the semivalue's own sum, or v(all players) - v(no players)."""

MAX_NODES = 2**14
"""Most nodes of a quadrature rule; computing it takes two gigabytes."""

MIN_PARAMETER = 1e-300
MAX_PARAMETER = 1e300
"""Range of Beta's parameters: outside it, products with the number of players overflow or underflow."""

MAX_PLAYERS = 10**7
"""Most players of a size law; computing it takes about a gigabyte."""

NEAR_ONE = 0.5
"""Distance from 1 below which the logarithm of a ratio is computed with log1p."""


@dataclass(frozen=True)
class Semivalue(ABC):
    """Base class of all weightings of coalition sizes: immutable, hashable, and serializable as JSON.

    A subclass implements `log_join_law`; weights, least-squares kernels and size laws follow from it.

    Example:
        >>> isinstance(Shapley(), Semivalue)
        True
    """

    @abstractmethod
    def log_join_law(self, n: int) -> Float64[ndarray, " {n}"]:
        """Log w(s), s = 0..n-1: log probability that the coalition a player joins has size s."""

    @property
    def is_mixture(self) -> bool:
        """Whether it is a mixture over t of Banzhaf(t) values, which `quadrature` integrates."""
        return type(self).quadrature is not Semivalue.quadrature

    def quadrature(self, nodes: int) -> tuple[Float64[ndarray, " nodes"], Float64[ndarray, " nodes"]]:
        """Nodes t and weights such that the semivalue is the weighted sum of the Banzhaf(t) values.

        Leave-one-out is the single node t = 1. The rule is exact for games of up to 2 * nodes players.

        Raises:
            TypeError: the semivalue is not a mixture over t.
        """
        check_whole("nodes", nodes)
        raise TypeError(f"{self} is not a mixture of Banzhaf(t) values, so it has no quadrature over t")

    def join_law(self, n: int) -> Float64[ndarray, " {n}"]:
        """w(s), s = 0..n-1: probability that the coalition a player joins has size s.

        Example:
            >>> Shapley().join_law(4).tolist()
            [0.25, 0.25, 0.25, 0.25]
        """
        return np.exp(self.log_join_law(n))

    def membership_law(self, n: int, most: int) -> Float64[ndarray, "{n} {most}+1"]:
        """Probability that m = 0..most of k = 0..n-1 given other players are in the coalition that a player joins.

        Row n-1 is the join law. Each row follows from the next one by removing a random player ("thinning"),
        w_k(m) = w_{k+1}(m) (k+1-m)/(k+1) + w_{k+1}(m+1) (m+1)/(k+1), which takes n**2 operations.
        """
        most = check_whole("most", most, minimum=0)
        law = self.join_law(n)
        rows = np.zeros((n, most + 1))
        for k in range(n - 1, -1, -1):
            shown = law[: most + 1]
            rows[k, : len(shown)] = shown
            m = np.arange(k, dtype=np.float64)
            law = (law[:-1] * (k - m) + law[1:] * (m + 1)) / max(k, 1)
        return rows

    def log_weights(self, n: int) -> Float64[ndarray, " {n}"]:
        """Log p(s), s = 0..n-1: log weight of one coalition of size s; docs/math.md, eq. 2."""
        return self.log_join_law(n) - log_binomials(n - 1)

    def log_kernel(self, n: int) -> Float64[ndarray, " {n}-1"]:
        """Log of the exact least-squares weight of one coalition of size s = 1..n-1; docs/math.md, eq. 4.

        m(s) = p(s-1) + p(s), which is B(s+beta-1, n-s+alpha-1) / B(alpha, beta) for Beta(alpha, beta).
        """
        log_weights = self.log_weights(n)
        return np.logaddexp(log_weights[:-1], log_weights[1:])

    def log_paper_kernel(self, n: int) -> Float64[ndarray, " {n}-1"]:
        """Log of the FW-Shapley paper's least-squares weight, s = 1..n-1; docs/math.md, eq. 5.

        q(s) = (n-1) * n w(s-1) / (C(n, s) s (n-s)) = p(s-1) (n-1) / (n-s). Up to a factor it is exact for
        Beta(1, beta) only; it is kept for comparison.
        """
        log_weights = self.log_weights(n)[:-1]
        return log_weights + math.log(max(n - 1, 1)) - np.log(n - proper_sizes(n))

    def size_law(self, n: int, kernel: KernelKind = "exact") -> Float64[ndarray, " {n}-1"]:
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

        ||psi - phi||**2 = error_per_loss * (L(psi) - L(phi)), where L is the expected squared residual under `size_law`
        and psi has the same sum as phi: Proposition 2.2 as an identity. The factor is sum_s C(n, s) m(s).
        """
        return float(self._size_mass(n, "exact").sum())

    def _size_mass(self, n: int, kernel: KernelKind) -> Float64[ndarray, " {n}-1"]:
        check_choice("kernel", kernel, get_args(KernelKind))
        join_law = self.join_law(n)
        sizes = proper_sizes(n)
        if kernel == "paper":
            return n * (n - 1) * join_law[:-1] / (sizes * (n - sizes))
        return n * (join_law[:-1] / sizes + join_law[1:] / (n - sizes))

    def to_json(self) -> str:
        """Return the semivalue as JSON, which `from_json` reads.

        Example:
            >>> Beta(16, 1).to_json()
            '{"semivalue": "Beta", "alpha": 16.0, "beta": 1.0}'
        """
        return json.dumps({"semivalue": type(self).__name__, **asdict(self)})

    @staticmethod
    def from_json(text: str) -> Semivalue:
        """Read what `to_json` wrote.

        Raises:
            ValueError: the text is not a semivalue; the message names what is unknown or missing.
        """
        try:
            fields = json.loads(text)
            kind = SEMIVALUES[fields.pop("semivalue")]
            return kind(**fields)
        except (json.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            names = ", ".join(SEMIVALUES)
            raise ValueError(f"not a semivalue ({error!r}); expected JSON with semivalue = {names}: {text}") from error


@dataclass(frozen=True)
class Beta(Semivalue):
    """Beta(alpha, beta)-weighted Shapley value: p(s) = B(s+beta, n-1-s+alpha) / B(alpha, beta).

    A large alpha favors small coalitions, a large beta large ones; (1, 1) is the Shapley value.

    Reference: Kwon & Zou, "Beta Shapley: a unified and noise-reduced data valuation framework", 2022.

    Example:
        >>> print(Beta(16, 1), Beta(1, 1))
        Beta(16, 1) Shapley
        >>> Beta(16, 1).join_law(3).round(3).tolist()  # sizes 0, 1, 2: small coalitions count most
        [0.889, 0.105, 0.007]
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            value = check_real(name, getattr(self, name))
            if value <= 0:
                raise ValueError(f"{name} must be positive, got {value:g}")
            if not MIN_PARAMETER <= value <= MAX_PARAMETER:
                raise ValueError(
                    f"{name} must be between {MIN_PARAMETER:g} and {MAX_PARAMETER:g}, got {value:g}; "
                    "the limit of a small alpha is LeaveOneOut()"
                )
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return "Shapley" if self.alpha == self.beta == 1 else f"Beta({self.alpha:g}, {self.beta:g})"

    def log_join_law(self, n: int) -> Float64[ndarray, " {n}"]:
        """Log of the beta-binomial law, from w(s+1)/w(s) = (n-1-s)(s+beta) / ((s+1)(n-2-s+alpha))."""
        n = check_players(n)
        s = np.arange(n - 1, dtype=np.float64)
        numerator = (n - 1 - s) * (s + self.beta)
        denominator = (s + 1) * (n - 2 - s + self.alpha)
        with np.errstate(over="ignore"):  # an infinite excess is not near one
            excess = ((n - 1 - s) * (self.beta - 1) - (s + 1) * (self.alpha - 1)) / denominator
        # A million log ratios near 1 are summed: log1p keeps their digits, and log those of a tiny ratio.
        is_near_one = np.abs(excess) < NEAR_ONE
        near_one = np.log1p(np.where(is_near_one, excess, 0))
        return _law_from_ratios(np.where(is_near_one, near_one, np.log(numerator) - np.log(denominator)))

    def membership_law(self, n: int, most: int) -> Float64[ndarray, "{n} {most}+1"]:
        """Beta-binomial laws of every k: w_k(0) is a product over players, w_k(m+1)/w_k(m) as in the join law.

        w_{k+1}(0)/w_k(0) = (alpha+k) / (alpha+beta+k)
        """
        most = check_whole("most", most, minimum=0)
        k = np.arange(check_players(n), dtype=np.float64)
        # No term cancels, however far apart alpha and beta are: log1p for a ratio near 1, log for one near 0.
        shifted = self.alpha + k[:-1]
        log_absent = np.where(
            shifted > self.beta,
            -np.log1p(np.minimum(self.beta, shifted) / shifted),
            np.log(shifted) - np.log(shifted + self.beta),
        )
        log_ratios = [
            _log(np.maximum(k - m, 0))
            + math.log(m + self.beta)
            - math.log(m + 1)
            - np.log(np.maximum(k - m - 1, 0) + self.alpha)
            for m in range(most)
        ]
        return _columns_from_ratios(np.concatenate([[0.0], log_absent.cumsum()]), log_ratios)

    def quadrature(self, nodes: int) -> tuple[Float64[ndarray, " nodes"], Float64[ndarray, " nodes"]]:
        """Gauss-Jacobi rule for t ~ Beta(beta, alpha), from the eigenvalues of its Jacobi matrix.

        The weights are normalized eigenvector entries, so no Beta function overflows or underflows.
        """
        from scipy.linalg import eigh_tridiagonal  # noqa: PLC0415 - slow to import, and needed here only

        nodes = check_whole("nodes", nodes)
        if nodes > MAX_NODES:
            raise ValueError(f"nodes must be at most {MAX_NODES:,}, got {nodes:,}: memory grows with their square")
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
        return np.clip((1 + x) / 2, 0, 1), vectors[0] ** 2


def Shapley() -> Beta:  # noqa: N802 - reads as one more semivalue beside Beta and Banzhaf
    """Return the Shapley value, Beta(1, 1): every coalition size counts the same.

    Example:
        >>> Shapley() == Beta(1, 1)
        True
    """
    return Beta(1, 1)


@dataclass(frozen=True)
class Banzhaf(Semivalue):
    """Weighted Banzhaf value: every other player has joined with probability t, independently.

    With t = 1/2, the Banzhaf value, every coalition counts the same.

    Example:
        >>> Banzhaf().join_law(3).round(6).tolist()
        [0.25, 0.5, 0.25]
    """

    t: float = 0.5

    def __post_init__(self) -> None:
        t = check_real("t", self.t)
        if not 0 < t < 1:
            raise ValueError(f"t must lie strictly between 0 and 1, got {t:g}; t = 1 is LeaveOneOut()")
        object.__setattr__(self, "t", t)

    def __str__(self) -> str:
        return f"Banzhaf({self.t:g})"

    def log_join_law(self, n: int) -> Float64[ndarray, " {n}"]:
        """Log of the binomial law: w(s+1)/w(s) = (n-1-s)/(s+1) * t/(1-t)."""
        n = check_players(n)
        s = np.arange(n - 1, dtype=np.float64)
        return _law_from_ratios(np.log(n - 1 - s) - np.log(s + 1) + self._log_odds)

    def membership_law(self, n: int, most: int) -> Float64[ndarray, "{n} {most}+1"]:
        """Binomial laws of every k."""
        most = check_whole("most", most, minimum=0)
        k = np.arange(check_players(n), dtype=np.float64)
        log_ratios = [_log(np.maximum(k - m, 0)) - math.log(m + 1) + self._log_odds for m in range(most)]
        return _columns_from_ratios(k * math.log1p(-self.t), log_ratios)

    def quadrature(self, nodes: int) -> tuple[Float64[ndarray, " 1"], Float64[ndarray, " 1"]]:
        """Return the single node t, whatever the number of nodes."""
        check_whole("nodes", nodes)
        return np.array([self.t]), np.ones(1)

    @property
    def _log_odds(self) -> float:
        return math.log(self.t) - math.log1p(-self.t)


@dataclass(frozen=True)
class LeaveOneOut(Semivalue):
    """Contribution to all other players together: v(N) - v(N - i).

    Example:
        >>> LeaveOneOut().join_law(3).tolist()
        [0.0, 0.0, 1.0]
    """

    def __str__(self) -> str:
        return "leave-one-out"

    def log_join_law(self, n: int) -> Float64[ndarray, " {n}"]:
        """All mass on size n-1."""
        law = np.full(check_players(n), -np.inf)
        law[-1] = 0
        return law

    def membership_law(self, n: int, most: int) -> Float64[ndarray, "{n} {most}+1"]:
        """All of the k others are in the coalition."""
        m = np.arange(check_whole("most", most, minimum=0) + 1)
        return (np.arange(check_players(n))[:, None] == m).astype(np.float64)

    def quadrature(self, nodes: int) -> tuple[Float64[ndarray, " 1"], Float64[ndarray, " 1"]]:
        """Return the single node t = 1, whatever the number of nodes."""
        check_whole("nodes", nodes)
        return np.ones(1), np.ones(1)


@dataclass(frozen=True)
class Cardinality(Semivalue):
    """Any law over coalition sizes, for games with as many players as there are weights.

    Args:
        weights: weights[s] is proportional to w(s) = C(n-1, s) p(s), the probability that the coalition a player joins
            has size s = 0..n-1; they are normalized. For the weights p(s) of single coalitions, which underflow at
            large n, use `from_log_weights`.

    Example:
        >>> Cardinality([0, 1, 3]).join_law(3).tolist()
        [0.0, 0.25, 0.75]
    """

    weights: tuple[float, ...]

    def __init__(self, weights: Array) -> None:
        law = check_numbers("weights", weights)
        if law.ndim != 1 or not len(law):
            raise ValueError(f"weights must have one number per coalition size 0..n-1, got shape {law.shape}")
        is_valid = np.isfinite(law) & (law >= 0)
        if not is_valid.all():
            size = int(np.argmin(is_valid))
            raise ValueError(f"weights must be finite and not negative, got {law[size]:g} for size {size}")
        if not law.any():
            raise ValueError("weights must not all be zero")
        if not math.isclose(law.sum(), 1, rel_tol=1e-12):  # a law that is normalized keeps its last bit
            law = law / law.max()  # so that the sum neither overflows nor underflows
            law = law / law.sum()
        object.__setattr__(self, "weights", tuple(law.tolist()))

    @classmethod
    def from_log_weights(cls, log_weights: Array) -> Cardinality:
        """From log p(s), s = 0..n-1, the log weight of one coalition, as `Semivalue.log_weights` returns.

        Example:
            >>> Cardinality.from_log_weights(Shapley().log_weights(3)).join_law(3).round(6).tolist()
            [0.333333, 0.333333, 0.333333]
        """
        log_p = check_numbers("log_weights", log_weights)
        if log_p.ndim != 1 or not len(log_p) or not (log_p < np.inf).all() or not (log_p > -np.inf).any():
            raise ValueError("log_weights must have one number per coalition size 0..n-1, not NaN and not all -inf")
        log_law = log_p + log_binomials(len(log_p) - 1)
        return cls(np.exp(log_law - log_law.max()))

    @classmethod
    def at_least(cls, size: int, n: int, of: Semivalue | None = None) -> Cardinality:
        """Return a semivalue of n players without the coalitions of fewer than `size` others that a player joins.

        The other sizes keep their proportions. Values of nearest neighbors under it are those of calibrated
        KNN-Shapley (Yang et al., "On the inflation of KNN-Shapley value", 2024), up to a factor.

        Args:
            size: smallest size that counts, 0..n-1; with n-1 it is leave-one-out.
            n: number of players: of points, or of the other points if points are valued by each other.
            of: the semivalue; None is Shapley.

        Example:
            >>> Cardinality.at_least(2, 4).join_law(4).tolist()
            [0.0, 0.0, 0.5, 0.5]
        """
        n = check_players(n)
        smallest = check_whole("size", size, minimum=0)
        if smallest >= n:
            raise ValueError(f"size must be at most {n - 1}, the number of players that one can join, got {smallest}")
        law = (Shapley() if of is None else check_semivalue(of, "of")).join_law(n)
        law[:smallest] = 0
        if not law.any():
            raise ValueError(f"of must give weight to coalitions of at least {smallest} players, and {of} does not")
        return cls(law)

    def __str__(self) -> str:
        return f"Cardinality(n={len(self.weights)})"

    def log_join_law(self, n: int) -> Float64[ndarray, " {n}"]:
        """Log of the law that was passed, for its own n only."""
        if check_players(n) != len(self.weights):
            raise ValueError(
                f"these Cardinality weights are for games of {len(self.weights)} players (one weight per size), not {n}"
            )
        return _log(np.array(self.weights))


SEMIVALUES: dict[str, type[Semivalue]] = {kind.__name__: kind for kind in (Beta, Banzhaf, LeaveOneOut, Cardinality)}

FEASIBLE_SET: tuple[Beta, ...] = tuple(
    Beta(alpha, beta) for alpha, beta in [(1, 16), (1, 8), (1, 4), (1, 2), (2, 1), (4, 1), (8, 1), (16, 1)]
)
"""The paper's eight (alpha, beta): one of them is 1, the other a power of two up to 16."""


def join_laws(weights: Semivalue | Sequence[Semivalue], n: int) -> Float64[ndarray, "*weightings {n}"]:
    """Join law of one semivalue, or of a list of semivalues stacked in front."""
    if isinstance(weights, (list, tuple)):
        return np.stack([semivalue.join_law(n) for semivalue in check_weights(weights)])
    return check_semivalue(weights).join_law(n)


def check_weights(weights: Semivalue | Sequence[Semivalue] | None) -> list[Semivalue]:
    """Return one semivalue or several as a list that is not empty; None is Shapley."""
    if weights is None:
        return [Shapley()]
    if not isinstance(weights, (list, tuple)):
        return [check_semivalue(weights)]
    if not weights:
        raise ValueError("weights is an empty list; pass at least one semivalue")
    return [check_semivalue(semivalue) for semivalue in weights]


def check_semivalue(weights: object, name: str = "weights") -> Semivalue:
    """Return weights if it is a single semivalue, or raise a TypeError that names it, with an example of one."""
    if isinstance(weights, Semivalue):
        return weights
    if weights is Shapley:
        raise TypeError(f"{name} must be a semivalue; Shapley is a function: write Shapley()")
    hint = "; pass one semivalue here, not a list" if isinstance(weights, (list, tuple)) else ""
    raise TypeError(f"{name} must be a semivalue such as Shapley() or Beta(4, 1), got {weights!r}{hint}")


def check_players(n: SupportsIndex, name: str = "n") -> int:
    """Return a number of players as an int, or raise an error that names it if it is not one or is too large."""
    whole = check_whole(name, n)
    if whole > MAX_PLAYERS:
        raise ValueError(
            f"{name} must be at most {MAX_PLAYERS:,} players, got {whole:,}: a law has a number for each size"
        )
    return whole


def log_binomials(n: int) -> Float64[ndarray, " {n}+1"]:
    """Log C(n, k), k = 0..n."""
    from scipy.special import gammaln  # noqa: PLC0415 - slow to import

    log_factorial = gammaln(np.arange(1, n + 2, dtype=np.float64))
    return log_factorial[-1] - log_factorial - log_factorial[::-1]


def proper_sizes(n: int) -> Float64[ndarray, " {n}-1"]:
    """Sizes 1..n-1 of the coalitions that are neither empty nor all players."""
    return np.arange(1, n, dtype=np.float64)


def _columns_from_ratios(
    log_first: Float64[ndarray, " rows"], log_ratios: Sequence[Float64[ndarray, " rows"]]
) -> Float64[ndarray, "rows columns"]:
    """Columns of which each is the previous one times a ratio; the first may underflow."""
    return np.exp(np.stack([log_first, *log_ratios], 1).cumsum(1))


def _law_from_ratios(log_ratios: Float64[ndarray, " ratios"]) -> Float64[ndarray, " ratios+1"]:
    """Normalized log law from the logs of the ratios of its neighbors.

    Summed outwards from the mode, so that rounding errors collect in the tails, where there is no mass.
    """
    mode = int(np.argmax(np.concatenate([[0.0], log_ratios.cumsum()])))
    below = -log_ratios[:mode][::-1].cumsum()[::-1]
    above = log_ratios[mode:].cumsum()
    log_law = np.concatenate([below, [0.0], above])
    highest = log_law.max()
    return log_law - highest - math.log(np.exp(log_law - highest).sum())


def _log(x: Float64[ndarray, " n"]) -> Float64[ndarray, " n"]:
    """Logarithm whose value at 0 is -inf, without numpy's warning."""
    with np.errstate(divide="ignore"):
        return np.log(x)
