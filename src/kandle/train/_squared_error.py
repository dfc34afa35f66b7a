"""The squared error of a network by one native call, where there is one."""

from jaxtyping import Array, Float

from kandle import kernels
from kandle.kernels import _fit
from kandle.nn import KAN, KANLayer


def fused_squared_error(
    model: KAN,
    x: Float[Array, "N n_in"],
    y: Float[Array, "N n_out"],
    weight: Float[Array, " N"],
) -> Float[Array, ""] | None:
    """Σ_n weight_n |u(x_n) - y_n|², or None for networks without such a call."""
    # What inherits from a network or a layer may compute something else.
    if type(model) is not KAN or any(type(layer) is not KANLayer for layer in model.layers):
        return None
    if not _accepts(model, x, y):
        return None
    layers, dtype = model.layers, model.dtype
    return _fit.squared_error(
        x.astype(dtype),
        y.astype(dtype),
        weight.astype(dtype),
        [(layer.r, layer.c, layer.b, layer.bias) for layer in layers],
        bases=[layer.basis for layer in layers],
        residuals=[layer.residual for layer in layers],
    )


def _accepts(model: KAN, x: Array, y: Array) -> bool:
    layers, widths = model.layers, model.widths
    if x.shape[1:] != widths[:1] or y.shape != (len(x), widths[-1]):
        return False
    return all(
        not layer.normalized and kernels.check_backend(layer.backend, layer.basis) == "native"
        for layer in layers
    ) and _fit.accepts(
        widths,
        [layer.basis for layer in layers],
        [layer.residual for layer in layers],
        model.dtype,
    )
