"""A data-dependent scheme: the variance that each layer really passes on, measured on a sample."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kandle._errors import UserError, must
from kandle.bases import Moments
from kandle.init._lecun import LeCun
from kandle.init._scheme import Scales, Scheme, check_number


@dataclass(frozen=True)
class DataDependent(Scheme):
    """Every layer's outputs have the variance of the network's inputs on a sample of them.

    Weights are drawn as by `LeCun` and then scaled layer by layer, in the spirit of LSUV. On the
    sample, layer l splits into y = Σ_i r R(x_i) and z = Σ_i c Σ_m b B_m(x_i), and

        r ← r √( s g² V / Var(y) ),    b ← b √( (1 - s) g² V / Var(z) ),

    where V is the variance of the network's inputs and Var is taken over the sample, for each
    unit, and averaged over units. So the residual carries the share s of the variance and the
    basis functions the rest, up to the correlation between the two. Without a residual s = 0. The
    outputs of the scaled layer are the sample for the next one.

    `KAN.adapt` instead multiplies r, b and the bias of each hidden layer by one number, so that the
    hidden values fill the next layer's domain: it fixes their standard deviation, not the shares,
    and leaves the last layer as it is.

    Args:
        share: s, from 0 to 1.
        gain: g.

    Training, studies and `fit` take the training inputs as the sample. A network alone needs
    `KAN(…, init="data", sample=x)`.
    """

    name: ClassVar[str] = "data"  # pyright: ignore
    label: ClassVar[str] = "Data-dependent"  # pyright: ignore
    color: ClassVar[str] = "#AA4499"  # pyright: ignore
    needs_data: ClassVar[bool] = True  # pyright: ignore
    sample_required: ClassVar[bool] = True

    share: float = 0.5
    gain: float = 1.0

    def __post_init__(self):
        check_number(self, "share")
        check_number(self, "gain", positive=True)
        if not 0 <= self.share <= 1:
            raise must("The 'share' parameter of DataDependent", "from 0 to 1", self.share)

    def scales_from_moments(self, n_in: int, n_out: int, moments: Moments) -> Scales:
        """The scales of `LeCun`, before the sample is known."""
        return LeCun(gain=self.gain).scales_from_moments(n_in, n_out, moments)

    def adapt(self, model: Any, x: Any) -> Any:
        import equinox as eqx
        import jax.numpy as jnp

        rows, n_in = jnp.asarray(x, model.dtype), model.widths[0]
        if rows.ndim < 2 or rows.shape[-1] != n_in:
            raise must("The sample of init='data'", f"of shape (N, {n_in})", rows.shape)
        rows = rows.reshape(-1, n_in)
        target = self.gain**2 * _variance(rows)
        if not 0 < target < math.inf:
            raise UserError(
                "The sample of init='data' must be finite inputs that are not all equal. Their "
                f"variance is {target / self.gain**2:g}."
            )
        layers = []
        for l, layer in enumerate(model.layers):
            share = 0.0 if layer.r is None else self.share
            r, b = layer.r, layer.b
            if r is not None:
                silent = eqx.tree_at(lambda layer: layer.b, layer, jnp.zeros_like(b))
                r = r * _factor(share * target, silent(rows), f"residual of layer {l}")
                only = eqx.tree_at(lambda layer: layer.r, layer, jnp.zeros_like(r))
            else:
                only = layer
            b = b * _factor((1 - share) * target, only(rows), f"basis functions of layer {l}")
            scaled = eqx.tree_at(lambda layer: layer.b, layer, b)
            if r is not None:
                scaled = eqx.tree_at(lambda layer: layer.r, scaled, r)
            layers.append(scaled)
            rows = scaled(rows)
        return type(model).from_layers(layers)


def _variance(rows: Any) -> float:
    """The variance over the sample, averaged over units."""
    return float(np.var(np.asarray(rows, np.float64), axis=0).mean())


def _factor(target: float, part: Any, what: str) -> float:
    variance = _variance(part)
    if target == 0:
        return 0.0
    if not 0 < variance < math.inf:
        raise UserError(
            f"init='data' cannot scale the {what}: on the sample they have the variance "
            f"{variance:g}. The inputs must vary inside the domain of the basis."
        )
    return math.sqrt(target / variance)
