"""What products in TF32 do to the last losses of a network.

    python benchmarks/faithfulness_rounding.py [--problems f1,f5] [--schemes baseline] [--seeds 5]

GPUs multiply float32 matrices in TF32 unless told otherwise: factors keep 10 bits of mantissa,
about three digits, and sums stay in float32. The published runs were very likely made so. Here the
large architecture trains from starts drawn as theirs were (`draws="published"`) with two of the
three factors rounded like that: the weights of every layer, and what comes back to them from the
layers above. The third, the values of the basis and of the residual, stays exact, for it exists
inside the kernels only; the emulation is thus on the mild side.

Printed for each cell are the published range of the last loss, the own median over seeds, whether
it lies in that range widened by 1.5, and the median of the last quarter of training. `--float32`
leaves out the rounding, `--draws independent` draws as Kandle does.
"""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from faithfulness import WIDENED, published

from kandle import KAN, init, problems
from kandle.nn import DRAWS

SHAPES = {"large": (20, (32, 32, 32)), "small": (5, (8, 8))}
SCHEMES = {
    "baseline": init.Baseline(),
    "lecun-numerical": init.LeCun(),
    "lecun-normalized": init.LeCun(normalized=True),
    "glorot": init.Glorot(),
    "power-law": init.PowerLaw(0.25, 1.75),
}


def tf32(values):
    """With an exponent of 8 bits and a mantissa of 10."""
    return jax.lax.reduce_precision(values, 8, 10)


@jax.custom_vjp
def factor(weights):
    """Weights as a product sees them; their gradient is that of the product, in float32."""
    return tf32(weights)


factor.defvjp(lambda weights: (tf32(weights), None), lambda _, g: (g,))


@jax.custom_vjp
def product(outputs):
    """Outputs of a product, whose backward pass multiplies by what comes back, rounded."""
    return outputs


product.defvjp(lambda outputs: (outputs, None), lambda _, g: (tf32(g),))


def in_tf32(model: KAN, x):
    """The network's outputs with both kinds of factors rounded in every layer."""
    for layer in model.layers:
        if layer.n_out == 1:
            # A matrix times a vector is no matrix product to XLA: it stays in float32.
            x = layer(x)
            continue
        weights = (factor(layer.r), jnp.ones_like(layer.c), factor(layer.c[..., None] * layer.b))
        rounded = eqx.tree_at(lambda known: (known.r, known.c, known.b), layer, weights)
        x = product(rounded(x))
    return x


def losses(problem, shape, scheme, seed: int, steps: int, draws: str, forward) -> np.ndarray:
    """The loss of every step."""
    grid, hidden = shape
    data = problem.arrays("float32")
    x, y = jnp.asarray(data["x"]), jnp.asarray(data["y"])
    widths = (problem.n_in, *hidden, 1)
    model = KAN(widths, grid=grid, init=scheme, key=jax.random.key(seed), draws=draws)
    optimizer = optax.adam(1e-3)

    def step(carry, _):
        model, state = carry
        value, gradient = jax.value_and_grad(lambda m: jnp.mean((forward(m, x) - y) ** 2))(model)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(model, updates), state), value

    @jax.jit
    def train(model):
        return jax.lax.scan(step, (model, optimizer.init(model)), None, length=steps)[1]

    return np.asarray(train(model))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--problems", default="f1,f2,f3,f4,f5")
    parser.add_argument("--schemes", default=",".join(SCHEMES))
    parser.add_argument("--shape", default="large", choices=SHAPES)
    parser.add_argument("--draws", default="published", choices=DRAWS)
    parser.add_argument("--float32", action="store_true", help="round nothing")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000)
    chosen = parser.parse_args()
    cells = published(f"functions-{chosen.shape}").query("metric == 'loss'")
    cells = cells.set_index(["problem", "scheme"])
    forward = (lambda model, x: model(x)) if chosen.float32 else in_tf32
    titles = ("least", "published", "most", "own", "last quarter")
    print(f"{'':24}" + "".join(f"{title:>13}" for title in titles))
    for name in chosen.problems.split(","):
        for scheme in chosen.schemes.split(","):
            common = problems.get(name), SHAPES[chosen.shape], SCHEMES[scheme]
            curves = np.stack(
                [
                    losses(*common, seed, chosen.steps, chosen.draws, forward)
                    for seed in range(chosen.seeds)
                ]
            )
            own = np.median(curves[:, -1])
            least, middle, most = (cells[k][name, scheme] for k in ("least", "median", "most"))
            inside = least / WIDENED <= own <= most * WIDENED
            late = np.median(curves[:, 3 * chosen.steps // 4 :])
            told = "".join(f"{v:13.2g}" for v in (least, middle, most, own, late))
            print(f"{name:6}{scheme:18}{told}  {'inside' if inside else 'OUTSIDE'}", flush=True)


if __name__ == "__main__":
    main()
