"""What a run costs, so that batches end in time and the longest start first.

A step of one model costs overhead + points · (edges + 10 · inputs) · rate, with `inputs` those of
all layers (each is looked up in the splines' table once) and the rate by kind of problem. The
constants are those of one core with the native kernels; only their ratios matter for the order of
batches, and `--calibrate` measures the machine at hand before hours are told. They are the same
everywhere on purpose: shards of one study are computed on different machines and must agree on who
does what.
"""

import functools
import json
from dataclasses import dataclass

from kandle.study._catalogue import facts
from kandle.study._spec import RunSpec


@dataclass(frozen=True)
class CostModel:
    """Seconds of one core.

    - `overhead`: a step of a model, whatever its size;
    - `function`, `pde`: a unit of `work`, in float32;
    - `normalized`: a unit of work where layers standardise their basis, whatever the problem;
    - `doubled`: how much more a unit of work takes in float64;
    - `spectrum`: a spectrum, in steps.
    """

    overhead: float = 1e-4
    function: float = 0.9e-9
    pde: float = 2.75e-9
    normalized: float = 8e-9
    doubled: float = 2.3
    spectrum: float = 100.0

    def step(self, spec: RunSpec) -> float:
        """Seconds that one step of one model takes."""
        return self.overhead + work(spec) * self.rate(spec)

    def rate(self, spec: RunSpec) -> float:
        """Seconds a unit of work."""
        rate = self.pde if facts(spec.problem).kind == "pde" else self.function
        if spec.scheme == "lecun-normalized":
            rate = self.normalized
        return rate * self.doubled if spec.dtype == "float64" else rate

    def run(self, spec: RunSpec) -> float:
        """Seconds that one run takes."""
        spectra = len(json.loads(spec.checkpoints)) if spec.checkpoints else 0
        return self.step(spec) * (spec.steps + spectra * self.spectrum)


def work(spec: RunSpec) -> int:
    """What a step of one model has to do: points times (edges + 10 · inputs of layers)."""
    return _work(spec.problem, spec.width, spec.depth)


@functools.cache
def _work(problem: str, width: int, depth: int) -> int:
    known = facts(problem)
    edges = width * (known.n_in + known.n_out + (depth - 1) * width)
    inputs = known.n_in + depth * width
    return known.points * (edges + 10 * inputs)


DEFAULT = CostModel()
