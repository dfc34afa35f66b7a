"""What a finished run leaves behind."""

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, get_args

import numpy as np

from kandle import _form as form

_NUMBER = form.Kind("a number", lambda value: isinstance(value, float))
_MAYBE_NAME = form.either(form.name, form.blank)


class Curve(NamedTuple):
    """The loss along training: `loss[i]` is the loss before update `steps[i]`, both (n,)."""

    steps: np.ndarray
    loss: np.ndarray


class Spectrum(NamedTuple):
    """Eigenvalues of one block of the tangent kernel after `step` updates, largest first.

    `block` is `ntk` for a function, `pde` or `bc` for a PDE. `error_share` is the share of the
    squared error along each eigenvector, where it is known.
    """

    block: str
    step: int
    eigenvalues: np.ndarray
    error_share: np.ndarray | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of one training, or why there is none.

    `status` is `ok`, `diverged` (the loss stopped being finite at `diverged_at`) or `failed`
    (`reason` says why). Numbers that do not exist are NaN. `machine`, `backend` and `version`
    record the kind of machine, the kernels and the version of Kandle that trained it.
    """

    status: Annotated[str, form.choice("ok", "diverged", "failed")]
    diverged_at: Annotated[int | None, form.either(form.natural, form.none)] = None
    loss: Annotated[float, _NUMBER] = float("nan")
    l2: Annotated[float, _NUMBER] = float("nan")
    l2_robust: Annotated[float, _NUMBER] = float("nan")
    test_mse: Annotated[float, _NUMBER] = float("nan")
    wall_s: Annotated[float, _NUMBER] = float("nan")
    machine: Annotated[str, _MAYBE_NAME] = ""
    backend: Annotated[str, _MAYBE_NAME] = ""
    version: Annotated[str, _MAYBE_NAME] = ""
    reason: Annotated[str, form.either(form.text, form.blank)] = ""
    curve: Curve | None = field(default=None, compare=False)
    spectra: tuple[Spectrum, ...] = field(default=(), compare=False)


_PLAIN = {
    found.name: get_args(found.type)
    for found in dataclasses.fields(Outcome)
    if found.name not in ("curve", "spectra")
}
OUTCOME_TYPES: dict[str, Any] = {name: found[0] for name, found in _PLAIN.items()}
OUTCOME_KINDS: dict[str, form.Kind] = {name: found[1] for name, found in _PLAIN.items()}
ORIGIN = ("machine", "backend", "version", "reason")
RESULTS = tuple(name for name in _PLAIN if name not in ORIGIN)
