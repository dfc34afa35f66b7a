"""New grids for a network's B-splines, spanning the values that its layers receive."""

from typing import TYPE_CHECKING, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle._errors import UserError, must, unknown
from kandle.bases import BSpline, Knots, transfer
from kandle.nn._layer import KANLayer, blocks

if TYPE_CHECKING:
    from kandle.nn._network import KAN

KNOTS = ("uniform", "quantile")


def regrid(
    model: "KAN",
    rows: Float[Array, "N n_in"],
    grid: int | None,
    knots: Literal["uniform", "quantile"],
) -> list[KANLayer]:
    """The layers on grids that span their inputs; see `KAN.regrid`."""
    if knots not in KNOTS:
        raise unknown("knots of KAN.regrid", knots, KNOTS)
    if len(rows) == 0:
        raise must("'x' of KAN.regrid", "at least one point", "none")
    layers = []
    for l, layer in enumerate(model.layers):
        layers.append(_regrid(layer, l, rows, grid, knots))
        rows = jnp.concatenate([layer(block) for block in blocks(rows)])
    return layers


def _regrid(layer: KANLayer, l: int, rows: Array, grid: int | None, knots: str) -> KANLayer:
    old = layer.basis
    if not isinstance(old, BSpline | Knots):
        raise must(f"Layer {l} of KAN.regrid", "of B-splines", type(old).__name__)
    if layer.normalized:
        raise UserError(
            "KAN.regrid cannot refit standardised basis functions (LeCun-normalized): their "
            "scale depends on the batch, not on the grid alone."
        )
    values = np.asarray(rows, np.float64)
    if not np.isfinite(values).all():
        raise UserError(
            f"'x' of KAN.regrid must give finite values in every layer. Layer {l} receives some "
            "that are not."
        )
    intervals = old.n_basis - old.degree if grid is None else grid
    family = BSpline if knots == "uniform" else Knots
    new = family.from_sample(values, grid=intervals, degree=old.degree)
    b = np.einsum("oim,nm->oin", np.asarray(layer.b, np.float64), transfer(old, new))
    return KANLayer(
        layer.r,
        layer.c,
        jnp.asarray(b, layer.b.dtype),
        layer.bias,
        basis=new,
        residual=layer.residual,
        backend=layer.backend if knots == "uniform" or layer.backend != "native" else None,
    )
