"""What Kandle's start buys in other libraries: pykan and jaxKAN, their default start and ours.

    python benchmarks/interop.py [--problems f2,f3] [--libraries pykan,jaxkan]
    python benchmarks/interop.py --rows 4000 --steps 2000      # as the studies train: hours

Same data, architecture, optimizer (Adam, 1e-3, full batch) and steps; only the weights at the start
differ. Printed is the median final loss over seeds of either start, and their ratio. By default it
is a quarter of the points and half the steps: these libraries take their time.
"""

import argparse
import functools
import importlib.util
import json
import statistics
import sys
import time

import numpy as np

from kandle import init, problems
from kandle._errors import MissingExtra, UserError, unknown

PROBLEMS = ("f2", "f3", "I.12.11", "II.6.15a")
WIDTHS, GRID, DEGREE = (8, 8), 5, 3


def pykan_loss(problem, seed: int, scheme, steps: int, rows: int) -> float:
    import kan
    import torch

    import kandle.torch

    data = problem.arrays("float32")
    x, y = (torch.from_numpy(data[name][:rows]) for name in ("x", "y"))
    widths = [problem.n_in, *WIDTHS, problem.n_out]
    model = kan.KAN(width=widths, grid=GRID, k=DEGREE, seed=seed, auto_save=False)
    if scheme is not None:
        kandle.torch.initialize_(model, scheme, seed=seed)
    model = model.speed()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    loss = torch.tensor(float("nan"))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.mean((model(x) - y) ** 2)
        loss.backward()
        optimizer.step()
    return loss.item()


def jaxkan_loss(problem, seed: int, scheme, steps: int, rows: int) -> float:
    import jax.numpy as jnp
    from flax import nnx
    from jaxkan.models.KAN import KAN

    import kandle.jaxkan

    data = problem.arrays("float32")
    x, y = (jnp.asarray(data[name][:rows]) for name in ("x", "y"))
    widths = [problem.n_in, *WIDTHS, problem.n_out]
    model = KAN(widths, "spline", {"k": DEGREE, "G": GRID}, seed=seed)
    if scheme is not None:
        kandle.jaxkan.initialize(model, scheme, seed=seed)
    graph, weights, rest = nnx.split(model, nnx.Param, ...)
    return float(_jaxkan_trainer(graph, steps)(weights, rest, x, y))


@functools.lru_cache
def _jaxkan_trainer(graph, steps: int):
    """The training as one compiled program, the same for all starts: compiling takes long."""
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    optimizer = optax.adam(1e-3)

    @jax.jit
    def train(weights, rest, x, y):
        def loss(weights):
            return jnp.mean((nnx.merge(graph, weights, rest)(x) - y) ** 2)

        def step(carry, _):
            weights, state = carry
            value, gradient = jax.value_and_grad(loss)(weights)
            updates, state = optimizer.update(gradient, state)
            return (optax.apply_updates(weights, updates), state), value

        start = weights, optimizer.init(weights)
        return jax.lax.scan(step, start, None, length=steps)[1][-1]

    return train


LIBRARIES = {"pykan": pykan_loss, "jaxkan": jaxkan_loss}
# What each imports; pykan does not declare its own.
PACKAGES = {
    "pykan": ("kan", "torch", "sklearn", "sympy", "tqdm", "yaml"),
    "jaxkan": ("jaxkan", "flax"),
}


def check_installed(library: str) -> None:
    """Refuse a library before anything is trained, with the command that installs it."""
    if any(importlib.util.find_spec(package) is None for package in PACKAGES[library]):
        raise MissingExtra(f"Benchmarking {library}", library)


def compare(library: str, name: str, scheme, seeds: int, steps: int, rows: int) -> dict:
    problem, started = problems.get(name), time.perf_counter()
    medians = {}
    for kind, start in (("default", None), ("kandle", scheme)):
        losses = [LIBRARIES[library](problem, s, start, steps, rows) for s in range(seeds)]
        finite = [loss if np.isfinite(loss) else float("inf") for loss in losses]
        medians[kind] = statistics.median(finite)
    return {
        "library": library,
        "problem": name,
        **medians,
        "ratio": medians["default"] / medians["kandle"],
        "seeds": seeds,
        "steps": steps,
        "seconds": round(time.perf_counter() - started, 1),
    }


def main(argv=None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--alpha", type=float, default=0.25)
    parser.add_argument("--beta", type=float, default=1.75)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000, help="training points, up to 4000")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    scheme = init.PowerLaw(arguments.alpha, arguments.beta)
    libraries = arguments.libraries.split(",")
    for library in libraries:
        if library not in LIBRARIES:
            raise unknown("library", library, LIBRARIES)
        check_installed(library)
    if not arguments.json:
        print(f"{'library':8} {'problem':10} {'default':>10} {'kandle':>10} {'ratio':>8}")
    rows = []
    for library in libraries:
        for name in arguments.problems.split(","):
            a = arguments
            row = compare(library, name, scheme, a.seeds, a.steps, a.rows)
            rows.append(row)
            if a.json:
                print(json.dumps(row), flush=True)
            else:
                print(
                    f"{library:8} {name:10} {row['default']:10.3e} {row['kandle']:10.3e} "
                    f"{row['ratio']:8.2f}",
                    flush=True,
                )
    return rows


if __name__ == "__main__":
    try:
        main()
    except (UserError, MissingExtra) as error:
        sys.exit(f"interop.py: error: {error}")
