"""Adam as one native operation per array, for networks whose weights do not fit in a cache."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from kandle.kernels import _library

# Smaller arrays are updated by XLA, which fuses them with what surrounds them.
_NATIVE_SIZE = 1 << 14


def adam(
    learning_rate: float | Callable[[Any], Any],
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
) -> optax.GradientTransformation:
    """Optax's Adam with a native update of large arrays.

        m ← (1 - b1) g + b1 m
        v ← (1 - b2) g² + b2 v
        update = -rate · (m / (1 - b1^t)) / (√(v / (1 - b2^t) + eps_root) + eps)

    One pass over g, m and v, on all threads of XLA; elementwise, so that no bit depends on their
    number. The updates equal those of `optax.adam` to rounding. Without the native kernels, on
    other devices and in other types than float32 and float64 the same formula runs on XLA.

    Use it where the update runs outside of `jit`: there Optax makes one pass per operation. Inside
    of a jitted step prefer `optax.adam`, which XLA fuses with the addition to the weights.

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
    """

    def init(params: Any) -> optax.ScaleByAdamState:
        m, v = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        return optax.ScaleByAdamState(jnp.zeros([], jnp.int32), m, v)

    def update(
        updates: Any, state: optax.OptState, params: Any = None
    ) -> tuple[Any, optax.ScaleByAdamState]:
        assert isinstance(state, optax.ScaleByAdamState)
        rate = learning_rate(state.count) if callable(learning_rate) else learning_rate
        count = optax.safe_increment(state.count)
        step = jnp.stack([jnp.asarray(a, float) for a in (rate, 1 - b1**count, 1 - b2**count)])
        leaves, structure = jax.tree.flatten(updates)
        moments = (structure.flatten_up_to(tree) for tree in (state.mu, state.nu))
        results = [
            _update(g, m, v, step.astype(g.dtype), b1, b2, eps, eps_root)
            for g, m, v in zip(leaves, *moments, strict=True)
        ]
        updates, m, v = (
            jax.tree.unflatten(structure, [result[j] for result in results]) for j in range(3)
        )
        return updates, optax.ScaleByAdamState(count, m, v)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]


@functools.partial(jax.jit, static_argnums=(4, 5, 6, 7))
def _update(
    g: Float[Array, "*shape"],
    m: Float[Array, "*shape"],
    v: Float[Array, "*shape"],
    step: Float[Array, "3"],
    b1: float,
    b2: float,
    eps: float,
    eps_root: float,
) -> tuple[Array, Array, Array]:
    """The update, and both moments after it; `step` is the rate and both bias corrections."""
    options = {"b1": b1, "b2": b2, "eps": eps, "eps_root": eps_root}
    plain = functools.partial(_plain, **options)
    native = g.dtype.name in ("float32", "float64") and g.size >= _NATIVE_SIZE
    if not native or _library.library() is None:
        return plain(g, m, v, step)

    def on_cpu(g, m, v, step):
        operands = (a.reshape(1, -1) for a in (g, m, v, step))
        return tuple(a.reshape(g.shape) for a in _native(**options)(*operands))

    return jax.lax.platform_dependent(g, m, v, step, cpu=on_cpu, default=plain)


def _plain(g, m, v, step, *, b1, b2, eps, eps_root):
    m = (1 - b1) * g + b1 * m
    v = (1 - b2) * g**2 + b2 * v
    rate, first, second = step
    return -rate * ((m / first) / (jnp.sqrt(v / second + eps_root) + eps)), m, v


@functools.cache
def _native(**options: float) -> Callable:
    """The native call for (P, n) arrays and a step of shape (P, 3)."""

    @jax.custom_batching.custom_vmap
    def call(g, m, v, step):
        shape = jax.ShapeDtypeStruct(g.shape, g.dtype)
        target = _library.target("adam", g.dtype)
        aliases = {1: 1, 2: 2}  # the moments are updated in place
        run = jax.ffi.ffi_call(target, (shape,) * 3, input_output_aliases=aliases)
        return tuple(run(g, m, v, step, **options))

    @call.def_vmap
    def rule(size, batched, *operands):
        spread = (
            a if leads else jnp.broadcast_to(a, (size, *a.shape))
            for a, leads in zip(operands, batched, strict=True)
        )
        folded = call(*(a.reshape(-1, a.shape[-1]) for a in spread))
        return tuple(a.reshape(size, -1, a.shape[-1]) for a in folded), (True,) * 3

    return call
