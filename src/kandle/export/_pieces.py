"""A network as tables of polynomial coefficients: what the exported programs compute with.

On the cell [t_q, t_{q+1}) of its knots, with midpoint μ_q and length h_q, every edge function is

    φ_ji(x) = r_ji R(x) + Σ_p a_jiqp v^p,    v = (x - μ_q) / h_q,    -1/2 ≤ v < 1/2,

and outside the outermost knots only r_ji R(x) is left. The coefficients follow from the exact
derivatives of the basis at the midpoint, a_jiqp = c_ji Σ_m b_jim B_m^{(p)}(μ_q) h_q^p / p!.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from kandle._errors import UserError
from kandle.bases import BSpline, Knots
from kandle.nn import KAN, KANLayer, residual_name


@dataclass(frozen=True, eq=False)
class PortableLayer:
    """One layer.

    Attributes:
        knots: the ends of the cells, (n_cells + 1,).
        uniform: whether all cells are equally long, so that a cell is found by division.
        coefficients: a_jiqp, (n_in, n_cells, n_out, degree + 1), for contiguous reading.
        r: (n_in, n_out), or None without a residual.
        residual: the name of R, or None.
        bias: (n_out,).
    """

    knots: Float[np.ndarray, " n_knots"]
    uniform: bool
    coefficients: Float[np.ndarray, "n_in n_cells n_out n_powers"]
    r: Float[np.ndarray, "n_in n_out"] | None
    residual: str | None
    bias: Float[np.ndarray, " n_out"]

    @property
    def n_in(self) -> int:
        return self.coefficients.shape[0]

    @property
    def n_out(self) -> int:
        return self.coefficients.shape[2]


@dataclass(frozen=True, eq=False)
class Portable:
    """A network with its scaling: z = (x - offset) / scale before, y = z · scale + offset after.

    Attributes:
        layers: first to last.
        input_offset, input_scale: (n_in,) each.
        output_offset, output_scale: (n_out,) each.
        input_names, output_names: columns, or x1, x2, … and y1, y2, ….
        classes: what the outputs stand for if they are scores of classes, else None.
    """

    layers: tuple[PortableLayer, ...]
    input_offset: Float[np.ndarray, " n_in"]
    input_scale: Float[np.ndarray, " n_in"]
    output_offset: Float[np.ndarray, " n_out"]
    output_scale: Float[np.ndarray, " n_out"]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    classes: tuple[str, ...] | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.layers[0].n_in, *(layer.n_out for layer in self.layers))


def portable(
    model: KAN,
    *,
    input_offset: Sequence[float] | None = None,
    input_scale: Sequence[float] | None = None,
    output_offset: Sequence[float] | None = None,
    output_scale: Sequence[float] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    classes: Sequence[object] | None = None,
) -> Portable:
    """The network in portable form; without scaling, inputs and outputs are its own."""
    n_in, n_out = model.widths[0], model.widths[-1]
    return Portable(
        tuple(_layer(number, layer) for number, layer in enumerate(model.layers)),
        _vector(input_offset, n_in, 0.0),
        _vector(input_scale, n_in, 1.0),
        _vector(output_offset, n_out, 0.0),
        _vector(output_scale, n_out, 1.0),
        tuple(input_names or (f"x{i + 1}" for i in range(n_in))),
        tuple(output_names or (f"y{i + 1}" for i in range(n_out))),
        None if classes is None else tuple(map(str, classes)),
    )


def _vector(given: Sequence[float] | None, n: int, default: float) -> np.ndarray:
    return np.full(n, default) if given is None else np.asarray(given, np.float64)


def _layer(number: int, layer: KANLayer) -> PortableLayer:
    basis, where = layer.basis, f"Layer {number + 1} of the model"
    if not isinstance(basis, BSpline | Knots):
        raise UserError(
            f"{where} has the basis {basis.name!r}; only B-splines can be exported. Convert it "
            "with jax.export (backend 'dense') instead."
        )
    if layer.normalized and layer.mean is None:
        raise UserError(
            f"{where} standardizes its basis over each batch, so it has no outputs of its own for "
            "a single row. Freeze the statistics first: model.freeze(x)."
        )
    name = None if layer.residual is None else residual_name(layer.residual)
    if layer.residual is not None and name is None:
        raise UserError(f"{where} has a residual function of your own, which has no known formula.")
    r, c, b, bias = (
        None if w is None else np.asarray(w, np.float64) for w in layer.effective_weights(None)
    )
    assert c is not None
    assert b is not None
    knots = np.unique(basis.breakpoints)
    return PortableLayer(
        knots,
        isinstance(basis, BSpline),
        _coefficients(basis, knots, c[..., None] * b),
        None if r is None else r.T.copy(),
        name,
        np.zeros(layer.n_out) if bias is None else bias,
    )


def _coefficients(
    basis: BSpline | Knots, knots: np.ndarray, weights: Float[np.ndarray, "n_out n_in n_basis"]
) -> Float[np.ndarray, "n_in n_cells n_out n_powers"]:
    middle, length = (knots[1:] + knots[:-1]) / 2, np.diff(knots)
    powers = [
        np.einsum("jim,qm->iqj", weights, basis.values(middle, p))
        * (length**p / math.factorial(p))[:, None]
        for p in range(basis.degree + 1)
    ]
    return np.stack(powers, axis=-1)
