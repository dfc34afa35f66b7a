"""The type checker of the tests: beartype, for the annotations that speak of arrays.

Arguments that are not arrays are checked by the functions themselves, with errors for people, and
may be more than their annotation says (NumPy integers, names instead of objects).
"""

import inspect
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))
_jaxtyped = jaxtyping.jaxtyped


def install() -> None:
    """Check the shapes in annotations of `kandle` from its import on.

    jaxtyping would wrap every function and every dataclass, at 30 µs a call. Those that no
    annotation of an array concerns stay as they are: a plan of the paper makes 100,000 specs.
    """
    jaxtyping.jaxtyped = _jaxtyped_where_arrays_are
    jaxtyping.install_import_hook("kandle", "typechecker.check_arrays")


def _jaxtyped_where_arrays_are(*function: Any, **options: Any) -> Any:
    if function:
        return _jaxtyped(*function, **options)
    decorate = _jaxtyped(**options)
    return lambda given: decorate(given) if _concerns_arrays(given) else given


def _concerns_arrays(given: Any) -> bool:
    function = given.__init__ if inspect.isclass(given) else given
    annotations = getattr(function, "__annotations__", None)
    if annotations is None:  # a descriptor, or a class without an __init__ of its own
        return not inspect.isclass(given)
    # Text is an annotation that jaxtyping will evaluate.
    return any("jaxtyping" in repr(a) or "Array" in str(a) for a in annotations.values())


def check_arrays(function: Callable) -> Callable:
    annotations: dict[str, Any] = getattr(function, "__annotations__", {})
    arrays = {name: kind for name, kind in annotations.items() if "jaxtyping" in repr(kind)}
    if not arrays:
        return function
    function.__annotations__ = arrays
    return _check(function)
