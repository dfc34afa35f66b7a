"""The quiet scheme: basis weights of zero, and a residual path that carries all the variance."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kandle._errors import UserError, must
from kandle.bases import Moments
from kandle.init._scheme import Scales, Scheme, check_number, check_reached


@dataclass(frozen=True)
class Quiet(Scheme):
    """All basis weights are zero: the network begins as a plain one with activation R.

        b = 0,    σ_r = g √( 2 / (n_in μ_R⁽⁰⁾ + n_out μ_R⁽¹⁾) )

    with μ_R⁽⁰⁾ = E[R(x)²] and μ_R⁽¹⁾ = E[R′(x)²]: `Glorot` with one term per edge instead
    of n_basis + 1. The basis functions are silent, not dead: their gradient does not depend on b,
    so they change from the first update on. The basis does not enter.

    Args:
        rule: "glorot" as above; "lecun" keeps the forward condition alone,
            σ_r = g / √(n_in μ_R⁽⁰⁾).
        gain: g; None is the inputs' standard deviation √Var(x), as for `Glorot`.
        spread: None, or the standard deviation to which hidden values are scaled on the training
            data before the first update, in half-widths of the basis' domain (`KAN.adapt`). Where
            there are no data, as in `KAN(…, init=Quiet(spread=0.5))`, nothing is scaled.

    Example:
        >>> sigma_r, sigma_b = Quiet().scales(n_in=16, n_out=16, grid=5)
        >>> round(sigma_r * 16**0.5, 3), sigma_b
        (1.27, 0.0)
    """

    name: ClassVar[str] = "quiet"  # pyright: ignore
    label: ClassVar[str] = "Quiet"  # pyright: ignore
    color: ClassVar[str] = "#009E73"  # pyright: ignore

    rule: Literal["glorot", "lecun"] = "glorot"
    gain: float | None = None
    spread: float | None = None

    def __post_init__(self):
        if self.rule not in ("glorot", "lecun"):
            raise must("The 'rule' parameter of Quiet", "'glorot' or 'lecun'", self.rule)
        for name in ("gain", "spread"):
            if getattr(self, name) is not None:
                check_number(self, name, positive=True)

    @property
    def needs_data(self) -> bool:
        return self.spread is not None

    def adapt(self, model: Any, x: Any) -> Any:
        return model if self.spread is None else model.adapt(x, self.spread)

    def scales_from_moments(self, n_in: int, n_out: int, moments: Moments) -> Scales:
        if moments.mu_R0 is None or moments.mu_R1 is None:
            raise UserError(
                "'residual' must be a function under the quiet scheme, whose basis weights are "
                "zero: without a residual every output and gradient would be zero. Got None "
                "instead; init='glorot' needs no residual."
            )
        mean_square = n_in * moments.mu_R0
        if self.rule == "glorot":
            mean_square = (mean_square + n_out * moments.mu_R1) / 2
        gain = moments.std if self.gain is None else self.gain
        return gain / math.sqrt(check_reached(mean_square, "E[R^2]")), 0.0
