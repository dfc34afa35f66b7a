"""Finding settings for a task: the power law's exponents for problems, more for tables."""

from kandle.tune._budget import parse_budget
from kandle.tune._plan import Plan, Rung, plan
from kandle.tune._result import Candidate, Tuned
from kandle.tune._search import EXPONENTS, tune
from kandle.tune._tables import RankedSettings, TableData, TunedTable, tune_table

__all__ = [
    "EXPONENTS",
    "Candidate",
    "Plan",
    "RankedSettings",
    "Rung",
    "TableData",
    "Tuned",
    "TunedTable",
    "parse_budget",
    "plan",
    "tune",
    "tune_table",
]
