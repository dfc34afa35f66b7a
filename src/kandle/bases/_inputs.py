"""Distributions of a layer's inputs, and expectations over them, exact to rounding."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from kandle._errors import must

Integrand = Callable[[np.ndarray], np.ndarray]  # (N,) -> (N, ...), in float64


@runtime_checkable
class Inputs(Protocol):
    """A distribution of one input component x, hashable, so that its moments can be cached."""

    @property
    def mean(self) -> float:
        """E[x]."""
        ...

    @property
    def std(self) -> float:
        """√Var(x)."""
        ...

    def expect(self, f: Integrand, breakpoints: Sequence[float] | np.ndarray = ()) -> np.ndarray:
        """E[f(x)] for f: (N,) -> (N, ...), which is smooth except at the breakpoints."""
        ...


@dataclass(frozen=True)
class Uniform:
    """x ~ U(low, high)."""

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self):
        if not (_finite(self.low) and _finite(self.high) and self.low < self.high):
            requirement = "finite numbers with low < high"
            raise must("'low' and 'high' of Uniform", requirement, (self.low, self.high))

    @property
    def mean(self) -> float:
        return 0.5 * (self.low + self.high)

    @property
    def std(self) -> float:
        return (self.high - self.low) / math.sqrt(12.0)

    def expect(self, f: Integrand, breakpoints: Sequence[float] | np.ndarray = ()) -> np.ndarray:
        edges = _edges(np.linspace(self.low, self.high, 17), breakpoints)
        return _integrate(f, edges) / (self.high - self.low)


@dataclass(frozen=True)
class Normal:
    """x ~ N(mean, std²)."""

    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self):
        if not _finite(self.mean):
            raise must("'mean' of Normal", "a finite number", self.mean)
        if not (_finite(self.std) and self.std > 0):
            raise must("'std' of Normal", "a positive finite number", self.std)

    def expect(self, f: Integrand, breakpoints: Sequence[float] | np.ndarray = ()) -> np.ndarray:
        def weighted(x: np.ndarray) -> np.ndarray:
            z = (x - self.mean) / self.std
            density = np.exp(-0.5 * z * z) / (self.std * math.sqrt(2.0 * math.pi))
            return np.einsum("n,n...->n...", density, f(x))

        # Beyond 16 standard deviations the density is below 1e-55.
        edges = _edges(self.mean + self.std * np.arange(-16.0, 17.0), breakpoints)
        return _integrate(weighted, edges)


@dataclass(frozen=True, eq=False)
class Sample:
    """x drawn from given values, each equally likely; an array of any shape is pooled.

    The standard deviation is that of the population (no n - 1).
    """

    values: np.ndarray

    def __post_init__(self):
        values = np.array(self.values, dtype=np.float64).ravel()
        if values.size == 0 or not np.isfinite(values).all() or np.ptp(values) == 0:
            raise must("'values' of Sample", "finite numbers, not all equal", self.values)
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sample) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self.values.tobytes())

    @functools.cached_property
    def mean(self) -> float:
        return float(self.values.mean())

    @functools.cached_property
    def std(self) -> float:
        return float(self.values.std())

    def expect(self, f: Integrand, breakpoints: Sequence[float] | np.ndarray = ()) -> np.ndarray:
        del breakpoints  # a finite sum has no use for them
        chunks = np.split(self.values, range(4096, self.values.size, 4096))
        return np.sum([np.sum(f(chunk), axis=0) for chunk in chunks], axis=0) / self.values.size


def _finite(value: object) -> bool:
    return isinstance(value, int | float | np.number) and math.isfinite(value)


def _edges(support: np.ndarray, breakpoints: Sequence[float] | np.ndarray) -> np.ndarray:
    """The support's own edges and the breakpoints strictly inside it, in order."""
    inner = np.asarray(breakpoints, dtype=np.float64)
    inner = inner[(support[0] < inner) & (inner < support[-1])]
    return np.unique(np.concatenate([support, inner]))


# --- integrals: Gauss-Legendre on every piece, halved until it converges --------------------------

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)  # exact up to degree 31
_TOLERANCE = 1e-14
_MAX_HALVINGS = 50
_MAX_PIECES = 4096  # an integrand noisier than the tolerance would otherwise be halved forever


def _integrate(f: Integrand, edges: np.ndarray) -> np.ndarray:
    """∫ f(x) dx from the first edge to the last.

    Exact where f is a polynomial of degree up to 31 between neighbouring edges. A piece where one
    rule and two on its halves disagree is halved, which also resolves kinks and jumps inside it.
    """
    a, b = edges[:-1], edges[1:]
    coarse = _gauss(f, a, b)
    allowed = _TOLERANCE * np.abs(coarse).sum(axis=0).max()
    total = np.zeros(coarse.shape[1:])
    for _ in range(_MAX_HALVINGS):
        middle = 0.5 * (a + b)
        left, right = _gauss(f, a, middle), _gauss(f, middle, b)
        fine = left + right
        error = np.abs(fine - coarse).reshape(len(fine), -1).max(axis=1)
        done = error <= allowed
        total += fine[done].sum(axis=0)
        a, b, coarse = (
            np.concatenate([first[~done], second[~done]])
            for first, second in ((a, middle), (middle, b), (left, right))
        )
        if len(a) == 0 or len(a) > _MAX_PIECES:
            break
    return total + coarse.sum(axis=0)


def _gauss(f: Integrand, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One rule per piece: (pieces,), (pieces,) -> (pieces, ...)."""
    half = 0.5 * (b - a)
    x = 0.5 * (a + b)[:, None] + half[:, None] * _NODES  # (pieces, nodes)
    values = np.asarray(f(x.ravel()))
    values = values.reshape(*x.shape, *values.shape[1:])  # (pieces, nodes, ...)
    return np.einsum("pn...,n,p->p...", values, _WEIGHTS, half)
