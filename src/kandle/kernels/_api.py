"""The public functions of the kernels: check the arguments, choose a backend, call it.

A backend is a module (or anything with the same attributes) that has

    layer(x, r, c, b, bias, *, basis, residual)
    jet(x, r, c, b, bias, *, first, second, basis, residual)
    statistics(x, *, basis)
    total(x)

with the shapes of the functions below, each differentiable to any order in both modes, vmappable,
and NaN where x is not finite. All but `native` accept any basis.
"""

import functools
import numbers
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from kandle._errors import UserError, must, unknown
from kandle._route import basis_obstacle
from kandle.bases import Basis
from kandle.kernels import _dense, _library, _native, _reference
from kandle.kernels._residual import Residual
from kandle.kernels._spread import spread as _spread

BACKENDS = ("reference", "dense", "native")

_IMPLEMENTATIONS: dict[str, Any] = {"reference": _reference, "dense": _dense}
if _library.library() is not None:
    _IMPLEMENTATIONS["native"] = _native


def default_backend(basis: Basis | None = None) -> str:
    """`native` on a CPU where it could be loaded and accelerates the basis, else `dense`."""
    return "native" if _default_obstacle(basis) is None else "dense"


def _default_obstacle(basis: Basis | None) -> str | None:
    if "native" not in _IMPLEMENTATIONS:
        return "the native kernels are not available"
    platform = jax.default_backend()
    if platform != "cpu":
        return f"JAX computes on the platform {platform!r}"
    return None if basis is None else basis_obstacle(basis)


def native_obstacle(backend: str | None, basis: Basis) -> str | None:
    """Why a layer of this backend is not computed on `native` now, None if it is."""
    if backend is None or backend == "native":
        return _default_obstacle(basis)
    return f"the backend {backend!r} was asked for"


def accelerates(basis: Basis) -> bool:
    """Whether the native kernels accept a basis: uniform B-splines, Chebyshev, Legendre, Fourier
    and RBF bases.
    """
    return basis_obstacle(basis) is None


def check_backend(backend: str | None, basis: Basis | None = None) -> str:
    """The name of a usable backend, which accepts the basis; None is the default one."""
    if backend is None:
        return default_backend(basis)
    if backend not in BACKENDS:
        raise unknown("backend", backend, BACKENDS)
    if backend not in _IMPLEMENTATIONS:
        raise UserError(
            f"The backend {backend!r} could not be loaded on this machine. "
            f"Available: {', '.join(_IMPLEMENTATIONS)}."
        )
    if backend == "native" and basis is not None and not accelerates(basis):
        raise UserError(
            "The backend 'native' must have a basis of uniform B-splines (bases.BSpline), "
            "Chebyshev, Legendre, Fourier or RBF functions, at most 1024 of them. "
            f"Got {type(basis).__name__} instead: use backend=None or 'dense'."
        )
    return backend


def layer(
    x: Float[ArrayLike, "N n_in"],
    r: Float[ArrayLike, "n_out n_in"] | None,
    c: Float[ArrayLike, "n_out n_in"],
    b: Float[ArrayLike, "n_out n_in n_basis"],
    bias: Float[ArrayLike, " n_out"] | None,
    *,
    basis: Basis,
    residual: Residual | None,
    backend: str | None = None,
) -> Float[Array, "N n_out"]:
    """The value of a KAN layer (Eq. 1, with a bias).

        y_j = Σ_i [ r_ji R(x_i) + c_ji Σ_m b_jim B_m(x_i) ] + bias_j

    Args:
        x: inputs, (N, n_in); a row with an infinity or a NaN gives NaN.
        r: residual weights, (n_out, n_in), or None without a residual.
        c: scaling weights, (n_out, n_in).
        b: basis weights, (n_out, n_in, n_basis).
        bias: (n_out,), or None.
        basis: the functions B_m, the same for every input.
        residual: R, an elementwise function, or None.
        backend: one of `BACKENDS`; None is the fastest one for this basis and machine.

    Returns:
        y, (N, n_out).
    """
    name = check_backend(backend, _check_basis(basis))
    arrays = _check(x, 2, r, c, b, bias, basis, residual)
    return _layer(*arrays, basis=basis, residual=residual, backend=name)


def jet(
    x: Float[ArrayLike, "C N n_in"],
    r: Float[ArrayLike, "n_out n_in"] | None,
    c: Float[ArrayLike, "n_out n_in"],
    b: Float[ArrayLike, "n_out n_in n_basis"],
    bias: Float[ArrayLike, " n_out"] | None,
    *,
    first: int,
    second: int,
    basis: Basis,
    residual: Residual | None,
    backend: str | None = None,
) -> Float[Array, "C N n_out"]:
    """A layer's value with directional derivatives, from those of its inputs.

        y_d  = Σ_i φ_ji'(x_i) x_d,i
        y_dd = Σ_i φ_ji''(x_i) x_d,i² + φ_ji'(x_i) x_dd,i        φ_ji = r_ji R + c_ji Σ_m b_jim B_m

    Args:
        x: (C, N, n_in) with C = 1 + first + second: the value, `first` first derivatives, and the
            second derivatives along the first `second` of those directions.
        first: number of directions with a first derivative.
        second: number of directions with a second derivative too, at most `first`.

    The other arguments are those of `layer`.

    Returns:
        The same components of the outputs, (C, N, n_out).
    """
    name = check_backend(backend, _check_basis(basis))
    first, second = _count("first", first), _count("second", second)
    if not 0 <= second <= first:
        raise must("'second' of jet", f"between 0 and 'first' = {first}", second)
    arrays = _check(x, 3, r, c, b, bias, basis, residual)
    components = 1 + first + second
    if len(arrays[0]) != components:
        wanted = f"of 1 + first + second = {components} components"
        raise must("'x' of jet", wanted, arrays[0].shape)
    counts = {"first": first, "second": second}
    return _jet(*arrays, **counts, basis=basis, residual=residual, backend=name)


