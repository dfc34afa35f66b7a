"""The kernels of a problem, on the points that its tangent kernel is taken on."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import ArrayLike

from kandle import problems
from kandle._errors import UserError
from kandle.nn import KAN
from kandle.ntk._double import double, doubled
from kandle.ntk._kernel import kernel
from kandle.ntk._residuals import KINDS, blocks, residual_of
from kandle.ntk._spectrum import Spectrum


def spectra(
    problem: Any, model: KAN, rba: Mapping[str, ArrayLike] | None = None
) -> dict[str, Spectrum]:
    """The spectra of a model on a problem, by block: `ntk`, or `pde` and `bc` of a PDE.

    On `problem.ntk_points()`: 256 training points of a function; 256 residual and 32 condition
    points of a PDE. The error in a spectrum's modes is the model's at these points, weighted as
    the kernel is.

    Args:
        problem: of `kandle.problems`, or its name.
        model: as it starts, or at any time in training.
        rba: α of all the PDE's points by kind, as a checkpoint of a training has them; without,
            all weights are one.

    Returns:
        Spectra by block. A model that has diverged, or whose kernel overflows, has none: {}.
    """
    problem = problems.get(problem)
    if model.widths[0] != problem.n_in or model.widths[-1] != problem.n_out:
        raise UserError(
            f"The problem {problem.name!r} has {problem.n_in} inputs, outputs: "
            f"{problem.n_out}. The model has {model.widths[0]} and {model.widths[-1]}."
        )
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(model)):
        return {}
    found = _function(problem, model) if problem.kind == "function" else _pde(problem, model, rba)
    if not all(np.isfinite(K).all() and np.isfinite(e).all() for K, e in found.values()):
        return {}
    return {block: Spectrum.of(K, error) for block, (K, error) in found.items()}


def _function(problem: Any, model: KAN) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    data, rows = problem.arrays("float64"), problem.ntk_points()["x"]
    x, y = data["x"][rows], data["y"][rows]
    with double():
        error = np.asarray(doubled(model)(x)) - y
    return {"ntk": (kernel(model, x), error)}


def _pde(
    problem: Any, model: KAN, rba: Mapping[str, ArrayLike] | None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    operator = residual_of(problem)
    data, rows = problem.arrays("float64"), problem.ntk_points()
    x = data["collocation"][rows["collocation"]]
    points, values = (data[name][rows["points"]] for name in ("points", "values"))
    with double():
        network = doubled(model)
        found = operator(x, network.derivatives(x, problem.first, problem.second))
        residuals = {
            "pde": np.asarray(found).reshape(len(x), -1),
            "bc": np.asarray(network(points)) - values,
        }
    alpha = {kind: np.ones(r.size) for kind, r in residuals.items()}
    for kind, array in (("pde", "collocation"), ("bc", "points")):
        if not rba:
            continue
        of_points = np.asarray(rba[kind], np.float64).reshape(len(data[array]), -1)
        alpha[kind] = of_points[rows[array]].ravel()
    errors = {kind: alpha[kind] * r.ravel() for kind, r in residuals.items()}
    K = blocks(model, problem, x, points, rba=alpha)
    return {kind: (K[kind, kind], errors[kind]) for kind in KINDS}
