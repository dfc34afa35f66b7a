"""The share of the machine's rate that each native kernel achieves on the layers of a case."""

import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from kandle import kernels
from kandle.bases import BSpline
from speed._arithmetic import VALUE, cores
from speed._cases import Case
from speed._runner import samples

KERNELS = ("forward", "weight_gradient", "input_gradient")
_SECONDS = 0.15


def shares(case: Case, rate: float) -> dict[str, float]:
    """By kernel: nominal operations of all layers over time, as a part of all cores' rate.

    Layers are timed one at a time, at the points where the network alone is evaluated and, of a
    PDE, at the collocation points with their derivatives.
    """
    values, jets = samples(case)
    operations = dict.fromkeys(KERNELS, 0.0)
    seconds = dict.fromkeys(KERNELS, 0.0)
    for n, (first, second) in ((values, (0, 0)), (jets, (2, 1))):
        for n_in, n_out in zip(case.widths, case.widths[1:], strict=False):
            if n == 0:
                continue
            components = 1 + first + second
            calls = _calls(n, n_in, n_out, case.grid, first, second)
            for name in KERNELS[:1] if case.predict else KERNELS:
                operations[name] += 2.0 * (VALUE // 3) * components * n * n_in * n_out
                seconds[name] += _seconds(calls[name])
    return {
        name: operations[name] / seconds[name] / (rate * cores())
        for name in KERNELS
        if seconds[name] > 0
    }


def _calls(n, n_in, n_out, grid, first, second) -> dict[str, Callable]:
    basis = BSpline(grid=grid)
    rng = np.random.default_rng(0)
    shapes = (n_out, n_in), (n_out, n_in), (n_out, n_in, basis.n_basis), (n_out,)
    weights = tuple(jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes)
    components = 1 + first + second
    x = jnp.asarray(rng.uniform(-1, 1, (components, n, n_in)), jnp.float32)
    g = jnp.asarray(rng.normal(size=(components, n, n_out)), jnp.float32)
    f = functools.partial(
        kernels.jet, first=first, second=second, basis=basis, residual=jax.nn.silu, backend="native"
    )
    return {
        "forward": functools.partial(jax.jit(f), x, *weights),
        "weight_gradient": functools.partial(
            jax.jit(lambda x, g, *w: jax.vjp(lambda *w: f(x, *w), *w)[1](g)), x, g, *weights
        ),
        "input_gradient": functools.partial(
            jax.jit(lambda x, g, *w: jax.vjp(lambda x: f(x, *w), x)[1](g)), x, g, *weights
        ),
    }


def _seconds(call: Callable) -> float:
    """The least time of a call: other work can only make it longer."""
    jax.block_until_ready(call())
    least, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        jax.block_until_ready(call())
        least = min(least, time.perf_counter() - began)
    return least
