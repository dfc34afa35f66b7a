"""What a seed may be, wherever one is given."""

import numbers
from typing import Any

from kandle._errors import must

# JAX keeps 32 bits of a seed: larger and negative ones would silently be the same as others.
WORDS = "an integer from 0 to 2³² - 1"


def is_seed(value: Any) -> bool:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and 0 <= int(value) < 2**32


def check_seed(what: str, seed: Any) -> int:
    """The seed as a Python integer, or an error that names `what`."""
    if not is_seed(seed):
        raise must(what, WORDS, seed)
    return int(seed)
