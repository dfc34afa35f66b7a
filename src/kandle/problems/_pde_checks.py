"""What a PDE reads, and what is wrong with it as it was posed, found before anything is trained."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kandle._errors import UserError, must
from kandle.problems._coefficient import Coefficient
from kandle.problems._condition import Condition, Operator
from kandle.problems._points import Resample

if TYPE_CHECKING:
    from kandle.problems._pde import PDE

_ROWS = 17  # points of a trace; an operator should not have as many columns


def checked_inputs(pde: "PDE") -> tuple[str, ...]:
    """The names of the inputs as a tuple, or an error."""
    names = tuple(pde.inputs)
    if names and (len(set(names)) != pde.n_in or not all(isinstance(n, str) for n in names)):
        raise must(f"'inputs' of {pde._what}", f"{pde.n_in} distinct names", pde.inputs)
    return names


def checked_coefficients(pde: "PDE") -> dict[str, Coefficient]:
    """The coefficients by name, of which a number is the initial value."""
    coefficients = {}
    for name, coefficient in pde.coefficients.items():
        if not isinstance(coefficient, Coefficient):
            coefficient = Coefficient(coefficient)
        coefficients[name] = coefficient
    return coefficients


def checked_counts(pde: "PDE", name: str, default: int) -> tuple[int, ...]:
    """Numbers of points, one per input, or an error; `default` for each if there are none."""
    counts: Any = getattr(pde, name)
    if isinstance(counts, str) or not isinstance(counts, Iterable):
        raise must(f"'{name}' of {pde._what}", "a sequence of integers", counts)
    counts = tuple(counts) or (default,) * pde.n_in
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
    conditions: Any = pde.conditions
    if not isinstance(conditions, Iterable) or isinstance(conditions, str):
        requirement = "a sequence of Conditions, such as those that side() returns"
        raise must(f"'conditions' of {pde._what}", requirement, type(conditions).__name__)
    conditions = tuple(conditions)
    for condition in conditions:
        if not isinstance(condition, Condition):
            raise must(f"Each of the 'conditions' of {pde._what}", "a Condition", condition)
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
        reads = traced(pde, pde.residual, f"The residual of {pde._what}").reads
    else:
        first, second = _checked_axes(pde, "first"), _checked_axes(pde, "second")
        if pde.derivatives is None and not set(second) <= set(first):
            # A second derivative is carried along with the first one, never alone.
            raise must(f"'second' of {pde._what}", f"among 'first', {first}", second)
        reads = (*((i,) for i in first), *((i, i) for i in second))
        reads += tuple(_multi_index(pde, derivative) for derivative in pde.derivatives or ())
        reads = tuple(dict.fromkeys(reads))
    first = tuple(index[0] for index in reads if len(index) == 1)
    second = tuple(index[0] for index in reads if len(index) == 2 and index[0] == index[1])
    return first, second, reads


def _checked_axes(pde: "PDE", name: str) -> tuple[int, ...]:
    """The inputs that `first` or `second` lists, none if it is None, or an error."""
    axes = getattr(pde, name)
    if axes is None:
        axes = ()
    if isinstance(axes, str) or not isinstance(axes, Iterable):
        raise must(f"'{name}' of {pde._what}", "a sequence of integers", axes)
    axes = tuple(axes)
    if not set(axes) <= set(range(pde.n_in)) or len(set(axes)) < len(axes):
        requirement = f"distinct inputs, 0 to {pde.n_in - 1}"
        raise must(f"'{name}' of {pde._what}", requirement, axes)
    return axes


def _multi_index(pde: "PDE", derivative: Any) -> tuple[int, ...]:
    """A derivative such as ("x", 0) or "x" as the ascending indices of its inputs, or an error."""
    inputs = derivative if isinstance(derivative, tuple) else (derivative,)
    indices = {name: i for i, name in enumerate(pde.inputs)} | {i: i for i in range(pde.n_in)}
    if not inputs or not all(name in indices for name in inputs):
        names = ", ".join(map(str, indices))
        raise must(f"'derivatives' of {pde._what}", f"tuples of inputs ({names})", derivative)
    return tuple(sorted(indices[name] for name in inputs))


# --- operators, traced once -----------------------------------------------------------------------


class Traced(NamedTuple):
    """What an operator reads and returns.

    - `reads`: multi-indices of the derivatives, in ascending order;
    - `columns`: q of its values (N, q); 1 of values (N,).
    """

    reads: tuple[tuple[int, ...], ...]
    columns: int


def traced(pde: "PDE", operator: Operator, what: str) -> Traced:
    """What an operator of a PDE reads and returns, found by calling it with abstract points.

    `what` names the operator in errors.
    """
    import jax
    import jax.numpy as jnp

    from kandle.nn import RecordingDerivatives

    read: set[tuple[int, ...]] = set()

    def record(x, value, numbers):
        d = RecordingDerivatives(value, pde.n_in, pde.inputs, numbers)
        d.read = read
        return operator(x, d)

    x = jax.ShapeDtypeStruct((_ROWS, pde.n_in), jnp.float32)
    u = jax.ShapeDtypeStruct((_ROWS, pde.n_out), jnp.float32)
    numbers = {name: jax.ShapeDtypeStruct((), jnp.float32) for name in pde.coefficients}
    try:
        values = jax.eval_shape(record, x, u, numbers)
    except UserError as error:
        raise UserError(f"{what}: {error}") from None
    except jax.errors.TracerArrayConversionError:
        raise UserError(
            f"{what} must use jax.numpy, not numpy, on points and derivatives."
        ) from None
    except KeyError as error:
        names = ", ".join(pde.coefficients) or "none"
        raise UserError(f"{what} reads {error}, which is missing; coefficients: {names}.") from None
    except Exception as error:
        lines = str(error).strip().splitlines() or ["no message"]
        reason = f"{type(error).__name__}: {lines[0]}"
        raise UserError(f"{what} cannot be evaluated: {reason}") from error
    reads = sorted(read, key=lambda index: (len(index), index))
    return Traced(tuple(reads), _columns(values, what))


def _columns(values: Any, what: str) -> int:
    """q of an operator's values (_ROWS,) or (_ROWS, q), or an error."""
    shape = getattr(values, "shape", None)
    if shape == (_ROWS,):
        return 1
    if shape is None or len(shape) != 2 or shape[0] != _ROWS or shape[1] in (0, _ROWS):
        got = "no array"
        if shape is not None:
            sizes = ["N" if size == _ROWS else str(size) for size in shape]
            got = f"an array of ({', '.join(sizes)})"
        requirement = (
            "one number per point, (N,), or q of them, (N, q) (u and its derivatives are "
            "(N, n_out): take [..., 0], or those of d.outputs)"
        )
        raise must(what, requirement, got)
    return shape[1]
