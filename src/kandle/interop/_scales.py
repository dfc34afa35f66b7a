"""From a scheme and a layer of another library to the standard deviations of its weights."""

import contextlib
import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from kandle._errors import UserError, must
from kandle.bases import Knots, Moments
from kandle.init import Inputs, Scheme, Uniform, get
from kandle.init._scheme import Scales
from kandle.interop._spline import Residual, SplineLayer


def check_scheme(scheme: str | Scheme) -> Scheme:
    """The scheme, if it is one for a layer that evaluates its basis functions as they are."""
    found = get(scheme)
    if found.normalized:
        raise UserError(
            f"Scheme {found.name!r} standardises the basis functions inside the layer: it needs "
            "Kandle's own KAN and cannot initialize a layer of another library."
        )
    if found.needs_data:
        raise UserError(
            f"Scheme {found.name!r} adapts Kandle's own KAN to data with these settings and cannot "
            f"initialize a layer of another library. Got {found!r} instead."
        )
    return found


def check_inputs(inputs: Any) -> Inputs | None:
    """The distribution that layers' inputs are assumed to have; None is each layer's own."""
    if inputs is not None and not isinstance(inputs, Inputs):
        raise must("'inputs'", "a distribution such as init.Uniform(-1, 1), or None", inputs)
    return inputs


def check_seed(what: str, seed: Any) -> int:
    """A seed that both JAX and PyTorch take: a signed integer of 64 bits, NumPy's included."""
    integral = isinstance(seed, numbers.Integral) and not isinstance(seed, bool)
    if not integral or not -(2**63) <= int(seed) < 2**63:
        raise must(what, "an integer from -2**63 to 2**63 - 1", seed)
    return int(seed)


@contextlib.contextmanager
def naming(layer: str) -> Iterator[None]:
    """Say which layer an error inside is about."""
    try:
        yield
    except UserError as error:
        raise UserError(f"Layer {layer!r} cannot be initialized: {error}") from error


def layer_scales(
    scheme: Scheme, layer: SplineLayer, inputs: Inputs | None
) -> tuple[Float[np.ndarray, " n_in"] | None, Float[np.ndarray, "n_in ..."]]:
    """(σ_r, σ_b) of every input, from moments on that input's own knots.

    σ_b is (n_in,), or (n_in, n_basis) from a scheme that has one value per basis function.
    `inputs` None is uniform over the domain of an input's knots. σ_r is None without a residual,
    or with one that is zero wherever the inputs are.
    """
    known: dict[bytes, Scales] = {}
    for i, row in enumerate(layer.knots):
        if row.tobytes() not in known:
            lo, hi = layer.domain(i)
            if not lo < hi:
                raise _collapsed(i, lo)
            moments = _moments(layer, row, inputs or Uniform(lo, hi))
            known[row.tobytes()] = scheme.scales_from_moments(layer.n_in, layer.n_out, moments)
    scales = [known[row.tobytes()] for row in layer.knots]
    sigma_b = np.asarray([b for _, b in scales])
    if any(r is None for r, _ in scales):
        return None, sigma_b
    return np.asarray([r for r, _ in scales], np.float64), sigma_b


def _collapsed(i: int, at: float) -> UserError:
    return UserError(
        f"the grid of input {i} (column {i} of what the layer is given, counted from 0) has "
        f"collapsed to the point {at:g}, as one does that was adapted to a constant input. Give it "
        "an interval, by an update on samples that vary or a new model, or leave that input out."
    )


def _moments(layer: SplineLayer, knots: np.ndarray, inputs: Inputs) -> Moments:
    basis = Knots.from_full(knots, layer.degree)
    each = [basis.moments(inputs, order) for order in (0, 1)]
    mu_R0 = mu_R1 = None
    if layer.residual is not None:
        mu_R0, mu_R1 = (_residual_moment(layer.residual, inputs, order) for order in (0, 1))
        if mu_R0 == 0:
            mu_R0 = mu_R1 = None
    mu_B0, mu_B1 = (float(mu.mean()) for mu in each)
    per_function = [tuple(mu.tolist()) for mu in each]
    return Moments(layer.n_basis, mu_B0, mu_B1, mu_R0, mu_R1, inputs.std, *per_function)


def _residual_moment(residual: Residual, inputs: Inputs, order: int) -> float:
    return float(inputs.expect(lambda x: residual(x, order) ** 2))
