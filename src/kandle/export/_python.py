"""A network as one Python file that needs NumPy alone."""

import base64
import textwrap
import zlib

import numpy as np

from kandle.export._pieces import Portable

_RESIDUALS = {
    "silu": "v / (1.0 + np.exp(-v))",
    "relu": "np.maximum(v, 0.0)",
    "gelu": "0.5 * v * (1.0 + np.tanh(0.7978845608028654 * (v + 0.044715 * v**3)))",
    "elu": "np.where(v > 0.0, v, np.expm1(np.minimum(v, 0.0)))",
    "softplus": "np.logaddexp(v, 0.0)",
    "sigmoid": "1.0 / (1.0 + np.exp(-v))",
    "tanh": "np.tanh(v)",
    "sin": "np.sin(v)",
    "identity": "v",
}

_PROGRAM = '''\
"""A Kolmogorov-Arnold network, widths {widths}, exported by Kandle.

    predict(x): inputs (N, {n_in}) -> outputs (N, {n_out})

It needs Python 3 and NumPy.
"""

import base64
import zlib

import numpy as np

INPUT_NAMES = {input_names!r}
OUTPUT_NAMES = {output_names!r}
CLASSES = {classes!r}  # what the outputs are scores of, or None

# Per layer: the shape of the coefficients (inputs, cells, outputs, powers), the residual function.
LAYERS = {layers!r}
RESIDUALS = {{
{residuals}
}}


def predict(x):
    """Outputs (N, {n_out}) of inputs (N, {n_in}); a row with NaN or infinity gives NaN."""
    x = np.asarray(x, np.float64)
    if x.ndim != 2 or x.shape[1] != {n_in}:
        raise ValueError(f"x must have the shape (N, {n_in}), got {{x.shape}}.")
    z = (x - _ARRAYS["input_offset"]) / _ARRAYS["input_scale"]
    with np.errstate(all="ignore"):
        for number in range(len(LAYERS)):
            z = _layer(number, z)
    return z * _ARRAYS["output_scale"] + _ARRAYS["output_offset"]


def _layer(number, x):
    _, residual = LAYERS[number]
    coefficients, knots, bias = (
        _ARRAYS[f"{{name}}{{number}}"] for name in ("coefficients", "knots", "bias")
    )
    y = np.zeros((len(x), coefficients.shape[2])) + bias
    for i in range(coefficients.shape[0]):
        v = x[:, i]
        if residual is not None:
            y += RESIDUALS[residual](v)[:, None] * _ARRAYS[f"residual{{number}}"][i]
        inside = (v >= knots[0]) & (v < knots[-1])
        q = np.searchsorted(knots, v[inside], side="right") - 1
        u = ((v[inside] - knots[q]) / (knots[q + 1] - knots[q]) - 0.5)[:, None]
        a = coefficients[i, q]  # (rows, outputs, powers)
        value = a[..., -1]
        for power in range(a.shape[-1] - 2, -1, -1):
            value = value * u + a[..., power]
        y[inside] += value
        y[~np.isfinite(v)] = np.nan
    return y


def _decode(text, shapes):
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<f8")
    arrays, start = {{}}, 0
    for name, shape in shapes:
        size = int(np.prod(shape))
        arrays[name] = numbers[start : start + size].reshape(shape)
        start += size
    return arrays


# All numbers, as little-endian float64, compressed.
_ARRAYS = _decode(
    """\\
{data}
""",
    {shapes!r},
)
'''


def python_source(model: Portable) -> str:
    """The text of a Python module with `predict(x)`."""
    arrays = {
        name: getattr(model, name)
        for name in ("input_offset", "input_scale", "output_offset", "output_scale")
    }
    for number, layer in enumerate(model.layers):
        arrays[f"coefficients{number}"] = layer.coefficients
        arrays[f"knots{number}"] = layer.knots
        arrays[f"bias{number}"] = layer.bias
        if layer.r is not None:
            arrays[f"residual{number}"] = layer.r
    used = sorted({layer.residual for layer in model.layers if layer.residual is not None})
    return _PROGRAM.format(
        widths=list(model.widths),
        n_in=model.widths[0],
        n_out=model.widths[-1],
        input_names=model.input_names,
        output_names=model.output_names,
        classes=model.classes,
        layers=[(layer.coefficients.shape, layer.residual) for layer in model.layers],
        residuals="\n".join(f'    "{name}": lambda v: {_RESIDUALS[name]},' for name in used),
        data=_encode(arrays),
        shapes=[(name, array.shape) for name, array in arrays.items()],
    )


def _encode(arrays: dict[str, np.ndarray]) -> str:
    numbers = b"".join(np.ascontiguousarray(a, "<f8").tobytes() for a in arrays.values())
    return "\n".join(textwrap.wrap(base64.b64encode(zlib.compress(numbers, 9)).decode(), 96))
