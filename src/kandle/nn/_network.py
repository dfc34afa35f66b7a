"""The network: layers one after the other, with all that a caller asks of them."""

import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from kandle import kernels
from kandle._errors import must, unknown
from kandle.init import DRAWS, Inputs, PowerLaw, Scheme
from kandle.init import get as get_scheme
from kandle.nn._derivatives import Derivatives, check_dimensions, seed_jet
from kandle.nn._layer import KANLayer, blocks
from kandle.nn._residuals import get_residual
from kandle.splines import SplineBasis


class KAN(eqx.Module):
    """A spline Kolmogorov-Arnold network, a pytree of its weights.

    Args:
        widths: (n_0, …, n_L): inputs, hidden layers, outputs.
        grid: G, the number of spline intervals; one for all layers, or one a layer.
        degree: k of the splines.
        domain: the interval that the splines of every layer divide.
        residual: R, an elementwise function, the name of one, or None.
        bias: whether a layer has a bias.
        init: a scheme of `kandle.init`, or its name.
        inputs: the distribution that the scheme assumes for every layer's inputs; None is uniform
            over the domain.
        key: a JAX key.
        draws: "independent", each layer from its own part of the key; or "published", every layer
            from the key itself, as the paper's runs drew, and the very numbers that they had: those
            of `jax.random.key(42 + run)`, runs 1 to 5. Layers of one shape start equal then.
        dtype: of the weights.
        backend: of the kernels; None is the best at the time of a call.

    Example:
        >>> model = KAN([2, 8, 8, 1], grid=5, key=jax.random.key(0))
        >>> model(jnp.zeros((10, 2))).shape
        (10, 1)
    """

    layers: tuple[KANLayer, ...]

    def __init__(
        self,
        widths: Sequence[int],
        *,
        grid: int | Sequence[int] = 5,
        degree: int = 3,
        domain: tuple[float, float] = (-1.0, 1.0),
        residual: str | Callable[[Array], Array] | None = jax.nn.silu,
        bias: bool = True,
        init: str | Scheme = PowerLaw(),  # noqa: B008 (frozen)
        inputs: Inputs | None = None,
        key: Array,
        draws: str = "independent",
        dtype: Any = jnp.float32,
        backend: str | None = None,
    ):
        widths = _check_widths(widths)
        grids = _check_grids(grid, len(widths) - 1)
        bases = [SplineBasis(g, degree, domain) for g in grids]
        residual = get_residual(residual)
        scheme = get_scheme(init)
        if not isinstance(bias, bool):
            raise must("'bias' of KAN", "True or False", bias)
        if backend is not None:
            kernels.check_backend(backend)
        keys = _layer_keys(_check_key(key), draws, len(bases))
        self.layers = tuple(
            KANLayer.draw(
                n_in,
                n_out,
                basis=basis,
                residual=residual,
                bias=bias,
                init=scheme,
                inputs=inputs,
                key=layer_key,
                draws=draws,
                dtype=dtype,
                backend=backend,
            )
            for n_in, n_out, basis, layer_key in zip(
                widths[:-1], widths[1:], bases, keys, strict=True
            )
        )

    @classmethod
    def from_layers(cls, layers: Iterable[KANLayer]) -> Self:
        """A network of ready layers, each as wide as the next one takes in."""
        layers = tuple(layers)
        if not layers:
            raise must("'layers' of KAN.from_layers", "at least one layer", layers)
        for i, (a, b) in enumerate(itertools.pairwise(layers)):
            if a.n_out != b.n_in:
                raise must(f"'layers[{i + 1}]'", f"a layer of {a.n_out} inputs", f"{b.n_in} inputs")
        network = object.__new__(cls)
        object.__setattr__(network, "layers", layers)
        return network

    @property
    def widths(self) -> tuple[int, ...]:
        """(n_0, …, n_L)."""
        return (self.layers[0].n_in, *(layer.n_out for layer in self.layers))

    @property
    def dtype(self) -> Any:
        """The weights' type; inputs are converted to it."""
        return self.layers[0].b.dtype

    def __call__(self, x: Float[ArrayLike, "... n_in"]) -> Float[Array, "... n_out"]:
        """The network's outputs, for any leading axes of x.

        Of a normalized network all points in x are one batch, unless it is frozen.
        """
        rows, leading = self._rows(x)
        for layer in self.layers:
            rows = layer(rows)
        return rows.reshape(*leading, -1)

    def derivatives(
        self,
        x: Float[ArrayLike, "... n_in"],
        first: Sequence[int] = (0, 1),
        second: Sequence[int] = (1,),
    ) -> Derivatives:
        """The value with ∂/∂x_i and ∂²/∂x_i² in one forward pass, without nesting autodiff.

        Args:
            x: points, (..., n_in).
            first: input dimensions to differentiate along once.
            second: input dimensions to differentiate along twice.
        """
        rows, leading = self._rows(x)
        n_in = self.widths[0]
        first = check_dimensions("first", first, n_in)
        second = check_dimensions("second", second, n_in)
        # Directions with a second derivative come first: that is the kernel's order.
        directions = (*second, *(i for i in first if i not in second))
        jet = seed_jet(rows, directions, len(second))
        for layer in self.layers:
            jet = layer.jet(jet, first=len(directions), second=len(second))
        jet = jet.reshape(len(jet), *leading, -1)
        along = dict(zip(directions, jet[1:], strict=False))
        curved = dict(zip(second, jet[1 + len(directions) :], strict=True))
        return Derivatives(jet[0], {i: along[i] for i in first}, curved)

    def freeze(self, x: Float[ArrayLike, "... n_in"]) -> "KAN":
        """The network with the batch statistics of x in place, so that rows predict alone as there.

        Only LeCun-normalized networks have any; others are returned as they are.
        """
        rows, _ = self._rows(x)
        if not any(layer.normalized for layer in self.layers):
            return self
        frozen = []
        for layer in self.layers:
            frozen.append(layer.freeze(rows))
            rows = jnp.concatenate([frozen[-1](block) for block in blocks(rows)])
        return KAN.from_layers(frozen)

    def adapt(self, x: Float[ArrayLike, "... n_in"], spread: float = 0.5) -> "KAN":
        """The network with its hidden layers rescaled so that their outputs fill the splines alike.

        One forward pass, layer by layer: r, b and bias of each hidden layer are multiplied by one
        number, so that its outputs on x, all units together, have the standard deviation
        `spread` times half the length of the interval that the next layer's splines divide. The
        last layer, whose outputs no spline takes in, stays as it is.

        Args:
            x: a sample of the inputs, (..., n_in).
            spread: the wanted standard deviation in half-widths; 0.58 is that of a uniform law.
        """
        real = isinstance(spread, numbers.Real) and not isinstance(spread, bool)
        if not real or not 0 < float(spread) < math.inf:
            raise must("'spread' of KAN.adapt", "a positive finite number", spread)
        rows, _ = self._rows(x)
        adapted = []
        for layer, after in itertools.pairwise(self.layers):
            lo, hi = after.basis.domain
            values = jnp.concatenate([layer(block) for block in blocks(rows)])
            deviation = float(np.std(np.asarray(values, np.float64)))
            if not 0 < deviation < math.inf:
                told = f"a standard deviation of {deviation:g}"
                raise must("'x' of KAN.adapt", "points on which hidden values differ", told)
            scale = float(spread) * (hi - lo) / 2 / deviation
            scaled = [w if w is None else w * scale for w in (layer.r, layer.b, layer.bias)]
            adapted.append(
                eqx.tree_at(
                    lambda layer: (layer.r, layer.b, layer.bias),
                    layer,
                    scaled,
                    is_leaf=lambda leaf: leaf is None,
                )
            )
            rows = values * scale
        return KAN.from_layers([*adapted, self.layers[-1]])

    def _rows(self, x: ArrayLike) -> tuple[Float[Array, "N n_in"], tuple[int, ...]]:
        x = jnp.asarray(x, self.dtype)
        n_in = self.widths[0]
        if x.ndim == 0 or x.shape[-1] != n_in:
            raise must("'x' of KAN", f"an array whose last axis has {n_in} components", x.shape)
        return x.reshape(-1, n_in), x.shape[:-1]


