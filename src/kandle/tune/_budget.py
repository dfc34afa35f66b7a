"""How much a search may cost: model-steps, or time."""

import math
import re
from dataclasses import dataclass
from typing import Any

from kandle._errors import must

# As they may be written, the one that is said back first.
_UNITS = {
    1.0: ("s", "sec", "second", "seconds"),
    60.0: ("min", "m", "mins", "minute", "minutes"),
    3600.0: ("h", "hour", "hours"),
}


@dataclass(frozen=True)
class Budget:
    """One of the two: updates of single models, or seconds, to be said in units of `unit`."""

    model_steps: float | None = None
    seconds: float | None = None
    unit: float = 1.0

    def said(self, seconds: float) -> str:
        """A time in the unit that the budget was given in, not less than it is.

        >>> parse_budget("0.01 minutes").said(8.05)
        '0.14 min'
        """
        amount = seconds / self.unit
        digit = 10.0 ** (math.floor(math.log10(amount)) - 1)  # the second one
        return f"{math.ceil(round(amount / digit, 6)) * digit:.6g} {_UNITS[self.unit][0]}"


def parse_budget(given: Any) -> Budget:
    """A number of model-steps such as 2e6, or a time such as "90s", "5 min", "1.5h".

    >>> parse_budget("5m").seconds
    300.0
    """
    requirement = "a number of model-steps such as 2e6, or a time such as 90s, 5min, 1.5h"
    match = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-z]*)\s*", str(given).lower())
    units = {name: seconds for seconds, names in _UNITS.items() for name in names}
    try:
        number = float(match[1]) if match else math.nan
    except ValueError:
        number = math.nan
    positive = math.isfinite(number) and number > 0
    if match is None or isinstance(given, bool) or not positive or match[2] not in {"", *units}:
        raise must("'budget'", requirement, given)
    if match[2]:
        unit = units[match[2]]
        return Budget(seconds=number * unit, unit=unit)
    return Budget(model_steps=number)
