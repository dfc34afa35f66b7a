"""What `KAN.derivatives` returns, and the jets that it is computed from."""

import itertools
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle._errors import UserError, must, unknown

MultiIndex = tuple[int, ...]
"""The inputs to differentiate along, in ascending order: (0, 1, 1) is ∂³/∂x₀∂x₁²."""


@jax.tree_util.register_pytree_node_class
class Derivatives:
    """A field u with its derivatives at N points, each an array (N, n_out).

    - `d.value`: u;
    - `d[i]`, `d[i, j]`, `d[i, i, j]`, …: ∂u/∂x_i, ∂²u/∂x_i∂x_j, ∂³u/∂x_i²∂x_j, …, in any order of
      the inputs, by index or by name;
    - `d.first[i]` and `d.second[i]`: ∂u/∂x_i and ∂²u/∂x_i²;
    - `d.outputs`: one such object per output, of arrays (N,);
    - `d.coefficients`: the trainable coefficients of a PDE by name, each a number.

    Args:
        value: u.
        first: ∂u/∂x_i by input i.
        second: ∂²u/∂x_i² by input i.
        further: any derivatives by multi-index.
        inputs: names of the inputs, which may then be used in place of their indices.
        coefficients: numbers by name.

    Example:
        >>> d = Derivatives(jnp.ones((5, 2)), {0: jnp.zeros((5, 2))}, inputs=("t", "x"))
        >>> d["t"].shape
        (5, 2)
        >>> u, v = d.outputs
        >>> u["t"].shape
        (5,)
    """

    def __init__(
        self,
        value: Any,
        first: Mapping[int, Any] | None = None,
        second: Mapping[int, Any] | None = None,
        further: Mapping[MultiIndex, Any] | None = None,
        *,
        inputs: Sequence[str] = (),
        coefficients: Mapping[str, Any] | None = None,
    ):
        table = {(): value}
        table |= {(i,): along for i, along in (first or {}).items()}
        table |= {(i, i): along for i, along in (second or {}).items()}
        table |= {tuple(sorted(index)): along for index, along in (further or {}).items()}
        self._table: dict[MultiIndex, Any] = table
        self.inputs = tuple(inputs)
        self.coefficients = dict(coefficients or {})

    @property
    def value(self) -> Any:
        return self._table[()]

    @property
    def first(self) -> "PureDerivatives":
        return PureDerivatives(self, 1)

    @property
    def second(self) -> "PureDerivatives":
        return PureDerivatives(self, 2)

    @property
    def orders(self) -> tuple[MultiIndex, ...]:
        """The multi-indices of all derivatives in it, without the value."""
        return tuple(index for index in self._table if index)

    def __getitem__(self, inputs: int | str | tuple[int | str, ...]) -> Any:
        return self._lookup(self._multi_index(inputs))

    @property
    def outputs(self) -> tuple["Derivatives", ...]:
        return tuple(self._output(j) for j in range(self.value.shape[-1]))

    def described(
        self, inputs: Sequence[str], coefficients: Mapping[str, Any] | None = None
    ) -> "Derivatives":
        """The same derivatives with names for the inputs, and with coefficients."""
        return self._with(self._table, inputs, coefficients or {})

    def rescaled(self, factors: Sequence[float]) -> "Derivatives":
        """The derivatives along x_i from those along z_i, with factors ∂z_i/∂x_i."""
        table = {
            index: along * math.prod(factors[i] for i in index) if index else along
            for index, along in self._table.items()
        }
        return self._with(table, self.inputs, self.coefficients)

    def _output(self, j: int) -> "Derivatives":
        table = {index: along[..., j] for index, along in self._table.items()}
        return self._with(table, self.inputs, self.coefficients)

    def _with(self, table, inputs, coefficients) -> "Derivatives":
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._table, new.inputs, new.coefficients = table, tuple(inputs), dict(coefficients)
        return new

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying and pickling ask for these
            raise AttributeError(name)
        known = ", ".join(map(repr, self.__dict__.get("inputs", ()))) or "indices"
        raise AttributeError(f"d has no {name!r}: derivatives are read as d[...], of {known}")

    def _multi_index(self, inputs: Any) -> MultiIndex:
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        return tuple(sorted(self._index(one) for one in given))

    def _index(self, given: Any) -> int:
        if isinstance(given, str):
            if given not in self.inputs:
                raise unknown("input of a derivative", given, self.inputs)
            return self.inputs.index(given)
        if not isinstance(given, numbers.Integral) or given < 0:
            raise must("An input of a derivative", "its index or its name", given)
        return int(given)

    def _lookup(self, index: MultiIndex) -> Any:
        if index in self._table:
            return self._table[index]
        along = " and ".join(str(i) for i in dict.fromkeys(index))
        raise UserError(
            f"The residual reads {self._label(index)}, a derivative along input {along} that is "
            f"not declared; declared: {', '.join(map(self._label, self.orders)) or 'none'}."
        )

    def _label(self, index: MultiIndex) -> str:
        return f"d[{', '.join(self.inputs[i] if self.inputs else str(i) for i in index)}]"

    def tree_flatten(self):
        names = tuple(self.coefficients)
        children = (tuple(self._table.values()), tuple(self.coefficients.values()))
        return children, (tuple(self._table), self.inputs, names)

    @classmethod
    def tree_unflatten(cls, static, children):
        (indices, inputs, names), (arrays, numbers_) = static, children
        new = object.__new__(cls)
        new._table = dict(zip(indices, arrays, strict=True))
        new.inputs, new.coefficients = inputs, dict(zip(names, numbers_, strict=True))
        return new


