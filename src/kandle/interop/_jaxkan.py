"""jaxKAN's models: start them anew, turn them into Kandle's and back."""

import functools
import numbers
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
from kandle.interop._scales import (
    check_inputs,
    check_scheme,
    check_seed,
    layer_scales,
    naming,
)
from kandle.interop._spline import Residual, SplineLayer
from kandle.nn import KAN, KANLayer
from kandle.splines import SplineBasis

# jaxKAN keeps its knots in float32.
_EPSILON = float(np.finfo(np.float32).eps)


def initialize(
    model: Any,
    scheme: str | Scheme,
    key: Any = None,
    *,
    seed: Any = None,
    inputs: Inputs | None = None,
) -> Report:
    """Start every spline layer of a jaxKAN model anew, in place.

    On uniform grids the weights are those of a Kandle network of the same shape and key.

    Args:
        model: a jaxKAN `KAN` of type "base" or "spline", or any nnx module that holds such layers;
            parts that are not known keep their weights and are named in a warning.
        scheme: of `kandle.init`, or its name; LeCun-normalized is refused.
        key: a JAX key, or an integer to make one of; each layer draws from its own part of it.
        seed: an integer from -2**63 to 2**63 - 1, in place of the key. Without either the seed is
            0: JAX has no global generator, so that two calls alike give the same weights.
        inputs: the distribution that the scheme assumes for every layer's inputs; None is uniform
            over the domain of each layer's own grid.
    """
    found, inputs = check_scheme(scheme), check_inputs(inputs)
    key = _key(key, seed)
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
        with naming(name):
            layer = _describe(part)
            sigma_r, sigma_b = layer_scales(found, layer, inputs)
        dtype = part.c_basis[...].dtype
        drawn.append(_draw(layer_key, found, layer, sigma_r, sigma_b, dtype))
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


def _key(key: Any, seed: Any) -> jax.Array:
    if key is not None and seed is not None:
        raise UserError("'key' and 'seed' of initialize must not both be given.")
    if key is None:
        return jax.random.key(check_seed("'seed' of initialize", 0 if seed is None else seed))
    if isinstance(key, numbers.Integral):
        return jax.random.key(check_seed("'key' of initialize", key))
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    try:
        made = key if typed else jax.random.wrap_key_data(jnp.asarray(key))
        if made.shape != ():
            raise ValueError
    except (TypeError, ValueError):
        raise must("'key' of initialize", "one JAX key, an integer or None", key) from None
    return made


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
            raise UserError("its outputs have grids that differ, and a start is for one an input.")
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
    dtype: Any,
) -> tuple[jax.Array | None, jax.Array]:
    shape = {"n_in": layer.n_in, "n_out": layer.n_out, "n_basis": layer.n_basis}
    drawn = functools.partial(draw_scaled, key, law=scheme.residual_law, dtype=dtype, **shape)
    if np.ptp(sigma_b) == 0 and (sigma_r is None or np.ptp(sigma_r) == 0):
        first = None if sigma_r is None else sigma_r[0]
        r, _, b = drawn(first, sigma_b[0])
        return r, b
    unit_r, _, unit_b = drawn(None if sigma_r is None else 1.0, 1.0)
    r = None if sigma_r is None or unit_r is None else unit_r * jnp.asarray(sigma_r, dtype)
    return r, unit_b * jnp.asarray(sigma_b, dtype)[:, None]


def _write(part: Any, r: Any, c: Any, b: Any, bias: Any) -> None:
    for name, values in (("c_res", r), ("c_spl", c), ("c_basis", b), ("bias", bias)):
        if values is not None:
            parameter = getattr(part, name)
            # Under JAX's double precision a layer may hold both kinds: each stays what it is.
            parameter[...] = jnp.asarray(values, parameter[...].dtype).reshape(parameter.shape)


def _to_kandle(part: Any, l: int) -> KANLayer:
    basis = _uniform_basis(part, l)
    edges, dtype = (part.n_out, part.n_in), part.c_basis[...].dtype

    def weights(parameter: Any) -> jax.Array:
        return jnp.array(parameter[...], dtype)

    return KANLayer(
        None if part.residual is None else weights(part.c_res),
        jnp.ones(edges, dtype) if part.c_spl is None else weights(part.c_spl),
        weights(part.c_basis).reshape(*edges, basis.n_basis),
        None if part.bias is None else weights(part.bias),
        basis=basis,
        residual=part.residual,
    )


def _uniform_basis(part: Any, l: int) -> SplineBasis:
    """The uniform basis that a layer's knots are, up to the float32 they are kept in."""
    knots, degree = _knots(part), part.k
    grid = knots.shape[1] - 2 * degree - 1
    ends = _few_digits(knots[0, degree]), _few_digits(knots[0, -degree - 1])
    # What the layer was built with is exact, and holds unless its grid was adapted since.
    low, high = map(float, part.grid.grid_range)
    for domain in ((low, high), ends):
        if domain[0] < domain[1]:
            basis = SplineBasis(grid, degree, domain)
            rounding = 4 * _EPSILON * np.abs(knots).max()
            if np.allclose(knots, basis.knots, rtol=0, atol=1e-5 * basis.step + rounding):
                return basis
    raise UserError(
        f"Layer {l} has a grid that is not uniform, or not the same for all inputs, and "
        "Kandle's are: the model cannot be converted. It can be initialized in place."
    )


def _few_digits(end: float) -> float:
    """The number of few digits that float32 cannot tell from this one, if there is one."""
    rounded = float(np.round(end, 6))
    return rounded if np.float32(rounded) == np.float32(end) else float(end)
