"""What a run costs, so that batches end in time and the longest start first.

A step of one model costs overhead + edges · points · work, with `work` by kind of problem. The
constants are those of one core with the native kernels; only their ratios matter for the order of
batches, and `--calibrate` measures the machine at hand before hours are printed. They are the same
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
    """Seconds of one core: a step costs `overhead` + edges · points · (`function` or `pde`).

    `doubled` multiplies the work in float64, `normalized` that of a layer which standardises its
    basis, and a spectrum costs as much as `spectrum` steps.
    """

    overhead: float = 1.5e-4
    function: float = 1.2e-9
    pde: float = 4.0e-9
    doubled: float = 2.0
    normalized: float = 2.0
    spectrum: float = 100.0

    def step(self, spec: RunSpec) -> float:
        """Seconds that one step of one model takes."""
        return self.overhead + work(spec) * self.rate(spec)

    def rate(self, spec: RunSpec) -> float:
        """Seconds an edge and point."""
        rate = self.pde if facts(spec.problem).kind == "pde" else self.function
        if spec.dtype == "float64":
            rate *= self.doubled
        return rate * self.normalized if spec.scheme == "lecun-normalized" else rate

    def run(self, spec: RunSpec) -> float:
        """Seconds that one run takes."""
        spectra = len(json.loads(spec.checkpoints)) if spec.checkpoints else 0
        return self.step(spec) * (spec.steps + spectra * self.spectrum)


def work(spec: RunSpec) -> int:
    """Edges times points evaluated in a step."""
    return _work(spec.problem, spec.width, spec.depth)


@functools.cache
def _work(problem: str, width: int, depth: int) -> int:
    known = facts(problem)
    edges = width * (known.n_in + known.n_out + (depth - 1) * width)
    return edges * known.points


DEFAULT = CostModel()
