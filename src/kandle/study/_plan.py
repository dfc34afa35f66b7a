"""A plan: what a study at a scale amounts to, before anything is trained."""

import operator
from dataclasses import dataclass

from kandle.store import FIELDS, RunSpec
from kandle.study._axes import Axes
from kandle.study._batch import Batch, batches, shard
from kandle.study._study import Study


@dataclass(frozen=True)
class Plan:
    """The runs of a study at a scale, and how they are counted.

    - `aggregated`: configurations, not counting seeds;
    - `final`: configurations, counting neither seeds nor exponents, as after choosing the best pair
      for each problem and architecture.
    """

    study: Study
    scale: str
    axes: Axes
    specs: list[RunSpec]
    aggregated: int
    final: int

    @property
    def runs(self) -> int:
        return len(self.specs)

    def batches(self, slots: int) -> list[Batch]:
        return batches(self.specs, slots=slots)


def plan(
    study: Study,
    scale: str = "paper",
    axes: Axes | None = None,
    *,
    part: tuple[int, int] | None = None,
) -> Plan:
    """Expand a study at a scale, with `axes` in place of its own.

    `part` is a shard (I, N), counted from 1.
    """
    axes = axes or Axes()
    narrowed = study.at_scale(scale).with_axes(axes)
    specs = narrowed.specs()
    if part is not None:
        specs = shard(specs, *part)
    return Plan(
        narrowed, scale, axes, specs, len(set(map(_CELL, specs))), len(set(map(_FINAL, specs)))
    )


_CELL = operator.attrgetter(*(name for name in FIELDS if name not in ("seed", "replicate")))
_FINAL = operator.attrgetter(
    *(name for name in FIELDS if name not in ("seed", "replicate", "alpha", "beta"))
)
