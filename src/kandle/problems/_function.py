"""A function to be fitted from samples."""

import dataclasses
import functools
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from kandle._errors import UserError, must
from kandle.problems._sampling import Interval, checked_domain, mesh, uniform


@dataclass(frozen=True, eq=False)
class Function:
    """Fit y = f(x₁, …, xₙ) on a box, from points drawn uniformly in it.

    - `f`: takes one float64 array per input, returns one of the same shape (NumPy or JAX);
    - `domain`: (low, high) per input. Inputs enter the network as they are, and its splines live on
      [-1, 1] by default: `scaled()` gives the same problem with its inputs on [-1, 1];
    - `name`: alone keys the data, so that every scheme and seed sees the same points;
    - `n_train`, `n_test`: points drawn for training and for a test error;
    - `n_grid`: points along each axis of the evaluation grid, 1,000 in one dimension, 200 in two
      and 30 in three by default. Beyond three a grid says little: 10,000 points are drawn instead;
    - `axis`: from (low, high, n) to the coordinates of that grid along one input;
    - `points`: gives the points (n_train + n_test, n_in), those for training first, where they are
      not to be drawn.

    >>> from kandle import problems
    >>> wave = problems.Function(lambda x, y: x * np.sin(3 * y), [(-1, 1), (-1, 1)], name="wave")
    >>> wave.arrays("float32")["x"].shape
    (4000, 2)
    """

    f: Callable[..., ArrayLike]
    domain: Sequence[Interval]
    name: str = ""
    latex: str = ""
    n_train: int = 4000
    n_test: int = 1000
    n_grid: int | None = None
    axis: Callable[[float, float, int], np.ndarray] = np.linspace
    points: Callable[[], ArrayLike] | None = None
    default_steps: int = 2000

    kind: ClassVar[str] = "function"
    n_out: ClassVar[int] = 1

    def __post_init__(self):
        if not callable(self.f):
            raise must("'f' of Function", "a function of one array an input", self.f)
        name = self.name or getattr(self.f, "__name__", "")
        if not name or name == "<lambda>":
            raise must("'name' of Function", "given where the function has none of its own", name)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "domain", checked_domain(self.domain, f"Function {name!r}"))
        for field in ("n_train", "n_test"):
            value = getattr(self, field)
            if not isinstance(value, numbers.Integral) or value < 1:
                raise must(f"'{field}' of Function {name!r}", "an integer of at least 1", value)
        n_grid = 2 if self.n_grid is None else self.n_grid
        if not isinstance(n_grid, numbers.Integral) or n_grid < 2:
            raise must(f"'n_grid' of Function {name!r}", "an integer of at least 2", n_grid)

    @property
    def n_in(self) -> int:
        return len(self.domain)

    def __call__(self, x: ArrayLike) -> np.ndarray:
        """f at the points x (N, n_in), as float64 (N, 1)."""
        x = np.asarray(x, np.float64)
        columns = tuple(x.T)
        try:
            y = np.asarray(self.f(*columns), np.float64)
        except Exception as error:
            raise UserError(
                f"Function {self.name!r} of {self.n_in} inputs cannot be evaluated: "
                f"{type(error).__name__}: {error}."
            ) from error
        if y.shape not in ((), (len(x),)):
            raise UserError(
                f"Function {self.name!r} must return one value per point: {(len(x),)}. "
                f"Got {y.shape}."
            )
        y = np.broadcast_to(y, len(x))
        if not np.isfinite(y).all():
            at = int(np.argmin(np.isfinite(y)))
            raise UserError(f"Function {self.name!r} is {y[at]} at {tuple(x[at].tolist())}.")
        return y[:, None]

    def sample(self, n: int, key: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """`n` points and their values; `key` other than the problem's name gives other points."""
        x = uniform(key or self.name, n, self.domain)
        return x, self(x)

    def arrays(self, dtype: DTypeLike = "float32") -> dict[str, np.ndarray]:
        """The data of a training: `x` (n_train, n_in), `y` (n_train, 1), `x_test`, `y_test`.

        Drawn and evaluated in float64, then rounded: all precisions see the same points.
        """
        n = self.n_train
        if self.points is None:
            x, y = self.sample(n + self.n_test)
        else:
            x = self._chosen_points()
            y = self(x)
        data = {"x": x[:n], "y": y[:n], "x_test": x[n:], "y_test": y[n:]}
        return {name: array.astype(dtype) for name, array in data.items()}

    def _chosen_points(self) -> np.ndarray:
        """The points that the argument `points` chooses, (n_train + n_test, n_in)."""
        assert self.points is not None
        x = np.asarray(self.points(), np.float64)
        shape = (self.n_train + self.n_test, self.n_in)
        if x.shape != shape:
            what = f"What 'points' of Function {self.name!r} returns"
            raise must(what, f"an array (n_train + n_test, n_in) = {shape}", x.shape)
        return x

    def evaluation(self) -> tuple[np.ndarray, np.ndarray]:
        """Where a fit is judged and what is true there: float64 (M, n_in), (M, 1), read-only."""
        return self._evaluation

    @functools.cached_property
    def _evaluation(self) -> tuple[np.ndarray, np.ndarray]:
        n = self.n_grid or {1: 1000, 2: 200, 3: 30}.get(self.n_in)
        if n is None:
            x, y = self.sample(10_000, key=f"{self.name}/evaluation")
        else:
            x = mesh([self.axis(lo, hi, n) for lo, hi in self.domain])
            y = self(x)
        x.flags.writeable = y.flags.writeable = False
        return x, y

    def ntk_points(self, n: int = 256) -> dict[str, np.ndarray]:
        """Rows of `arrays()` for a tangent kernel: the first `n` training points."""
        return {"x": np.arange(min(n, self.n_train))}

    def scaled(self) -> "Function":
        """The same problem with every input mapped to [-1, 1]: z ↦ f(lo + (hi - lo)(z + 1)/2)."""
        f, domain = self.f, self.domain

        def scaled_f(*z: np.ndarray) -> ArrayLike:
            columns = zip(z, domain, strict=True)
            return f(*(lo + (hi - lo) * (z_i + 1) / 2 for z_i, (lo, hi) in columns))

        unit = ((-1.0, 1.0),) * self.n_in
        points = None if self.points is None else self._scaled_points
        name = f"{self.name}-scaled"
        return dataclasses.replace(self, f=scaled_f, domain=unit, name=name, points=points)

    def _scaled_points(self) -> np.ndarray:
        lo, hi = np.asarray(self.domain).T
        return 2 * (self._chosen_points() - lo) / (hi - lo) - 1
