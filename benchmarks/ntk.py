"""Time and memory of tangent kernels: layer by layer, against the Jacobian of automatic diff.

    python benchmarks/ntk.py [--rounds 5] [--json]

The large architecture ([2, 32, 32, 32, 1], G = 20) on 256 points of f3, and on 256 residual points
of Allen-Cahn, in float64. The other side is a jitted `vmap(grad)` Jacobian and its Gram matrix
through the `dense` backend, of a residual made by nested autodiff for the PDE. Rounds of both are
interleaved, so that a busy machine slows both. Memory is what XLA plans for the largest of the
programs involved, for 256 points and for 1,024 points in the same chunks.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("PJRT_NPROC", "1")

import jax
import jax.numpy as jnp
import numpy as np

from kandle import KAN, ntk, problems
from kandle.nn import Derivatives
from kandle.ntk._layerwise import Rows, layer_gram
from kandle.ntk._tangents import Directions

jax.config.update("jax_enable_x64", True)


def network(backend: str | None) -> KAN:
    key = jax.random.key(0)
    return KAN([2, 32, 32, 32, 1], grid=20, key=key, dtype=jnp.float64, backend=backend)


def flat(tree: Any) -> jax.Array:
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)])


@jax.jit
def jacobian_kernel(model: KAN, x: jax.Array) -> jax.Array:
    J = jax.vmap(lambda z: flat(jax.grad(lambda m: m(z[None])[0, 0])(model)))(x)
    return J @ J.T


PDE = problems.get("allen-cahn")


@jax.jit
def nested_kernel(model: KAN, x: jax.Array) -> jax.Array:
    def residual(model: KAN, z: jax.Array) -> jax.Array:
        def u(z):
            return model(z[None])[0, 0]

        gradient, hessian = jax.grad(u)(z), jax.hessian(u)(z)
        first = {i: gradient[i].reshape(1, 1) for i in PDE.first}
        second = {i: hessian[i, i].reshape(1, 1) for i in PDE.second}
        return PDE.residual(z[None], Derivatives(u(z).reshape(1, 1), first, second))[0]

    J = jax.vmap(lambda z: flat(jax.grad(residual)(model, z)))(x)
    return J @ J.T


def compare(name: str, ours: Callable, theirs: Callable, rounds: int) -> dict[str, Any]:
    """The median time of each, in milliseconds, and how far the results are apart."""
    mine, reference = ours(), np.asarray(theirs())  # compiles
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for side, function in (("ours", ours), ("theirs", theirs)):
            started = time.perf_counter()
            np.asarray(function())
            times[side].append(1e3 * (time.perf_counter() - started))
    medians = {side: float(np.median(t)) for side, t in times.items()}
    difference = float(np.abs(mine - reference).max() / np.abs(reference).max())
    ratio = medians["ours"] / medians["theirs"]
    return {"kernel": name, **medians, "ratio": ratio, "difference": difference}


def planned(function: Any, *arguments: Any, **options: Any) -> float:
    """What XLA plans to hold beside arguments and results, in megabytes."""
    analysis = function.lower(*arguments, **options).compile().memory_analysis()
    return analysis.temp_size_in_bytes / 1e6


def memory(x: np.ndarray, residual: Callable | None, directions: Directions) -> float:
    """Of the layer-wise route: all tangents, which it holds, and one pair of chunks."""
    rows = Rows(network(None), x, residual, directions)
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(rows.blocks)) / 1e6
    one = rows.blocks[0][0]
    layers = zip(rows.model.layers, one, one, strict=True)
    return held + max(planned(layer_gram, *each, directions, directions) for each in layers)


def main(rounds: int = 5) -> list[dict[str, Any]]:
    x = problems.get("f3").arrays("float64")["x"]
    inside = PDE.arrays("float64")["collocation"][::4]
    conditions = PDE.arrays("float64")["points"][:1]
    ours, dense = network(None), network("dense")
    few, residuals = x[:256], inside[::4]
    carried = Directions(PDE.first, PDE.second)
    found = [
        compare(
            "function",
            lambda: ntk.kernel(ours, few),
            lambda: jacobian_kernel(dense, few),
            rounds,
        ),
        compare(
            "PDE residual",
            lambda: ntk.blocks(ours, PDE, residuals, conditions)["pde", "pde"],
            lambda: nested_kernel(dense, residuals),
            rounds,
        ),
    ]
    sides = [
        (jacobian_kernel, few, x[:1024], None, Directions()),
        (nested_kernel, residuals, inside, PDE.residual, carried),
    ]
    for row, (theirs, small, large, residual, directions) in zip(found, sides, strict=True):
        row["memory"] = [memory(p, residual, directions) for p in (small, large)]
        row["their_memory"] = [planned(theirs, dense, p) for p in (small, large)]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = main(arguments.rounds)
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        for r in results:
            print(
                f"{r['kernel']:13} {r['ours']:7.1f} ms  against {r['theirs']:7.1f} ms: "
                f"{r['ratio']:.3f} of the time, {r['difference']:.0e} apart"
            )
            ours_, theirs_ = r["memory"], r["their_memory"]
            print(
                f"{'':13} {ours_[0]:.0f} MB for 256 points and {ours_[1]:.0f} MB for 1,024, "
                f"against {theirs_[0]:.0f} and {theirs_[1]:.0f} MB"
            )
