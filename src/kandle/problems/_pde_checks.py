"""What is wrong with a PDE as it was posed, found before anything is trained."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from kandle._errors import UserError, must
from kandle.problems._coefficient import Coefficient
from kandle.problems._condition import Condition
from kandle.problems._points import Resample

if TYPE_CHECKING:
    from kandle.problems._pde import PDE


def checked_inputs(pde: "PDE") -> tuple[str, ...]:
    names = tuple(pde.inputs)
    if names and (len(set(names)) != pde.n_in or not all(isinstance(n, str) for n in names)):
        raise must(f"'inputs' of {pde._what}", f"{pde.n_in} distinct names", pde.inputs)
    return names


def checked_coefficients(pde: "PDE") -> dict[str, Coefficient]:
    return {
        name: given if isinstance(given, Coefficient) else Coefficient(given)
        for name, given in pde.coefficients.items()
    }


def checked_counts(pde: "PDE", name: str, default: int) -> tuple[int, ...]:
    given: Any = getattr(pde, name)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise must(f"'{name}' of {pde._what}", "a sequence of integers", given)
    counts = tuple(given) or (default,) * pde.n_in
    if len(counts) != pde.n_in or min(counts) < 2:
        raise must(f"'{name}' of {pde._what}", "at least two points for each input", counts)
    return counts


def check_sampling(pde: "PDE") -> None:
    if pde.inside is not None and not callable(pde.inside):
        raise must(f"'inside' of {pde._what}", "a function to booleans", pde.inside)
    if pde.resample is None:
        return
    if not isinstance(pde.resample, Resample):
        raise must(f"'resample' of {pde._what}", "a Resample", pde.resample)
    if isinstance(pde.collocation, np.ndarray) or callable(pde.collocation):
        raise UserError(
            f"'resample' of {pde._what} needs points that can be drawn again: give "
            "'collocation' as Points, and the geometry as 'inside'."
        )


def checked_kinds(pde: "PDE") -> tuple[Condition, ...]:
    """The conditions as a tuple, or an error if something in it is no condition."""
    given: Any = pde.conditions
    if not isinstance(given, Iterable) or isinstance(given, str):
        requirement = "a sequence of Conditions, such as those that side() returns"
        raise must(f"'conditions' of {pde._what}", requirement, type(given).__name__)
    conditions = tuple(given)
    for one in conditions:
        if not isinstance(one, Condition):
            raise must(f"Each of the 'conditions' of {pde._what}", "a Condition", one)
    return conditions


def check_conditions(pde: "PDE") -> None:
    if not pde.conditions and pde.transform is None:
        raise must(f"'conditions' of {pde._what}", "at least one condition", pde.conditions)
    low, high = np.asarray(pde.domain).T
    slack = 1e-9 * (high - low)
    names = [c.name for c in pde.conditions]
    for c in pde.conditions:
        what = f"condition {c.name!r} of {pde._what}"
        if names.count(c.name) > 1 or c.name in ("pde", "bc"):
            raise must(f"The name of {what}", "unique, and neither 'pde' nor 'bc'", c.name)
        rows = len(c.points)
        if c.points.shape != (rows, pde.n_in) or (
            c.operator is None and c.values.ndim and c.values.shape[1] != pde.n_out
        ):
            got = c.points.shape, c.values.shape
            requirement = f"points {(rows, pde.n_in)} and values {(rows, pde.n_out)}"
            raise must(what, requirement, got)
        for points in (c.points, c.points if c.partner is None else c.partner):
            if not (np.isfinite(points).all() and np.isfinite(c.values).all()):
                raise UserError(f"C{what[1:]} has a value that is not finite.")
            outside = ((points < low - slack) | (points > high + slack)).any(axis=1)
            if outside.any():
                where = tuple(points[outside.argmax()].tolist())
                raise UserError(f"C{what[1:]} has a point outside the domain: {where}.")


def check_transform(pde: "PDE") -> None:
    if pde.transform is None:
        return
    import jax
    import jax.numpy as jnp

    x, u = (jax.ShapeDtypeStruct((7, n), jnp.float32) for n in (pde.n_in, pde.n_out))
    what, requirement = f"'transform' of {pde._what}", "a function (x, v) to (N, n_out)"
    try:
        got = jax.eval_shape(pde.transform, x, u).shape
    except Exception as error:
        raise must(what, requirement, f"{type(error).__name__}: {error}") from error
    if got != (7, pde.n_out):
        raise must(what, requirement, f"an array of {got} from (7, {pde.n_out})")


def checked_reads(pde: "PDE"):
    """(first, second, all multi-indices) as declared, or as the residual reads them."""
    if pde.first is None and pde.second is None and pde.derivatives is None:
        reads = pde._traced(pde.residual, f"The residual of {pde._what}").reads
    else:
        for axes in ("first", "second"):
            given = () if getattr(pde, axes) is None else getattr(pde, axes)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise must(f"'{axes}' of {pde._what}", "a sequence of integers", given)
        first, second = tuple(pde.first or ()), tuple(pde.second or ())
        for axes, given in (("first", first), ("second", second)):
            if not set(given) <= set(range(pde.n_in)) or len(set(given)) < len(given):
                requirement = f"distinct inputs, 0 to {pde.n_in - 1}"
                raise must(f"'{axes}' of {pde._what}", requirement, given)
        if pde.derivatives is None and not set(second) <= set(first):
            # A second derivative is carried along with the first one, never alone.
            raise must(f"'second' of {pde._what}", f"among 'first', {first}", second)
        reads = (*((i,) for i in first), *((i, i) for i in second))
        reads += tuple(multi_index(pde, given) for given in pde.derivatives or ())
        reads = tuple(dict.fromkeys(reads))
    first = tuple(index[0] for index in reads if len(index) == 1)
    second = tuple(i[0] for i in reads if len(i) == 2 and i[0] == i[1])
    return first, second, reads


def multi_index(pde: "PDE", given: Any) -> tuple[int, ...]:
    inputs = given if isinstance(given, tuple) else (given,)
    known = {name: i for i, name in enumerate(pde.inputs)} | {i: i for i in range(pde.n_in)}
    if not inputs or not all(one in known for one in inputs):
        names = ", ".join(map(str, known))
        raise must(f"'derivatives' of {pde._what}", f"tuples of inputs ({names})", given)
    return tuple(sorted(known[one] for one in inputs))
