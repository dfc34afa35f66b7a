"""The network: layers one after the other."""

import dataclasses
import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Real

from kandle import kernels
from kandle._errors import UserError, must
from kandle._route import Route, route_of
from kandle.bases import Basis, BSpline
from kandle.bases import get as get_basis
from kandle.init import Inputs, PowerLaw, Sampler, Scheme
from kandle.init import get as get_scheme
from kandle.init._draw import resolve_sampler
from kandle.nn._derivatives import (
    Derivatives,
    by_order,
    check_dimensions,
    check_multi_indices,
    second_order,
)
from kandle.nn._edges import LayerEdges, edges
from kandle.nn._evaluate import (
    evaluate,
    flat_rows,
    one_call_squared_error,
    per_layer_route,
    points,
    squared_error_route,
    values_route,
)
from kandle.nn._layer import KANLayer, blocks
from kandle.nn._prune import Pruned, prune
from kandle.nn._refine import outside, refine, widen
from kandle.nn._regrid import regrid
from kandle.nn._residuals import get_residual


class KAN(eqx.Module):
    """A Kolmogorov-Arnold network, a pytree of its weights.

    Args:
        widths: (n_0, …, n_L): inputs, hidden layers, outputs.
        basis: the functions on every edge, a `kandle.bases.Basis`, the name of one, or a sequence
            with one per layer. None is a uniform B-spline as described by `grid`, `degree` and
            `domain`, which must not be given otherwise. An integer is a `grid`.
        grid: G, the number of spline intervals, 5 by default; one for all layers, or one per layer.
        degree: k of the splines, 3 by default.
        domain: the interval that the splines of every layer divide, (-1, 1) by default.
        residual: R, an elementwise function, the name of one, or None.
        bias: whether a layer has a bias.
        init: a scheme of `kandle.init`, or its name.
        inputs: the distribution that the scheme assumes for every layer's inputs; None is uniform
            over the domain.
        sample: inputs, (N, n_0), for a scheme that adapts the network to data; others ignore it.
        key: a JAX key.
        sampler: source of the random numbers, such as `kandle.paper.PublishedSampler()`; None is
            `jax.random`.
        dtype: of the weights; None is JAX's default: float32, or float64 if `jax_enable_x64` is
            set.
        backend: of the kernels; None is the fastest one for the basis at the time of a call.

    Example:
        >>> model = KAN([2, 8, 8, 1], grid=5, key=jax.random.key(0))
        >>> model(jnp.zeros((10, 2))).shape
        (10, 1)
    """

    layers: tuple[KANLayer, ...]

    def __init__(
        self,
        widths: Sequence[int],
        basis: Basis | str | int | Sequence[Basis | str | int] | None = None,
        *,
        grid: int | Sequence[int] | None = None,
        degree: int | None = None,
        domain: tuple[float, float] | None = None,
        residual: str | Callable[[Array], Array] | None = jax.nn.silu,
        bias: bool = True,
        init: str | Scheme = PowerLaw(),  # noqa: B008 (frozen)
        inputs: Inputs | None = None,
        sample: Real[ArrayLike, "N n_in"] | None = None,
        key: Array,
        sampler: Sampler | None = None,
        dtype: Any = None,
        backend: str | None = None,
    ):
        widths = _check_widths(widths)
        bases = _check_bases(basis, grid, degree, domain, len(widths) - 1)
        residual = get_residual(residual)
        scheme = get_scheme(init)
        dtype = jnp.result_type(float) if dtype is None else dtype
        if not isinstance(bias, bool):
            raise must("'bias' of KAN", "True or False", bias)
        for each in bases:
            kernels.check_backend(backend, each)
        sampler = resolve_sampler(sampler, "KAN")
        keys = sampler.layer_keys(_check_key(key), len(bases))
        if scheme.sample_required and sample is None:
            raise UserError(
                f"Scheme {scheme.name!r} scales the weights with a sample of the inputs, which "
                "must be given as KAN(…, sample=x)."
            )
        layers = tuple(
            KANLayer.draw(
                n_in,
                n_out,
                basis=basis,
                residual=residual,
                bias=bias,
                init=scheme,
                inputs=inputs,
                key=layer_key,
                sampler=sampler,
                dtype=dtype,
                backend=backend,
            )
            for n_in, n_out, basis, layer_key in zip(
                widths[:-1], widths[1:], bases, keys, strict=True
            )
        )

        if sample is not None and scheme.needs_data:
            rows = _check_sample(sample, widths[0])
            layers = scheme.adapt(KAN.from_layers(layers), rows).layers
        self.layers = layers

    @classmethod
    def from_layers(cls, layers: Iterable[KANLayer]) -> Self:
        """A network of existing layers, each with as many outputs as the next one has inputs."""
        layers = tuple(layers)
        if not layers:
            raise must("'layers' of KAN.from_layers", "at least one layer", layers)
        for i, (a, b) in enumerate(itertools.pairwise(layers)):
            if a.n_out != b.n_in:
                raise must(f"'layers[{i + 1}]'", f"a layer of {a.n_out} inputs", f"{b.n_in} inputs")
        network = object.__new__(cls)
        object.__setattr__(network, "layers", layers)
        return network

    def with_backend(self, backend: str | None) -> "KAN":
        """The same network on another backend, such as "dense" for `jax.export`; None chooses the
        fastest one at the time of a call.
        """
        for layer in self.layers:
            kernels.check_backend(backend, layer.basis)
        return KAN.from_layers(dataclasses.replace(layer, backend=backend) for layer in self.layers)

    @property
    def widths(self) -> tuple[int, ...]:
        """(n_0, …, n_L)."""
        return (self.layers[0].n_in, *(layer.n_out for layer in self.layers))

    @property
    def dtype(self) -> Any:
        """The weights' type; inputs are converted to it."""
        return self.layers[0].b.dtype

    def __call__(self, x: Real[ArrayLike, "... n_in"]) -> Float[Array, "... n_out"]:
        """The network's outputs, for any leading axes of x.

        A normalized network treats all points in x as one batch, unless it is frozen.
        """
        backends = tuple(kernels.check_backend(l.backend, l.basis) for l in self.layers)
        return evaluate(self.layers, points(self.layers, x), backends)

    def derivatives(
        self,
        x: Real[ArrayLike, "... n_in"],
        first: Sequence[int] = (0, 1),
        second: Sequence[int] = (1,),
        further: Sequence[Sequence[int]] = (),
    ) -> Derivatives:
        """The value with derivatives along the inputs in one forward pass, without nested autodiff.

        Orders up to two are computed by the kernels of the backend, higher orders in plain JAX.

        Args:
            x: points, (..., n_in).
            first: input dimensions to differentiate along once.
            second: input dimensions to differentiate along twice.
            further: other derivatives, each as a tuple of input dimensions: (0, 1) is the mixed
                ∂²/∂x_0∂x_1, and (1, 1, 1) is ∂³/∂x_1³.
        """
        rows, leading = flat_rows(self.layers, x)
        n_in = self.widths[0]
        first = check_dimensions("first", first, n_in)
        second = check_dimensions("second", second, n_in)
        further = check_multi_indices(further, n_in)
        if any(len(index) > 2 for index in further):
            from kandle.nn._taylor import any_order

            wanted = [*((i,) for i in first), *((i, i) for i in second), *further]
            table = any_order(self.layers, rows, wanted)
        else:
            once, twice, mixed = by_order(further)
            first = tuple(dict.fromkeys((*first, *once)))
            second = tuple(dict.fromkeys((*second, *twice)))
            table = second_order(self.layers, rows, first, second, mixed)
        shaped = {index: along.reshape(*leading, along.shape[-1]) for index, along in table.items()}
        return Derivatives(shaped.pop(()), further=shaped)

    def freeze(self, x: Real[ArrayLike, "... n_in"]) -> "KAN":
        """The network with the batch statistics of x stored, so that rows are independent.

        Only LeCun-normalized networks use statistics; others are returned as they are.
        """
        rows, _ = flat_rows(self.layers, x)
        if not any(layer.normalized for layer in self.layers):
            return self
        frozen = []
        for layer in self.layers:
            frozen.append(layer.freeze(rows))
            rows = jnp.concatenate([frozen[-1](block) for block in blocks(rows)])
        return KAN.from_layers(frozen)

    def adapt(self, x: Real[ArrayLike, "... n_in"], spread: float = 0.5) -> "KAN":
        """The network with its hidden layers rescaled so that their outputs fill the domain.

        One forward pass, layer by layer: r, b and bias of each hidden layer are multiplied by one
        number, so that its outputs on x, all units together, have the standard deviation
        `spread` times half the width of the next layer's domain. The last layer, which no other
        follows, is not changed.

        Args:
            x: a sample of the inputs, (..., n_in).
            spread: the standard deviation in half-widths; 0.58 is that of a uniform distribution.
        """
        real = isinstance(spread, numbers.Real) and not isinstance(spread, bool)
        if not real or not 0 < float(spread) < math.inf:
            raise must("'spread' of KAN.adapt", "a positive finite number", spread)
        rows, _ = flat_rows(self.layers, x)
        adapted = []
        for layer, after in itertools.pairwise(self.layers):
            lo, hi = after.basis.domain
            values = jnp.concatenate([layer(block) for block in blocks(rows)])
            deviation = float(np.std(np.asarray(values, np.float64)))
            if not 0 < deviation < math.inf:
                got = f"a standard deviation of {deviation:g}"
                raise must("'x' of KAN.adapt", "points on which hidden values differ", got)
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

    def regrid(
        self,
        x: Real[ArrayLike, "... n_in"],
        *,
        grid: int | None = None,
        knots: Literal["uniform", "quantile"] = "uniform",
    ) -> "KAN":
        """The same function on grids that span the values which each layer receives for x.

        Layer by layer, the new domain reaches from the smallest to the largest input of the layer,
        and its edge functions are projected: over that domain, their L² distance to the old ones is
        minimal (`bases.transfer`). It is zero where the new splines can represent the old ones; a
        finer `grid` makes it smaller. Outside the new domain the edge functions differ. Inputs that
        are equal, or nearly so, get a wider domain around their value
        (`bases.BSpline.from_sample`), so no grid collapses.

        Args:
            x: inputs that are typical for the network, (..., n_in).
            grid: the number of intervals of every layer; None leaves each as it is.
            knots: "uniform" has equal intervals, which the native kernels accelerate; "quantile"
                has as many inputs in one interval as in another (`bases.Knots`).
        """
        rows, _ = flat_rows(self.layers, x)
        return KAN.from_layers(regrid(self, rows, grid, knots))

    def refine(self, grid: int | Sequence[int]) -> "KAN":
        """The same function on finer uniform grids.

        If `grid` is a multiple of a layer's G, its edge functions are unchanged to rounding on
        the layer's domain, by knot insertion. Otherwise they are projected: the L² distance over
        the domain is minimal. Outside the domain the knots of a finer grid reach less far, so the
        function changes there: `outside` reports how many inputs that concerns, and `widen`
        widens domains first. A frozen LeCun-normalized layer becomes a plain one.

        Args:
            grid: the new G, one for all layers, or one per layer; none may be smaller than the
                present one, and one must be larger.

        Example:
            >>> model = KAN([2, 8, 1], grid=5, key=jax.random.key(0))
            >>> model.refine(grid=10).layers[0].basis.n_basis
            13
        """
        grids = _per_layer("grid", "one integer", grid, len(self.layers))
        for g in grids:
            if isinstance(g, bool) or not isinstance(g, numbers.Integral):
                raise must("'grid' of KAN.refine", "an integer, or one per layer", grid)
        return KAN.from_layers(refine(self, [int(g) for g in grids]))

    def widen(self, x: Real[ArrayLike, "... n_in"]) -> "KAN":
        """The same function on uniform grids that are wider where inputs fall outside.

        Each layer's domain grows by whole intervals, at most `degree` on either side, until it
        contains the values that the layer receives for x. The old functions are among the new
        ones, so that the network is unchanged to rounding.

        Args:
            x: inputs that are typical for the network, (..., n_in).

        Example:
            >>> model = KAN([1, 1], grid=4, key=jax.random.key(0))
            >>> model.widen(jnp.array([[-1.2], [1.0]])).layers[0].basis.domain
            (-1.5, 1.0)
        """
        rows, _ = flat_rows(self.layers, x)
        [layers] = widen([self], rows)
        return KAN.from_layers(layers)

    def outside(self, x: Real[ArrayLike, "... n_in"]) -> tuple[float, ...]:
        """The share of each layer's inputs that lie outside the domain of its basis, over x."""
        rows, _ = flat_rows(self.layers, x)
        return outside(self, rows)

    def edges(self, x: Real[ArrayLike, "... n_in"]) -> list[LayerEdges]:
        """What every edge contributes over data: importance, mean and range, per layer.

        An edge's importance is the standard deviation of its output over x.

        Args:
            x: a sample of the inputs, (..., n_in).
        """
        return edges(self, flat_rows(self.layers, x)[0])

    def prune(
        self,
        x: Real[ArrayLike, "... n_in"],
        *,
        threshold: float | None = None,
        keep: float | None = None,
    ) -> Pruned:
        """A smaller network without weak edges and dead units, and what its outputs lost.

        An edge's score is its importance (`edges`) divided by the largest of its layer. A removed
        edge is replaced by its mean. Give one of the two:

        Args:
            x: a sample of the inputs, (..., n_in).
            threshold: remove edges with a score below this, from 0 to 1.
            keep: keep this many edges, the strongest: an integer, or a share between 0 and 1.
        """
        return prune(self, flat_rows(self.layers, x)[0], threshold=threshold, keep=keep)


