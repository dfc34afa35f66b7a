"""What a run costs, so that batches have similar lengths and the longest start first.

A step of one model costs overhead + points · (edges + 10 · inputs) · rate, where `inputs` counts
those of all layers (each is looked up in the splines' table once) and the rate depends on the kind
of problem. The constants were measured on one core with the native kernels. Only their ratios
matter for the order of batches; `--calibrate` measures the machine at hand. They are constants
because the shards of a study, planned on different machines, must agree on who does what.
"""

import functools
import json
from dataclasses import dataclass

from kandle import bases
from kandle._route import basis_obstacle
from kandle.store import RunSpec
from kandle.study._catalogue import facts, is_normalized


@dataclass(frozen=True)
class CostModel:
    """Seconds of one core.

    - `overhead`: per step of a model, whatever its size;
    - `function`, `pde`: per unit of `work`, in float32;
    - `normalized`: per unit of work where layers standardize their basis, whatever the problem;
    - `dense`: factor per unit of work for a basis that the native kernels do not accelerate;
    - `doubled`: factor per unit of work in float64;
    - `least_squares`: per point and pair of weights in a step of least squares;
    - `spectrum`: per spectrum, in steps.
    """

    overhead: float = 1e-4
    function: float = 0.9e-9
    pde: float = 2.75e-9
    normalized: float = 8e-9
    dense: float = 4.0
    doubled: float = 2.3
    least_squares: float = 4e-11
    spectrum: float = 100.0

    def step(self, spec: RunSpec) -> float:
        """Seconds per step of one model."""
        return self.overhead + work(spec) * self.rate(spec)

    def rate(self, spec: RunSpec) -> float:
        """Seconds per unit of work."""
        rate = self.pde if facts(spec.problem).kind == "pde" else self.function
        if is_normalized(spec):
            rate = self.normalized
        if not _is_accelerated(spec.basis):
            rate *= self.dense
        return rate * self.doubled if spec.dtype == "float64" else rate

    def run(self, spec: RunSpec) -> float:
        """Seconds per run."""
        spectra = len(json.loads(spec.checkpoints)) if spec.checkpoints else 0
        grids = [spec.G, *(f * spec.G for f in json.loads(spec.refinements or "[]"))]
        if spec.optimizer == "levenberg-marquardt":
            pairs = sum(_weights(spec, G) ** 2 for G in grids)
            return spec.steps * facts(spec.problem).points * pairs * self.least_squares
        return self.step(spec) * (spec.steps * len(grids) + spectra * self.spectrum)


@functools.cache
def _is_accelerated(basis: str) -> bool:
    """Whether there are native kernels for a basis, whether or not this machine can use them."""
    return not basis or basis_obstacle(bases.from_dict(json.loads(basis))) is None


def _weights(spec: RunSpec, grid: int) -> int:
    """The weights of a network on a grid, without its biases."""
    return _edges(spec.problem, spec.width, spec.depth) * (grid + spec.degree + 1)


def work(spec: RunSpec) -> int:
    """The work per step of one model: points × (edges + 10 × inputs of layers)."""
    return _work(spec.problem, spec.width, spec.depth)


@functools.cache
def _work(problem: str, width: int, depth: int) -> int:
    known = facts(problem)
    inputs = known.n_in + depth * width
    return known.points * (_edges(problem, width, depth) + 10 * inputs)


def _edges(problem: str, width: int, depth: int) -> int:
    known = facts(problem)
    return width * (known.n_in + known.n_out + (depth - 1) * width)


DEFAULT = CostModel()
