"""Networks with drawn weights, without a compilation per shape."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from kandle.bases import BSpline
from kandle.init import Scheme
from kandle.nn import KAN, KANLayer
from kandle.nn._residuals import get_residual


def draw_networks(
    widths: list[int],
    grid: int | Sequence[int],
    degree: int,
    scheme: Scheme,
    count: int,
    seed: int,
    sample: np.ndarray | None = None,
) -> list[KAN]:
    """`count` networks of one shape, with r ~ σ_r, c = 1, b ~ N(0, σ_b²) and a bias of zeros.

    The standard deviations are those of the scheme. The numbers are NumPy's and not those that
    `KAN` draws from a JAX key, which takes a second of compilation per shape of a layer. A scheme
    that draws its weights in a way of its own, or needs a sample of the inputs, is asked for them.
    """
    if scheme.needs_data or type(scheme).draw is not Scheme.draw:
        keys = jax.random.split(jax.random.key(seed), count)
        options = {"grid": grid, "degree": degree, "init": scheme, "sample": sample}
        return [KAN(widths, **options, key=key, dtype="float32") for key in keys]
    grids = [grid] * (len(widths) - 1) if isinstance(grid, int | np.integer) else list(grid)
    bases, residual = [BSpline(int(g), degree) for g in grids], get_residual("silu")
    streams = np.random.SeedSequence(seed).spawn(count)
    return [
        KAN.from_layers(
            _layer(n_in, n_out, basis, residual, scheme, rng)
            for (n_in, n_out), basis in zip(itertools.pairwise(widths), bases, strict=True)
        )
        for rng in map(np.random.default_rng, streams)
    ]


def _layer(n_in, n_out, basis, residual, scheme, rng) -> KANLayer:
    sigma_r, sigma_b = scheme.scales(n_in, n_out, basis=basis)
    shape = (n_out, n_in)
    if scheme.residual_law == "uniform":
        r = np.sqrt(3.0) * rng.uniform(-1, 1, shape)
    else:
        r = rng.standard_normal(shape)
    b = rng.standard_normal((*shape, basis.n_basis))
    arrays = (sigma_r * r, np.ones(shape), sigma_b * b, np.zeros(n_out))
    return KANLayer(
        *(jnp.asarray(array.astype(np.float32)) for array in arrays),
        basis=basis,
        residual=residual,
        normalized=scheme.normalized,
    )