class PureDerivatives(Mapping):
    """∂^ν u/∂x_i^ν of one order ν by input i."""

    def __init__(self, derivatives: Derivatives, order: int):
        self._derivatives, self._order = derivatives, order

    def __getitem__(self, i: int | str) -> Any:
        return self._derivatives[(i,) * self._order]

    def __iter__(self) -> Iterator[int]:
        for index in self._derivatives.orders:
            if len(index) == self._order and len(set(index)) == 1:
                yield index[0]

    def __len__(self) -> int:
        return sum(1 for _ in self)


class RecordingDerivatives(Derivatives):
    """Derivatives that are all zero, and that remember which of them were read.

    Args:
        value: u, an array (N, n_out).
        n_in: number of inputs.
        inputs, coefficients: those of `Derivatives`.
    """

    def __init__(
        self,
        value: Any,
        n_in: int,
        inputs: Sequence[str],
        coefficients: Mapping[str, Any],
    ):
        super().__init__(value, inputs=inputs, coefficients=coefficients)
        self._n_in, self.read = n_in, set()

    def _lookup(self, index: MultiIndex) -> Any:
        if index and index[-1] >= self._n_in:
            raise must("An input of a derivative", f"from 0 to {self._n_in - 1}", index[-1])
        if index:
            self.read.add(index)
        return jnp.zeros_like(self.value)


def check_dimensions(name: str, dimensions: Sequence[int], n_in: int) -> tuple[int, ...]:
    """Distinct dimensions of the input as plain integers, or an error that names the argument."""
    what, requirement = f"'{name}' of derivatives", f"distinct integers from 0 to {n_in - 1}"
    given = _dimensions(dimensions, n_in)
    if given is None or len(set(given)) != len(given):
        raise must(what, requirement, dimensions)
    return given


def check_multi_indices(further: Sequence[Sequence[int]], n_in: int) -> tuple[MultiIndex, ...]:
    """Multi-indices in ascending order, or an error that names the argument."""
    requirement = f"a sequence of tuples of inputs from 0 to {n_in - 1}, such as [(0, 0, 0)]"
    try:
        given = tuple(_dimensions(index, n_in) for index in further)
    except TypeError:
        given = (None,)
    if not all(given):
        raise must("'further' of derivatives", requirement, further)
    return tuple(dict.fromkeys(tuple(sorted(index)) for index in given if index))


