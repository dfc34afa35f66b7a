"""Objectives, optimizers, and the training loop, which trains many models together."""

from kandle.train._adam import FusedAdam, adam
from kandle.train._architecture import Architecture
from kandle.train._evaluation import Errors, evaluate, predict
from kandle.train._levenberg_marquardt import LevenbergMarquardt
from kandle.train._loop import train
from kandle.train._objective import Classify, Fit, FitRows, Objective, Penalized, objective
from kandle.train._optimizer import (
    LEAST_SQUARES,
    OPTIMIZERS,
    SCHEDULES,
    Optimizer,
    Transformation,
)
from kandle.train._population import Population
from kandle.train._program import trace_count
from kandle.train._rba import ETA, GAMMA, attend
from kandle.train._recipe import RECIPES, Recipe, recipe
from kandle.train._result import Checkpoint, Member, Result, curve_steps
from kandle.train._solve import Solve

__all__ = [
    "ETA",
    "GAMMA",
    "LEAST_SQUARES",
    "OPTIMIZERS",
    "RECIPES",
    "SCHEDULES",
    "Architecture",
    "Checkpoint",
    "Classify",
    "Errors",
    "Fit",
    "FitRows",
    "FusedAdam",
    "LevenbergMarquardt",
    "Member",
    "Objective",
    "Optimizer",
    "Penalized",
    "Population",
    "Recipe",
    "Result",
    "Solve",
    "Transformation",
    "adam",
    "attend",
    "curve_steps",
    "evaluate",
    "objective",
    "predict",
    "recipe",
    "trace_count",
    "train",
]
