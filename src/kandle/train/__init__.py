"""Losses, residual-based attention, and the one training loop: many models at once."""

from kandle.train._architecture import Architecture
from kandle.train._evaluation import Errors, evaluate, predict
from kandle.train._loop import train
from kandle.train._objective import Classify, Fit, FitRows, Objective, Solve, objective
from kandle.train._optimizer import OPTIMIZERS, SCHEDULES, Optimizer
from kandle.train._population import Population
from kandle.train._program import trace_count
from kandle.train._rba import ETA, GAMMA, attend
from kandle.train._result import Checkpoint, Member, Result, curve_steps

__all__ = [
    "ETA",
    "GAMMA",
    "OPTIMIZERS",
    "SCHEDULES",
    "Architecture",
    "Checkpoint",
    "Classify",
    "Errors",
    "Fit",
    "FitRows",
    "Member",
    "Objective",
    "Optimizer",
    "Population",
    "Result",
    "Solve",
    "attend",
    "curve_steps",
    "evaluate",
    "objective",
    "predict",
    "trace_count",
    "train",
]