@route_of.register
def route(model: KAN, x: Any, y: Any = None) -> Route:
    """`kandle.kernels.route` of a network in JAX."""
    shape = np.shape(x)
    if shape[-1:] != (model.widths[0],):
        requirement = f"an array whose last axis has {model.widths[0]} components"
        raise must("'x' of route", requirement, shape or type(x).__name__)
    if type(model).__call__ is not KAN.__call__:
        kind = type(model).__name__
        return per_layer_route(model.layers, f"a {kind} may compute something else than a KAN")
    if y is None:
        return values_route(model.layers)
    return squared_error_route(model.layers, x, y)


def squared_error(
    model: KAN,
    x: Float[Array, "N n_in"],
    y: Float[Array, "N n_out"],
    weight: Float[Array, " N"],
) -> Float[Array, ""] | None:
    """Σ_n weight_n |u(x_n) - y_n|² in one native call, None where its route is another."""
    if route(model, x, y).path != "one call":
        return None
    return one_call_squared_error(model.layers, x, y, weight)


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


def _check_sample(sample: Any, n_in: int) -> Float[np.ndarray, "N n_in"]:
    requirement = f"real numbers of shape (N, {n_in})"
    try:
        rows = np.asarray(sample).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError):
        raise must("'sample' of KAN", requirement, sample) from None
    if rows.ndim < 2 or rows.shape[-1] != n_in:
        raise must("'sample' of KAN", requirement, f"an array of shape {rows.shape}")
    return rows.reshape(-1, n_in)


