"""One KAN layer: its weights, and how they are passed to the kernel."""

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Float

from kandle import kernels
from kandle.bases import Basis, BSpline
from kandle.init import Inputs, Sampler, Scheme

# Rows evaluated at a time where all rows would need too much memory.
BLOCK = 8192

# Added to the variance of a basis function before dividing by its square root.
EPSILON = 1e-5


_STATIC = {"static": True}


# Not an Equinox module: a call of a jitted function flattens every layer of its arguments, which
# JAX does in a quarter of the time for the dataclasses that it knows.
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class KANLayer:
    """A layer of learnable univariate functions on edges (Eq. 1).

        y_j = Σ_i [ r_ji R(x_i) + c_ji Σ_m b_jim B_m(x_i) ] + bias_j

    A normalized layer (Eq. 4) uses B̃_m = (B_m - E[B_m]) / √(Var[B_m] + 1e-5) for B_m, with the
    mean and variance over the current batch, separately for each input and each m, or over the
    batch it was frozen with.

    Attributes:
        r: residual weights, (n_out, n_in), or None.
        c: scaling weights, (n_out, n_in).
        b: basis weights, (n_out, n_in, n_basis).
        bias: (n_out,), or None.
        mean, variance: frozen statistics of the basis functions, (n_in, n_basis), or None.
        basis: the functions B_m.
        residual: R, or None.
        normalized: whether the basis functions are standardised.
        backend: of the kernels; None is the fastest one for the basis at the time of the call.
    """

    r: Float[Array, "n_out n_in"] | None
    c: Float[Array, "n_out n_in"]
    b: Float[Array, "n_out n_in n_basis"]
    bias: Float[Array, " n_out"] | None
    mean: Float[Array, "n_in n_basis"] | None = None
    variance: Float[Array, "n_in n_basis"] | None = None
    basis: Basis = dataclasses.field(kw_only=True, metadata=_STATIC)
    residual: Callable[[Array], Array] | None = dataclasses.field(kw_only=True, metadata=_STATIC)
    normalized: bool = dataclasses.field(default=False, kw_only=True, metadata=_STATIC)
    backend: str | None = dataclasses.field(default=None, kw_only=True, metadata=_STATIC)

    # Layers are rebuilt from whatever JAX has in place of arrays: type checkers that check every
    # call must leave the constructor alone.
    __no_type_check__ = True

    def __init_subclass__(cls, **options: Any):
        """A class that inherits is a pytree too, whatever its constructor takes."""
        super().__init_subclass__(**options)
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        _register_subclass(cls)

    def __eq__(self, other: object) -> Any:
        return eqx.tree_equal(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return eqx.tree_pformat(self)

    @classmethod
    def draw(
        cls,
        n_in: int,
        n_out: int,
        *,
        basis: Basis,
        residual: Callable[[Array], Array] | None,
        bias: bool,
        init: Scheme,
        inputs: Inputs | None = None,
        key: Array,
        sampler: Sampler | None = None,
        dtype: Any = jnp.float32,
        backend: str | None = None,
    ) -> Self:
        """A layer with weights drawn by a scheme, and a bias of zeros."""
        options = {"residual": residual, "inputs": inputs, "dtype": dtype, "sampler": sampler}
        weights = init.draw(key, n_in, n_out, basis, **options)
        return cls(
            *weights,
            jnp.zeros(n_out, dtype) if bias else None,
            basis=basis,
            residual=residual,
            normalized=init.normalized,
            backend=backend,
        )

    @property
    def n_in(self) -> int:
        return self.c.shape[-1]

    @property
    def n_out(self) -> int:
        return self.c.shape[-2]

    def __call__(self, x: Float[ArrayLike, "N n_in"]) -> Float[Array, "N n_out"]:
        return kernels.layer(x, *self.effective_weights(x), **self._options)

    def jet(
        self, x: Float[Array, "C N n_in"], *, first: int, second: int
    ) -> Float[Array, "C N n_out"]:
        """The value and directional derivatives of the outputs from those of the inputs.

        Batch statistics are those of the value, and constants under ∂/∂x.
        """
        options = {"first": first, "second": second, **self._options}
        return kernels.jet(x, *self.effective_weights(x[0]), **options)

    def freeze(self, x: Float[Array, "N n_in"]) -> "KANLayer":
        """The layer with the statistics of this batch, if it uses any."""
        if not self.normalized:
            return self
        mean, variance = _statistics(x, self.basis, self.backend)
        return eqx.tree_at(
            lambda layer: (layer.mean, layer.variance),
            self,
            (mean, variance),
            is_leaf=lambda leaf: leaf is None,
        )

    @property
    def _options(self) -> dict[str, Any]:
        return {"basis": self.basis, "residual": self.residual, "backend": self.backend}

    def effective_weights(
        self, x: Float[ArrayLike, "N n_in"] | None
    ) -> tuple[Array | None, Array, Array, Array | None]:
        """(r, c, b, bias) for the kernel; standardizing is a change of b and of the bias.

        c Σ_m b_m (B_m - mean_m) / s_m = c Σ_m (b_m / s_m) B_m - c Σ_m (b_m / s_m) mean_m
        """
        if not self.normalized:
            return self.r, self.c, self.b, self.bias
        if self.mean is None or self.variance is None:
            assert x is not None
            mean, variance = kernels.statistics(x, basis=self.basis, backend=self.backend)
        else:
            mean, variance = lax.stop_gradient((self.mean, self.variance))
        # Shared by all outputs: the gradient of sharing is a sum, which belongs to the kernels. And
        # a product, because XLA makes one of a quotient for some batch sizes and not for others.
        mean, scale = (
            jnp.moveaxis(kernels.spread(shared, self.n_out, self.backend), -1, 0)
            for shared in (mean, lax.rsqrt(variance + EPSILON))
        )
        b = self.b * scale
        shift = self.c * kernels.total(b * mean, self.backend)  # (n_out, n_in)
        shift = kernels.total(shift, self.backend)
        return self.r, self.c, b, -shift if self.bias is None else self.bias - shift


jax.tree_util.register_dataclass(KANLayer)


def _register_subclass(cls: type[KANLayer]) -> None:
    fields = dataclasses.fields(cls)
    static = [field.name for field in fields if field.metadata.get("static", False)]
    arrays = [field.name for field in fields if field.name not in static]

    def flatten(layer):
        children = [(jax.tree_util.GetAttrKey(name), getattr(layer, name)) for name in arrays]
        return children, tuple(getattr(layer, name) for name in static)

    def unflatten(values, children):
        layer = object.__new__(cls)
        for name, value in zip((*static, *arrays), (*values, *children), strict=True):
            object.__setattr__(layer, name, value)
        return layer

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)


def blocks(x: Float[Array, "N n_in"]) -> list[Float[Array, "M n_in"]]:
    """The rows of x in order, at most `BLOCK` at a time."""
    return [x[start : start + BLOCK] for start in range(0, max(1, len(x)), BLOCK)]


def _statistics(
    x: Float[Array, "N n_in"], basis: Basis, backend: str | None
) -> tuple[Float[Array, "n_in n_basis"], Float[Array, "n_in n_basis"]]:
    """`kernels.statistics` of any number of rows, in blocks where the backend builds tables."""
    if kernels.check_backend(backend, basis) == "native" and isinstance(basis, BSpline):
        return kernels.statistics(x, basis=basis, backend=backend)
    parts = [kernels.statistics(block, basis=basis, backend=backend) for block in blocks(x)]
    if len(parts) == 1:
        return parts[0]
    shares = [len(block) / len(x) for block in blocks(x)]
    mean = sum(share * m for share, (m, _) in zip(shares, parts, strict=True))
    variance = sum(
        share * (v + (m - mean) ** 2) for share, (m, v) in zip(shares, parts, strict=True)
    )
    return jnp.asarray(mean), jnp.asarray(variance)
