"""A declared grid of trainings → runs → batches of one shape → executors → store."""

from kandle.study._axes import Axes
from kandle.study._batch import Batch, batches, shard
from kandle.study._builtin import get, names
from kandle.study._plan import Plan, plan
from kandle.study._spec import RunSpec
from kandle.study._study import SCALES, OptimizerChoice, SchemeAxis, Study

__all__ = [
    "SCALES",
    "Axes",
    "Batch",
    "OptimizerChoice",
    "Plan",
    "RunSpec",
    "SchemeAxis",
    "Study",
    "batches",
    "get",
    "names",
    "plan",
    "shard",
]
