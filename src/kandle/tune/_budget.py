"""How much a search may cost: model-steps, or time."""

import math
import re
from dataclasses import dataclass
from typing import Any

from kandle._errors import must

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """One of the two: updates of single models, or seconds."""

    model_steps: float | None = None
    seconds: float | None = None


def parse_budget(given: Any) -> Budget:
    """A number of model-steps such as 2e6, or a time such as "90s", "5m", "1.5h".

    >>> parse_budget("5m").seconds
    300.0
    """
    requirement = "a number of model-steps such as 2e6, or a time such as 90s, 5m, 1.5h"
    match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*([smh]?)\s*", str(given))
    try:
        number = float(match[1]) if match else math.nan
    except ValueError:
        number = math.nan
    if match is None or isinstance(given, bool) or not (math.isfinite(number) and number > 0):
        raise must("'budget'", requirement, given)
    if match[2]:
        return Budget(seconds=number * _UNITS[match[2]])
    return Budget(model_steps=number)
