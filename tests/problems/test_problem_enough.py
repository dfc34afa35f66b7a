"""A warning names a problem with too few conditions, and none comes where this is not known."""

import importlib.util
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from kandle import problems
from kandle.train import Architecture, train

BOX = [(0, 1), (-3, 3)]
EXAMPLES = Path(__file__).parents[2] / "examples" / "pdes"


def slope(axis):
    return lambda x, d: d[axis]


def side(name, axis, at, box=BOX, **options):
    return problems.side(name, box, axis=axis, at=at, n=5, **options)


START = side("start", 0, 0)
VELOCITY = side("velocity", 0, 0, operator=slope(0))
LEFT, RIGHT = side("left", 1, -3), side("right", 1, 3)
FLUX = side("flux", 1, -3, operator=slope(1))
RING = problems.periodic("ring", BOX, axis=1, n=5)
BOUNDARY = problems.Condition("boundary", np.concatenate([START.points, LEFT.points, RIGHT.points]))


def heat(x, d):
    return d[0] - d[1, 1]


def wave(x, d):
    return d[0, 0] - d[1, 1]


def transport(x, d):
    return d[0] + d[1]


def kdv(x, d):
    return d[0] + d.value * d[1] + d[1, 1, 1]


def beam(x, d):
    return d[0, 0] + d[1, 1, 1, 1]


def flow(x, d):
    """Two velocities with viscosity, and a pressure without."""
    u, v, p = d.outputs
    return jnp.stack([u[0] - u[1, 1] + p[1], v[0] - v[1, 1], u[1] + v.value + p.value], axis=-1)


def pose(residual, conditions, inputs=("t", "x"), domain=BOX, **options):
    return problems.PDE("it", residual, domain, conditions, inputs=inputs, **options)


def messages(problem):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem.warn_if_underdetermined()
    return [str(one.message) for one in caught]


def on_first_outputs(at, axis=1, n=2):
    return side(f"wall {axis} {at}", axis, at, operator=lambda x, d: d.value[:, :n])


def pinned_at_the_ends(x, v):
    return (x[..., 1:] ** 2 - 9) * v


ENOUGH = {
    "heat": pose(heat, [START, LEFT, RIGHT]),
    "one condition on three sides": pose(heat, [BOUNDARY]),
    "mixed Dirichlet and Neumann": pose(heat, [START, FLUX, RIGHT]),
    "periodic": pose(heat, [START, RING]),
    "sideways heat, Cauchy data": pose(heat, [START, LEFT, FLUX]),
    "backward in time": pose(heat, [side("end", 0, 1), LEFT, RIGHT]),
    "wave": pose(wave, [START, VELOCITY, LEFT, RIGHT]),
    "wave without names": pose(wave, [START, VELOCITY, LEFT, RIGHT], ()),
    "heat without names, no start": pose(heat, [LEFT, RIGHT], ()),
    "transport, inflow only": pose(transport, [START, LEFT]),
    "transport, outflow only": pose(lambda x, d: d[0] + x[:, 1:] * d[1], [START]),
    "kdv": pose(kdv, [START, LEFT, RIGHT, side("flux", 1, 3, operator=slope(1))]),
    "clamped beam": pose(
        beam,
        [
            *(START, VELOCITY, LEFT, FLUX, RIGHT),
            side("flux at the right", 1, 3, operator=slope(1)),
        ],
    ),
    "fixed ends by the transform": pose(
        wave, [START, VELOCITY], transform=pinned_at_the_ends
    ).scaled(),
    "fixed start by the transform": pose(
        wave, [LEFT, RIGHT], transform=lambda x, v: jnp.sin(x[..., 1:]) + x[..., :1] ** 2 * v
    ),
    "everything by the transform": pose(
        heat, [], transform=lambda x, v: x[..., :1] * pinned_at_the_ends(x, v)
    ),
    "sensors inside": pose(heat, [START, problems.Condition("sensors", [[0.5, 0.0]])]),
    "an integral": pose(
        heat, [START, LEFT, problems.integral("mass", [[1, -1], [1, 1]], [0.5, 0.5])]
    ),
    "own geometry": pose(wave, [START, VELOCITY], inside=lambda t, x: x**2 < 1 + t),
    "own points": pose(heat, [START], collocation=lambda: np.zeros((7, 2))),
    "an axis of symmetry": pose(
        lambda x, d: d[0, 0] + d[0] / x[:, :1] + d[1, 1],
        [side("outside", 0, 1), LEFT, RIGHT],
        ("r", "z"),
    ),
    "an axis of symmetry, scaled": pose(
        lambda x, d: d[0, 0] + d[0] / x[:, :1] + d[1, 1],
        [side("outside", 0, 1), LEFT, RIGHT],
        ("r", "z"),
    ).scaled(),
    "degenerate at S = 0": pose(
        lambda x, d: d["t"] + x[:, 1:] ** 2 * d["S", "S"] + x[:, 1:] * d["S"],
        [side("end", 0, 1, box=[(0, 1), (0, 9)]), side("far", 1, 9, box=[(0, 1), (0, 9)])],
        ("t", "S"),
        [(0, 1), (0, 9)],
    ),
    "an oscillator": pose(
        lambda t, d: d["t", "t"] + d.value,
        [
            problems.Condition("position", [[0.0]], 1.0),
            problems.Condition("velocity", [[0.0]], 0.0, operator=slope(0)),
        ],
        ("t",),
        [(0, 9)],
    ),
    "a system with algebraic outputs": pose(
        lambda t, d: jnp.stack(
            [d.outputs[0][0, 0] - d.outputs[1].value, d.outputs[1].value - 1, d.outputs[2].value],
            axis=-1,
        ),
        [
            problems.Condition("position", [[0.0]], operator=lambda t, d: d.value[:, :1]),
            problems.Condition("velocity", [[0.0]], operator=lambda t, d: d[0][:, :1]),
        ],
        ("t",),
        [(0, 1)],
        n_out=3,
    ),
    "walls on velocities alone": pose(
        flow, [on_first_outputs(0, axis=0), on_first_outputs(-3), on_first_outputs(3)], n_out=3
    ),
}

