"""How small the error of the three PDEs becomes by least squares with at most 5,000 weights.

    python benchmarks/pde_floor.py --out pde-floor --problems helmholtz,allen-cahn,burgers

A problem trains in stages. Each begins with the network of the stage before, on the same grid or a
finer one, and may pose an easier problem (Burgers: a larger viscosity). Networks and results are
written to the directory after every stage, and a rerun continues after the last one.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

import kandle
from kandle import KAN, problems
from kandle.bases import BSpline
from kandle.problems import PDE, side
from kandle.train import Architecture, train


class Stage(NamedTuple):
    """One training: the problem, the factor of refinement before it, and the iterations."""

    problem: PDE
    refine: int
    steps: int


class Plan(NamedTuple):
    """The stages; `inputs` maps points of the equation to those of the network."""

    architecture: Architecture
    stages: tuple[Stage, ...]
    balance: float = 100.0
    inputs: Callable[[np.ndarray], np.ndarray] = lambda x: x


def on_grid(name: str, *points: np.ndarray) -> PDE:
    """A built-in problem with the product of these points of each input as collocation."""
    mesh = np.stack(np.meshgrid(*points, indexing="ij"), axis=-1).reshape(-1, len(points))
    return dataclasses.replace(problems.get(name), collocation=mesh)


# Burgers' equation is solved in the coordinates (τ, s) with t = (τ + 1) / 2 and x = ε sinh(L s),
# L = asinh(1 / ε). Points that are equally spaced in s are dense at x = 0, where the shock is.
EPSILON = 0.02
STRETCH = np.arcsinh(1 / EPSILON)
SQUARE = ((-1.0, 1.0), (-1.0, 1.0))


def to_square(points: np.ndarray) -> np.ndarray:
    """(τ, s) of points (t, x)."""
    t, x = points.T
    return np.stack([2 * t - 1, np.arcsinh(x / EPSILON) / STRETCH], axis=-1)


def burgers(viscosity: float, n_time: int, n_space: int) -> PDE:
    """Burgers' equation of any viscosity in the coordinates (τ, s).

    With x' = dx/ds and x'' = d²x/ds² the derivatives are u_x = u_s / x' and
    u_xx = u_ss / x'² - u_s x'' / x'³. The residual is multiplied by x', so that its terms have one
    size inside and outside the shock.
    """

    def residual(z: Any, d: Any) -> Any:
        (u,) = d.outputs
        slope = EPSILON * STRETCH * jnp.cosh(STRETCH * z[:, 1])
        bend = EPSILON * STRETCH**2 * jnp.sinh(STRETCH * z[:, 1])
        u_x = u["s"] / slope
        u_xx = u["s", "s"] / slope**2 - u["s"] * bend / slope**3
        return slope * (2 * u["tau"] + u.value * u_x - viscosity * u_xx)

    def initial(tau: np.ndarray, s: np.ndarray) -> np.ndarray:
        return -np.sin(np.pi * EPSILON * np.sinh(STRETCH * s))

    conditions = (
        side("initial", SQUARE, axis=0, at=-1.0, value=initial, n=200),
        side("left", SQUARE, axis=1, at=-1.0),
        side("right", SQUARE, axis=1, at=1.0),
    )
    return PDE(
        "burgers-stretched",
        residual,
        SQUARE,
        conditions,
        inputs=("tau", "s"),
        collocation=(n_time, n_space),
        n_evaluation=(2, 2),
    )


def helmholtz_plan() -> Plan:
    problem = on_grid("helmholtz", np.linspace(-1, 1, 40), np.linspace(-1, 1, 80))
    architecture = Architecture(width=6, depth=2, grid=8, degree=5)
    return Plan(architecture, (Stage(problem, 1, 60), Stage(problem, 2, 40)), balance=1e4)


def allen_cahn_plan() -> Plan:
    problem = on_grid("allen-cahn", np.linspace(0, 1, 40) ** 1.5, np.linspace(-1, 1, 160))
    architecture = Architecture(width=8, depth=2, grid=10)
    return Plan(architecture, (Stage(problem, 1, 80), Stage(problem, 2, 40)), balance=1e3)


def burgers_plan() -> Plan:
    architecture = Architecture(width=6, depth=2, grid=10)
    # The larger the viscosity, the smoother the solution that the next stage begins with.
    easier = [Stage(burgers(nu / np.pi, 40, 120), 1, 15) for nu in (0.1, 0.05, 0.025, 0.015)]
    coarse, fine = burgers(0.01 / np.pi, 40, 120), burgers(0.01 / np.pi, 50, 160)
    last = Stage(coarse, 1, 40), Stage(coarse, 2, 40), Stage(fine, 2, 40)
    return Plan(architecture, (*easier, *last), balance=1e3, inputs=to_square)


PLANS: dict[str, Callable[[], Plan]] = {
    "helmholtz": helmholtz_plan,
    "allen-cahn": allen_cahn_plan,
    "burgers": burgers_plan,
}


def refined(model: KAN, problem: PDE, factor: int) -> KAN:
    """The same function on a grid that is finer by a factor, and wide enough for its inputs."""
    wide = model.widen(problem.arrays("float64")["collocation"])
    if factor == 1:
        return wide
    return wide.refine([factor * cast(BSpline, layer.basis).grid for layer in wide.layers])


def relative_error(name: str, plan: Plan, model: KAN) -> float:
    """‖u - reference‖ / ‖reference‖ on the evaluation grid of a built-in problem."""
    x, reference = cast(PDE, problems.get(name)).evaluation()
    assert reference is not None
    blocks = np.array_split(plan.inputs(x), 50)
    u = np.concatenate([np.asarray(model(block)) for block in blocks])
    return float(np.linalg.norm(u - reference) / np.linalg.norm(reference))


def solve(name: str, directory: Path) -> dict[str, Any]:
    """Train the stages that the directory lacks; the record of all."""
    plan = PLANS[name]()
    model, record = None, {"seconds": 0.0, "stages": []}
    for i, stage in enumerate(plan.stages):
        at = directory / f"{name}-{i}"
        if at.with_suffix(".json").exists():
            record = json.loads(at.with_suffix(".json").read_text())
            model = kandle.load(at.with_suffix(".safetensors"))
            continue
        began = time.perf_counter()
        arguments = {"balance": plan.balance, "warmup": 0 if model else 300}
        [result] = train(
            stage.problem,
            plan.architecture,
            [("power-law", 0)],
            steps=stage.steps,
            optimizer={"name": "levenberg-marquardt", "arguments": arguments},
            dtype="float64",
            initial=[refined(model, stage.problem, stage.refine)] if model else None,
            keep_weights=True,
        )
        model = result.model
        assert model is not None
        seconds = time.perf_counter() - began
        weights = sum(leaf.size for leaf in jax.tree.leaves(model))
        l2 = relative_error(name, plan, model)
        found = {"loss": result.loss, "l2": l2, "weights": weights, "seconds": seconds}
        record["seconds"] += seconds
        record["stages"].append(found)
        kandle.save(model, at.with_suffix(".safetensors"))
        at.with_suffix(".json").write_text(json.dumps(record, indent=1))
        print(
            f"{name} stage {i}: loss {result.loss:.2e}, L² {l2:.2e}, {weights} weights, "
            f"{seconds:.0f} s",
            flush=True,
        )
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", default=",".join(PLANS))
    parser.add_argument("--out", type=Path, required=True, help="directory of results")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.problems.split(","):
        # Networks are refined, saved and loaded in double precision as well.
        with jax.enable_x64(True):
            record = solve(name, given.out)
        last = record["stages"][-1]
        print(
            f"{name}: relative L² {last['l2']:.2e}, {last['weights']} weights, "
            f"{record['seconds']:.0f} s"
        )


if __name__ == "__main__":
    main()
