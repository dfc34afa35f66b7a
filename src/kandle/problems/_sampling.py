"""Points that depend on a problem's name alone, the same on every machine and version.

The stream is Philox, keyed by SHA-256 of the name, read as raw 64-bit words: NumPy promises to
keep those bits, while it may change how its `Generator` turns them into numbers.
"""

import hashlib
import math
from collections.abc import Sequence

import numpy as np

Interval = tuple[float, float]
Domain = tuple[Interval, ...]


def uniform(name: str, n: int, domain: Sequence[Interval]) -> np.ndarray:
    """`n` independent points, uniform in the open box `domain`: float64 (n, n_in).

    A word w gives u = (⌊w/2¹²⌋ + ½)·2⁻⁵², an odd multiple of 2⁻⁵³: never 0, ½ or 1. On (-1, 1) the
    point 2u - 1 is exact, so never -1, 0 or 1: the sampling that the Feynman equations ask for.
    """
    lo, hi = np.asarray(domain, np.float64).T
    words = _words(name, n * len(domain)).reshape(n, len(domain))
    u = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return lo + (hi - lo) * u


def permutation(name: str, n: int) -> np.ndarray:
    """The numbers 0 … n-1 in an order that depends on `name` alone: int64 (n,)."""
    return np.argsort(_words(name, n), kind="stable")


def mesh(axes: Sequence[np.ndarray]) -> np.ndarray:
    """The points of a tensor grid, first axis slowest: (∏ len(axis), n_in)."""
    return np.stack([c.ravel() for c in np.meshgrid(*axes, indexing="ij")], axis=-1)


def checked_domain(domain: Sequence[Sequence[float]], what: str) -> Domain:
    """`domain` as a tuple of (lo, hi) with lo < hi, or an error that names `what`."""
    from kandle._errors import must

    requirement = "a sequence of (low, high) pairs of finite numbers, one per input, low < high"
    try:
        pairs = tuple((float(lo), float(hi)) for lo, hi in domain)
    except (TypeError, ValueError):
        raise must(f"'domain' of {what}", requirement, domain) from None
    if not pairs or not all(math.isfinite(hi - lo) and lo < hi for lo, hi in pairs):
        raise must(f"'domain' of {what}", requirement, domain)
    return pairs


def _words(name: str, n: int) -> np.ndarray:
    key = int.from_bytes(hashlib.sha256(f"kandle:{name}".encode()).digest()[:16], "little")
    return np.random.Philox(key=key).random_raw(n)
