"""The interface of a problem."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float


@runtime_checkable
class Problem(Protocol):
    """Something to learn: the data of a training, and the reference that judges its outcome.

    `Function`, `PDE` and `Table` implement it, and so may any class of a user. A problem of kind
    "function" has the arrays `x` and `y` (optionally `x_test`, `y_test`). One of kind "pde" has
    `collocation`, `points` and `values`, and the attributes `residual`, `first` and `second` of
    `PDE`. The data depend on the problem alone, never on a scheme or a seed.
    """

    kind: ClassVar[str]

    @property
    def name(self) -> str: ...

    @property
    def n_in(self) -> int: ...

    @property
    def n_out(self) -> int: ...

    @property
    def default_steps(self) -> int: ...

    def arrays(self, dtype: Any = "float32") -> Mapping[str, np.ndarray]:
        """The data of a training, by name."""
        ...

    def evaluation(
        self,
    ) -> tuple[Float[np.ndarray, "M n_in"], Float[np.ndarray, "M n_out"] | None]:
        """Points, and the reference there, or None if it is unknown."""
        ...
