"""Remove weak edges and dead units from a trained network."""

import itertools
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle._errors import UserError, must
from kandle.nn._edges import LayerEdges, edges, strongest
from kandle.nn._layer import KANLayer

if TYPE_CHECKING:
    from kandle.nn._network import KAN


@dataclass(frozen=True, eq=False)
class Pruned:
    """A smaller network, and what it lost.

    Attributes:
        model: the network without its weak edges and dead units.
        edges_before, edges_after: numbers of edges with a function on them.
        widths_before, widths_after: of the networks.
        change: relative L² distance between the outputs of both networks on the data, per output.
    """

    model: "KAN"
    edges_before: int
    edges_after: int
    widths_before: tuple[int, ...]
    widths_after: tuple[int, ...]
    change: Float[np.ndarray, " n_out"]

    def __str__(self) -> str:
        lost = ", ".join(f"{value:.1e}" for value in self.change)
        return (
            f"{self.edges_after} of {self.edges_before} edges kept, widths "
            f"{list(self.widths_before)} → {list(self.widths_after)}; "
            f"outputs changed by {lost} (relative L²)"
        )


def prune(
    model: "KAN",
    x: Float[Array, "N n_in"],
    *,
    threshold: float | None = None,
    keep: float | None = None,
) -> Pruned:
    """Remove the edges that vary least over data, and the units that this leaves useless.

    An edge's score is the standard deviation of its output over x, divided by the largest of its
    layer. A removed edge is replaced by its mean, which joins the bias; a unit that no edge leaves,
    or that no edge enters (a constant), is removed with all its edges. Inputs, outputs and at
    least one unit per hidden layer stay.

    Args:
        model: the network.
        x: a sample of the inputs.
        threshold: remove edges with a score below this, between 0 and 1.
        keep: keep this many edges, the strongest: an integer, or a share between 0 and 1.
    """
    found = edges(model, x)
    masks = _masks(found, threshold, keep)
    layers = _without_statistics(model, x)
    layers = [
        _drop_edges(layer, mask, each.mean)
        for layer, mask, each in zip(layers, masks, found, strict=True)
    ]
    layers, masks = _drop_units(layers, masks, found)
    pruned = type(model).from_layers(layers)
    before, after = (np.asarray(each(x), np.float64) for each in (model, pruned))
    scale = np.linalg.norm(before, axis=0)
    change = np.linalg.norm(after - before, axis=0) / np.where(scale > 0, scale, 1.0)
    return Pruned(
        pruned,
        edges_before=sum(each.importance.size for each in found),
        edges_after=sum(int(mask.sum()) for mask in masks),
        widths_before=model.widths,
        widths_after=pruned.widths,
        change=change,
    )


def _masks(found: list[LayerEdges], threshold: Any, keep: Any) -> list[np.ndarray]:
    """Which edges stay, per layer."""
    if (threshold is None) == (keep is None):
        raise UserError("KAN.prune needs either 'threshold' or 'keep', and not both.")
    total = sum(each.importance.size for each in found)
    if threshold is not None:
        if not isinstance(threshold, numbers.Real) or not 0 <= float(threshold) <= 1:
            raise must("'threshold' of KAN.prune", "a number from 0 to 1", threshold)
        return [each.relative >= float(threshold) for each in found]
    if isinstance(keep, numbers.Integral) and not isinstance(keep, bool):
        count = int(keep)
    elif isinstance(keep, numbers.Real) and 0 < float(keep) <= 1:
        count = max(1, round(float(keep) * total))
    else:
        count = 0
    if not 1 <= count <= total:
        requirement = f"a number of edges from 1 to {total}, or a share between 0 and 1"
        raise must("'keep' of KAN.prune", requirement, keep)
    return strongest(found, count)


def _without_statistics(model: "KAN", x: Array) -> list[KANLayer]:
    """The layers with a normalized basis folded into b and the bias: edges become independent."""
    layers = []
    for layer in model.layers:
        r, c, b, bias = layer.effective_weights(x)
        plain = KANLayer(
            r,
            c,
            b,
            jnp.zeros(layer.n_out, b.dtype) if bias is None else bias,
            basis=layer.basis,
            residual=layer.residual,
            backend=layer.backend,
        )
        layers.append(plain)
        x = layer(x)
    return layers


def _drop_edges(layer: KANLayer, mask: np.ndarray, mean: np.ndarray) -> KANLayer:
    """Zero r and b where the mask is false, the edges' means added to the bias."""
    keep = jnp.asarray(mask, layer.b.dtype)
    assert layer.bias is not None
    return eqx.tree_at(
        lambda each: (each.r, each.b, each.bias),
        layer,
        (
            None if layer.r is None else layer.r * keep,
            layer.b * keep[..., None],
            layer.bias + jnp.asarray((mean * ~mask).sum(axis=1), layer.b.dtype),
        ),
        is_leaf=lambda leaf: leaf is None,
    )


def _drop_units(
    layers: list[KANLayer], masks: list[np.ndarray], found: list[LayerEdges]
) -> tuple[list[KANLayer], list[np.ndarray]]:
    """Remove hidden units without edges on one side, until none is left."""
    scores = [each.relative for each in found]
    changed = True
    while changed:
        changed = False
        for l, (before, after) in enumerate(itertools.pairwise(masks)):
            silent = np.asarray(~after.any(axis=0))
            constant = np.asarray(~before.any(axis=1) & ~silent)
            dead = silent | constant
            if dead.all():  # a layer keeps one unit: the one with the strongest edge into it
                spared = int(np.argmax(scores[l].max(axis=1)))
                dead[spared] = constant[spared] = False
            if not dead.any():
                continue
            changed = True
            layers[l + 1] = _absorb(layers[l], layers[l + 1], constant)
            alive = ~dead
            layers[l], layers[l + 1] = _outputs(layers[l], alive), _inputs(layers[l + 1], alive)
            masks[l], masks[l + 1] = before[alive], after[:, alive]
            scores[l], scores[l + 1] = scores[l][alive], scores[l + 1][:, alive]
            break
    return layers, masks


def _absorb(layer: KANLayer, following: KANLayer, constant: np.ndarray) -> KANLayer:
    """Add what constant units send on to the bias of the following layer."""
    if not constant.any():
        return following
    assert layer.bias is not None
    assert following.bias is not None
    alone = _inputs(following, constant)
    alone = eqx.tree_at(lambda each: each.bias, alone, jnp.zeros_like(following.bias))
    sent = alone(layer.bias[np.flatnonzero(constant)][None])[0]
    return eqx.tree_at(lambda each: each.bias, following, following.bias + sent)


def _outputs(layer: KANLayer, alive: np.ndarray) -> KANLayer:
    return _select(layer, lambda w: w[np.flatnonzero(alive)], ("r", "c", "b", "bias"))


def _inputs(layer: KANLayer, alive: np.ndarray) -> KANLayer:
    return _select(layer, lambda w: w[:, np.flatnonzero(alive)], ("r", "c", "b"))


def _select(layer: KANLayer, choose: Any, names: tuple[str, ...]) -> KANLayer:
    given = tuple(name for name in names if getattr(layer, name) is not None)
    return eqx.tree_at(
        lambda each: [getattr(each, name) for name in given],
        layer,
        [choose(getattr(layer, name)) for name in given],
    )
