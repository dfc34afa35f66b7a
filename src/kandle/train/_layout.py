"""How least squares sees a model: as one vector."""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle.nn import KAN, KANLayer


@dataclass(frozen=True)
class Layout:
    """How a network and other unknowns correspond to one vector [θ | unknowns | constants].

    The scales c are redundant, since only the products c_ji b_jim act. They are absorbed into b
    (c = 1 from then on; the function does not change), and θ consists of b, r and bias: each layer
    contributes the matrix [b_ji1 … b_jiM r_ji | bias_j] of n_out rows. The unknowns are those of
    the objective, such as the coefficients of an equation. The constants, which are not trained,
    are the statistics of a normalized network, which must be frozen.

    Attributes:
        structure: tree structure of the network.
        shapes: of its leaves.
        n_unknowns: the number of other unknowns.
    """

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    n_unknowns: int = 0

    @classmethod
    def of(cls, network: KAN, n_unknowns: int = 0) -> "Layout":
        leaves, structure = jax.tree.flatten(network)
        return cls(structure, tuple(leaf.shape for leaf in leaves), n_unknowns)

    @functools.cached_property
    def template(self) -> KAN:
        """The network with shapes in place of arrays."""
        shapes = [jax.ShapeDtypeStruct(shape, np.float64) for shape in self.shapes]
        return jax.tree.unflatten(self.structure, shapes)

    @functools.cached_property
    def n_weights(self) -> int:
        """The length of θ."""
        return sum(layer.n_out * _columns(layer) for layer in self.template.layers)

    @property
    def n_trained(self) -> int:
        """The length of θ and of the other unknowns: what an iteration moves."""
        return self.n_weights + self.n_unknowns

    def vector(self, network: KAN, unknowns: Any = ()) -> Float[np.ndarray, " n"]:
        """The vector of a network and other unknowns, with c absorbed into b."""
        trained, constants = [], []
        for layer in network.layers:
            columns = [np.asarray(layer.c)[..., None] * np.asarray(layer.b)]
            if layer.r is not None:
                columns.append(np.asarray(layer.r)[..., None])
            matrix = np.concatenate(columns, axis=-1).reshape(layer.n_out, -1)
            if layer.bias is not None:
                matrix = np.concatenate([matrix, np.asarray(layer.bias)[:, None]], axis=1)
            trained.append(matrix.ravel())
            constants += [np.ravel(s) for s in (layer.mean, layer.variance) if s is not None]
        others = np.asarray(unknowns, trained[0].dtype)
        return np.concatenate([*trained, others, *constants])

    def unknowns(self, vector: Float[Any, " n"]) -> Float[Any, " k"]:
        """The other unknowns in a vector."""
        return vector[self.n_weights : self.n_trained]

    def network(self, vector: Float[Array, " n"]) -> KAN:
        """The network of a vector."""
        layers, start, constant = [], 0, self.n_trained
        for layer in self.template.layers:
            n_out, n_in, n_basis = layer.b.shape
            size = n_out * _columns(layer)
            matrix = vector[start : start + size].reshape(n_out, -1)
            start += size
            bias = None
            if layer.bias is not None:
                bias, matrix = matrix[:, -1], matrix[:, :-1]
            edges = matrix.reshape(n_out, n_in, -1)
            arrays: dict[str, Any] = {
                "r": None if layer.r is None else edges[..., n_basis],
                "c": jnp.ones((n_out, n_in), vector.dtype),
                "b": edges[..., :n_basis],
                "bias": bias,
            }
            for name in ("mean", "variance"):
                shape = getattr(layer, name)
                if shape is not None:
                    part = vector[constant : constant + shape.size]
                    arrays[name] = part.reshape(shape.shape)
                    constant += shape.size
            layers.append(dataclasses.replace(layer, **arrays))
        return KAN.from_layers(layers)


def _columns(layer: KANLayer) -> int:
    """Trained weights per output of a layer."""
    _, n_in, n_basis = layer.b.shape
    return n_in * (n_basis + (layer.r is not None)) + (layer.bias is not None)