def _check_bases(
    basis: Any, grid: Any, degree: Any, domain: Any, n_layers: int
) -> tuple[Basis, ...]:
    """One basis per layer."""
    whole = isinstance(basis, numbers.Integral) or (
        isinstance(basis, list | tuple) and all(isinstance(b, numbers.Integral) for b in basis)
    )
    if whole and grid is None:
        basis, grid = None, basis
    if basis is None:
        k = 3 if degree is None else degree
        ends = (-1.0, 1.0) if domain is None else domain
        grids = _per_layer("grid", "one integer", 5 if grid is None else grid, n_layers)
        return tuple(BSpline(G, k, ends) for G in grids)
    if not (grid is None and degree is None and domain is None):
        raise UserError(
            "'grid', 'degree' and 'domain' of KAN describe a B-spline and must be left out where "
            "'basis' is given: they are arguments of the basis itself."
        )
    return tuple(get_basis(b) for b in _per_layer("basis", "one basis", basis, n_layers))


def _per_layer(name: str, one: str, given: Any, n_layers: int) -> tuple:
    if isinstance(given, list | tuple):
        if len(given) != n_layers:
            raise must(f"'{name}' of KAN", f"{one}, or {n_layers}, one per layer", given)
        return tuple(given)
    return (given,) * n_layers


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
