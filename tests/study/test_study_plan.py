"""Counts, scales, axes, batches and shards."""

import functools
import json
import subprocess
import sys

import numpy as np
import pytest

from kandle import UserError, study
from kandle.study import Axes, RunSpec, _calibrate
from kandle.study._batch import shape
from kandle.study._catalogue import facts, listed_problems, scheme_facts
from kandle.study._cost import DEFAULT, CostModel
from kandle.study._executor import Done

PAPER = {
    "functions": (126_240, 40_800, 2_400),
    "pdes": (56_808, 18_360, 1_080),
    "feynman": (600, 120, 120),
    "curves-functions": (400, 80, 80),
    "curves-pdes": (240, 48, 48),
    "ntk-functions": (20, 20, 20),
    "ntk-pdes": (12, 12, 12),
    "ntk-exponents": (162, 162, 2),
}


@functools.cache
def whole_plan(name):
    return study.plan(study.get(name), "paper")


@functools.cache
def whole_set(name):
    return frozenset(whole_plan(name).specs)


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_scale_is_the_paper(name):
    found = whole_plan(name)
    assert (found.runs, found.aggregated, found.final) == PAPER[name]
    assert len(study.get(name)) == found.runs
    assert len(whole_set(name)) == found.runs


@pytest.mark.parametrize("name", study.names())
@pytest.mark.parametrize("scale", ["smoke", "quick", "overnight"])
def test_a_scale_only_chooses_runs(name, scale):
    found = study.plan(study.get(name), scale)
    assert found.runs
    if scale == "smoke":
        assert all(spec.steps < 100 for spec in found.specs)
    else:
        lengths = {spec.steps for spec in whole_plan(name).specs}
        assert all(spec.steps in lengths for spec in found.specs)
    if scale == "overnight":
        assert set(found.specs) <= whole_set(name)
        assert {s.problem for s in found.specs} == {s.problem for s in whole_plan(name).specs}


@pytest.mark.parametrize("noisy", [False, True])
def test_a_machine_ten_times_slower_takes_ten_times_the_hours(monkeypatch, noisy):
    """In every part of the model; also where noise hides what a wide architecture takes more."""
    known = CostModel()
    slow = {"measured": lambda _, spec: 10 * known.step(spec), "noise": lambda *_: 0.02}
    monkeypatch.setattr(_calibrate, "_measured", slow["noise" if noisy else "measured"])
    for study_name in ("functions", "pdes"):
        specs = study.plan(study.get(study_name), "overnight").specs
        model = study.calibrate(specs)
        widest = _calibrate._extremes(specs)[1]
        if noisy:
            assert model.step(widest) == pytest.approx(0.02)
            factor = 0.02 / known.step(widest)
        else:
            factor = 10
        for scheme in ("baseline", "lecun-normalized"):
            spec = next(spec for spec in specs if spec.scheme == scheme)
            assert model.run(spec) == pytest.approx(factor * known.run(spec), rel=1e-6)


