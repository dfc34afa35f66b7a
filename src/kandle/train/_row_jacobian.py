"""Normal equations of any PDE: the Jacobian by automatic differentiation, row by row.

This takes derivatives of any order, transforms, coefficients, and conditions of any kind: a row of
the Jacobian is the gradient of one residual at one point, whatever the residual is made of.
"""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle.problems import Group
from kandle.train._levenberg_marquardt import Normal
from kandle.train._objective import Aux, Data

if TYPE_CHECKING:
    from kandle.train._least_squares import LeastSquares

# Rows of the Jacobian that are computed together.
_BLOCK = 512


def normal_equations_by_row(method: "LeastSquares", vector: Array, data: Data, aux: Aux) -> Normal:
    """The normal equations at a vector, accumulated in float64."""
    m = method.layout.n_trained
    gram, gradient, loss = np.zeros((m, m)), np.zeros(m), 0.0
    for group in method.objective.groups:
        for rows in _blocks(group, data, aux.get(group.name)):
            r, J = (np.asarray(a, np.float64) for a in _rows(method, group, vector, rows))
            gram += J.T @ J
            gradient += J.T @ r
            loss += float(r @ r)
    return Normal(loss, gram, gradient)


def _blocks(group: Group, data: Data, alpha: Array | None) -> Iterator[dict[str, Array]]:
    """The arrays of a group by row of residuals, in blocks padded to one size by weight zero.

    `points` is (rows, n, n_in), with n > 1 for integrals; `weight` is (rows, columns), the factor
    of each residual.
    """
    arrays = {role: data[name] for role, name in group.arrays}
    n_in = arrays["points"].shape[-1]
    count = len(arrays.get("quadrature", arrays["points"]))
    rows = {
        role: array.reshape(count, -1, n_in) if role in ("points", "partner") else array[:, None]
        for role, array in arrays.items()
    }
    ones = jnp.ones((count, group.columns), arrays["points"].dtype)
    weight = ones if alpha is None else alpha.reshape(ones.shape)
    rows["weight"] = weight * np.sqrt(group.weight / weight.size)
    size = min(_BLOCK, count)
    for start in range(0, count, size):
        block = {role: array[start : start + size] for role, array in rows.items()}
        if missing := size - len(block["points"]):
            for role, array in block.items():
                padding = ((0, missing),) + ((0, 0),) * (array.ndim - 1)
                mode: Any = {} if role == "weight" else {"mode": "edge"}
                block[role] = jnp.pad(array, padding, **mode)
        yield block


@functools.partial(jax.jit, static_argnums=(0, 1))
def _rows(
    method: "LeastSquares", group: Group, vector: Array, rows: dict[str, Array]
) -> tuple[Float[Array, " R"], Float[Array, "R P"]]:
    """The weighted residuals of a block and their Jacobian, one row per point and column."""
    m, names = method.layout.n_trained, dict(group.arrays)

    def residual(trained: Array, row: dict[str, Array]) -> Float[Array, " columns"]:
        model = method.model(jnp.concatenate([trained, vector[m:]]))
        data = {names[role]: array for role, array in row.items() if role in names}
        return row["weight"] * method.objective.residual(group, model, data)

    def value_and_row(row: dict[str, Array]) -> tuple[Array, Array]:
        r, pull = jax.vjp(lambda trained: residual(trained, row), vector[:m])
        return r, jax.vmap(lambda one: pull(one)[0])(jnp.eye(len(r), dtype=r.dtype))

    r, J = jax.vmap(value_and_row)(rows)
    return r.ravel(), J.reshape(-1, m)
