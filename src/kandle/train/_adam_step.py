"""The gradient of a loss and Adam's step in one, for layers that advance in their backward pass.

`advance` traces the gradient to a jaxpr. Where the weights r, c and b of a layer enter the loss
through that layer alone, their gradients are results of its backward primitive and of nothing else:
the primitive is replaced by one that advances the weights. Everything else runs as it was traced.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal

from kandle._compat import bind
from kandle.kernels._fused import backward_p, jet_p
from kandle.kernels._step import backward_step, has_step


class Equation(NamedTuple):
    """An equation of a jaxpr whose variables are numbers."""

    primitive: Any
    params: dict
    inputs: list[int]
    outputs: list[int]


class Program:
    """A jaxpr, with the calls inlined that hold layers."""

    def __init__(self, closed: ClosedJaxpr):
        self._numbers = itertools.count()
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.constants: dict[int, Any] = {}
        self.equations: list[Equation] = []
        self.inputs = [self._new(v.aval.shape) for v in closed.jaxpr.invars]
        self.outputs = self._inline(closed, self.inputs)
        self.uses = Counter(itertools.chain(self.outputs, *(e.inputs for e in self.equations)))
        self.origin = {name: e for e in self.equations for name in e.outputs}

    def _new(self, shape) -> int:
        number = next(self._numbers)
        self.shapes[number] = shape
        return number

    def _constant(self, value) -> int:
        number = self._new(jnp.shape(value))
        self.constants[number] = value
        return number

    def _inline(self, closed: ClosedJaxpr, operands: Sequence[int]) -> list[int]:
        jaxpr = closed.jaxpr
        numbers = dict(zip(jaxpr.invars, operands, strict=True))
        for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
            numbers[variable] = self._constant(value)

        def read(atom):
            return self._constant(atom.val) if isinstance(atom, Literal) else numbers[atom]

        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            inner = equation.params.get("jaxpr")
            if equation.primitive.name in ("jit", "pjit") and _has_layer(inner):
                results = self._inline(inner, inputs)
            else:
                results = [self._new(v.aval.shape) for v in equation.outvars]
                made = Equation(equation.primitive, equation.params, inputs, results)
                self.equations.append(made)
            numbers.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def run(self, operands: Sequence, replaced: dict[int, Callable]) -> list:
        """The results; replaced[j] computes those of equation j from its operands instead.

        A replacement may return None for what nothing reads.
        """
        values = dict(self.constants) | dict(zip(self.inputs, operands, strict=True))
        for j, e in enumerate(self.equations):
            arguments = [values[name] for name in e.inputs]
            if j in replaced:
                results = replaced[j](*arguments)
            elif any(a is None for a in arguments):
                results = [None] * len(e.outputs)
            else:
                results = bind(e.primitive, arguments, e.params)
            results = results if e.primitive.multiple_results or j in replaced else [results]
            values.update(zip(e.outputs, results, strict=True))
        return [values[name] for name in self.outputs]

    def leaf(self, name: int) -> int | None:
        """The input that this variable is, with one more axis in front."""
        e = self.origin.get(name)
        if e is None or e.primitive.name not in ("broadcast_in_dim", "reshape"):
            return None
        source = e.inputs[0]
        if source not in self.inputs or self.shapes[name] != (1, *self.shapes[source]):
            return None
        return self.inputs.index(source)

    def source(self, name: int) -> int | None:
        """What this result is without its first axis, if nothing else reads either of them."""
        e = self.origin.get(name)
        if e is None or e.primitive.name not in ("reduce_sum", "squeeze", "reshape"):
            return None
        source = e.inputs[0]
        alone = self.uses[name] == self.uses[source] == 1
        return source if alone and self.shapes[source] == (1, *self.shapes[name]) else None


def _has_layer(closed: ClosedJaxpr) -> bool:
    return any(
        e.primitive in (jet_p, backward_p)
        or (e.primitive.name in ("jit", "pjit") and _has_layer(e.params["jaxpr"]))
        for e in closed.jaxpr.eqns
    )


class Layer(NamedTuple):
    """A layer that advances in its backward pass: which leaves are its r, c and b."""

    equation: Equation
    leaves: tuple[int, ...]

    def step(
        self, operands: Sequence, arrays: Sequence, step, options: dict, advanced: Callable
    ) -> tuple[list, list]:
        """The results of the backward primitive, and (w, m, v) of r, c and b."""
        params = dict(self.equation.params)
        want_x = params.pop("want_x")
        del params["want_w"]

        def on_cpu(step, x, g, *arrays):
            return backward_step(want_x, **params, **options)(step[None], x, g, *arrays)

        def anywhere(step, x, g, *arrays):
            weights = (a[None] for a in arrays[:3])
            *dx, dr, dc, db, dbias = backward_p.bind(x, *weights, g, **self.equation.params)
            states = zip(*(arrays[j : j + 3] for j in (0, 3, 6)), strict=True)
            new = advanced([d[0] for d in (dr, dc, db)], list(states), step)
            return dbias, *itertools.chain(*zip(*new, strict=True)), *dx

        x, *_, g = operands
        dbias, *results = jax.lax.platform_dependent(
            step.astype(x.dtype), x, g, *arrays, cpu=on_cpu, default=anywhere
        )
        return [*results[9:], None, None, None, dbias], [results[j:9:3] for j in range(3)]


def wide_layers(program: Program, states: Sequence[Sequence[jax.Array]]) -> dict[int, Layer]:
    """The layers that can advance in their backward pass, by their equation.

    `states` are the leaves of the weights and of both moments.
    """
    found = {}
    gradients = [program.source(name) for name in program.outputs[1:]]
    for j, e in enumerate(program.equations):
        if e.primitive is not backward_p or not e.params["want_w"]:
            continue
        x, r, c, b, g = e.inputs
        leaves = tuple(k for k in map(program.leaf, (r, c, b)) if k is not None)
        results = e.outputs[e.params["want_x"] :][:3]
        if [gradients[k] for k in leaves] != results:
            continue
        types = {state[k].dtype for state in states for k in leaves}
        params = {k: v for k, v in e.params.items() if k not in ("want_x", "want_w")}
        shapes = program.shapes[x], program.shapes[g]
        if len(types) == 1 and has_step(*shapes, types.pop(), **params):
            found[j] = Layer(e, leaves)
    return found


def advance(
    loss: Callable,
    arguments: Sequence,
    trees: tuple[Any, Any, Any],
    step: jax.Array,
    options: dict,
    advanced: Callable,
) -> tuple[Any, list[tuple]]:
    """The loss and, for every leaf of the weights, (w, m, v) after a step.

    Args:
        loss: of the weights and of `arguments`.
        trees: the weights and their moments.
        step: the rate and both bias corrections.
        options: b1, b2, eps and eps_root.
        advanced: the step of some leaves from their gradients: (g, ...), ((w, m, v), ...) and
            `step` to ((w, m, v), ...).
    """
    weights, structure = jax.tree.flatten(trees[0])
    moments = [structure.flatten_up_to(tree) for tree in trees[1:]]

    def value_and_gradient(*leaves):
        tree = jax.tree.unflatten(structure, leaves)
        value, gradient = jax.value_and_grad(loss)(tree, *arguments)
        return value, *structure.flatten_up_to(gradient)

    program = Program(jax.make_jaxpr(value_and_gradient)(*weights))
    layers = wide_layers(program, (weights, *moments))
    done: dict[int, tuple] = {}

    def replacement(layer: Layer) -> Callable:
        def run(*operands):
            arrays = [a[k] for a in (weights, *moments) for k in layer.leaves]
            results, new = layer.step(operands, arrays, step, options, advanced)
            done.update(zip(layer.leaves, map(tuple, new), strict=True))
            return results

        return run

    value, *gradients = program.run(weights, {j: replacement(s) for j, s in layers.items()})
    rest = [k for k in range(len(weights)) if k not in done]
    states = [tuple(a[k] for a in (weights, *moments)) for k in rest]
    done |= zip(rest, advanced([gradients[k] for k in rest], states, step), strict=True)
    return value, [done[k] for k in range(len(weights))]
