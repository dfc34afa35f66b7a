"""Networks of one shape for a fit: how large they may be, their weights, and their average."""

import itertools
from collections.abc import Sequence

import jax
import numpy as np

from kandle._errors import UserError
from kandle.bases import BSpline
from kandle.init import NumPySource, Scheme, Source, draw_weights
from kandle.nn import KAN, KANLayer
from kandle.nn._residuals import get_residual
from kandle.tabular._settings import FitSettings

# 0.4 GB, and with the state and gradients of the optimizer five times that.
MOST_WEIGHTS = 10**8

# R of every layer of an estimator's networks.
_RESIDUAL = "silu"

# A layer's arrays by name, as NumPy's: JAX would compile each step of a merge for itself.
_Arrays = dict[str, np.ndarray | None]
_NAMES = ("r", "c", "b", "bias", "mean", "variance")


# ---- size ----------------------------------------------------------------------------------------


def check_widths(widths: list[int], settings: FitSettings) -> None:
    """Reject grids that do not match the layers, and a network that is too large for memory."""
    settings.grids_for(len(widths) - 1)  # rejects a list of another length
    weights = count_weights(widths, settings)
    if weights > MOST_WEIGHTS:
        raise UserError(
            f"A network of widths {widths} and grid {settings.finest} has {weights:.2g} weights, "
            f"more than the limit of {MOST_WEIGHTS:.0e}. Use smaller layers or a coarser grid."
        )


def count_weights(widths: Sequence[int], settings: FitSettings) -> int:
    """The number of weights r, b and bias of a network on the finest grid."""
    total = sum(widths[1:])
    grids = settings.grids_for(len(widths) - 1, finest=True)
    for (n_in, n_out), grid in zip(itertools.pairwise(widths), grids, strict=True):
        n_basis = grid + int(settings.degree)
        total += n_in * n_out * (n_basis + 1)  # b and r
    return total


def check_size(network: KAN, count: int) -> None:
    """Reject networks that are too large for memory together."""
    weights = count * sum(leaf.size for leaf in jax.tree.leaves(network))
    if weights > MOST_WEIGHTS:
        raise UserError(
            f"{count} networks of widths {list(network.widths)} have {weights:.2g} weights, more "
            f"than the limit of {MOST_WEIGHTS:.0e}. Use fewer networks, a fixed smoothness, "
            "smaller layers or a coarser grid."
        )


# ---- weights -------------------------------------------------------------------------------------


def draw_networks(
    widths: list[int],
    grid: int | Sequence[int],
    degree: int,
    scheme: Scheme,
    count: int,
    seed: int,
    sample: np.ndarray | None = None,
) -> list[KAN]:
    """`count` networks of one shape, with weights drawn by the scheme and a bias of zeros.

    The numbers come from NumPy: those that `KAN` draws from a JAX key take a second of compilation
    per shape of a layer. Only a scheme that overrides `Scheme.draw`, or needs a sample of the
    inputs, draws from JAX keys.
    """
    if scheme.needs_data or type(scheme).draw is not Scheme.draw:
        keys = jax.random.split(jax.random.key(seed), count)
        options = {"grid": grid, "degree": degree, "init": scheme, "sample": sample}
        return [KAN(widths, **options, key=key, dtype="float32") for key in keys]
    shapes = list(itertools.pairwise(widths))
    grids = [grid] * len(shapes) if isinstance(grid, int | np.integer) else list(grid)
    bases = [BSpline(int(g), degree) for g in grids]
    networks = []
    for stream in np.random.SeedSequence(seed).spawn(count):
        source = NumPySource(np.random.default_rng(stream))
        layers = [
            _draw_layer(n_in, n_out, basis, scheme, source)
            for (n_in, n_out), basis in zip(shapes, bases, strict=True)
        ]
        networks.append(KAN.from_layers(layers))
    return networks


def _draw_layer(n_in: int, n_out: int, basis: BSpline, scheme: Scheme, source: Source) -> KANLayer:
    sigma_r, sigma_b = scheme.scales(n_in, n_out, basis=basis, residual=_RESIDUAL)
    shape = (n_out, n_in, basis.n_basis)
    # One stream of numbers: r is drawn first.
    sources = (source, source)
    weights = draw_weights(shape, sigma_r, sigma_b, law=scheme.residual_law, sources=sources)
    # Not `jnp.asarray`, for which JAX compiles a program per shape.
    arrays = (*weights, np.zeros(n_out))
    r, c, b, bias = (jax.device_put(np.asarray(array, np.float32)) for array in arrays)
    return KANLayer(
        r=r,
        c=c,
        b=b,
        bias=bias,
        basis=basis,
        residual=get_residual(_RESIDUAL),
        normalized=scheme.normalized,
    )


# ---- averages ------------------------------------------------------------------------------------


