"""The type checker of the tests: beartype, for the annotations that speak of arrays.

Arguments that are not arrays are checked by the functions themselves, with errors for people, and
may be more than their annotation says (NumPy integers, names instead of objects).
"""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check_arrays(function: Callable) -> Callable:
    annotations: dict[str, Any] = getattr(function, "__annotations__", {})
    arrays = {name: kind for name, kind in annotations.items() if "jaxtyping" in repr(kind)}
    if not arrays:
        return function
    function.__annotations__ = arrays
    return _check(function)
