"""How a network is computed: what its layers are, and which native calls take them.

Everything that depends on the network alone (bases, sizes, data type, instruction set) is decided
here, once for all front ends; neither JAX nor PyTorch is imported. What depends on the call (its
transformations, devices, hooks) is decided by the front ends, `kandle.nn._evaluate` for JAX and
`kandle.torch` for PyTorch. A function named `…_obstacle` returns None where its native call takes
what it is given, else the reason why not, as a short text.

Each front end registers its networks with `route_of`:

    @route_of.register
    def _(model: KAN, x, y=None) -> Route: ...
"""

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from kandle._errors import must
from kandle._native import open_library
from kandle.bases import RBF, Basis, BSpline, Chebyshev, Fourier, Knots, Legendre

Path = Literal["one call", "per layer", "plain"]

# Families without local support, in the order of the kernels' own enumeration.
GLOBAL_FAMILIES = (Chebyshev, Legendre, Fourier, RBF)

_BITS = {"float32": 32, "float64": 64}
# Limits that the kernels check themselves, repeated here for the words of a reason alone. See
# `takes` in `fit_layer.h` and `fit_global.h`.
_STEP_WIDTH = 64
_STEP_GRID = 505
_STEP_FUNCTIONS = 256  # over all inputs of a layer without local support
_STEP_WEIGHTS = 4096  # of such a layer

_MAX_FUNCTIONS = 1024
# XLA's threads share the outputs of wider layers, which are therefore called one by one.
_MAX_OUTPUTS = 255


# ---- the answer ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Route:
    """The path that a call takes, and why not a faster one.

    Attributes:
        path: "one call", "per layer" or "plain".
        reasons: for each faster path, why it was not taken, the fastest first.

    Example:
        >>> print(Route("per layer", {"one call": "layers[0]: 300 outputs"}))
        per layer (not one call: layers[0]: 300 outputs)
    """

    path: Path
    reasons: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        if not self.reasons:
            return self.path
        paths_of: dict[str, list[str]] = {}
        for path, reason in self.reasons.items():
            paths_of.setdefault(reason, []).append(f"not {path}")
        refused = [f"{', '.join(paths)}: {reason}" for reason, paths in paths_of.items()]
        return f"{self.path} ({'; '.join(refused)})"

    def without_one_call(self, reason: str) -> "Route":
        """This route for a caller that cannot use one call of all layers."""
        if self.path != "one call":
            return self
        return Route("per layer", {"one call": reason})

    @classmethod
    def first(cls, one_call: str | None, per_layer: str | None) -> "Route":
        """The first path that has no obstacle."""
        if one_call is None:
            return cls("one call")
        if per_layer is None:
            return cls("per layer", {"one call": one_call})
        return cls("plain", {"one call": one_call, "per layer": per_layer})


def route(model: Any, x: Any, y: Any = None) -> Route:
    """How a network is computed, and why not faster.

    The first path without an obstacle is taken:

    1. "one call": all layers are one native call. There are such calls for

       - values: uniform B-splines; in JAX at most 255 outputs per layer. JAX calls the layers one
         by one for derivatives. PyTorch has calls for those up to the third order, for cubic
         splines with few outputs per layer (at most 8 in float32 with AVX-512);
       - the squared error and its gradient in the weights (with `y`; in JAX): on AVX-512 cubic
         splines, with layers of at most 64 inputs, 64 outputs, 1.5 MiB of weights and G = 505; on
         any processor Chebyshev, Legendre, Fourier and RBF bases, with layers of at most 256
         functions over all inputs and 4,096 weights.

       Layers must have SiLU or no residual function, must not be normalized, and their weights
       must be of one type, float32 or float64.
    2. "per layer": layers are called one by one, those natively whose basis has kernels: uniform
       B-splines, and Chebyshev, Legendre, Fourier and RBF bases of at most 1,024 functions, in
       float32 or float64.
    3. "plain": no layer has native kernels; JAX's or PyTorch's own operations compute all of them.
       So it is on other devices, without the compiled library, and on a backend other than
       `native`.

    A subclass of a network or of a layer may compute something else, so it rules out one call. In
    PyTorch the same is true of hooks, and of calls that are compiled, traced or transformed.

    Args:
        model: a `kandle.KAN`, or a `KAN` or `KANLinear` of `kandle.torch`.
        x: the inputs of the call, or anything with their shape; nothing is computed with them.
        y: targets: the route is then that of the squared error with its gradient in the weights,
            as in a step of training, instead of that of the values.

    Returns:
        The route, with its `path` and the `reasons` against the faster paths.

    Example:
        >>> import jax, kandle
        >>> model = kandle.KAN([2, 8, 1], key=jax.random.key(0), backend="dense")
        >>> print(kandle.kernels.route(model, jax.numpy.zeros((10, 2))))
        plain (not one call, not per layer: layers[0]: the backend 'dense' was asked for)
    """
    return route_of(model, x, y)


