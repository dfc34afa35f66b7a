"""Derivatives of any order in one forward pass: truncated Taylor series through the layers.

A field u of x is carried as its Taylor coefficients u_α = ∂^α u / α! for all multi-indices α below
those that are wanted. With δ the series of a layer's input without its constant term,

    φ(x + δ) = Σ_n φ^{(n)}(x) / n! · δⁿ,

and every power δⁿ is a product of series, truncated to the same α. This is Faà di Bruno's formula,
for several variables, without its combinatorics.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle._errors import UserError
from kandle.bases import BSpline, Knots, evaluate
from kandle.kernels._residual import residual_derivatives
from kandle.nn._derivatives import MultiIndex, closure, factorial

Series = dict[MultiIndex, Array]
"""Taylor coefficients by multi-index; one that is missing is zero."""


def any_order(
    layers: Sequence[Any], x: Float[Array, "N n_in"], wanted: Sequence[MultiIndex]
) -> dict[MultiIndex, Float[Array, "N n_out"]]:
    """The value, under (), and the derivatives `wanted`, in plain JAX on every backend."""
    order = max(map(len, wanted))
    for layer in layers:
        _check_smooth(layer.basis, order)
    indices = closure(wanted)
    unit = jnp.eye(x.shape[1], dtype=x.dtype)
    series: Series = {(): x}
    series |= {i: jnp.broadcast_to(unit[i[0]], x.shape) for i in indices if len(i) == 1}
    for layer in layers:
        series = _through(layer, series, indices)
    zero = jnp.zeros_like(series[()])
    table = {index: factorial(index) * series.get(index, zero) for index in wanted}
    return {(): series[()], **table}


def multiply(a: Series, b: Series, indices: Sequence[MultiIndex]) -> Series:
    """The product of two series, truncated to `indices`."""
    known, product = set(indices), {}
    for i, left in a.items():
        for j, right in b.items():
            index = tuple(sorted(i + j))
            if index in known:
                term = left * right
                product[index] = product[index] + term if index in product else term
    return product


def _through(layer: Any, series: Series, indices: Sequence[MultiIndex]) -> Series:
    """y_j = Σ_i φ_ji(x_i) as a series, with φ_ji = r_ji R + c_ji Σ_m b_jim B_m."""
    x = series[()]
    r, c, b, bias = layer.effective_weights(x)
    n_out, n_in, n_basis = b.shape
    w = (c[..., None] * b).reshape(n_out, n_in * n_basis).T
    order = max(map(len, indices))
    delta = {index: along for index, along in series.items() if index}
    powers: list[Series] = [{(): jnp.ones_like(x)}]  # δ⁰, δ¹, …
    for _ in range(order):
        powers.append(multiply(powers[-1], delta, indices))

    tables = [evaluate(x, layer.basis, n) / math.factorial(n) for n in range(order + 1)]
    R = ()
    if layer.residual is not None and r is not None:
        found = residual_derivatives(layer.residual, x, order + 1)
        R = [derivative / math.factorial(n) for n, derivative in enumerate(found)]

    out: Series = {}
    for index in indices:
        orders = [n for n in range(order + 1) if index in powers[n]]
        if not orders:
            continue
        table = sum(tables[n] * powers[n][index][..., None] for n in orders)
        y = jnp.reshape(table, (len(x), n_in * n_basis)) @ w
        if len(R) and r is not None:
            y = y + sum(R[n] * powers[n][index] for n in orders) @ r.T
        out[index] = y if index or bias is None else y + bias
    return out


def _check_smooth(basis: Any, order: int) -> None:
    if not isinstance(basis, BSpline | Knots):
        basis.check_order(order)
        return
    degree = basis.degree
    if order <= degree:
        return
    raise UserError(
        f"A derivative of order {order} must be of splines of degree {order} or more: with "
        f"degree={degree} it is zero between the knots and undefined at them. "
        + (f"Use degree={max(order, 5)}." if order <= 5 else "Splines go up to degree 5.")
    )
