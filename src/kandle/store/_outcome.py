"""What a finished run leaves behind."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class Curve(NamedTuple):
    """The loss along training: `loss[i]` is the loss before update `steps[i]`, both (n,)."""

    steps: np.ndarray
    loss: np.ndarray


class Spectrum(NamedTuple):
    """Eigenvalues of one block of the tangent kernel after `step` updates, largest first.

    `block` is `ntk` for a function, `pde` or `bc` for a PDE; `error_share` how much of the squared
    error lies along each eigenvector, where it is known.
    """

    block: str
    step: int
    eigenvalues: np.ndarray
    error_share: np.ndarray | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of one training, or why there is none.

    `status` is `ok`, `diverged` (the loss stopped being finite at `diverged_at`) or `failed`
    (`reason` says why). Numbers that do not exist are NaN. `machine`, `backend` and `version` tell
    what kind of machine, which kernels and which Kandle made it.
    """

    status: str
    diverged_at: int | None = None
    loss: float = float("nan")
    l2: float = float("nan")
    l2_robust: float = float("nan")
    test_mse: float = float("nan")
    wall_s: float = float("nan")
    machine: str = ""
    backend: str = ""
    version: str = ""
    reason: str = ""
    curve: Curve | None = field(default=None, compare=False)
    spectra: tuple[Spectrum, ...] = field(default=(), compare=False)
