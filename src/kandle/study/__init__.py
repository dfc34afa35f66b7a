"""A declared grid of trainings → runs → batches of one shape → executors → store."""

from kandle.study._axes import Axes
from kandle.study._batch import Batch, batches, shard
from kandle.study._builtin import get, names
from kandle.study._calibrate import calibrate
from kandle.study._cost import CostModel
from kandle.study._driver import Progress, Watcher
from kandle.study._exchange import Imported, export, import_rows
from kandle.study._executor import Done, Executor, Lost, StudyError
from kandle.study._inline import InlineExecutor
from kandle.study._local import LocalExecutor
from kandle.study._plan import Plan, plan
from kandle.study._ray import RayExecutor
from kandle.study._run import run
from kandle.study._spec import RunSpec
from kandle.study._status import status
from kandle.study._study import SCALES, OptimizerChoice, SchemeAxis, Study

__all__ = [
    "SCALES",
    "Axes",
    "Batch",
    "CostModel",
    "Done",
    "Executor",
    "Imported",
    "InlineExecutor",
    "LocalExecutor",
    "Lost",
    "OptimizerChoice",
    "Plan",
    "Progress",
    "RayExecutor",
    "RunSpec",
    "SchemeAxis",
    "Study",
    "StudyError",
    "Watcher",
    "batches",
    "calibrate",
    "export",
    "get",
    "import_rows",
    "names",
    "plan",
    "run",
    "shard",
    "status",
]
