"""A declared grid of trainings → runs → batches of one shape → executors → store."""

from kandle.store import RunSpec
from kandle.study._axes import Axes
from kandle.study._batch import Batch, batches, shard
from kandle.study._calibrate import calibrate
from kandle.study._cost import CostModel
from kandle.study._driver import Progress, Watcher
from kandle.study._exchange import Imported, Rows, export, import_rows, read_file
from kandle.study._executor import Done, Executor, Lost, StudyError
from kandle.study._inline import InlineExecutor
from kandle.study._local import LocalExecutor
from kandle.study._plan import Plan, plan
from kandle.study._ray import RayExecutor
from kandle.study._registry import DRAWS, Draws, get, names, register
from kandle.study._run import run
from kandle.study._status import status
from kandle.study._study import SCALES, OptimizerChoice, SchemeAxis, Study

__all__ = [
    "DRAWS",
    "SCALES",
    "Axes",
    "Batch",
    "CostModel",
    "Done",
    "Draws",
    "Executor",
    "Imported",
    "InlineExecutor",
    "LocalExecutor",
    "Lost",
    "OptimizerChoice",
    "Plan",
    "Progress",
    "RayExecutor",
    "Rows",
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
    "read_file",
    "register",
    "run",
    "shard",
    "status",
]
