"""Points in a domain: sampling strategies, and resampling where the residual is large."""

import hashlib
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kandle._errors import UserError, must, unknown
from kandle.problems._sampling import Interval, uniform

Inside = Callable[..., np.ndarray]
"""From one array per input to booleans: whether each point belongs to the domain."""


def _latin_hypercube(name: str, n: int, domain: Sequence[Interval]) -> np.ndarray:
    from scipy.stats import qmc

    return _stretched(qmc.LatinHypercube(len(domain), rng=_generator(name)).random(n), domain)


def _sobol(name: str, n: int, domain: Sequence[Interval]) -> np.ndarray:
    from scipy.stats import qmc

    # Whole powers of two keep the balance of the sequence; the rest is cut off.
    sampler = qmc.Sobol(len(domain), rng=_generator(name))
    return _stretched(sampler.random_base2(max(0, int(n - 1).bit_length()))[:n], domain)


STRATEGIES: dict[str, Callable[[str, int, Sequence[Interval]], np.ndarray]] = {
    "uniform": uniform,
    "latin-hypercube": _latin_hypercube,
    "sobol": _sobol,
}


@dataclass(frozen=True)
class Points:
    """`n` points in the domain of a problem, drawn by a strategy.

    - "uniform": independent and uniform;
    - "latin-hypercube": one point in each of n equal slices of every input;
    - "sobol": a scrambled Sobol' sequence, best with n a power of two.

    The points depend on the problem's name alone. In a domain that is not a box, points outside it
    are rejected.

    Example:
        >>> Points("sobol", 64).draw("disc", [(-1, 1), (-1, 1)], lambda x, y: x**2 + y**2 < 1).shape
        (64, 2)
    """

    strategy: str
    n: int

    def __post_init__(self):
        if self.strategy not in STRATEGIES:
            raise unknown("sampling strategy", self.strategy, STRATEGIES)
        if not isinstance(self.n, numbers.Integral) or self.n < 1:
            raise must("'n' of Points", "an integer of at least 1", self.n)

    def draw(
        self, name: str, domain: Sequence[Interval], inside: Inside | None = None
    ) -> np.ndarray:
        """The points, float64 (n, n_in)."""
        draw, wanted = STRATEGIES[self.strategy], self.n
        while True:
            x = draw(name, wanted, domain)
            accepted = x if inside is None else x[is_inside(inside, x, name)]
            if len(accepted) >= self.n:
                return accepted[: self.n]
            if wanted > 1000 * self.n:
                raise UserError(
                    f"'inside' of PDE {name!r} accepts {len(accepted)} of {wanted} points in the "
                    "box: choose a smaller domain around the geometry."
                )
            wanted *= 2


@dataclass(frozen=True)
class Resample:
    """Draw the collocation points again during training, more of them where the residual is large.

    Residual-based adaptive distribution (RAD): every `every` steps, the N collocation points are
    drawn without replacement from `candidates` · N uniform points with probability

        p(x) ∝ |r(x)|^k / mean |r|^k + c

    Args:
        every: steps between two draws.
        k: exponent of the residual.
        c: weight of the uniform part.
        candidates: candidate points per collocation point.
    """

    every: int = 500
    k: float = 1.0
    c: float = 1.0
    candidates: int = 4

    def __post_init__(self):
        for name, least in (("every", 1), ("candidates", 2)):
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or value < least:
                raise must(f"'{name}' of Resample", f"an integer of at least {least}", value)
        for name in ("k", "c"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < np.inf:
                raise must(f"'{name}' of Resample", "a number of at least 0", value)

    def choose(self, name: str, residual: np.ndarray, n: int) -> np.ndarray:
        """The indices of `n` candidates, from their residuals (M,); `name` keys the draw."""
        size = np.abs(np.asarray(residual, np.float64)) ** self.k
        mean = size.mean()
        p = size / mean + self.c if mean > 0 else np.ones(len(size))
        # The n largest of log p plus Gumbel noise are a draw without replacement.
        noise = uniform(f"{name}/choice", len(p), [(0.0, 1.0)])[:, 0]
        with np.errstate(divide="ignore"):  # p = 0: never drawn unless all others are
            keys = np.log(p) - np.log(-np.log(noise))
        return np.sort(np.argsort(-keys, kind="stable")[:n])


def is_inside(inside: Inside, x: np.ndarray, name: str) -> np.ndarray:
    """The booleans (N,) that `inside` returns for points x (N, n_in)."""
    mask = np.asarray(inside(*x.T))
    if mask.shape not in ((), (len(x),)) or mask.dtype != bool:
        got = f"{mask.dtype} {mask.shape}"
        raise must(f"'inside' of PDE {name!r}", f"a function to booleans {(len(x),)}", got)
    return np.broadcast_to(mask, len(x))


def _stretched(u: np.ndarray, domain: Sequence[Interval]) -> np.ndarray:
    lo, hi = np.asarray(domain, np.float64).T
    return lo + (hi - lo) * u


def _generator(name: str) -> np.random.Generator:
    key = int.from_bytes(hashlib.sha256(f"kandle:{name}".encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
