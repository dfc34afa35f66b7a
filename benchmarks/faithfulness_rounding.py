"""Published losses beside own ones that are trained with the arithmetic of the published runs.

    python benchmarks/faithfulness_rounding.py --out DIR [--parts functions-large] [--problems f1]

GPUs multiply float32 matrices in TF32 unless told otherwise: factors keep 10 bits of mantissa,
about three digits, and sums stay in float32. Here networks start as the published ones did
(`draws="published"`) and train with the product r R(x) of every residual in TF32, forwards and
backwards, and all else in float32. That one product is enough to raise losses to the published
ones, and those of LeCun-normalized networks to a floor that all seeds share. With the splines' sums
in TF32 as well they would come out several times too high.

Every run is kept in DIR: the same command goes on where it was stopped, and several may share it.
`--float32` rounds nothing, `--draws independent` starts as Kandle does.
"""

import argparse
import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
from faithfulness import _share, _table, compare

from kandle import KAN, init, problems
from kandle.nn import DRAWS
from kandle.study import get
from kandle.train._evaluation import evaluate

SHAPES = {"large": (20, 32, 3), "small": (5, 8, 2)}
SCHEMES = {
    "baseline": init.Baseline(),
    "lecun-numerical": init.LeCun(),
    "lecun-normalized": init.LeCun(normalized=True),
    "glorot": init.Glorot(),
    "power-law": init.PowerLaw(0.25, 1.75),
}
PARTS = ("functions-small", "feynman-small", "functions-large")


def tf32(values):
    """With an exponent of 8 bits and a mantissa of 10."""
    return jax.lax.reduce_precision(values, 8, 10)


@jax.custom_vjp
def product(a, b):
    """a bᵀ as a GPU computes it, forwards and backwards."""
    return tf32(a) @ tf32(b).T


def _product_backward(factors, g):
    (a, b), g = factors, tf32(g)
    return g @ b, g.T @ a


product.defvjp(lambda a, b: (product(a, b), (tf32(a), tf32(b))), _product_backward)


def in_tf32(model: KAN, x):
    """The network's outputs with the product of every residual, r R(x), in TF32."""
    for layer in model.layers:
        if layer.n_out == 1:
            # A matrix times a vector is no matrix product to XLA: it stays in float32.
            x = layer(x)
            continue
        splines = eqx.tree_at(lambda known: known.r, layer, jnp.zeros_like(layer.r))
        x = splines(x) + product(layer.residual(x), layer.r)
    return x


def in_float32(model: KAN, x):
    return model(x)


@eqx.filter_jit
def trained(model: KAN, x, y, steps: int, forward):
    """The network after its training, and the loss before every update."""
    optimizer = optax.adam(1e-3)

    def step(carry, _):
        model, state = carry
        loss, gradient = jax.value_and_grad(lambda m: jnp.mean((forward(m, x) - y) ** 2))(model)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(model, updates), state), loss

    (model, _), losses = jax.lax.scan(step, (model, optimizer.init(model)), None, length=steps)
    return model, losses


def run(name: str, shape, scheme: str, seed: int, steps: int, draws: str, forward) -> dict:
    """Train one network; its configuration and results as a row."""
    problem, (G, width, depth) = problems.get(name), shape
    data = problem.arrays("float32")
    widths = (problem.n_in, *(width,) * depth, 1)
    start = SCHEMES[scheme]
    model = KAN(widths, grid=G, init=start, key=jax.random.key(seed), draws=draws)
    model, losses = trained(model, jnp.asarray(data["x"]), jnp.asarray(data["y"]), steps, forward)
    losses = np.asarray(losses)
    return {
        "problem": name,
        "scheme": scheme,
        "alpha": getattr(start, "alpha", None),
        "beta": getattr(start, "beta", None),
        "G": G,
        "width": width,
        "depth": depth,
        "seed": seed,
        "steps": steps,
        "loss": float(losses[-1]),
        "late": float(np.median(losses[3 * steps // 4 :])),
        "l2": float(evaluate(model, problem, data).l2),
    }


def cells(part: str, chosen: argparse.Namespace) -> list[tuple[str, str]]:
    """The problems and schemes of a part, narrowed as asked for."""
    study = get(Path(__file__).parent / f"faithfulness-{part}.toml")
    names = chosen.problems.split(",") if chosen.problems else study.problems
    known = [axis.name for axis in study.schemes]
    schemes = chosen.schemes.split(",") if chosen.schemes else known
    return [(p, s) for p in study.problems if p in names for s in known if s in schemes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", required=True, metavar="DIR", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--problems", help="those of the parts that are named here")
    parser.add_argument("--schemes", help="likewise")
    parser.add_argument("--draws", default="published", choices=DRAWS)
    parser.add_argument("--float32", action="store_true", help="round nothing")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    forward = in_float32 if chosen.float32 else in_tf32
    for part in chosen.parts.split(","):
        if part not in PARTS:
            parser.error(f"unknown part {part}; known: {', '.join(PARTS)}")
        shape = SHAPES[part.rsplit("-", 1)[1]]
        rows = []
        for seed in range(chosen.seeds):
            for problem, scheme in cells(part, chosen):
                name = f"{forward.__name__}-{chosen.draws}-{part}-{problem}-{scheme}-{seed}"
                file = chosen.out / f"{name}-{chosen.steps}.json"
                if not file.exists():
                    row = run(problem, shape, scheme, seed, chosen.steps, chosen.draws, forward)
                    file.write_text(json.dumps(row))
                rows.append(json.loads(file.read_text()))
        table = compare(part, pd.DataFrame(rows).astype({"alpha": float, "beta": float}))
        _table(part, table[table["own"].notna()])
        outside = table[table["inside"].eq(False).fillna(False)]
        _share(f"{part}, losses alone", table[table["metric"].eq("loss") & table["own"].notna()])
        print(f"{len(outside)} outside", flush=True)


if __name__ == "__main__":
    main()
