"""Published results beside own ones that are trained with the arithmetic of the published runs.

    python benchmarks/faithfulness_rounding.py --out DIR [--parts functions-large] [--problems f1]

By default, GPUs multiply float32 matrices in TF32: factors keep 10 bits of mantissa, about three
digits, and sums stay in float32. Here the published runs are reproduced, from their initial weights
on their points, with the product r R(x) of every residual in TF32, forwards and backwards, and
everything else in float32: how far a cell moves is how much of it is rounding.

Every run is stored in DIR: rerun an interrupted command to resume it; several may share DIR.
`--float32` rounds nothing, `--draws independent` initializes as Kandle does.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pandas as pd
from faithfulness import PARTS, STUDIES, _share, _table, compare

from kandle import KAN, KANLayer, init, kernels, paper, problems
from kandle.kernels._residual import residual_derivatives
from kandle.study import RunSpec, get
from kandle.train import Optimizer, Population, method_of, objective, shared
from kandle.train._evaluation import evaluate


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


class RoundedLayer(KANLayer):
    """A layer whose residual product r R(x) is in TF32."""

    def __call__(self, x):
        if self.n_out == 1:
            # A matrix times a vector is no matrix product to XLA: it stays in float32.
            return super().__call__(x)
        return _plain(self, jnp.zeros_like(self.r))(x) + product(self.residual(x), self.r)

    def jet(self, x, *, first, second):
        if self.n_out == 1:
            return super().jet(x, first=first, second=second)
        splines = _plain(self, jnp.zeros_like(self.r)).jet(x, first=first, second=second)
        value, slope, *curve = residual_derivatives(self.residual, x[0], 3 if second else 2)
        along = x[1 : 1 + first]
        parts = [value, *(slope * d for d in along)]
        for d, dd in zip(along, x[1 + first :], strict=False):  # those with a second one come first
            parts.append(curve[0] * d * d + slope * dd)
        return splines + jnp.stack([product(part, self.r) for part in parts])


def _copied(kind: type, layer: KANLayer, r) -> KANLayer:
    weights = r, layer.c, layer.b, layer.bias, layer.mean, layer.variance
    return kind(
        *weights,
        basis=layer.basis,
        residual=layer.residual,
        normalized=layer.normalized,
        backend=layer.backend,
    )


def _plain(layer: KANLayer, r) -> KANLayer:
    return _copied(KANLayer, layer, r)


def in_tf32(model: KAN) -> KAN:
    """The network with residual products rounded."""
    return KAN.from_layers(_copied(RoundedLayer, layer, layer.r) for layer in model.layers)


def in_float32(model: KAN) -> KAN:
    return model


def train(specs: list[RunSpec], arithmetic) -> Iterator[dict]:
    """Train the seeds of one cell together; a row each."""
    spec = specs[0]
    problem = problems.get(spec.problem)
    if spec.reference:
        problem = problem.with_reference(spec.reference)
    sampler = None
    if spec.draws == "published":
        problem, sampler = paper.published_draws(problem)
    data = problem.arrays("float32")
    scheme = init.from_dict({"name": spec.scheme, **spec.scheme_settings})
    widths = (problem.n_in, *(spec.width,) * spec.depth, problem.n_out)
    models = [
        arithmetic(
            KAN(widths, grid=spec.G, init=scheme, key=jax.random.key(s.seed), sampler=sampler)
        )
        for s in specs
    ]
    goal = objective(problem, spec.rba or "off")
    arrays = shared({name: data[name] for name in goal.arrays})
    method = method_of(Optimizer(), goal, kernels.check_backend(None))
    population = Population(models, arrays, goal, method)
    losses = population.advance(spec.steps)[-1]
    for own, loss, model in zip(specs, losses, population.networks(), strict=True):
        # Published errors are those of the network as it was trained.
        yield own.to_dict() | {"loss": float(loss), "l2": float(evaluate(model, problem, data).l2)}


def chosen_specs(part: str, chosen: argparse.Namespace) -> list[RunSpec]:
    """The runs of a part, narrowed as asked for."""
    declared = get(Path(__file__).parent / f"{STUDIES[chosen.draws]}-{part}.toml").specs()
    seeds = sorted({spec.seed for spec in declared})[: chosen.seeds]
    names = chosen.problems.split(",") if chosen.problems else None
    schemes = chosen.schemes.split(",") if chosen.schemes else None
    return [
        spec.replace(steps=chosen.steps or spec.steps)
        for spec in declared
        if spec.seed in seeds
        and (names is None or spec.problem in names)
        and (schemes is None or spec.scheme in schemes)
    ]


def rows(specs: list[RunSpec], arithmetic, folder: Path) -> list[dict]:
    """The results of runs; what is not in the folder yet is trained, cell by cell."""
    files = {
        spec: folder / f"{arithmetic.__name__}-{spec.problem}-{spec.identity[:16]}.json"
        for spec in specs
    }
    waiting: dict[RunSpec, list[RunSpec]] = {}
    for spec, file in files.items():
        if not file.exists():
            waiting.setdefault(spec.replace(seed=0), []).append(spec)
    for cell in waiting.values():
        for spec, row in zip(cell, train(cell, arithmetic), strict=True):
            files[spec].write_text(json.dumps(row))
    return [json.loads(file.read_text()) for file in files.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", required=True, metavar="DIR", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--problems", help="those of the parts that are named here")
    parser.add_argument("--schemes", help="likewise")
    parser.add_argument("--draws", default="published", choices=STUDIES)
    parser.add_argument("--float32", action="store_true", help="round nothing")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="fewer than a run has, for a trial")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    arithmetic = in_float32 if chosen.float32 else in_tf32
    tables = []
    for part in chosen.parts.split(","):
        if part not in PARTS:
            parser.error(f"unknown part {part}; known: {', '.join(PARTS)}")
        found = pd.DataFrame(rows(chosen_specs(part, chosen), arithmetic, chosen.out))
        table = compare(part, found.astype({"alpha": float, "beta": float}))
        tables.append(table[table["own"].notna()])
        _table(part, tables[-1])
    _share("\nall", pd.concat(tables))
    print(flush=True)


if __name__ == "__main__":
    main()
