"""Train a KAN with Optax: the model is a pytree, so the loop is the usual one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from kandle import KAN, init


def main(steps: int = 2000) -> float:
    x = jax.random.uniform(jax.random.key(0), (1000, 2), minval=-1, maxval=1)
    y = jnp.sin(jnp.pi * x[:, :1]) * x[:, 1:] ** 2

    scheme = init.PowerLaw(alpha=0.25, beta=1.75)
    model = KAN([2, 8, 8, 1], grid=5, init=scheme, key=jax.random.key(1))
    optimizer = optax.adam(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    def loss(model):
        return jnp.mean((model(x) - y) ** 2)

    @eqx.filter_jit
    def train(model, state):
        weights, rest = eqx.partition(model, eqx.is_array)

        def step(carry, _):
            weights, state = carry
            value, gradient = jax.value_and_grad(lambda w: loss(eqx.combine(w, rest)))(weights)
            updates, state = optimizer.update(gradient, state)
            return (optax.apply_updates(weights, updates), state), value

        (weights, _), losses = jax.lax.scan(step, (weights, state), None, length=steps)
        return eqx.combine(weights, rest), losses

    model, losses = train(model, state)
    print(f"loss {losses[0]:.2e} at the start, {losses[-1]:.2e} after {steps} steps")
    return float(losses[-1])


if __name__ == "__main__":
    main()
