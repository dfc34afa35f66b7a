"""Networks with drawn weights, without a compilation per shape."""

import itertools
from collections.abc import Sequence

import jax
import numpy as np

from kandle.bases import BSpline
from kandle.init import NumPySource, Scheme, Source, draw_weights
from kandle.nn import KAN, KANLayer
from kandle.nn._residuals import get_residual

# R of every layer of an estimator's networks.
_RESIDUAL = "silu"


def draw_networks(
    widths: list[int],
    grid: int | Sequence[int],
    degree: int,
    scheme: Scheme,
    count: int,
    seed: int,
    sample: np.ndarray | None = None,
) -> list[KAN]:
    """`count` networks of one shape, with weights drawn by the scheme and a bias of zeros.

    The numbers come from NumPy: those that `KAN` draws from a JAX key take a second of compilation
    per shape of a layer. Only a scheme that overrides `Scheme.draw`, or needs a sample of the
    inputs, draws from JAX keys.
    """
    if scheme.needs_data or type(scheme).draw is not Scheme.draw:
        keys = jax.random.split(jax.random.key(seed), count)
        options = {"grid": grid, "degree": degree, "init": scheme, "sample": sample}
        return [KAN(widths, **options, key=key, dtype="float32") for key in keys]
    shapes = list(itertools.pairwise(widths))
    grids = [grid] * len(shapes) if isinstance(grid, int | np.integer) else list(grid)
    bases = [BSpline(int(g), degree) for g in grids]
    networks = []
    for stream in np.random.SeedSequence(seed).spawn(count):
        source = NumPySource(np.random.default_rng(stream))
        layers = [
            _draw_layer(n_in, n_out, basis, scheme, source)
            for (n_in, n_out), basis in zip(shapes, bases, strict=True)
        ]
        networks.append(KAN.from_layers(layers))
    return networks


def _draw_layer(n_in: int, n_out: int, basis: BSpline, scheme: Scheme, source: Source) -> KANLayer:
    sigma_r, sigma_b = scheme.scales(n_in, n_out, basis=basis, residual=_RESIDUAL)
    shape = (n_out, n_in, basis.n_basis)
    # One stream of numbers: r is drawn first.
    sources = (source, source)
    weights = draw_weights(shape, sigma_r, sigma_b, law=scheme.residual_law, sources=sources)
    # Not `jnp.asarray`, for which JAX compiles a program per shape.
    arrays = (*weights, np.zeros(n_out))
    r, c, b, bias = (jax.device_put(np.asarray(array, np.float32)) for array in arrays)
    return KANLayer(
        r=r,
        c=c,
        b=b,
        bias=bias,
        basis=basis,
        residual=get_residual(_RESIDUAL),
        normalized=scheme.normalized,
    )