def statistics(
    x: Float[ArrayLike, "N n_in"], *, basis: Basis, backend: str | None = None
) -> tuple[Float[Array, "n_in n_basis"], Float[Array, "n_in n_basis"]]:
    """Mean and population variance of every B_m(x_i) over the batch, each (n_in, n_basis)."""
    name = check_backend(backend, _check_basis(basis))
    x = _floating(x)
    if x.ndim != 2 or x.shape[0] == 0:
        raise must("'x' of statistics", "a matrix (N, n_in) with at least one row", x.shape)
    return _statistics(x, basis=basis, backend=name)


def total(x: Float[ArrayLike, "... N"], backend: str | None = None) -> Float[Array, "..."]:
    """Σ_n x_n over the last axis, on `native` in an order that is the same in any batch."""
    name = check_backend(backend)
    x = _floating(x)
    if x.ndim == 0:
        raise must("'x' of total", "an array with at least one axis", x.shape)
    if x.size == 0:
        return jnp.zeros(x.shape[:-1], x.dtype)  # kernels need something to add
    return _total(x, backend=name)


def spread(x: Float[ArrayLike, "..."], n: int, backend: str | None = None) -> Float[Array, "... n"]:
    """x repeated n times along a new last axis: the transpose of `total`, which is its gradient."""
    name = check_backend(backend)
    return _spread(_floating(x), n, _IMPLEMENTATIONS[name].total)


# Jitted, so that eager calls compile once per shape; inlined, so that an outer jit sees through.
_jit = functools.partial(jax.jit, inline=True)


@functools.partial(_jit, static_argnames=("basis", "residual", "backend"))
def _layer(x, r, c, b, bias, *, basis, residual, backend):
    return _IMPLEMENTATIONS[backend].layer(x, r, c, b, bias, basis=basis, residual=residual)


@functools.partial(_jit, static_argnames=("first", "second", "basis", "residual", "backend"))
def _jet(x, r, c, b, bias, *, first, second, basis, residual, backend):
    return _IMPLEMENTATIONS[backend].jet(
        x, r, c, b, bias, first=first, second=second, basis=basis, residual=residual
    )


@functools.partial(_jit, static_argnames=("basis", "backend"))
def _statistics(x, *, basis, backend):
    return _IMPLEMENTATIONS[backend].statistics(x, basis=basis)


@functools.partial(_jit, static_argnames=("backend",))
def _total(x, *, backend):
    return _IMPLEMENTATIONS[backend].total(x)


def _count(name: str, value: int) -> int:
    """A number of directions as a Python integer: NumPy's do not fit into compiled programs."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise must(f"'{name}' of jet", "a whole number", value)
    return int(value)


def _floating(x: ArrayLike) -> Array:
    x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise must("The input of a kernel", "real", f"an array of {x.dtype}")
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.result_type(float))


def _check_basis(basis: Basis) -> Basis:
    if not isinstance(basis, Basis):
        raise must("'basis'", "a Basis, such as bases.BSpline(5)", basis)
    return basis


def _check(x, x_ndim, r, c, b, bias, basis, residual) -> tuple:
    """Arrays of one floating dtype whose shapes fit, or an error naming the one that does not."""
    x, c, b = _floating(x), jnp.asarray(c), jnp.asarray(b)
    if (r is None) != (residual is None):
        raise must("'r'", "given exactly when a residual function is", "one without the other")
    if c.ndim != 2:
        raise must("'c'", "a matrix (n_out, n_in)", c.shape)
    n_out, n_in = c.shape
    if b.shape != (n_out, n_in, basis.n_basis):
        wanted = f"of shape (n_out, n_in, n_basis) = {(n_out, n_in, basis.n_basis)}"
        raise must("'b'", wanted, b.shape)
    if x.ndim != x_ndim or x.shape[-1] != n_in:
        raise must("'x'", f"an array of {x_ndim} axes whose last has n_in = {n_in}", x.shape)
    if r is not None:
        r = jnp.asarray(r)
        if r.shape != (n_out, n_in):
            raise must("'r'", f"of shape (n_out, n_in) = {(n_out, n_in)}", r.shape)
    if bias is not None:
        bias = jnp.asarray(bias)
        if bias.shape != (n_out,):
            raise must("'bias'", f"of shape (n_out,) = {(n_out,)}", bias.shape)
    dtype = jnp.result_type(x, *(a for a in (r, c, b, bias) if a is not None))
    cast = [None if a is None else a.astype(dtype) for a in (x, r, c, b, bias)]
    return tuple(cast)
