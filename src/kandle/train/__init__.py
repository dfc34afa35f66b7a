"""Objectives, optimizers, and the training loop, which trains many models together."""

from kandle.train._adam import FusedAdam, adam
from kandle.train._architecture import Architecture
from kandle.train._evaluation import Errors, evaluate, predict
from kandle.train._first_order import FirstOrder, trace_count
from kandle.train._levenberg_marquardt import LevenbergMarquardt
from kandle.train._objective import Aux, Classify, Data, Fit, FitRows, Objective, Term
from kandle.train._optimizer import (
    LEAST_SQUARES,
    OPTIMIZERS,
    SCHEDULES,
    Optimizer,
    Transformation,
)
from kandle.train._rba import ETA, GAMMA, attend
from kandle.train._recipe import RECIPES, Recipe, recipe
from kandle.train._result import Checkpoint, Member, Result, curve_steps
from kandle.train._solve import Solve
from kandle.train._train import method_of, objective, objective_for, train
from kandle.train._training import (
    Curves,
    Feed,
    Keep,
    KeepLast,
    Method,
    Population,
    State,
    Whole,
    of_model,
    over_models,
    run,
    shared,
)

__all__ = [
    "ETA",
    "GAMMA",
    "LEAST_SQUARES",
    "OPTIMIZERS",
    "RECIPES",
    "SCHEDULES",
    "Architecture",
    "Aux",
    "Checkpoint",
    "Classify",
    "Curves",
    "Data",
    "Errors",
    "Feed",
    "FirstOrder",
    "Fit",
    "FitRows",
    "FusedAdam",
    "Keep",
    "KeepLast",
    "LevenbergMarquardt",
    "Member",
    "Method",
    "Objective",
    "Optimizer",
    "Population",
    "Recipe",
    "Result",
    "Solve",
    "State",
    "Term",
    "Transformation",
    "Whole",
    "adam",
    "attend",
    "curve_steps",
    "evaluate",
    "method_of",
    "objective",
    "objective_for",
    "of_model",
    "over_models",
    "predict",
    "recipe",
    "run",
    "shared",
    "trace_count",
    "train",
]
