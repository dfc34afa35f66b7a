"""The tangent kernels of a PDE: of its residual, of its conditions, and across."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float

from kandle._errors import must
from kandle.nn import KAN
from kandle.ntk._double import double, doubled, points
from kandle.ntk._jacobian import jacobian
from kandle.ntk._kernel import Route, choose
from kandle.ntk._layerwise import Rows, symmetric
from kandle.ntk._tangents import Directions

Block = tuple[str, str]
KINDS = ("pde", "bc")


@dataclass(frozen=True)
class _Kind:
    """Where one kind of residual is taken, and what it is made of; None is u itself."""

    x: np.ndarray
    residual: Callable | None
    directions: Directions


def blocks(
    model: KAN,
    problem: Any,
    collocation: Float[ArrayLike, "N n_in"],
    conditions: Float[ArrayLike, "M n_in"],
    *,
    rba: Mapping[str, ArrayLike] | None = None,
    route: Route | None = None,
    chunk: int | None = None,
) -> dict[Block, Float[np.ndarray, "..."]]:
    """The blocks of the weighted tangent kernel of a PDE (Eq. F6).

        K̃^(ξ,ζ) = (A^ξ J^ξ)(A^ζ J^ζ)ᵀ,      ξ, ζ in {pde, bc},      A^ξ = diag(α^ξ)

    J^pde is the Jacobian of the equation's residual at the collocation points, whose derivatives
    are carried forward through the layers; J^bc that of u - value at the condition points. The
    weights α are constants, also where training lets a gradient flow through them. In float64.

    Rows of `bc` are points, or points times outputs (outputs the faster) of a field of several.
    A LeCun-normalized model that is not frozen takes its statistics from the collocation points
    and from the condition points each for themselves, as in training; see `kernel`.

    Args:
        model: a network, of any precision.
        problem: a PDE: `.residual`, `.first` and `.second` are read.
        collocation: points of the residual, (N, n_in).
        conditions: points of the conditions, (M, n_in).
        rba: α by kind, one for each row; a kind that is missing has weights of one.
        route, chunk: as in `kernel`.

    Returns:
        K̃ by (ξ, ζ), all four.
    """
    with double():
        network = doubled(model)
        route = choose(route, network, chunk)
        kinds = {
            "pde": _Kind(
                points(collocation, network, "collocation"),
                residual_of(problem),
                Directions(tuple(problem.first), tuple(problem.second)),
            ),
            "bc": _Kind(points(conditions, network, "conditions"), None, Directions()),
        }
        take = _by_layers if route == "layerwise" else _by_jacobian
        found = take(network, kinds, chunk)
    alpha = {kind: _weights(rba, kind, len(found[kind, kind])) for kind in KINDS}
    return {(xi, zeta): alpha[xi][:, None] * K * alpha[zeta] for (xi, zeta), K in found.items()}


def residual_of(problem: Any) -> Callable:
    """The residual of a PDE as a function of points and of derivatives without names."""
    return problem.ntk_residual() if hasattr(problem, "ntk_residual") else problem.residual


def _by_layers(
    model: KAN, kinds: Mapping[str, _Kind], chunk: int | None
) -> dict[Block, np.ndarray]:
    rows = {
        name: Rows(model, kind.x, kind.residual, kind.directions, chunk)
        for name, kind in kinds.items()
    }
    found = {(kind, kind): symmetric(own.stacked(own)) for kind, own in rows.items()}
    found["pde", "bc"] = rows["pde"].stacked(rows["bc"])
    found["bc", "pde"] = found["pde", "bc"].T
    return found


def _by_jacobian(
    model: KAN, kinds: Mapping[str, _Kind], chunk: int | None
) -> dict[Block, np.ndarray]:
    J = {}
    for name, kind in kinds.items():
        found = np.asarray(jacobian(model, kind.x, kind.residual, kind.directions))
        J[name] = found.reshape(-1, found.shape[-1])
    K = {(xi, zeta): J[xi] @ J[zeta].T for xi in KINDS for zeta in KINDS}
    return {block: symmetric(k) if block[0] == block[1] else k for block, k in K.items()}


def _weights(rba: Mapping[str, ArrayLike] | None, kind: str, rows: int) -> np.ndarray:
    if rba is None or kind not in rba:
        return np.ones(rows)
    alpha = np.asarray(rba[kind], np.float64).ravel()
    if alpha.shape != (rows,) or not np.isfinite(alpha).all():
        raise must(f"'rba[{kind!r}]'", f"{rows} finite numbers, one per row", alpha.shape)
    return alpha
