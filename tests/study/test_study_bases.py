"""Bases as an axis of a study: declared, counted, trained, stored."""

import json
import subprocess
import sys

import pytest

from kandle import UserError, bases, kernels
from kandle.store import RunSpec
from kandle.study._cost import DEFAULT
from kandle.study._declare import declare
from kandle.study._registry import draws_names
from kandle.study._trainer import train_batch

DECLARED = {
    "name": "families",
    "problems": ["f1"],
    "grids": [3, 5],
    "widths": [2],
    "depths": [1],
    "degrees": [2, 3],
    "steps": 2,
    "bases": ["bspline", {"name": "chebyshev", "degree": 4}, "rbf"],
    "schemes": ["glorot-fine", {"name": "data", "seeds": 1, "share": [0.5, 0.9]}],
}


def study(**changes):
    return declare({**DECLARED, **changes}, draws=draws_names())


def test_only_splines_multiply_with_grids_and_degrees():
    specs = study().specs()
    per_basis = {}
    for spec in specs:
        per_basis.setdefault(spec.basis, set()).add((spec.G, spec.degree))
    chebyshev, rbf = (basis for basis in per_basis if basis)
    assert per_basis[""] == {(3, 2), (3, 3), (5, 2), (5, 3)}
    assert per_basis[chebyshev] == {(4, 3)}  # G is the number of functions
    assert bases.from_dict(json.loads(rbf)) == bases.RBF(8)
    initializations = 5 + 2
    assert len(specs) == len(study()) == (4 + 2) * initializations


def test_a_run_on_splines_keeps_its_identity():
    spec = study(bases=["bspline"]).specs()[0]
    assert spec.basis == ""
    assert "basis" not in spec.to_dict()
    assert spec.identity == study().specs()[0].identity
    without = dict(DECLARED)
    del without["bases"]
    assert declare(without, draws=draws_names()).specs() == study(bases=["bspline"]).specs()


def test_runs_train_on_their_basis():
    specs = [spec for spec in study().specs() if "chebyshev" in spec.basis]
    for spec in specs:
        assert RunSpec.from_dict(spec.to_dict()) == spec
    outcomes = train_batch(specs[:1] + specs[-2:])
    assert [outcome.status for outcome in outcomes] == ["ok"] * 3
    assert {outcome.backend for outcome in outcomes} == {kernels.default_backend()}
    assert len({outcome.loss for outcome in outcomes}) == 3  # every initialization is its own


OTHERS = [
    bases.Chebyshev(4),
    bases.Chebyshev(1025),
    bases.Legendre(4),
    bases.Fourier(3),
    bases.RBF(8),
    bases.Knots((-1.0, 0.0, 0.5, 1.0), 3),
]


@pytest.mark.parametrize("basis", OTHERS, ids=lambda b: f"{type(b).__name__}-{b.n_basis}")
def test_only_bases_without_native_kernels_are_estimated_as_dense(basis):
    splines, other = (study(bases=[b]).specs()[0] for b in ("bspline", basis.to_dict()))
    factor = 1.0 if kernels.accelerates(basis) else DEFAULT.dense
    assert DEFAULT.rate(other) == factor * DEFAULT.rate(splines)
    assert DEFAULT.dense > 1
    double = other.replace(dtype="float64")
    assert DEFAULT.rate(double) == factor * DEFAULT.rate(splines.replace(dtype="float64"))


def test_planning_a_study_of_bases_does_not_start_jax():
    code = (
        "import sys; from kandle.study import plan\n"
        "from kandle.study._declare import declare\n"
        f"plan(declare({DECLARED!r}, draws=['independent'])).batches(2)\n"
        "print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["chebychev"], "basis 1: Unknown basis 'chebychev'. Did you mean 'chebyshev'"),
        (["rbf", {"name": "rbf", "centers": 1}], "basis 2: 'centers' of RBF must be"),
        ([{"name": "rbf", "speed": 1}], "basis 1: Unknown parameter of basis 'rbf': 'speed'"),
        ([{"name": "bspline", "grid": 5}], "'grid' of 'bspline' must be given by the keys 'grids'"),
        ([], "'bases'"),
        ([3], "'bases'"),
    ],
)
def test_refuses(given, message):
    with pytest.raises(UserError, match=message):
        study(bases=given)