def _check_widths(widths: Any) -> tuple[int, ...]:
    requirement = "at least two integers of at least 1, such as [2, 8, 8, 1]"
    try:
        given = tuple(widths)
    except TypeError:
        raise must("'widths' of KAN", requirement, widths) from None
    valid = all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in given)
    if len(given) < 2 or not valid or min(given) < 1:
        raise must("'widths' of KAN", requirement, widths)
    return tuple(int(n) for n in given)


def _check_grids(grid: Any, n_layers: int) -> tuple[int, ...]:
    if isinstance(grid, list | tuple):
        if len(grid) != n_layers:
            raise must("'grid' of KAN", f"one integer, or {n_layers}, one a layer", grid)
        return tuple(grid)
    return (grid,) * n_layers


def _layer_keys(key: Array, draws: str, layers: int) -> Sequence[Array]:
    if draws not in DRAWS:
        raise unknown("draws of KAN", draws, DRAWS)
    return [key] * layers if draws == "published" else jax.random.split(key, layers)  # pyright: ignore


def _check_key(key: Any) -> Array:
    requirement = "a JAX key, such as jax.random.key(0)"
    if not isinstance(key, Array):
        raise must("'key' of KAN", requirement, key)
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.ndim != 0:
            raise must("'key' of KAN", requirement, f"keys of shape {key.shape}")
    elif key.dtype != jnp.uint32 or key.shape != (2,):
        raise must("'key' of KAN", requirement, f"an array of {key.dtype}{list(key.shape)}")
    return key
