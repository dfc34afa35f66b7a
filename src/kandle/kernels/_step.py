"""The backward pass of a wide layer that advances its weights by Adam at once.

A tile's gradient is in the cache when it is complete, and its weights are read there anyway: r, c,
b and their moments advance tile by tile, in place, and no gradient of the size of the weights is
ever stored.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from kandle.kernels import _library
from kandle.kernels._families import is_local
from kandle.kernels._fused import _attributes, _has_fused


def has_step(
    x: tuple[int, ...], g: tuple[int, ...], dtype, *, basis, first, second, residual
) -> bool:
    """Whether a layer with points and gradients of such shapes can advance in its backward pass."""
    library = _library.library()
    if library is None or dtype.name not in ("float32", "float64") or not residual:
        return False
    wide = min(x[-1], g[-1]) >= library.kandle_least_step()
    alone = x[0] == g[0] == 1  # a batch of models is a `vmap` of the step
    return wide and alone and is_local(basis) and _has_fused(basis, first, second)


@functools.cache
def backward_step(
    want_x: bool, basis, first: int, second: int, residual: bool, **options: float
) -> Callable:
    """(step, x, g, *arrays) ↦ (dbias, *arrays, dx), dx only if wanted.

    `step` is (P, 3), as for Adam's own step, x and g are (1 or P, C, N, ...), and the arrays are r,
    c, b, their first and their second moments, (P, ...) or, of one model, without that axis.
    """
    attributes = _attributes(basis, first, second, residual)

    @jax.custom_batching.custom_vmap
    def call(step, x, g, *arrays):
        models = step.shape[0]
        shapes = [(models, g.shape[-1]), *(a.shape for a in arrays)]
        shapes += [(models, *x.shape[1:])] * want_x
        run = jax.ffi.ffi_call(
            _library.target("jet_step", x.dtype),
            [jax.ShapeDtypeStruct(shape, x.dtype) for shape in shapes],
            input_output_aliases={3 + j: 1 + j for j in range(len(arrays))},
        )
        return tuple(run(x, g, step, *arrays, **attributes, **options))

    @call.def_vmap
    def rule(size, batched, step, x, g, *arrays):
        def spread(a, leads):
            return a if leads else jnp.broadcast_to(a, (size, *a.shape))

        step = spread(step, batched[0])
        count = step.shape[1]

        def fold(a, leads):
            if not leads and a.shape[0] == 1:  # what all models share stays as it is
                return a
            a = spread(a, leads)
            a = jnp.broadcast_to(a, (size, count, *a.shape[2:]))
            return a.reshape(-1, *a.shape[2:])

        arrays = [spread(a, leads) for a, leads in zip(arrays, batched[3:], strict=True)]
        x, g = (fold(a, leads) for a, leads in zip((x, g), batched[1:3], strict=True))
        dbias, *results = call(step.reshape(-1, 3), x, g, *arrays)
        unfold = [dbias, *results[len(arrays) :]]
        dbias, *dx = (a.reshape(size, count, *a.shape[1:]) for a in unfold)
        results = (dbias, *results[: len(arrays)], *dx)
        return results, (True,) * len(results)

    return call
