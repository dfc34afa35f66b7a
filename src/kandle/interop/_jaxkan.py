"""jaxKAN's models: start them anew, turn them into Kandle's and back."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxkan.grids.BaseGrid import BaseGrid
from jaxkan.layers import BaseLayer
from jaxkan.layers import SplineLayer as EfficientLayer
from jaxkan.models.KAN import KAN as JaxKAN

from kandle._errors import UserError, must
from kandle.init import Inputs, Scheme, draw_scaled
from kandle.interop._report import Report, layer_report
from kandle.interop._scales import check_scheme, layer_scales
from kandle.interop._spline import Residual, SplineLayer
from kandle.nn import KAN, KANLayer
from kandle.splines import SplineBasis


def initialize(
    model: Any, scheme: str | Scheme, key: jax.Array, *, inputs: Inputs | None = None
) -> Report:
    """Start every spline layer of a jaxKAN model anew, in place.

    On uniform grids the weights are those of a Kandle network of the same shape and key.

    Args:
        model: a jaxKAN `KAN` of type "base" or "spline", or any nnx module that holds such layers;
            parts that are not known keep their weights and are named in a warning.
        scheme: of `kandle.init`, or its name; LeCun-normalized is refused.
        key: a JAX key; each layer draws from its own part of it.
        inputs: the distribution that the scheme assumes for every layer's inputs; None is uniform
            over the domain of each layer's own grid.
    """
    found = check_scheme(scheme)
    if not isinstance(model, nnx.Module):
        raise must("'model' of initialize", "a jaxKAN model", type(model).__name__)
    known, unknown = _sort(model)
    if not known:
        raise UserError(
            f"There is no spline layer in {type(model).__name__}: it has "
            f"{', '.join(unknown) or 'no parameters at all'}."
        )
    reports, drawn = [], []
    for (name, part), layer_key in zip(known, jax.random.split(key, len(known)), strict=True):
        layer = _describe(part)
        sigma_r, sigma_b = layer_scales(found, layer, inputs)
        drawn.append(_draw(layer_key, found, layer, sigma_r, sigma_b))
        reports.append(layer_report(name, type(part).__name__, layer, sigma_r, sigma_b))
    for (_, part), (r, b) in zip(known, drawn, strict=True):
        c = None if part.c_spl is None else jnp.ones((part.n_out, part.n_in))
        bias = None if part.bias is None else jnp.zeros(part.n_out)
        _write(part, r, c, b, bias)
    if unknown:
        warnings.warn(
            f"Not initialized, because these parts are not known: {', '.join(unknown)}.",
            stacklevel=2,
        )
    return Report(found.name, tuple(reports), (), tuple(unknown))


def to_kandle(model: Any) -> KAN:
    """The Kandle network that computes what a jaxKAN `KAN` of spline layers does.

    Kandle's knots are uniform: a model whose grids were adapted to data is refused.
    """
    layers = list(getattr(model, "layers", ()))
    if not layers or not all(isinstance(layer, BaseLayer | EfficientLayer) for layer in layers):
        kinds = sorted({type(layer).__name__ for layer in layers}) or type(model).__name__
        raise must("'model' of to_kandle", "a jaxKAN KAN of spline layers", kinds)
    return KAN.from_layers(_to_kandle(layer, l) for l, layer in enumerate(layers))


def from_kandle(model: KAN, layer_type: str = "spline") -> JaxKAN:
    """The jaxKAN model that computes what a Kandle network does.

    Args:
        model: any but a normalized network, which jaxKAN has no layer for.
        layer_type: "spline" or "base", jaxKAN's two spline layers.
    """
    kinds: dict[str, Callable] = {"spline": EfficientLayer, "base": BaseLayer}
    if layer_type not in kinds:
        raise must("'layer_type' of from_kandle", "'spline' or 'base'", layer_type)
    if any(layer.normalized for layer in model.layers):
        raise must("'model' of from_kandle", "without standardised basis functions", "one")
    parts = []
    for layer in model.layers:
        part = kinds[layer_type](
            n_in=layer.n_in,
            n_out=layer.n_out,
            k=layer.basis.degree,
            G=layer.basis.grid,
            grid_range=layer.basis.domain,
            residual=layer.residual,
            external_weights=True,
            add_bias=layer.bias is not None,
        )
        _write(part, layer.r, layer.c, layer.b, layer.bias)
        parts.append(part)
    shape = {"k": 1, "G": 1}
    converted = JaxKAN([1, 1], layer_type, shape)  # its one layer gives way to those above
    converted.layers = nnx.List(parts)
    return converted


def _sort(model: Any) -> tuple[list[tuple[str, Any]], list[str]]:
    known, unknown = [], []
    for path, part in _modules(model):
        name = ".".join(map(str, path)) or "model"
        if isinstance(part, BaseLayer | EfficientLayer):
            known.append((name, part))
        elif any(isinstance(value, nnx.Param) for value in vars(part).values()):
            unknown.append(f"{name} ({type(part).__name__})")
    # jaxKAN numbers its layers: ten comes after nine.
    known.sort(
        key=lambda found: [
            (p.isdigit(), int(p) if p.isdigit() else p, p) for p in found[0].split(".")
        ]
    )
    return known, unknown


def _modules(model: Any) -> Iterator[tuple[tuple, Any]]:
    yield from ((path, part) for path, part in nnx.iter_modules(model))


def _knots(part: Any) -> np.ndarray:
    """(n_in, G + 2k + 1): `BaseLayer` repeats them for every output, outputs first."""
    knots = np.asarray(part.grid.item, np.float64)
    if isinstance(part.grid, BaseGrid):
        knots = knots.reshape(part.n_out, part.n_in, -1)
        if not (knots == knots[0]).all():
            raise UserError("A layer whose outputs have different grids cannot be initialized.")
        knots = knots[0]
    return knots


def _describe(part: Any) -> SplineLayer:
    return SplineLayer(part.n_in, part.n_out, _knots(part), part.k, _residual(part.residual))


def _residual(function: Callable | None) -> Residual | None:
    if function is None:
        return None

    def residual(x: np.ndarray, order: int) -> np.ndarray:
        R = jax.grad(function) if order else function
        with jax.enable_x64(True):
            return np.asarray(jax.vmap(R)(jnp.asarray(x, jnp.float64)))

    return residual


def _draw(
    key: jax.Array,
    scheme: Scheme,
    layer: SplineLayer,
    sigma_r: np.ndarray | None,
    sigma_b: np.ndarray,
) -> tuple[jax.Array | None, jax.Array]:
    shape = {"n_in": layer.n_in, "n_out": layer.n_out, "n_basis": layer.n_basis}
    law = scheme.residual_law
    if np.ptp(sigma_b) == 0 and (sigma_r is None or np.ptp(sigma_r) == 0):
        first = None if sigma_r is None else sigma_r[0]
        r, _, b = draw_scaled(key, first, sigma_b[0], law=law, **shape)
        return r, b
    unit_r, _, unit_b = draw_scaled(key, None if sigma_r is None else 1.0, 1.0, law=law, **shape)
    r = None if sigma_r is None or unit_r is None else unit_r * jnp.asarray(sigma_r, jnp.float32)
    return r, unit_b * jnp.asarray(sigma_b, jnp.float32)[:, None]


def _write(part: Any, r: Any, c: Any, b: Any, bias: Any) -> None:
    if r is not None:
        part.c_res[...] = r
    if c is not None:
        part.c_spl[...] = c
    part.c_basis[...] = b.reshape(part.c_basis.shape)
    if bias is not None:
        part.bias[...] = bias


def _to_kandle(part: Any, l: int) -> KANLayer:
    basis = _uniform_basis(_knots(part), part.k, l)
    edges = (part.n_out, part.n_in)
    return KANLayer(
        None if part.residual is None else jnp.array(part.c_res[...]),
        jnp.ones(edges) if part.c_spl is None else jnp.array(part.c_spl[...]),
        jnp.array(part.c_basis[...]).reshape(*edges, basis.n_basis),
        None if part.bias is None else jnp.array(part.bias[...]),
        basis=basis,
        residual=part.residual,
    )


def _uniform_basis(knots: np.ndarray, degree: int, l: int) -> SplineBasis:
    lo, hi = float(knots[0, degree]), float(knots[0, -degree - 1])
    # jaxKAN computes knots in float32: ends such as 1 come out a rounding error away.
    lo, hi = (float(np.round(end, 6)) for end in (lo, hi))
    basis = SplineBasis(knots.shape[1] - 2 * degree - 1, degree, (lo, hi))
    if not np.allclose(knots, basis.knots, rtol=0, atol=1e-5 * basis.step):
        raise UserError(
            f"Layer {l} has a grid that is not uniform, or not the same for all inputs, and "
            "Kandle's are: the model cannot be converted. It can be initialized in place."
        )
    return basis
