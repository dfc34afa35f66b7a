"""Finding the power law's exponents for a task, at a fraction of an exhaustive search."""

from kandle.tune._budget import parse_budget
from kandle.tune._plan import Plan, Rung, plan
from kandle.tune._result import Candidate, Tuned
from kandle.tune._search import EXPONENTS, tune

__all__ = ["EXPONENTS", "Candidate", "Plan", "Rung", "Tuned", "parse_budget", "plan", "tune"]
