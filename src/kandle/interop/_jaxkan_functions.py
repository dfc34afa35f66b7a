"""jaxKAN's layers of Chebyshev, Legendre, Fourier and radial functions as Kandle's, and back."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxkan.layers import ChebyshevLayer, FourierLayer, LegendreLayer, RBFLayer
from jaxtyping import Array

from kandle._errors import UserError, must
from kandle.bases import RBF, Basis, Chebyshev, Fourier, Legendre
from kandle.nn import KANLayer

FUNCTION_LAYERS = (ChebyshevLayer, LegendreLayer, FourierLayer, RBFLayer)

_POLYNOMIALS = {Chebyshev: ChebyshevLayer, Legendre: LegendreLayer}


def function_basis(part: Any) -> Basis:
    """The basis of a layer, or an error if Kandle has none that computes the same."""
    for basis, kind in _POLYNOMIALS.items():
        if isinstance(part, kind):
            # jaxKAN leaves the constant function out exactly where the layer has a bias.
            return basis(part.D, constant=part.bias is None)
    if isinstance(part, FourierLayer):
        return Fourier(part.D)
    kernel = dict(part.kernel)
    if kernel.pop("type", "gaussian") != "gaussian":
        raise UserError(f"its kernel is {part.kernel!r}: only a Gaussian one has an equivalent.")
    centers = np.asarray(part.grid.item, np.float64)
    low, high = map(float, part.grid.grid_range)
    for domain in ((low, high), (centers[0, 0], centers[0, -1])):
        rounding = 8 * np.finfo(np.float32).eps * np.abs(centers).max()
        if np.allclose(centers, np.linspace(*domain, part.D), rtol=0, atol=rounding):
            return RBF(part.D, domain, float(kernel.get("std", 1.0)))
    raise UserError(
        "its centres are not equally spaced, or not the same for all inputs: there is no "
        "equivalent basis."
    )


def function_weights(part: Any, dtype: Any) -> dict[str, Array | None]:
    """(r, c, b, bias) of a layer."""

    def weights(parameter: Any) -> jax.Array:
        return jnp.array(parameter[...], dtype)

    bias = None if part.bias is None else weights(part.bias)
    ones = jnp.ones((part.n_out, part.n_in), dtype)
    if isinstance(part, FourierLayer):
        b = jnp.concatenate([weights(part.c_cos), weights(part.c_sin)], axis=-1)
        return {"r": None, "c": ones, "b": b, "bias": bias}
    return {
        "r": None if part.residual is None else weights(part.c_res),
        "c": ones if part.c_ext is None else weights(part.c_ext),
        "b": weights(part.c_basis),
        "bias": bias,
    }


def write_function_weights(part: Any, r: Any, c: Any, b: Any, bias: Any) -> None:
    """Replace the weights of a layer, in its own precision; None leaves one as it is."""
    if isinstance(part, FourierLayer):
        scaled = b if c is None else b * c[..., None]
        given = {"c_cos": scaled[..., : part.D], "c_sin": scaled[..., part.D :]}
    else:
        given = {"c_res": r, "c_ext": c, "c_basis": b}
    for name, values in {**given, "bias": bias}.items():
        if values is not None and getattr(part, name, None) is not None:
            setattr(part, name, nnx.Param(jnp.array(values)))


def layer_to_kandle(part: Any, l: int) -> KANLayer:
    """A layer as Kandle's."""
    dtype = jnp.promote_types(_dtype(part), jnp.result_type(float))
    try:
        basis = function_basis(part)
    except UserError as error:
        raise UserError(f"Layer {l} cannot be converted: {error}") from None
    return KANLayer(
        **function_weights(part, dtype),  # pyright: ignore[reportArgumentType]
        basis=basis,
        residual=getattr(part, "residual", None),
    )


def layer_from_kandle(layer: KANLayer) -> Any:
    """jaxKAN's layer that computes the same, or an error if there is none."""
    basis, b = layer.basis, layer.b
    shape = {"n_in": layer.n_in, "n_out": layer.n_out, "add_bias": layer.bias is not None}
    options = {**shape, "residual": layer.residual, "external_weights": True}
    known = type(basis) in (Chebyshev, Legendre, Fourier, RBF)  # a subclass may compute anything
    if known and isinstance(basis, Chebyshev | Legendre):
        if basis.squash != "tanh" or basis.domain != (-1.0, 1.0):
            raise _no_equivalent(basis, "squash='tanh' and domain (-1, 1)")
        if basis.constant and layer.bias is not None:
            raise _no_equivalent(basis, "no constant function where the layer has a bias")
        if not basis.constant and layer.bias is None:
            b = jnp.pad(b, ((0, 0), (0, 0), (1, 0)))  # jaxKAN adds the constant function
        part = _POLYNOMIALS[type(basis)](D=basis.degree, **options)
    elif known and isinstance(basis, Fourier):
        if basis.frequency != 1.0 or layer.residual is not None:
            raise _no_equivalent(basis, "frequency 1 and no residual function")
        part = FourierLayer(D=basis.order, **shape)
    elif known and isinstance(basis, RBF):
        kernel = {"type": "gaussian", "std": basis.width}
        part = RBFLayer(D=basis.centers, kernel=kernel, grid_range=basis.domain, **options)
        centers = jnp.asarray(np.linspace(*basis.domain, basis.centers), b.dtype)
        part.grid.item = jnp.tile(centers, (layer.n_in, 1))
    else:
        raise must("'model' of from_kandle", "of bases that jaxKAN has", type(basis).__name__)
    write_function_weights(part, layer.r, layer.c, b, layer.bias)
    return part


def _dtype(part: Any) -> Any:
    return (part.c_cos if isinstance(part, FourierLayer) else part.c_basis)[...].dtype


def _no_equivalent(basis: Basis, needed: str) -> UserError:
    return UserError(
        f"jaxKAN's layer of {type(basis).__name__} functions has {needed}: a network with "
        f"{basis} cannot be converted."
    )
