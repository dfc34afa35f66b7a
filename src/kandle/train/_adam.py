"""Adam as one native operation for all arrays, for networks of many weights."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from kandle.kernels import _library

# Fewer weights are updated by XLA, which fuses that with what surrounds it.
NATIVE_SIZE = 1 << 14

# Of one leaf: (m, v), or (w, m, v) if the update is to be added.
Arrays = tuple[Array, ...]


class FusedAdam(optax.GradientTransformation):
    """Optax's `init` and `update`, and `apply`, which adds the update to the weights at once."""

    apply: Callable[[Any, optax.OptState, Any], tuple[Any, optax.OptState]]

    def __new__(cls, init: Callable, update: Callable, apply: Callable) -> "FusedAdam":
        self = super().__new__(cls, init, update)
        self.apply = apply
        return self


def adam(
    learning_rate: float | Callable[[Any], Any],
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
) -> FusedAdam:
    """Optax's Adam with a native update of many weights.

        m ← (1 - b1) g + b1 m
        v ← (1 - b2) g² + b2 v
        update = -rate · (m / (1 - b1^t)) / (√(v / (1 - b2^t) + eps_root) + eps)

    One pass over g, m and v, on all threads of XLA; elementwise, so that no bit depends on their
    number. The updates equal those of `optax.adam` to rounding. Without the native kernels, on
    other devices and in other types than float32 and float64 the same formula runs on XLA.

    The result is an Optax transformation with one more method:

        weights, state = optimizer.apply(gradient, state, weights)

    is `update` followed by `optax.apply_updates` in a single pass, which updates weights and
    moments in place where `jit` may reuse their buffers (`donate_argnums`, or inside of a loop).
    It reads and writes less memory than anything XLA makes of `optax.adam`: use it for networks of
    millions of weights.

    Args:
        learning_rate: the rate, or a function of the step, counted from 0.
        b1, b2: the decay rates of the moments.
        eps, eps_root: added outside and inside of the square root.

    Example:
        >>> optimizer = adam(1e-3)
        >>> weights = {"b": jnp.ones((3, 2))}
        >>> updates, state = optimizer.update(weights, optimizer.init(weights))
        >>> print(f"{updates['b'][0, 0]:.4f}")
        -0.0010
        >>> weights, state = optimizer.apply(weights, optimizer.init(weights), weights)
        >>> print(f"{weights['b'][0, 0]:.4f}")
        0.9990
    """
    options = {"b1": b1, "b2": b2, "eps": eps, "eps_root": eps_root}

    def init(params: Any) -> optax.ScaleByAdamState:
        m, v = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        return optax.ScaleByAdamState(jnp.zeros([], jnp.int32), m, v)

    def advance(weights: Any, gradient: Any, state: optax.OptState):
        """The updates or, unless `weights` is None, the new weights; and the new state."""
        assert isinstance(state, optax.ScaleByAdamState)
        rate = learning_rate(state.count) if callable(learning_rate) else learning_rate
        count = jnp.asarray(optax.safe_increment(state.count))
        rates = (rate, 1 - b1**count, 1 - b2**count)
        step = jnp.stack([jnp.asarray(number, float) for number in rates])
        leaves, structure = jax.tree.flatten(gradient)
        trees = (state.mu, state.nu) if weights is None else (weights, state.mu, state.nu)
        arrays = zip(*(structure.flatten_up_to(tree) for tree in trees), strict=True)
        results = _advance(tuple(leaves), tuple(arrays), step, **options)
        out, m, v = (
            jax.tree.unflatten(structure, [result[j] for result in results]) for j in range(3)
        )
        return out, optax.ScaleByAdamState(count, m, v)

    def update(
        updates: Any, state: optax.OptState, params: Any = None
    ) -> tuple[Any, optax.ScaleByAdamState]:
        return advance(None, updates, state)

    def apply(
        gradient: Any, state: optax.OptState, weights: Any
    ) -> tuple[Any, optax.ScaleByAdamState]:
        return advance(weights, gradient, state)

    return FusedAdam(init, update, apply)


@functools.partial(jax.jit, static_argnames=("b1", "b2", "eps", "eps_root"))
def _advance(
    gradients: tuple[Array, ...], arrays: tuple[Arrays, ...], step: Float[Array, "3"], **options
) -> list[Arrays]:
    """Adam's step: for every leaf the update, or the new w, and the new moments.

    `step` is the rate and both bias corrections.
    """
    results: dict[int, Arrays] = {}
    for dtype in ("float32", "float64"):
        same = [
            k
            for k, (g, a) in enumerate(zip(gradients, arrays, strict=True))
            if g.size and all(one.dtype.name == dtype for one in (g, *a))
        ]
        if _library.library() is None or sum(gradients[k].size for k in same) < NATIVE_SIZE:
            continue
        taken = [gradients[k] for k in same], [arrays[k] for k in same]
        results |= zip(same, _all(*taken, step.astype(dtype), **options), strict=True)
    return [
        results[k] if k in results else _plain(g, a, step.astype(g.dtype), **options)
        for k, (g, a) in enumerate(zip(gradients, arrays, strict=True))
    ]


def _all(gradients: list[Array], arrays: list[Arrays], step: Array, **options) -> list[Arrays]:
    """The same for leaves of one type, on a CPU in one native call."""

    def on_cpu(step, gradients, arrays):
        *w, m, v = zip(*arrays, strict=True)
        roles = (*w, tuple(gradients), m, v)
        results = _native(len(roles), **options)(step[None], *itertools.chain(*roles))
        count = len(gradients)
        return list(zip(*(results[j * count :][:count] for j in range(3)), strict=True))

    def elsewhere(step, gradients, arrays):
        return [_plain(g, a, step, **options) for g, a in zip(gradients, arrays, strict=True)]

    return jax.lax.platform_dependent(step, gradients, arrays, cpu=on_cpu, default=elsewhere)


def _plain(g: Array, arrays: Arrays, step: Array, *, b1, b2, eps, eps_root) -> Arrays:
    *w, m, v = arrays
    m = (1 - b1) * g + b1 * m
    v = (1 - b2) * g**2 + b2 * v
    rate, first, second = step
    update = -rate * ((m / first) / (jnp.sqrt(v / second + eps_root) + eps))
    return w[0] + update if w else update, m, v


@functools.cache
def _native(roles: int, **options: float) -> Callable:
    """The native call for a step of shape (P, 3) and the arrays of P models in any shapes.

    Arrays come role by role: (w,) g, m and v of all leaves. They keep their shapes: XLA copies an
    operand that is reshaped and then updated in place.
    """

    @jax.custom_batching.custom_vmap
    def call(step, *arrays):
        count = len(arrays) // roles
        shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays[:count]]
        apply = roles == 4
        # Weights and moments are updated in place: the role of an operand, and that of the result.
        in_place = ((0, 0), (2, 1), (3, 2)) if apply else ((1, 1), (2, 2))
        aliases = {1 + a * count + k: b * count + k for a, b in in_place for k in range(count)}
        target = _library.target("adam_apply" if apply else "adam_update", step.dtype)
        run = jax.ffi.ffi_call(target, shapes * 3, input_output_aliases=aliases)
        return tuple(run(step, *arrays, **options))

    @call.def_vmap
    def rule(size, batched, *operands):
        step, *arrays = (
            a if leads else jnp.broadcast_to(a, (size, *a.shape))
            for a, leads in zip(operands, batched, strict=True)
        )
        results = call(step.reshape(-1, 3), *arrays)
        return results, (True,) * len(results)

    return call