@functools.singledispatch
def route_of(model: Any, x: Any, y: Any = None) -> Route:
    """The route of a type of model; every front end registers its own types."""
    requirement = "a kandle.KAN, or a KAN or KANLinear of kandle.torch"
    raise must("'model' of route", requirement, type(model).__name__)


# ---- what a layer is -----------------------------------------------------------------------------


class LayerSpec(NamedTuple):
    """A layer but for its weights and their type.

    Attributes:
        n_in, n_out: its width.
        basis: the functions on its edges.
        residual: "silu", which the kernels compute; "other" for any other function; or None.
        normalized: whether the basis functions are standardized.
    """

    n_in: int
    n_out: int
    basis: Basis
    residual: Literal["silu", "other"] | None
    normalized: bool = False


def is_local(basis: Basis) -> bool:
    """Whether a basis is of uniform B-splines, of which only k + 1 are not zero at a point."""
    return type(basis) is BSpline


# ---- what the native kernels take ----------------------------------------------------------------


@functools.cache
def _library() -> ctypes.CDLL | str:
    """The compiled kernels, or why there are none."""
    try:
        return open_library()
    except OSError as error:
        return f"the native kernels are not available: {error}"


def _native_answer(function: str, *arguments: int) -> int:
    """What a function of the compiled kernels returns; 0 without them."""
    library = _library()
    if isinstance(library, str):
        return 0
    return getattr(library, f"kandle_{function}")(*map(ctypes.c_int64, arguments))


def basis_obstacle(basis: Basis) -> str | None:
    """Why there are no native kernels for layers of a basis."""
    if is_local(basis):
        return None
    if isinstance(basis, Knots):
        return "the kernels for splines need equal intervals, which bases.Knots may not have"
    if type(basis) not in GLOBAL_FAMILIES:
        return f"there are no kernels for the basis {type(basis).__name__}"
    if basis.n_basis > _MAX_FUNCTIONS:
        return f"{basis.n_basis} basis functions, the kernels take up to {_MAX_FUNCTIONS}"
    return None


def layer_obstacle(layer: LayerSpec, dtype: str) -> str | None:
    """Why native kernels do not compute a layer on its own; `dtype` is a name in NumPy."""
    library = _library()
    if isinstance(library, str):
        return library
    if dtype not in _BITS:
        return f"the kernels compute in float32 and float64, not in {dtype}"
    return basis_obstacle(layer.basis)


def jet_obstacle(basis: Basis, first: int, second: int) -> str | None:
    """Why a layer with directional derivatives is not one native call.

    Args:
        basis: one with native kernels.
        first, second: how many directions have a first derivative, and a second one too.
    """
    # The kernels of other bases take the derivatives that those of cubic splines take.
    degree = basis.degree if isinstance(basis, BSpline) else 3
    if _native_answer("has_jet", degree, first, second):
        return None
    return f"there is no kernel for {first} first and {second} second derivatives of this basis"


def network_obstacle(layers: Sequence[LayerSpec], dtype: str) -> str | None:
    """Why the values of a network are not one native call."""
    return _first_obstacle(layers, dtype, (*_ANY_CALL, _splines))


def evaluation_obstacle(layers: Sequence[LayerSpec], dtype: str) -> str | None:
    """The same where XLA makes the call."""
    return _first_obstacle(layers, dtype, (*_ANY_CALL, _splines, _outputs))