def _dimensions(given: Any, n_in: int) -> tuple[int, ...] | None:
    """Inputs as plain integers; None if any of them is no integer, or there is no such input."""
    try:
        inputs = tuple(given)
    except TypeError:
        return None
    plain = (isinstance(i, numbers.Integral) and not isinstance(i, bool) for i in inputs)
    valid = all(plain) and all(0 <= i < n_in for i in inputs)
    return tuple(map(int, inputs)) if valid else None


def by_order(
    indices: Sequence[MultiIndex],
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[MultiIndex, ...]]:
    """The arguments (first, second, further) of `KAN.derivatives` for these multi-indices."""
    first = tuple(index[0] for index in indices if len(index) == 1)
    second = tuple(index[0] for index in indices if len(index) == 2 and index[0] == index[1])
    rest = tuple(i for i in indices if len(i) > 2 or (len(i) == 2 and i[0] != i[1]))
    return first, second, rest


def closure(indices: Sequence[MultiIndex]) -> tuple[MultiIndex, ...]:
    """All multi-indices below these, themselves and () included, in order of their length."""
    below = {
        part
        for index in ((), *indices)
        for length in range(len(index) + 1)
        for part in itertools.combinations(index, length)
    }
    return tuple(sorted(below, key=lambda index: (len(index), index)))


def factorial(index: MultiIndex) -> int:
    """α! = ∏_i α_i!, with α_i the number of times that input i occurs."""
    return math.prod(math.factorial(index.count(i)) for i in set(index))


def second_order(
    layers: Sequence[Any],
    x: Float[Array, "N n_in"],
    first: tuple[int, ...],
    second: tuple[int, ...],
    mixed: tuple[MultiIndex, ...] = (),
) -> dict[MultiIndex, Float[Array, "N n_out"]]:
    """The value with first and second derivatives, by the jets of the kernels.

    A mixed derivative follows from second derivatives along three directions:

        ∂²u/∂x_i∂x_j = ½ (D²_{e_i + e_j} u - D²_{e_i} u - D²_{e_j} u)
    """
    curved = tuple(dict.fromkeys((*second, *(i for pair in mixed for i in pair))))
    bent: list[MultiIndex] = [*((i,) for i in curved), *mixed]
    # The kernels expect the directions that have a second derivative before the others.
    directions = [*bent, *((i,) for i in first if i not in curved)]
    jet = _seed_jet(x, directions, len(bent))
    for layer in layers:
        jet = layer.jet(jet, first=len(directions), second=len(bent))
    along = dict(zip(directions, jet[1:], strict=False))
    twice = dict(zip(bent, jet[1 + len(directions) :], strict=True))
    table = {(): jet[0]}
    table |= {(i,): along[(i,)] for i in first}
    table |= {(i, i): twice[(i,)] for i in second}
    for i, j in mixed:
        table[i, j] = 0.5 * (twice[i, j] - twice[(i,)] - twice[(j,)])
    return table


def _seed_jet(
    x: Float[Array, "N n_in"], directions: Sequence[MultiIndex], second: int
) -> Float[Array, "C N n_in"]:
    """The inputs as a jet: x, ∂x/∂s = Σ_i e_i for each direction, and ∂²x/∂s² = 0."""
    N, n_in = x.shape
    units = np.zeros((len(directions), n_in))
    for row, direction in zip(units, directions, strict=True):
        row[list(direction)] = 1.0
    first = jnp.broadcast_to(jnp.asarray(units, x.dtype)[:, None, :], (len(directions), N, n_in))
    return jnp.concatenate([x[None], first, jnp.zeros((second, N, n_in), x.dtype)])