def average(networks: Sequence[KAN]) -> KAN:
    """The network whose output is the mean of the outputs of P networks of one shape.

    Hidden layers lie side by side: the weights between units of different networks are zero. The
    last layer adds all of them up, divided by P. A network without hidden layers is linear in r and
    c·b, which are averaged.
    """
    if len(networks) == 1:
        return networks[0]
    last = len(networks[0].layers) - 1
    merged = []
    for l, layers in enumerate(zip(*(network.layers for network in networks), strict=True)):
        parts = [_arrays(layer) for layer in layers]
        if l == last:
            parts = [_scaled(part, 1 / len(networks)) for part in parts]
        if last == 0:
            arrays = _sum(parts)
        else:
            arrays = _side_by_side(parts, same_inputs=l == 0, same_outputs=l == last)
        merged.append(_build(layers[0], arrays))
    return KAN.from_layers(merged)


def separate(network: KAN, count: int) -> list[KAN]:
    """The `count` networks that `average` merged; one without hidden layers is returned alone."""
    last = len(network.layers) - 1
    if count == 1 or last == 0:
        return [network]
    networks = []
    for p in range(count):
        layers = []
        for l, layer in enumerate(network.layers):
            outputs = slice(None) if l == last else _part(layer.n_out, count, p)
            inputs = slice(None) if l == 0 else _part(layer.n_in, count, p)
            places = dict.fromkeys(("r", "c", "b"), (outputs, inputs))
            places |= {"bias": (outputs,), "mean": (inputs,), "variance": (inputs,)}
            arrays = {
                name: None if array is None else array[places[name]]
                for name, array in _arrays(layer).items()
            }
            if l == last:
                # The merged bias is a mean already, and the same for every part.
                arrays = _scaled(arrays, count) | {"bias": arrays["bias"]}
            layers.append(_build(layer, arrays))
        networks.append(KAN.from_layers(layers))
    return networks


def _part(width: int, count: int, p: int) -> slice:
    return slice(p * width // count, (p + 1) * width // count)


def _arrays(layer: KANLayer) -> _Arrays:
    values = {name: getattr(layer, name) for name in _NAMES}
    return {name: None if value is None else np.asarray(value) for name, value in values.items()}


def _build(layer: KANLayer, arrays: _Arrays) -> KANLayer:
    """A layer of these arrays, with all else as in another one."""
    values = {name: None if v is None else jax.device_put(v) for name, v in arrays.items()}
    return KANLayer(
        **values,  # pyright: ignore[reportArgumentType]
        basis=layer.basis,
        residual=layer.residual,
        normalized=layer.normalized,
        backend=layer.backend,
    )


def _scaled(arrays: _Arrays, factor: float) -> _Arrays:
    """The arrays of `factor` times a layer."""
    scaled = {}
    for name in ("r", "b", "bias"):
        array = arrays[name]
        scaled[name] = None if array is None else (array * factor).astype(array.dtype)
    return arrays | scaled


def _sum(parts: Sequence[_Arrays]) -> _Arrays:
    """The arrays of a sum of layers with the same inputs."""

    def total(values: list) -> np.ndarray | None:
        return None if values[0] is None else np.sum(values, axis=0)

    first = parts[0]
    return first | {
        "r": total([part["r"] for part in parts]),
        "c": np.ones_like(first["c"]),
        "b": total([part["c"][..., None] * part["b"] for part in parts]),  # pyright: ignore
        "bias": total([part["bias"] for part in parts]),
    }


def _side_by_side(parts: Sequence[_Arrays], same_inputs: bool, same_outputs: bool) -> _Arrays:
    """Layers in parallel, on inputs of their own or the same, added up or not."""
    count = len(parts)
    shape = np.asarray(parts[0]["c"]).shape
    n_out = shape[0] if same_outputs else shape[0] * count
    n_in = shape[1] if same_inputs else shape[1] * count

    def placed(name: str) -> np.ndarray | None:
        first = parts[0][name]
        if first is None:
            return None
        whole = np.zeros((n_out, n_in, *first.shape[2:]), first.dtype)
        for p, part in enumerate(parts):
            outputs = slice(None) if same_outputs else _part(n_out, count, p)
            inputs = slice(None) if same_inputs else _part(n_in, count, p)
            whole[outputs, inputs] = part[name]
        return whole

    def joined(name: str, shared: bool) -> np.ndarray | None:
        values = [part[name] for part in parts]
        return values[0] if values[0] is None or shared else np.concatenate(values)  # pyright: ignore

    bias = joined("bias", shared=False)
    if bias is not None and same_outputs:
        bias = bias.reshape(count, -1).sum(axis=0)
    return {
        **{name: placed(name) for name in ("r", "c", "b")},
        "bias": bias,
        "mean": joined("mean", same_inputs),
        "variance": joined("variance", same_inputs),
    }
