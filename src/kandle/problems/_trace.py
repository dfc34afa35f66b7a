"""Which derivatives an operator reads and what it returns, found by tracing it once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kandle._errors import UserError, must

_N = 17  # points of a trace; an operator should not have as many columns


class Traced(NamedTuple):
    """What an operator reads and returns.

    - `reads`: multi-indices of the derivatives, in ascending order;
    - `columns`: q of its values (N, q); 1 of values (N,).
    """

    reads: tuple[tuple[int, ...], ...]
    columns: int


def trace(
    operator: Callable[[Any, Any], Any],
    what: str,
    *,
    n_in: int,
    n_out: int,
    inputs: Sequence[str] = (),
    coefficients: Mapping[str, Any] | None = None,
) -> Traced:
    """Call an operator with abstract points and derivatives; `what` names it in errors."""
    import jax
    import jax.numpy as jnp

    from kandle.nn import RecordingDerivatives

    read: set[tuple[int, ...]] = set()

    def record(x, value, numbers):
        d = RecordingDerivatives(value, n_in, inputs, numbers)
        d.read = read
        return operator(x, d)

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((_N, n_in), (_N, n_out))]
    numbers = {name: jax.ShapeDtypeStruct((), jnp.float32) for name in coefficients or {}}
    try:
        out = jax.eval_shape(record, *shapes, numbers)
    except UserError as error:
        raise UserError(f"{what}: {error}") from None
    except jax.errors.TracerArrayConversionError:
        raise UserError(
            f"{what} must use jax.numpy, not numpy, on points and derivatives."
        ) from None
    except KeyError as error:
        known = ", ".join(coefficients or {}) or "none"
        raise UserError(f"{what} reads {error}, which is missing; coefficients: {known}.") from None
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
        raise UserError(f"{what} cannot be evaluated: {type(error).__name__}: {reason}") from error
    return Traced(tuple(sorted(read, key=lambda i: (len(i), i))), check_columns(out, _N, what))


def check_columns(values: Any, n: int, what: str) -> int:
    """q of an operator's values (n,) or (n, q), or an error."""
    shape = getattr(values, "shape", None)
    if shape == (n,):
        return 1
    if shape is None or len(shape) != 2 or shape[0] != n or shape[1] in (0, n):
        got = "no array" if shape is None else f"an array of {_symbolic(shape, n)}"
        requirement = (
            "one number per point, (N,), or q of them, (N, q) (u and its derivatives are "
            "(N, n_out): take [..., 0], or those of d.outputs)"
        )
        raise must(what, requirement, got)
    return shape[1]


def _symbolic(shape: tuple[int, ...], n: int) -> str:
    return f"({', '.join('N' if size == n else str(size) for size in shape)})"
