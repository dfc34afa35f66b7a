"""A network as operands of one call: its static part, its weights, and its layers one by one."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from kandle.bases import Basis
from kandle.kernels._fused import jet_p
from kandle.kernels._residual import Residual

# r, c, b and bias of a layer; r and the bias may be missing.
Weights = tuple[Array | None, Array, Array, Array | None]


class Layers(NamedTuple):
    """The static part of a network: its bases, and which layers have SiLU as residual function."""

    bases: tuple[Basis, ...]
    residual: tuple[bool, ...]

    @classmethod
    def of(cls, bases: Sequence[Basis], residuals: Sequence[Residual | None]) -> "Layers":
        return cls(tuple(bases), tuple(residual is not None for residual in residuals))

    def through(self, x: Array, weights: Sequence[Array]) -> Array:
        """The outputs (P, N, n_out) at x (P, N, n_in), called layer by layer."""
        h = x[:, None]
        for i, (basis, residual) in enumerate(zip(*self, strict=True)):
            static = {"basis": basis, "first": 0, "second": 0, "residual": residual}
            h = jet_p.bind(h, *weights[4 * i : 4 * i + 4], **static)
        return h[:, 0]


def flat_weights(weights: Sequence[Weights]) -> list[Array]:
    """r, c, b, bias of every layer, one after the other, with zeros for what is missing."""
    flat = []
    for r, c, b, bias in weights:
        shift = jnp.zeros(c.shape[0], c.dtype) if bias is None else bias
        flat += [jnp.zeros_like(c) if r is None else r, c, b, shift]
    return flat
