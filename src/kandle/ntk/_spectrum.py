"""The spectrum of a tangent kernel as plain data."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import ArrayLike, Float

from kandle._errors import UserError, must
from kandle.nn import KAN
from kandle.ntk._double import double, doubled, points
from kandle.ntk._kernel import kernel

# Added to the diagonal, times the mean eigenvalue, so that the smallest are not mere rounding.
STABILISATION = 1e-12
CAP = 1e9


@dataclass(frozen=True)
class Spectrum:
    """What the eigenvalues λ of a kernel of n points say.

    Attributes:
        eigenvalues: of K + 1e-12 · tr(K)/n · I, largest first.
        condition: λ_1/λ_n as it comes; infinite if λ_n is not positive. What is added to the
            diagonal bounds it by 1e12 · n λ_1/tr(K): where `floored`, it is a lower bound.
        condition_capped: the same, at most 1e9.
        effective_rank: (Σλ)²/Σλ², 1 for a single mode and n for equal ones.
        entropy: -Σ p ln p with p = λ/Σλ, in nats: 0 for a single mode, ln n for equal ones.
        trace: tr(K).
        error_share: how much of a squared error lies along each eigenvector, in the same order, in
            all 1; None if no error was given.
    """

    eigenvalues: tuple[float, ...]
    condition: float
    condition_capped: float
    effective_rank: float
    entropy: float
    trace: float
    error_share: tuple[float, ...] | None = None

    @property
    def floor(self) -> float:
        """Eigenvalues up to twice the shift of the diagonal: indistinguishable from zero."""
        return 2 * STABILISATION * self.trace / len(self.eigenvalues)

    @property
    def floored(self) -> bool:
        """Whether the smallest eigenvalue cannot be distinguished from zero."""
        return self.eigenvalues[-1] <= self.floor

    @classmethod
    def of(
        cls,
        K: Float[ArrayLike, "n n"] | list,
        error: Float[ArrayLike, "n ..."] | list | None = None,
    ) -> "Spectrum":
        """The spectrum of a symmetric kernel, and of an error in its eigenvectors."""
        K = np.asarray(K, np.float64)
        if K.ndim != 2 or K.shape[0] != K.shape[1] or not len(K):
            raise must("'K' of Spectrum", "a square matrix", K.shape)
        if not np.isfinite(K).all():
            raise UserError("'K' of Spectrum must be finite, and is not.")
        if np.abs(K - K.T).max() > 1e-8 * np.abs(K).max():
            raise UserError("'K' of Spectrum must be symmetric, and is not.")
        n, trace = len(K), float(np.trace(K))
        stable = K + STABILISATION * trace / n * np.eye(n)
        if error is None:
            return cls._of_values(np.linalg.eigvalsh(stable)[::-1], trace, None)
        columns = np.asarray(error, np.float64).reshape(n, -1)
        values, vectors = np.linalg.eigh(stable)
        energy = np.sum((vectors.T @ columns) ** 2, axis=1)[::-1]
        total = energy.sum()
        share = energy / total if total > 0 else np.zeros(n)
        return cls._of_values(values[::-1], trace, tuple(share.tolist()))

    @classmethod
    def _of_values(
        cls, values: np.ndarray, trace: float, share: tuple[float, ...] | None
    ) -> "Spectrum":
        largest, smallest = float(values[0]), float(values[-1])
        condition = largest / smallest if smallest > 0 else math.inf
        p = np.clip(values, 0.0, None)
        p = p / p.sum() if p.sum() > 0 else p
        spread = float(np.sum(p**2))
        return cls(
            eigenvalues=tuple(values.tolist()),
            condition=condition,
            condition_capped=min(condition, CAP),
            effective_rank=1.0 / spread if spread > 0 else 0.0,
            entropy=abs(float(-np.sum(p[p > 0] * np.log(p[p > 0])))),
            trace=trace,
            error_share=share,
        )


def spectrum(
    model: KAN, x: Float[ArrayLike, "N n_in"], y: Float[ArrayLike, "N ..."] | None = None
) -> Spectrum:
    """The spectrum of a network's tangent kernel on points; see `kernel` and `Spectrum`.

    Args:
        model: a network, of any precision.
        x: points, (N, n_in).
        y: what is to be learned there, (N, n_out), for the share of the error in every mode.

    Example:
        >>> import jax
        >>> from kandle import KAN
        >>> x = np.array([[-0.5], [0.0], [0.5]])
        >>> len(spectrum(KAN([1, 3, 1], key=jax.random.key(0)), x).eigenvalues)
        3
    """
    K = kernel(model, x)
    if y is None:
        return Spectrum.of(K)
    with double():
        network = doubled(model)
        u = np.asarray(network(points(x, network)))
    wanted = np.asarray(y, np.float64)
    if wanted.shape not in (u.shape, (len(u),) if u.shape[1] == 1 else u.shape):
        raise must("'y'", f"the {u.shape} values to learn at 'x'", wanted.shape)
    wanted = wanted.reshape(u.shape)
    if not np.isfinite(wanted).all():
        row = int(np.argmin(np.isfinite(wanted).all(axis=1)))
        raise UserError(f"'y' must be finite. Row {row} is not.")
    return Spectrum.of(K, u - wanted)