def derivatives_obstacle(layers: Sequence[LayerSpec], dtype: str) -> str | None:
    """Why the second and third derivatives of a network are not one native call each."""
    return _first_obstacle(layers, dtype, (*_ANY_CALL, _splines, _few_outputs))


def squared_error_obstacle(layers: Sequence[LayerSpec], dtype: str) -> str | None:
    """Why a network's squared error and its gradient in the weights are not one native call."""
    local = [is_local(layer.basis) for layer in layers]
    if any(local) and not all(local):
        return "some layers are B-splines and others are not, the call takes one kind"
    step = _spline_step if all(local) else _global_step
    return _first_obstacle(layers, dtype, (*_ANY_CALL, step))


# ---- conditions on a layer, each None or the reason against it -----------------------------------

Condition = Callable[[LayerSpec, str], str | None]


def _first_obstacle(
    layers: Sequence[LayerSpec], dtype: str, conditions: Sequence[Condition]
) -> str | None:
    for index, layer in enumerate(layers):
        for condition in conditions:
            reason = condition(layer, dtype)
            if reason is not None:
                return f"layers[{index}]: {reason}"
    return None


def _fixed_weights(layer: LayerSpec, dtype: str) -> str | None:
    return "its basis functions are standardized over the batch" if layer.normalized else None


def _residual(layer: LayerSpec, dtype: str) -> str | None:
    return "its residual function is not SiLU" if layer.residual == "other" else None


def _splines(layer: LayerSpec, dtype: str) -> str | None:
    if is_local(layer.basis):
        return None
    return f"the call takes uniform B-splines, not {type(layer.basis).__name__}"


def _outputs(layer: LayerSpec, dtype: str) -> str | None:
    if layer.n_out <= _MAX_OUTPUTS:
        return None
    return f"{layer.n_out} outputs, the call takes up to {_MAX_OUTPUTS}"


def _few_outputs(layer: LayerSpec, dtype: str) -> str | None:
    most = _native_answer(f"c_few_outputs_f{_BITS[dtype]}")
    assert isinstance(layer.basis, BSpline)
    if layer.basis.degree != 3:
        return f"splines of degree {layer.basis.degree}, the call takes cubic ones"
    if layer.n_out > most:
        return f"{layer.n_out} outputs, the call takes up to {most}"
    return None


def _spline_step(layer: LayerSpec, dtype: str) -> str | None:
    n_in, n_out, basis = layer.n_in, layer.n_out, layer.basis
    assert isinstance(basis, BSpline)
    fits = f"fits_layer_f{_BITS[dtype]}"
    if _native_answer(fits, basis.grid, basis.degree, n_in, n_out):
        return None
    smallest_fits = _native_answer(fits, 1, 3, 1, 1)
    if not smallest_fits:
        return "the call for splines needs AVX-512"
    if basis.degree != 3:
        return f"splines of degree {basis.degree}, the call takes cubic ones"
    if n_in > _STEP_WIDTH:
        return f"{n_in} inputs, the call takes up to {_STEP_WIDTH}"
    if n_out > _STEP_WIDTH:
        return f"{n_out} outputs, the call takes up to {_STEP_WIDTH}"
    if basis.grid > _STEP_GRID:
        return f"G = {basis.grid}, the call takes up to {_STEP_GRID}"
    return "its weights take more than 1.5 MiB"


def _global_step(layer: LayerSpec, dtype: str) -> str | None:
    n_in, n_out, n_basis = layer.n_in, layer.n_out, layer.basis.n_basis
    if _native_answer(f"fits_global_f{_BITS[dtype]}", n_basis, n_in, n_out):
        return None
    functions = n_in * n_basis
    if functions > _STEP_FUNCTIONS:
        return f"{functions} functions over all inputs, the call takes up to {_STEP_FUNCTIONS}"
    return f"{functions * n_out} basis weights, the call takes up to {_STEP_WEIGHTS}"


# What every call for a whole network needs.
_ANY_CALL: tuple[Condition, ...] = (layer_obstacle, _fixed_weights, _residual)
