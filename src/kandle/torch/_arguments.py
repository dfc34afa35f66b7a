"""The arguments of `KANLinear`, checked, with errors in the words of a caller."""

import math
import numbers
from typing import Any, cast

import torch

from kandle._errors import UserError, must
from kandle.bases import BSpline


def check_arguments(
    in_features: Any,
    out_features: Any,
    grid_eps: Any,
    dtype: torch.dtype | None,
    base_activation: Any,
    residual: Any,
    grid_range: Any,
    domain: Any,
) -> None:
    """What no other part of the layer checks."""
    for name, n in (("in_features", in_features), ("out_features", out_features)):
        if isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 1:
            raise must(f"'{name}' of KANLinear", "an integer of at least 1", n)
    if grid_eps is not None and not 0 <= grid_eps <= 1:
        raise must("'grid_eps' of KANLinear", "a number from 0 to 1, or None", grid_eps)
    if dtype is not None and not dtype.is_floating_point:
        raise must("'dtype' of KANLinear", "a floating-point type", dtype)
    if base_activation is not None and residual != "silu":
        raise UserError("Give KANLinear either 'base_activation' or 'residual', not both.")
    if grid_range is not None and tuple(domain) != (-1.0, 1.0):
        raise UserError("Give KANLinear either 'grid_range' or 'domain', not both.")


def spline_basis(grid_size: Any, spline_order: Any, domain: Any) -> BSpline:
    """The basis, with errors in the words of this module's arguments."""
    for name, value in (("grid_size", grid_size), ("spline_order", spline_order)):
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
            raise must(f"'{name}' of KANLinear", "an integer of at least 1", value)
    if spline_order > 5:
        raise must("'spline_order' of KANLinear", "an integer from 1 to 5", spline_order)
    return BSpline(int(grid_size), int(spline_order), tuple(domain))


def efficient_kan_scales(
    init: Any, noise: Any, base: Any, spline: Any
) -> tuple[float, float, float] | None:
    """(scale_noise, scale_base, scale_spline) if one is given, with efficient-kan's defaults."""
    given = {"scale_noise": noise, "scale_base": base, "scale_spline": spline}
    named = [name for name, value in given.items() if value is not None]
    if not named:
        return None
    if init is not None:
        raise UserError(
            f"Arguments of efficient-kan's initialization ({', '.join(map(repr, named))}) "
            f"contradict init={init!r} of KANLinear: leave out one or the other."
        )
    defaults = {"scale_noise": 0.1, "scale_base": 1.0, "scale_spline": 1.0}
    scales = []
    for name, value in given.items():
        value = defaults[name] if value is None else value
        if not isinstance(value, numbers.Real) or not math.isfinite(cast(float, value)):
            raise must(f"'{name}' of KANLinear", "a finite number", value)
        scales.append(float(value))
    return scales[0], scales[1], scales[2]
