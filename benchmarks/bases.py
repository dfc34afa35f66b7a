"""Time a training step of bases other than splines, beside jaxKAN's layers of the same functions.

    python benchmarks/bases.py [--rounds 5] [--bases chebyshev rbf] [--shapes small large]

Both train one network on the 4,000 points of f3 with full-batch Adam. jaxKAN runs at its fastest,
in one jitted step that reuses its buffers; of its flavors of a layer the fastest one counts. A
flavor that fails, or whose loss is not finite, is left out with the reason. Uniform B-splines are
timed for comparison, without a peer.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxkan.models.KAN import KAN as JaxKAN

from kandle import bases, init, kernels, problems
from kandle.train import Architecture, Optimizer, Population, method_of, objective, shared

SHAPES = {"small": (8, 2, 8), "large": (32, 3, 20)}  # width, depth, functions per edge
BASES = {
    "bspline": (lambda n: bases.BSpline(n - 3), []),
    "chebyshev": (
        lambda n: bases.Chebyshev(n),
        [("chebyshev", lambda n, f=f: {"D": n, "flavor": f}) for f in ("default", "exact")],
    ),
    "legendre": (
        lambda n: bases.Legendre(n),
        [("legendre", lambda n, f=f: {"D": n, "flavor": f}) for f in ("default", "exact")],
    ),
    "fourier": (
        lambda n: bases.Fourier(n // 2),
        [("fourier", lambda n: {"D": n // 2})],
    ),
    "rbf": (
        lambda n: bases.RBF(n),
        [("rbf", lambda n: {"D": n, "grid_range": (-1.0, 1.0)})],
    ),
}


def kandle_steps(basis, width, depth, models=1):
    """A function that trains some networks for n steps."""
    problem = problems.get("f3")
    residual = None if isinstance(basis, bases.Fourier) else jax.nn.silu
    shape = Architecture(width, depth, basis=basis, residual=residual)
    backend = kernels.check_backend(None, basis)
    networks = [shape.network(2, 1, init.Glorot(), seed, backend=backend) for seed in range(models)]
    goal = objective(problem, "published")
    arrays = problem.arrays("float32")
    data = shared({name: arrays[name] for name in goal.arrays})
    return Population(networks, data, goal, method_of(Optimizer(), goal, backend)).advance


def jaxkan_steps(layer, parameters, width, depth):
    """The same for jaxKAN."""
    if layer != "fourier":
        parameters = {**parameters, "residual": jax.nn.silu, "external_weights": True}
    model = JaxKAN([2, *[width] * depth, 1], layer, parameters, seed=0)
    graph, weights, rest = nnx.split(model, nnx.Param, ...)
    optimizer = optax.adam(1e-3)
    arrays = problems.get("f3").arrays("float32")
    x, y = jnp.asarray(arrays["x"]), jnp.asarray(arrays["y"])

    def step(state, x, y):
        weights, moments = state
        loss, gradient = jax.value_and_grad(
            lambda weights: jnp.mean((nnx.merge(graph, weights, rest)(x) - y) ** 2)
        )(weights)
        updates, moments = optimizer.update(gradient, moments, weights)
        return (optax.apply_updates(weights, updates), moments), loss

    step = jax.jit(step, donate_argnums=0)
    state = (weights, optimizer.init(weights))

    def run(steps):
        nonlocal state
        loss = np.nan
        for _ in range(steps):
            state, loss = step(state, x, y)
        return float(loss)

    return run


def fastest_flavors(name, layers, n, width, depth):
    """The runs of those of jaxKAN's layers that work; what fails is printed."""
    runs = []
    for layer, parameters in layers:
        given = parameters(n)
        try:
            run = jaxkan_steps(layer, given, width, depth)
            if not np.isfinite(loss := run(2)):
                raise FloatingPointError(f"its loss after two steps is {loss}")
        except Exception as error:  # any failure of the peer is a reason to go on without it
            reason = str(error).strip().splitlines()[0][:100] or type(error).__name__
            print(f"  jaxKAN {name} {given} skipped: {reason}")
            continue
        runs.append(run)
    return runs


def milliseconds(runs, rounds):
    """The median time per step of each, taking turns."""
    counts = []
    for run in runs:
        run(2)
        began = time.perf_counter()
        run(4)
        counts.append(max(4, min(512, int(0.4 / ((time.perf_counter() - began) / 4)))))
    times = [[] for _ in runs]
    for _ in range(rounds):
        for run, count, found in zip(runs, counts, times, strict=True):
            began = time.perf_counter()
            run(count)
            found.append(1e3 * (time.perf_counter() - began) / count)
    return [float(np.median(found)) for found in times]


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bases", nargs="+", choices=BASES, default=list(BASES))
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    arguments = parser.parse_args()
    print(f"{'shape':8}{'basis':12}{'Kandle ms':>10}{'batch 16':>10}{'jaxKAN ms':>11}{'ratio':>8}")
    for shape in arguments.shapes:
        width, depth, n = SHAPES[shape]
        for name in arguments.bases:
            basis, flavors = BASES[name]
            runs = [kandle_steps(basis(n), width, depth)]
            if shape == "small":
                runs.append(kandle_steps(basis(n), width, depth, models=16))
            peers = fastest_flavors(name, flavors, n, width, depth)
            own, *others = milliseconds(runs + peers, arguments.rounds)
            batch = f"{others.pop(0) / 16:10.3f}" if shape == "small" else f"{'':10}"
            peer = f"{min(others):11.3f}{min(others) / own:8.1f}" if others else ""
            print(f"{shape:8}{name:12}{own:10.3f}{batch}{peer}", flush=True)


if __name__ == "__main__":
    main()
