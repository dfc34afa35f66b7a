"""The same network on finer grids, by knot insertion, and on wider ones."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle._errors import UserError, must
from kandle.bases import BSpline, transfer
from kandle.nn._layer import KANLayer, blocks

if TYPE_CHECKING:
    from kandle.nn._network import KAN


def refine(model: "KAN", grids: Sequence[int]) -> list[KANLayer]:
    """The layers on finer grids; see `KAN.refine`."""
    layers = [
        _refine(layer, l, grid)
        for l, (layer, grid) in enumerate(zip(model.layers, grids, strict=True))
    ]
    present = [cast(BSpline, layer.basis).grid for layer in model.layers]
    if list(grids) == present:
        largest = max(present)
        raise must("'grid' of KAN.refine", f"larger than the present {largest}", largest)
    return layers


def _refine(layer: KANLayer, l: int, grid: int) -> KANLayer:
    old = layer.basis
    if not isinstance(old, BSpline):
        raise must(f"Layer {l} of KAN.refine", "of uniform B-splines", type(old).__name__)
    if grid < old.grid:
        raise must("'grid' of KAN.refine", f"an integer of at least {old.grid}", grid)
    new = dataclasses.replace(old, grid=grid)
    return _changed(layer, new, refinement(old, new), "refine")


def _changed(
    layer: KANLayer, basis: BSpline, T: Float[np.ndarray, "n_old n_new"], what: str
) -> KANLayer:
    """The layer on another basis, with the coefficients b T."""
    if layer.normalized and layer.mean is None:
        raise UserError(
            f"KAN.{what} needs the statistics of a LeCun-normalized network: call freeze(x) first."
        )
    r, c, b, bias = layer.effective_weights(None)
    return KANLayer(
        *(r, c, jnp.asarray(np.asarray(b, np.float64) @ T, b.dtype), bias),
        basis=basis,
        residual=layer.residual,
        backend=layer.backend,
    )


def widen(models: Sequence["KAN"], rows: Float[Array, "N n_in"]) -> list[list[KANLayer]]:
    """The layers of models of one shape on common domains that contain the inputs of all.

    See `KAN.widen`, which is this for one model.
    """
    wide: list[list[KANLayer]] = [[] for _ in models]
    inputs = [rows for _ in models]
    for l, layers in enumerate(zip(*(model.layers for model in models), strict=True)):
        values = np.concatenate([np.asarray(x, np.float64) for x in inputs])
        for found, layer in zip(wide, layers, strict=True):
            found.append(_widen(layer, l, values))
        inputs = [
            jnp.concatenate([layer(block) for block in blocks(x)])
            for layer, x in zip(layers, inputs, strict=True)
        ]
    return wide


def finer(
    models: Sequence["KAN"], rows: Float[Array, "N n_in"], before: int, after: int
) -> list[list[KANLayer]]:
    """The layers on wider domains, as `widen` has them, with after / before times the intervals."""
    return [
        [
            _refine(layer, l, round(cast(BSpline, layer.basis).grid * after / before))
            for l, layer in enumerate(layers)
        ]
        for layers in widen(models, rows)
    ]


def _widen(layer: KANLayer, l: int, values: Float[np.ndarray, "N n_in"]) -> KANLayer:
    old = layer.basis
    if not isinstance(old, BSpline):
        raise must(f"Layer {l} of KAN.widen", "of uniform B-splines", type(old).__name__)
    if not np.isfinite(values).all():
        raise must(f"The inputs of layer {l} of KAN.widen", "finite", "some that are not")
    (lo, hi), h = old.domain, (old.domain[1] - old.domain[0]) / old.grid
    # The outermost functions vanish from k intervals outside the domain on.
    beyond = (lo - values.min(initial=lo)) / h, (values.max(initial=hi) - hi) / h
    left, right = (min(math.ceil(b), old.degree) for b in beyond)
    if left == right == 0:
        return layer
    new = BSpline(old.grid + left + right, old.degree, (lo - left * h, hi + right * h))
    return _changed(layer, new, np.eye(old.n_basis, new.n_basis, left), "widen")


def refinement(old: BSpline, new: BSpline) -> Float[np.ndarray, "n_old n_new"]:
    """The matrix T with Σ_m b_m B_m = Σ_j (b T)_j B'_j on the domain, for a finer grid G' ≥ G.

    If G' = p G the splines of the coarse grid are splines of the fine one. With the cardinal
    B-spline N of degree k on [0, k + 1],

        N(t) = Σ_j a_j N(p t - j),        Σ_j a_j z^j = p^(-k) (1 + z + … + z^(p-1))^(k+1)

    and T holds the a_j, shifted by p per coarse function: equality holds to rounding. Otherwise
    b T is the projection that minimizes the L² distance over the domain.
    """
    factor, rest = divmod(new.grid, old.grid)
    if rest:
        return transfer(old, new).T
    return _insertion(old, new, factor)


def _insertion(old: BSpline, new: BSpline, factor: int) -> Float[np.ndarray, "n_old n_new"]:
    k = old.degree
    mask = np.ones(1)
    for _ in range(k + 1):
        mask = np.convolve(mask, np.ones(factor))
    mask /= float(factor) ** k
    T = np.zeros((old.n_basis, new.n_basis))
    for m in range(old.n_basis):
        # Functions before the first or after the last vanish on the domain.
        first = k + (m - k) * factor
        for j, a in enumerate(mask, first):
            if 0 <= j < new.n_basis:
                T[m, j] = a
    return T


def outside(model: "KAN", rows: Float[Array, "N n_in"]) -> tuple[float, ...]:
    """The share of each layer's inputs outside its domain; see `KAN.outside`."""
    shares = []
    for layer in model.layers:
        lo, hi = layer.basis.domain
        values = np.asarray(rows)
        shares.append(float(np.mean((values < lo) | (values > hi))) if values.size else math.nan)
        rows = jnp.concatenate([layer(block) for block in blocks(rows)])
    return tuple(shares)
