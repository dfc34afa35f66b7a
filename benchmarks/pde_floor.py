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
import numpy as np

import kandle
from kandle import KAN, problems
from kandle.bases import BSpline
from kandle.problems import PDE
from kandle.train import Architecture, train


class Stage(NamedTuple):
    """One training: the problem, the factor of refinement before it, and the iterations."""

    problem: PDE
    refine: int
    steps: int


class Plan(NamedTuple):
    architecture: Architecture
    stages: tuple[Stage, ...]
    balance: float = 100.0


def on_grid(name: str, *points: np.ndarray) -> PDE:
    """A built-in problem with the product of these points of each input as collocation."""
    mesh = np.stack(np.meshgrid(*points, indexing="ij"), axis=-1).reshape(-1, len(points))
    return dataclasses.replace(problems.get(name), collocation=mesh)


def concentrated(n: int, sharpness: float) -> np.ndarray:
    """n points of [-1, 1], densest at 0: tan is scaled so that the ends are included."""
    return np.tan(np.linspace(-1, 1, n) * np.arctan(sharpness)) / sharpness


def burgers(viscosity: float, points: tuple[np.ndarray, np.ndarray]) -> PDE:
    """Burgers' equation with another viscosity; the reference is that of the final one."""

    def residual(x: Any, d: Any) -> Any:
        (u,) = d.outputs
        return u[0] + u.value * u[1] - viscosity * u[1, 1]

    return dataclasses.replace(on_grid("burgers", *points), residual=residual)


def helmholtz_plan() -> Plan:
    problem = on_grid("helmholtz", np.linspace(-1, 1, 40), np.linspace(-1, 1, 80))
    architecture = Architecture(width=6, depth=2, grid=8, degree=5)
    return Plan(architecture, (Stage(problem, 1, 60), Stage(problem, 2, 40)), balance=1e4)


def allen_cahn_plan() -> Plan:
    problem = on_grid("allen-cahn", np.linspace(0, 1, 40) ** 1.5, np.linspace(-1, 1, 160))
    architecture = Architecture(width=8, depth=2, grid=10)
    return Plan(architecture, (Stage(problem, 1, 80), Stage(problem, 2, 40)), balance=1e3)


def burgers_plan() -> Plan:
    points = np.linspace(0, 1, 40), concentrated(120, 20.0)
    architecture = Architecture(width=8, depth=2, grid=10)
    viscosities = 0.1 / np.pi, 0.05 / np.pi, 0.025 / np.pi, 0.015 / np.pi
    easier = [Stage(burgers(nu, points), 1, 20) for nu in viscosities]
    final = on_grid("burgers", *points)
    return Plan(architecture, (*easier, Stage(final, 1, 60), Stage(final, 2, 40)), balance=1e3)


PLANS: dict[str, Callable[[], Plan]] = {
    "helmholtz": helmholtz_plan,
    "allen-cahn": allen_cahn_plan,
    "burgers": burgers_plan,
}


def refined(model: KAN, problem: PDE, factor: int) -> KAN:
    """The same function on a grid that is finer by a factor, and wide enough for its inputs."""
    wide = model.widen(problem.arrays("float64")["collocation"])
    return wide.refine([factor * cast(BSpline, layer.basis).grid for layer in wide.layers])


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
        found = {"loss": result.loss, "l2": result.l2, "weights": weights, "seconds": seconds}
        record["seconds"] += seconds
        record["stages"].append(found)
        kandle.save(model, at.with_suffix(".safetensors"))
        at.with_suffix(".json").write_text(json.dumps(record, indent=1))
        print(
            f"{name} stage {i}: loss {result.loss:.2e}, L² {result.l2:.2e}, {weights} weights, "
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
