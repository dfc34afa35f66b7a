"""Splines on other knots: against the normal equations, and where the projection is exact."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from scipy.interpolate import BSpline as ScipySpline

from kandle import UserError
from kandle.bases import BSpline, Chebyshev, Knots, transfer

PAIRS = {
    "finer": (BSpline(4), BSpline(7)),
    "coarser": (BSpline(9), BSpline(2)),
    "partly overlapping": (BSpline(5), BSpline(6, 3, (0.3, 2.7))),
    "beyond the old knots": (BSpline(5), BSpline(6, 3, (-4.0, 5.0))),
    "a small part": (BSpline(5), BSpline(5, 3, (0.1, 0.1 + 2e-6))),
    "other degrees": (BSpline(5, 2), Knots([-1, -0.3, 0.4, 1.2], 4)),
    "steps": (Knots([-1, 0, 1], 0), Knots([-1, 0.1, 1], 0)),
    "nearly equal knots": (BSpline(5), Knots([-1, -0.6, -0.6 + 1e-14, 0.3, 1])),
    "repeated knots": (Knots([-1, 0, 0, 0.5, 1]), Knots([-1, -0.5, 0, 0, 0, 0, 1])),
    "clamped": (Knots.from_full([-1] * 4 + [0.2] + [1] * 4), Knots.from_full([-1] * 4 + [1] * 4)),
}


def full_knots(basis):
    return basis.knots if isinstance(basis, BSpline) else basis.full


def spline_values(basis, b, x):
    """By SciPy, on more knots with coefficients of zero: it stops at the ends of the domain."""
    k, t = basis.degree, full_knots(basis)
    beyond = np.arange(1, k + 2)
    knots = np.concatenate([t[0] - beyond[::-1], t, t[-1] + beyond])
    spline = ScipySpline(knots, np.pad(b, k + 1), k, extrapolate=False)
    return np.nan_to_num(spline(x))


def quadrature(old, new):
    """Points and weights over the new domain: twelve Gauss points on halves of every piece."""
    lo, hi = new.domain
    edges = np.unique([lo, hi, *full_knots(old), *full_knots(new)])
    edges = edges[(edges >= lo) & (edges <= hi)]
    edges = np.sort([*edges, *(edges[1:] + edges[:-1]) / 2])
    nodes, weights = np.polynomial.legendre.leggauss(12)
    x, w = [], []
    for a, b in itertools.pairwise(edges):
        x.append((a + b) / 2 + (b - a) / 2 * nodes)
        w.append((b - a) / 2 * weights)
    return np.concatenate(x), np.concatenate(w)


@pytest.mark.parametrize(("old", "new"), PAIRS.values(), ids=PAIRS)
def test_the_error_is_orthogonal_to_every_new_function(old, new):
    """∫ (Σ_n b'_n B'_n - Σ_m b_m B_m) B'_j = 0 for all j, with functions evaluated by SciPy."""
    b = np.random.default_rng(0).normal(size=old.n_basis)
    x, w = quadrature(old, new)
    before = spline_values(old, b, x)
    projected = spline_values(new, transfer(old, new) @ b, x)
    tests = np.stack([spline_values(new, unit, x) for unit in np.eye(new.n_basis)])
    norms = np.sqrt(np.sum(w * before**2)) * np.sqrt(np.sum(w * tests**2, axis=1))
    assert (norms[norms > 0]).size >= new.n_basis - 1
    moments = tests @ (w * (projected - before))
    assert np.all(np.abs(moments) <= 1e-12 * norms)


@pytest.mark.parametrize(("old", "new"), PAIRS.values(), ids=PAIRS)
def test_weights_are_finite(old, new):
    M = transfer(old, new)
    assert M.shape == (new.n_basis, old.n_basis)
    assert np.isfinite(M).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (BSpline(4), BSpline(8)),
        (BSpline(4), BSpline(4)),
        (BSpline(3, 5, (-2, 1)), BSpline(9, 5, (-2, 1))),
        (BSpline(4), BSpline(3, 3, (-0.5, 0.25))),  # every old knot inside is a new one
        (Knots([-1, -0.3, 1], 2), Knots([-1, -0.3, 0.1, 0.7, 1], 2)),
        (BSpline(4), Knots([-1, -0.5, -0.5, 0, 0.5, 1])),
        (BSpline(2, 2), Knots([-1, 0, 0, 1], 3)),  # a higher degree, the kink of order 2 allowed
        (BSpline(4), Knots.from_full([-1] * 4 + [-0.5, 0, 0.5] + [1] * 4)),
    ],
    ids=str,
)
def test_functions_that_both_bases_represent_are_kept(old, new):
    lo, hi = new.domain
    x = np.linspace(lo, hi, 301)[1:-1]
    np.testing.assert_allclose(new.values(x) @ transfer(old, new), old.values(x), atol=1e-12)


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_polynomials_of_the_degree_survive_any_knots(degree):
    old = BSpline(4, degree, (-1.0, 2.0))
    new = Knots([-0.7, -0.1, 0.0, 0.9, 1.7], degree)
    x = np.linspace(-1, 2, 50)
    b, *_ = np.linalg.lstsq(old.values(x), x**degree - x, rcond=None)
    x = np.linspace(-0.69, 1.69, 50)
    np.testing.assert_allclose(new.values(x) @ transfer(old, new) @ b, x**degree - x, atol=1e-11)


def test_outside_its_domain_the_old_spline_fades_and_is_then_zero():
    """Knots reach three steps of 0.4 beyond [-1, 1]: on a domain that long, all is kept."""
    old, wide = BSpline(5), BSpline(11, 3, (-2.2, 2.2))
    kept = np.eye(wide.n_basis, old.n_basis, -3)
    np.testing.assert_allclose(transfer(old, wide), kept, atol=1e-12)
    assert not transfer(old, BSpline(5, 3, (3.0, 4.0))).any()


def test_a_function_without_support_has_the_weight_zero():
    new = Knots([-1, 0, 0, 0, 0, 0, 1])  # the fifth equal knot leaves one cubic nowhere to be
    M = transfer(BSpline(5), new)
    empty = [m for m in range(new.n_basis) if new.full[m] == new.full[m + 4]]
    assert len(empty) == 1
    assert not M[empty].any()


def test_only_splines():
    with pytest.raises(UserError, match=r"'new' of transfer must be a BSpline or Knots\. Got Cheb"):
        transfer(BSpline(5), Chebyshev(4))
    with pytest.raises(UserError, match=r"'old' of transfer must be a BSpline or Knots\. Got Cheb"):
        transfer(Chebyshev(4), BSpline(5))


def test_needs_no_jax():
    program = """
import sys
sys.modules["jax"] = sys.modules["jaxlib"] = None
from kandle.bases import BSpline, Knots, transfer
assert transfer(BSpline(5), Knots([-1, 0, 1])).shape == (5, 8)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
