"""A network as one C99 function without dependencies."""

from collections.abc import Sequence

import numpy as np

from kandle.export._pieces import Portable, PortableLayer

# Formulas of R(x) for x = `v`, with <math.h>.
_RESIDUALS = {
    "silu": "v / (1.0 + exp(-v))",
    "relu": "v > 0.0 ? v : 0.0",
    "gelu": "0.5 * v * (1.0 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))",
    "elu": "v > 0.0 ? v : expm1(v)",
    "softplus": "(v > 0.0 ? v : 0.0) + log1p(exp(-fabs(v)))",
    "sigmoid": "1.0 / (1.0 + exp(-v))",
    "tanh": "tanh(v)",
    "sin": "sin(v)",
    "identity": "v",
}

_LAYER = """\
static void layer{number}(const double *x, double *y)
{{
    for (int j = 0; j < {n_out}; ++j)
        y[j] = bias{number}[j];
    for (int i = 0; i < {n_in}; ++i) {{
        const double v = x[i];
{residual}        /* not-a-number and infinity reach every output */
        if (!isfinite(v)) {{
            for (int j = 0; j < {n_out}; ++j)
                y[j] = NAN;
            return;
        }}
{locate}
        const double *a = coefficients{number}[i][q][0];
        for (int j = 0; j < {n_out}; ++j, a += {powers})
            y[j] += {horner};
    }}
}}
"""
_UNIFORM = """\
        const double s = (v - {low}) * {inverse};
        if (s < 0.0 || s >= {cells}.0)
            continue;
        const int q = (int)s;
        const double u = s - q - 0.5;"""
_SEARCH = """\
        if (v < knots{number}[0] || v >= knots{number}[{cells}])
            continue;
        int q = 0, end = {cells};
        while (end - q > 1) {{
            const int middle = (q + end) / 2;
            if (v < knots{number}[middle])
                end = middle;
            else
                q = middle;
        }}
        const double length = knots{number}[q + 1] - knots{number}[q];
        const double u = (v - knots{number}[q]) / length - 0.5;"""
_RESIDUAL = """\
        const double r = {formula};
        for (int j = 0; j < {n_out}; ++j)
            y[j] += residual{number}[i][j] * r;
"""


def c_source(model: Portable) -> str:
    """The text of a C file with `void kandle_predict(const double *x, double *y)`."""
    widths = model.widths
    parts = [_header(model), "#include <math.h>\n"]
    for name in ("input_offset", "input_scale", "output_offset", "output_scale"):
        parts.append(_array(name, getattr(model, name), "double"))
    for number, layer in enumerate(model.layers):
        parts.append(_layer(number, layer))
    calls = "\n".join(
        f"    layer{number}({'a' if number % 2 == 0 else 'b'}, {'b' if number % 2 == 0 else 'a'});"
        for number in range(len(model.layers))
    )
    last = "b" if len(model.layers) % 2 else "a"
    parts.append(
        f"""\
void kandle_predict(const double *x, double *y)
{{
    double a[{max(widths)}], b[{max(widths)}];
    for (int i = 0; i < {widths[0]}; ++i)
        a[i] = (x[i] - input_offset[i]) / input_scale[i];
{calls}
    for (int j = 0; j < {widths[-1]}; ++j)
        y[j] = {last}[j] * output_scale[j] + output_offset[j];
}}
"""
    )
    return "\n".join(parts)


def _header(model: Portable) -> str:
    inputs, outputs = (_comment(names) for names in (model.input_names, model.output_names))
    classes = "" if model.classes is None else f"\n   outputs are scores: {_comment(model.classes)}"
    return (
        f"/* A Kolmogorov-Arnold network, widths {list(model.widths)}, exported by Kandle. C99.\n"
        f"\n   void kandle_predict(const double *x, double *y);\n"
        f"\n   x: {inputs}\n   y: {outputs}{classes} */"
    )


def _comment(names: Sequence[str]) -> str:
    """Names inside a C comment: printable, and never its end."""
    text = ", ".join(names)
    return "".join(c if c.isprintable() else "?" for c in text).replace("*/", "* /")


def _layer(number: int, layer: PortableLayer) -> str:
    n_in, cells, n_out, powers = layer.coefficients.shape
    shape = {"number": number, "n_in": n_in, "n_out": n_out, "cells": cells, "powers": powers}
    parts = [
        _array(f"coefficients{number}", layer.coefficients, "double"),
        _array(f"bias{number}", layer.bias, "double"),
    ]
    if layer.uniform:
        low, high = layer.knots[0], layer.knots[-1]
        locate = _UNIFORM.format(low=_number(low), inverse=_number(cells / (high - low)), **shape)
    else:
        parts.append(_array(f"knots{number}", layer.knots, "double"))
        locate = _SEARCH.format(**shape)
    residual = ""
    if layer.r is not None and layer.residual is not None:
        parts.append(_array(f"residual{number}", layer.r, "double"))
        residual = _RESIDUAL.format(formula=_RESIDUALS[layer.residual], **shape)
    horner = f"a[{powers - 1}]"
    for power in reversed(range(powers - 1)):
        horner = f"({horner} * u + a[{power}])"
    parts.append(_LAYER.format(locate=locate, residual=residual, horner=horner, **shape))
    return "\n".join(parts)


def _array(name: str, values: np.ndarray, kind: str) -> str:
    shape = "".join(f"[{n}]" for n in values.shape)
    return f"static const {kind} {name}{shape} = {_braces(values)};\n"


def _braces(values: np.ndarray) -> str:
    if values.ndim == 1:
        numbers = [_number(value) for value in values]
        lines = [", ".join(numbers[i : i + 6]) for i in range(0, len(numbers), 6)]
        return "{" + ",\n ".join(lines) + "}"
    return "{" + ",\n".join(_braces(part) for part in values) + "}"


def _number(value: float) -> str:
    text = repr(float(value))
    return text if any(c in text for c in ".en") else f"{text}.0"