TOO_FEW = {
    "no right side": (
        pose(heat, [START, LEFT]),
        "PDE 'it' is of order 2 in 'x', but has 1 condition at the ends of 'x' ('left'), and none "
        "at x = 3: its solution is not unique.",
    ),
    "no right side, scaled": (
        pose(heat, [START, LEFT]).scaled(),
        "PDE 'it-scaled' is of order 2 in 'x', but has 1 condition at the ends of 'x' ('left'), "
        "and none at x = 3: its solution is not unique.",
    ),
    "no sides": (
        pose(heat, [START]),
        "PDE 'it' is of order 2 in 'x', but has no conditions at the ends of 'x': its solution is "
        "not unique.",
    ),
    "no sides, without names": (
        pose(heat, [START], ()),
        "PDE 'it' is of order 2 in input 1, but has no conditions at the ends of input 1: its "
        "solution is not unique.",
    ),
    "two conditions on u on one side": (
        pose(heat, [START, LEFT, side("again", 1, -3, weight=2.0)]),
        "('left', 'again'), and none at x = 3",
    ),
    "no velocity": (
        pose(wave, [START, LEFT, RIGHT]),
        "PDE 'it' is of order 2 in 't', but has 1 condition at the ends of 't' ('start'): its "
        "solution is not unique.",
    ),
    "no velocity, start by the transform": (
        pose(wave, [LEFT, RIGHT], transform=lambda x, v: jnp.sin(x[..., 1:]) + x[..., :1] * v),
        "order 2 in 't', but has 1 condition at the ends of 't' (the transform)",
    ),
    "no start": (
        pose(heat, [LEFT, RIGHT]),
        "order 1 in 't', but has no conditions at the ends of 't'",
    ),
    "one end by the transform": (
        pose(heat, [START], transform=lambda x, v: (x[..., 1:] - 3) * v),
        "but has 1 condition at the ends of 'x' (the transform), and none at x = -3",
    ),
    "a transform that only scales": (
        pose(heat, [START, LEFT], transform=lambda x, v: 100 * v),
        "but has 1 condition at the ends of 'x' ('left')",
    ),
    "periodic without slope": (
        pose(heat, [START, problems.periodic("u", BOX, axis=1, operator=lambda x, d: d.value)]),
        "order 2 in 'x', but has 1 condition at the ends of 'x' ('u'): its",
    ),
    "kdv with two": (
        pose(kdv, [START, LEFT, RIGHT]),
        "order 3 in 'x', but has 2 conditions at the ends of 'x' ('left', 'right'): its",
    ),
    "far end of a degenerate equation": (
        pose(
            lambda x, d: d["t"] + x[:, 1:] ** 2 * d["S", "S"],
            [side("end", 0, 1, box=[(0, 1), (0, 9)])],
            ("t", "S"),
            [(0, 1), (0, 9)],
        ),
        "order 2 in 'S', but has no conditions at the ends of 'S'",
    ),
    "no outlet": (
        pose(flow, [on_first_outputs(0, axis=0), on_first_outputs(-3)], n_out=3),
        "('wall 1 -3'), and none at x = 3",
    ),
}


@pytest.mark.parametrize("case", ENOUGH)
def test_problems_with_enough_conditions_and_unclear_ones_pass(case):
    assert messages(ENOUGH[case]) == []


@pytest.mark.parametrize("case", TOO_FEW)
def test_too_few_conditions_are_named(case):
    problem, message = TOO_FEW[case]
    [found] = messages(problem)
    assert message in found


@pytest.mark.parametrize("name", ["allen-cahn", "burgers", "helmholtz"])
def test_built_in_problems_have_enough_conditions(name):
    assert messages(problems.get(name)) == []
    assert messages(problems.get(name).scaled()) == []


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_have_enough_conditions(file):
    spec = importlib.util.spec_from_file_location(f"example_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    posed = [one for one in vars(module).values() if isinstance(one, problems.PDE)]
    assert [messages(one) for one in posed] == [[]]


def test_the_warning_comes_before_training():
    with pytest.warns(UserWarning, match="none at x = 3: its solution is not unique"):
        train(pose(heat, [START, LEFT]), Architecture(2, 1, 3), [("glorot", 0)], steps=2)