def test_a_step_is_measured_on_one_grid():
    """The model multiplies it by the number of grids."""

    class Machine:
        """Takes a millisecond per step of a model, on each of its grids."""

        def submit(self, batch):
            grids = [1 + len(json.loads(spec.refinements or "[]")) for spec in batch.specs]
            lengths = [spec.steps for spec in batch.specs]
            self.done = Done(batch, [], 1e-3 * float(np.dot(lengths, grids)))

        def wait(self, timeout):
            return [self.done]

    spec = RunSpec("own", "f1", "glorot", 5, 8, 2, 0, refinements="[2,4]")
    assert _calibrate._measured(Machine(), spec) == pytest.approx(1e-3)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_planning_is_light():
    code = (
        "import sys; from kandle import study; p = study.plan(study.get('functions'));"
        "p.batches(2); assert p.runs == 126240;"
        "assert not {'jax', 'pandas', 'matplotlib', 'ray', 'rich'} & set(sys.modules);"
        "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300_000  # kB


def test_runs_of_functions_have_no_rba_and_pdes_do():
    functions = study.plan(study.get("functions"), "smoke").specs
    assert {(s.rba, s.reference, s.dtype) for s in functions} == {("", "", "float32")}
    pdes = study.plan(study.get("pdes"), "overnight").specs
    found = {(s.problem, s.rba, s.reference) for s in pdes}
    assert found == {
        ("allen-cahn", "published", "dirichlet"),
        ("burgers", "published", ""),
        ("helmholtz", "published", ""),
    }


def test_checkpoints_span_training():
    (first, *_) = study.plan(study.get("ntk-functions")).specs
    assert first.checkpoints == "[0,500,1000,1500,2000]"
    (first, *_) = study.plan(study.get("ntk-pdes")).specs
    assert first.checkpoints == "[0,1000,2000,3000,4000,5000]"
    steps = {s.problem: s.checkpoints for s in study.plan(study.get("ntk-exponents")).specs}
    assert steps == {"f3": "[0,1000,2000]", "burgers": "[0,2500,5000]"}


def test_axes_narrow_and_widen():
    found = study.plan(
        study.get("functions"),
        axes=Axes(problems=("f3",), grids=(5,), widths=(2, 4, 8), depths=(1, 2)),
    )
    assert found.runs == 1578
    seeded = study.plan(study.get("functions"), axes=Axes(problems=("f1",), seeds=2, widths=(3,)))
    assert seeded.runs == 4 * 4 * 85 * 2
    assert {s.width for s in seeded.specs} == {3}
    paired = study.plan(study.get("feynman"), axes=Axes(alphas=(0.5,), betas=(1.0, 2.0)))
    assert {(s.alpha, s.beta) for s in paired.specs if s.scheme == "power-law"} == {
        (0.5, 1.0),
        (0.5, 2.0),
    }
    wider = study.plan(study.get("feynman"), axes=Axes(schemes=("glorot", "lecun-numerical")))
    assert wider.runs == 20 * 2 * 2 * 5


def test_axes_replace_one_coordinate_of_named_architectures():
    found = study.plan(study.get("feynman"), axes=Axes(widths=(4, 8)))
    assert {(s.G, s.width, s.depth) for s in found.specs} == {
        (5, 4, 2),
        (5, 8, 2),
        (20, 4, 3),
        (20, 8, 3),
    }


def test_power_law_by_name_alone_has_its_exponents():
    specs = [s for s in study.plan(study.get("feynman")).specs if s.scheme == "power-law"]
    assert {(s.alpha, s.beta) for s in specs} == {(0.25, 1.75)}
    assert specs[0].scheme_settings == {"alpha": 0.25, "beta": 1.75}


def test_schemes_are_asked_for_what_planning_needs():
    from kandle import init

    normalized = [name for name in init.SCHEMES if scheme_facts(name).normalized]
    assert normalized == ["lecun-normalized"]
    exponents = {name: scheme_facts(name).exponents for name in init.SCHEMES}
    assert exponents.pop("power-law") == {"alpha": 0.25, "beta": 1.75}
    assert not any(exponents.values())


def test_a_scheme_is_asked_what_it_needs():
    spec = RunSpec("s", "f1", "study_problem:Standardized", 5, 8, 2, 0)
    plain = spec.replace(scheme="glorot")
    assert shape(spec) != shape(plain)
    assert shape(spec) == shape(plain.replace(scheme="lecun-normalized"))
    assert shape(spec.replace(scheme="study_problem:Shrunk", settings='{"factor":0.5}')) == shape(
        plain
    )
    assert DEFAULT.rate(spec) == DEFAULT.normalized


def test_exponents_of_an_own_scheme_are_replaced_where_it_has_them():
    own = study.SchemeAxis("study_problem:Tilted"), study.SchemeAxis("study_problem:Shrunk")
    declared = study.Study("s", ("f1",), ((5, 8, 2),), own)
    specs = study.plan(declared, axes=Axes(alphas=(0.5, 1.0))).specs
    assert [(s.scheme, s.alpha, s.settings) for s in specs] == [
        ("study_problem:Tilted", 0.5, ""),
        ("study_problem:Tilted", 1.0, ""),
        ("study_problem:Shrunk", None, ""),
    ]


def test_the_catalogue_agrees_with_the_problems():
    from kandle import problems

    assert set(listed_problems()) <= set(problems.names())
    for name in listed_problems():
        problem, known = problems.get(name), facts(name)
        assert (known.kind, known.n_in, known.n_out) == (problem.kind, problem.n_in, problem.n_out)
        assert known.default_steps == problem.default_steps
        assert known.reference == getattr(problem, "reference_name", "")
        arrays = problem.arrays("float32")
        evaluated = [name for name in ("x", "collocation", "points") if name in arrays]
        assert known.points == sum(len(arrays[name]) for name in evaluated)


def test_batches_are_of_one_shape_and_hold_every_run_once():
    specs = study.plan(study.get("pdes"), "overnight").specs
    made = study.batches(specs, slots=2)
    held = [spec for batch in made for spec in batch.specs]
    assert len(held) == len(specs)
    assert set(held) == set(specs)
    assert all(len({shape(spec) for spec in batch.specs}) == 1 for batch in made)
    costs = [batch.cost for batch in made]
    assert costs == sorted(costs, reverse=True)
    assert made == study.batches(specs, slots=2)
    for batch in made:
        assert batch.cost < 300 or len(batch) == 1
        assert batch.cost == pytest.approx(sum(map(DEFAULT.run, batch.specs)))


def test_batches_of_a_group_differ_by_one_run_at_most():
    specs = [RunSpec("s", "f1", "glorot", 5, 8, 2, seed) for seed in range(100)]
    sizes = [len(batch) for batch in study.batches(specs, slots=50)]
    assert sum(sizes) == 100
    assert max(sizes) - min(sizes) <= 1


def test_halves_of_a_batch():
    specs = tuple(RunSpec("s", "f1", "glorot", 5, 8, 2, seed) for seed in range(5))
    first, second = study.Batch(specs, 10.0).halves()
    assert first.specs + second.specs == specs
    assert (len(first), first.cost + second.cost) == (3, pytest.approx(10.0))


@pytest.mark.parametrize("count", [1, 3, 7])
def test_shards_are_disjoint_complete_and_balanced(count):
    specs = study.plan(study.get("functions"), "overnight").specs
    parts = [study.shard(specs, i, count) for i in range(1, count + 1)]
    assert sorted(s.identity for part in parts for s in part) == sorted(s.identity for s in specs)
    costs = [sum(map(DEFAULT.run, part)) for part in parts]
    assert max(costs) < 1.1 * sum(costs) / count
    assert parts[0] == study.shard(specs, 1, count)


def test_a_shard_out_of_range():
    with pytest.raises(UserError, match="1 <= I <= N"):
        study.shard([], 4, 3)


def test_costs_follow_the_formula():
    spec = RunSpec("s", "f1", "glorot", 5, 8, 2, 0, steps=100)
    model = CostModel(
        overhead=1.0, function=2.0, pde=3.0, normalized=7.0, doubled=5.0, spectrum=10.0
    )
    units = (2 * 8 + 8 * 8 + 8) + 10 * (2 + 8 + 8)
    assert model.run(spec) == 100 * (1 + 2 * 4000 * units)
    assert model.run(spec.replace(dtype="float64")) == 100 * (1 + 10 * 4000 * units)
    assert model.run(spec.replace(scheme="lecun-normalized")) == 100 * (1 + 7 * 4000 * units)
    assert model.run(spec.replace(checkpoints="[0,100]")) == 120 * (1 + 2 * 4000 * units)
    assert model.step(spec.replace(problem="burgers")) == 1 + 3 * 4288 * units
