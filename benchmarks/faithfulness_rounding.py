"""What products in TF32 do to the last losses of a network.

    python benchmarks/faithfulness_rounding.py [--problems f1,f5] [--seeds 3] [--small]

GPUs multiply float32 matrices in TF32 unless told otherwise: with 10 bits of mantissa, about three
digits. Here an architecture trains twice from the same starts, once in float32 and once
with the weights of every product rounded like that (and their gradients with them). Printed are
the last loss, its median over seeds, and the median over the last quarter of training.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

from kandle import KAN, problems

LARGE, SMALL = (20, (32, 32, 32)), (5, (8, 8))
SCHEMES = ("baseline", "lecun-numerical", "power-law")


def rounded(weights):
    """Every weight with an exponent of 8 bits and a mantissa of 10."""
    return jax.tree.map(lambda w: jax.lax.reduce_precision(w, 8, 10), weights)


def losses(name: str, shape, scheme: str, seed: int, steps: int, tf32: bool) -> np.ndarray:
    """The loss of every step."""
    problem, (grid, hidden) = problems.get(name), shape
    data = problem.arrays("float32")
    x, y = jnp.asarray(data["x"]), jnp.asarray(data["y"])
    model = KAN((problem.n_in, *hidden, 1), grid=grid, init=scheme, key=jax.random.key(seed))
    optimizer = optax.adam(1e-3)

    def loss(model):
        return jnp.mean(((rounded(model) if tf32 else model)(x) - y) ** 2)

    def step(carry, _):
        model, state = carry
        value, gradient = jax.value_and_grad(loss)(model)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(model, updates), state), value

    @jax.jit
    def train(model):
        return jax.lax.scan(step, (model, optimizer.init(model)), None, length=steps)[1]

    return np.asarray(train(model))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--problems", default="f1,f5")
    parser.add_argument("--schemes", default=",".join(SCHEMES))
    parser.add_argument(
        "--small", action="store_true", help="the small architecture, not the large"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    arguments = parser.parse_args()
    shape = SMALL if arguments.small else LARGE
    titles = ("float32: last", "last quarter", "TF32: last", "last quarter")
    print(f"{'':24}" + "".join(f"{title:>14}" for title in titles))
    for problem in arguments.problems.split(","):
        for scheme in arguments.schemes.split(","):
            told = []
            for tf32 in (False, True):
                curves = np.stack(
                    [
                        losses(problem, shape, scheme, seed, arguments.steps, tf32)
                        for seed in range(arguments.seeds)
                    ]
                )
                late = curves[:, 3 * arguments.steps // 4 :]
                told += [np.median(curves[:, -1]), np.median(late)]
            print(f"{problem:6}{scheme:18}" + "".join(f"{v:14.2g}" for v in told), flush=True)


if __name__ == "__main__":
    main()
