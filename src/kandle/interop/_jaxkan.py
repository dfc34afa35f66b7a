"""Initialize the layers of a jaxKAN model."""

import numbers
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from kandle._compat import enable_x64
from kandle._errors import UserError, must
from kandle.init import Inputs, Scheme, draw_scaled
from kandle.interop._jaxkan_functions import (
    FUNCTION_LAYERS,
    function_basis,
    write_function_weights,
)
from kandle.interop._jaxkan_layers import LAYERS, computes_as, knots_of
from kandle.interop._report import Report, layer_report
from kandle.interop._scales import (
    check_inputs,
    check_scheme,
    check_seed,
    layer_scales,
    naming,
)
from kandle.interop._spline import Residual, SplineLayer


def initialize(
    model: Any,
    scheme: str | Scheme,
    key: Any = None,
    *,
    seed: Any = None,
    inputs: Inputs | None = None,
) -> Report:
    """Initialize every layer of a jaxKAN model with a basis that Kandle knows, in place.

    On uniform grids, and for layers of other functions, the weights are those of a Kandle network
    of the same shape and key.

    Args:
        model: a jaxKAN `KAN` of any type but "sine", or any nnx module that contains such layers;
            parts that are not known, such as a layer with a `basis` of its own, keep their weights
            and are named in a warning.
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
            f"There is no layer that is known here in {type(model).__name__}: it has "
            f"{', '.join(unknown) or 'no parameters at all'}."
        )
    reports, drawn = [], []
    for (name, part), layer_key in zip(known, jax.random.split(key, len(known)), strict=True):
        with naming(name):
            functions = isinstance(part, FUNCTION_LAYERS)
            layer = _FunctionLayer(part) if functions else _describe(part)
            if isinstance(layer, _FunctionLayer):
                sigma_r, sigma_b = layer.scales(found, inputs)
            else:
                sigma_r, sigma_b = layer_scales(found, layer, inputs)
        dtype = jnp.float32 if functions else part.c_basis[...].dtype
        # σ_b gets one column, or one per basis function.
        r, _, b = draw_scaled(
            layer_key,
            sigma_r,
            sigma_b.reshape(layer.n_in, -1),
            n_in=layer.n_in,
            n_out=layer.n_out,
            n_basis=layer.n_basis,
            law=found.residual_law,
            dtype=dtype,
        )
        drawn.append((r, b))
        reports.append(layer_report(name, type(part).__name__, layer, sigma_r, sigma_b))
    for (_, part), (r, b) in zip(known, drawn, strict=True):
        bias = None if part.bias is None else jnp.zeros(part.n_out)
        ones = jnp.ones((part.n_out, part.n_in))
        if isinstance(part, FUNCTION_LAYERS):
            write_function_weights(part, r, ones, b, bias)
        else:
            _write(part, r, None if part.c_spl is None else ones, b, bias)
    if unknown:
        warnings.warn(
            f"Not initialized, because these parts are not known: {', '.join(unknown)}.",
            stacklevel=2,
        )
    return Report(found.name, tuple(reports), (), tuple(unknown))


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
        if computes_as(part, (*LAYERS, *FUNCTION_LAYERS), "basis"):
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


class _FunctionLayer:
    """A layer of functions other than splines, the same for all its inputs."""

    def __init__(self, part: Any):
        self.n_in, self.n_out = part.n_in, part.n_out
        self.residual = getattr(part, "residual", None)
        self.basis = function_basis(part)
        self.n_basis = self.basis.n_basis

    def scales(self, scheme: Scheme, inputs: Inputs | None) -> tuple[np.ndarray | None, np.ndarray]:
        """(σ_r, σ_b), repeated for every input."""
        sigma_r, sigma_b = scheme.scales(
            self.n_in, self.n_out, basis=self.basis, residual=self.residual, inputs=inputs
        )
        per_input = np.broadcast_to(sigma_b, (self.n_in, *np.shape(sigma_b)))
        return None if sigma_r is None else np.full(self.n_in, sigma_r), per_input


def _describe(part: Any) -> SplineLayer:
    return SplineLayer(part.n_in, part.n_out, knots_of(part), part.k, _residual(part.residual))


def _residual(function: Callable | None) -> Residual | None:
    if function is None:
        return None

    def residual(x: np.ndarray, order: int) -> np.ndarray:
        R = jax.grad(function) if order else function
        with enable_x64(True):
            return np.asarray(jax.vmap(R)(jnp.asarray(x, jnp.float64)))

    return residual


def _write(part: Any, r: Any, c: Any, b: Any, bias: Any) -> None:
    for name, values in (("c_res", r), ("c_spl", c), ("c_basis", b), ("bias", bias)):
        if values is not None:
            parameter = getattr(part, name)
            # Under JAX's double precision a layer may hold both kinds: each stays what it is.
            parameter[...] = jnp.asarray(values, parameter[...].dtype).reshape(parameter.shape)
