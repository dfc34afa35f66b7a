"""Short trainings whose results are known to the bit: record them, and compare with a record.

    python tests/train/recorded.py compare tests/train/recorded.json
    python tests/train/recorded.py record tests/train/recorded.json

`compare` lists the results that changed, and fails if there is one. On another kind of machine or
with other versions of the libraries bits differ: there it compares losses to rounding.

`record` trains everything four times. A result is "exact" if two trainings with one thread and one
with two threads agree in every bit. Its tolerance follows from a training without native kernels.

Only public names are used, so that the script runs on earlier and later versions, too. A persistent
cache (JAX_COMPILATION_CACHE_DIR) makes repetitions several times faster.
"""

import argparse
import dataclasses
import hashlib
import importlib.metadata
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from kandle import init, kernels, problems
from kandle.bases import RBF, Chebyshev, Fourier, Knots, Legendre
from kandle.paper import published_draws
from kandle.train import Architecture, Member, Optimizer, Result, train

# --- problems ------------------------------------------------------------------------------------

SQUARE = [(-1.0, 1.0), (-1.0, 1.0)]
STRIP = [(0.0, 1.0), (-1.0, 1.0)]


def few(x, y):
    return x * y + 0.5 * np.sin(3 * x)


FEW: Any = problems.Function(few, SQUARE, name="few", n_train=300, n_test=50, n_grid=20)


def _sine(t, x):
    return -np.sin(np.pi * x)


HEAT = problems.PDE(
    "recorded-heat",
    lambda x, d: d["t"] - 0.1 * d["x", "x"],
    STRIP,
    [
        problems.side("start", STRIP, axis=0, at=0.0, value=_sine, n=16),
        problems.side("left", STRIP, axis=1, at=-1.0, n=16),
        problems.side("right", STRIP, axis=1, at=1.0, n=16),
    ],
    inputs=("t", "x"),
    reference=lambda t, x: np.exp(-0.1 * np.pi**2 * t) * _sine(t, x),
    collocation=(16, 16),
    n_evaluation=(20, 20),
)

# Everything that only the general path can do, one equation after the other.
DIFFUSIVITY = dataclasses.replace(
    HEAT,
    name="recorded-diffusivity",
    residual=lambda x, d: d["t"] - d.coefficients["k"] * d["x", "x"],
    derivatives=None,
    first=None,
    second=None,
    conditions=[
        *HEAT.conditions,
        problems.side("end", STRIP, axis=0, at=1.0, value=lambda t, x: 0.37 * _sine(t, x), n=16),
    ],
    coefficients={"k": problems.Coefficient(0.3, bounds=(0.0, math.inf))},
)

RESAMPLED = dataclasses.replace(
    HEAT,
    name="recorded-resampled",
    collocation=problems.Points("sobol", 128),
    resample=problems.Resample(every=4),
)

TRANSFORMED = dataclasses.replace(
    HEAT,
    name="recorded-transformed",
    conditions=[],
    transform=lambda x, v: (
        -jnp.sin(jnp.pi * x[:, 1:]) + x[:, :1] * (1 - x[:, 1:]) * (1 + x[:, 1:]) * v
    ),
)

ADVECTION = problems.PDE(
    "recorded-advection",
    lambda x, d: d["t"] + 0.5 * d["x"],
    STRIP,
    [
        problems.side("start", STRIP, axis=0, at=0.0, value=_sine, n=16, weight=2.0),
        problems.periodic("ring", STRIP, axis=1, n=16),
    ],
    inputs=("t", "x"),
    collocation=(12, 12),
    n_evaluation=(10, 10),
)

DISPERSION = problems.PDE(
    "recorded-dispersion",
    lambda x, d: d["t"] + 0.1 * d["x", "x", "x"] + 0.01 * d["t", "x"],
    STRIP,
    [
        problems.side("start", STRIP, axis=0, at=0.0, value=_sine, n=16),
        problems.side("slope", STRIP, axis=1, at=-1.0, n=16, operator=lambda x, d: d["x"]),
    ],
    inputs=("t", "x"),
    collocation=(10, 10),
    n_evaluation=(10, 10),
)


def _still(t, x):
    return [_sine(t, x), 0 * x]


def _waves(x, d):
    u, v = d.outputs
    return jnp.stack([u["t"] - v["x"], v["t"] - u["x"]], axis=-1)


SYSTEM = problems.PDE(
    "recorded-system",
    _waves,
    STRIP,
    [
        problems.side("start", STRIP, axis=0, at=0.0, value=_still, n=16),
        problems.side("left", STRIP, axis=1, at=-1.0, value=[0.0, 0.0], n=16),
    ],
    inputs=("t", "x"),
    n_out=2,
    collocation=(10, 10),
    n_evaluation=(10, 10),
)

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)

DENSITY = problems.PDE(
    "recorded-density",
    lambda x, d: d["x", "x"] + x[:, :1] * d["x"] + d.value,
    [(-1.0, 1.0)],
    [problems.integral("mass", _NODES[:, None], _WEIGHTS, 1.0)],
    inputs=("x",),
    collocation=(40,),
    n_evaluation=(50,),
)

# --- runs ----------------------------------------------------------------------------------------

SMALL = Architecture(width=8, depth=2, grid=5)
DEEP = Architecture(width=16, depth=3, grid=20)
WIDE = Architecture(width=32, depth=2, grid=20)  # enough weights for the native Adam
TINY = Architecture(width=4, depth=1, grid=5)


@dataclasses.dataclass(frozen=True)
class Run:
    """One call of `train`. A call with several members has several results."""

    name: str
    problem: Any
    architecture: Architecture
    members: Sequence[tuple[Any, int]] = (("glorot", 0),)
    steps: int | None = 10
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    checkpoints: Sequence[int] = ()
    prepare: Callable[[], Mapping[str, Any]] | None = None  # options that take computation


def _least_squares(**arguments: Any) -> dict[str, Any]:
    """Options of `train`, with a short warm-up unless another is given."""
    arguments = {"warmup": 20, **arguments}
    optimizer = Optimizer("levenberg-marquardt", arguments=arguments)
    return {"optimizer": optimizer, "dtype": "float64"}


def _by_optimizer(name: str, *given: Any) -> dict[str, Any]:
    return {"optimizer": Optimizer(name, *given)}


def _on_basis(basis: Any) -> Architecture:
    return Architecture(width=8, depth=2, basis=basis)


def _continued() -> dict[str, Any]:
    [before] = train(FEW, SMALL, [("glorot", 3)], steps=5, keep_weights=True)
    return {"initial": [before.model]}


def _published() -> dict[str, Any]:
    return {"sampler": published_draws(problems.get("f1")).sampler}


EVERY_SCHEME = [(name, 0) for name in init.SCHEMES]
FIVE = [("glorot", seed) for seed in range(5)]


def _schemes() -> Iterator[Run]:
    for problem in ("f1", "f3", "I.12.11", "I.6.2b"):
        yield Run(f"schemes/{problem}/small", problem, SMALL, EVERY_SCHEME)
        yield Run(f"schemes/{problem}/deep", problem, DEEP, EVERY_SCHEME, steps=5)


def _attention() -> Iterator[Run]:
    for problem in ("allen-cahn", "burgers"):
        for rba in ("published", "text", "off"):
            name, options = f"attention/{problem}/{rba}", {"rba": rba}
            yield Run(f"{name}/small", problem, SMALL, options=options)
            yield Run(f"{name}/deep", problem, DEEP, steps=5, options=options)
    mixed = [*FIVE[:3], ("lecun-normalized", 3), ("power-law", 4)]
    yield Run("attention/allen-cahn/batch-of-5", "allen-cahn", SMALL, mixed)
    yield Run("attention/helmholtz", "helmholtz", SMALL, [("baseline", 1)], steps=5)


def _own_pdes() -> Iterator[Run]:
    yield Run("pde/heat", HEAT, SMALL)
    yield Run("pde/heat/text", HEAT, SMALL, options={"rba": "text"})
    yield Run("pde/heat/off/batch-of-5", HEAT, SMALL, FIVE, options={"rba": "off"})
    yield Run("pde/heat/normalized", HEAT, SMALL, [("lecun-normalized", 0)])
    yield Run("pde/heat/float64", HEAT, SMALL, options={"dtype": "float64"})
    yield Run("pde/heat/dense", HEAT, SMALL, options={"backend": "dense"})
    yield Run("pde/coefficient", DIFFUSIVITY, SMALL, FIVE[:2])
    yield Run("pde/resampled", RESAMPLED, SMALL)
    yield Run("pde/transformed", TRANSFORMED, SMALL)
    yield Run("pde/periodic", ADVECTION, SMALL)
    yield Run("pde/third-order", DISPERSION, SMALL)
    yield Run("pde/system", SYSTEM, SMALL)
    yield Run("pde/integral", DENSITY, SMALL)


def _squares() -> Iterator[Run]:
    plain, kernel = _least_squares(), _least_squares(form="kernel")
    batches = _least_squares(form="kernel", batch=64)
    yield Run("squares/normal/f3", "f3", SMALL, steps=5, options=plain)
    yield Run("squares/normal", FEW, SMALL, FIVE[:2], options=plain)
    yield Run("squares/normal/normalized", FEW, SMALL, [("lecun-normalized", 0)], 5, plain)
    yield Run("squares/normal/single", FEW, SMALL, steps=5, options=plain | {"dtype": "float32"})
    without = _least_squares(warmup=0, acceleration=False)
    yield Run("squares/normal/no-acceleration", FEW, TINY, options=without)
    restarts = _least_squares(damping=1e11, restarts=2)
    yield Run("squares/normal/restarts", FEW, TINY, steps=5, options=restarts)
    stops = _least_squares(step_tolerance=0.5)
    yield Run("squares/normal/converged", FEW, TINY, options=stops)
    yield Run("squares/normal/heat", HEAT, SMALL, steps=5, options=plain)
    yield Run("squares/normal/heat/text", HEAT, SMALL, steps=5, options=plain | {"rba": "text"})
    yield Run("squares/normal/burgers", "burgers", SMALL, steps=3, options=plain)
    yield Run("squares/kernel", FEW, SMALL, FIVE[:2], options=kernel)
    yield Run("squares/kernel/batches", FEW, SMALL, options=batches)
    restarts = _least_squares(form="kernel", damping=1e11, restarts=2)
    yield Run("squares/kernel/restarts", FEW, TINY, steps=5, options=restarts)
    yield Run("squares/kernel/heat", HEAT, SMALL, steps=5, options=kernel)
    yield Run("squares/kernel/heat/batches", HEAT, SMALL, options=batches | {"rba": "text"})
    yield Run("squares/rows/coefficient", DIFFUSIVITY, TINY, FIVE[:2], steps=5, options=plain)
    text = plain | {"rba": "text"}
    yield Run("squares/rows/resampled", RESAMPLED, TINY, steps=6, options=text)
    yield Run("squares/rows/periodic", ADVECTION, TINY, steps=5, options=plain)
    yield Run("squares/rows/integral", DENSITY, TINY, steps=5, options=plain)


def _refined() -> Iterator[Run]:
    grids, plain = {"grids": (5, 10)}, _least_squares()
    yield Run("refined/adam", FEW, SMALL, FIVE[:2], options=grids)
    yield Run("refined/adam/normalized", FEW, SMALL, [("lecun-normalized", 0)], options=grids)
    yield Run("refined/adam/three-grids", FEW, TINY, options={"grids": (5, 8, 20)})
    yield Run("refined/adam/heat", HEAT, SMALL, options=grids, checkpoints=(0, 10, 15))
    yield Run("refined/normal", FEW, SMALL, steps=4, options=plain | grids, checkpoints=(2, 4, 8))
    kernel = _least_squares(form="kernel")
    yield Run("refined/kernel", FEW, TINY, steps=4, options=kernel | grids)
    yield Run("refined/rows", DIFFUSIVITY, TINY, steps=4, options=plain | grids)
    yield Run("recipe/accurate", FEW, TINY, steps=3, options={"recipe": "accurate"})
    yield Run("recipe/fast", FEW, TINY, steps=None, options={"recipe": "fast"})
    yield Run("recipe/paper", FEW, TINY, options={"recipe": "paper"})


def _optimizers() -> Iterator[Run]:
    cosine = {"name": "cosine_decay", "decay_steps": 10}
    exponential = {"name": "exponential", "factor": 0.9, "every": 3}
    decay = Optimizer("adamw", 1e-2, arguments={"weight_decay": 1e-2})
    yield Run("optimizer/adam-cosine", FEW, SMALL, options=_by_optimizer("adam", 1e-2, cosine))
    faster = _by_optimizer("adam", 1e-2, exponential)
    yield Run("optimizer/adam-exponential", FEW, SMALL, options=faster)
    yield Run("optimizer/adamw", FEW, SMALL, options={"optimizer": decay})
    yield Run("optimizer/sgd", FEW, SMALL, options=_by_optimizer("sgd", 1e-2))
    yield Run("optimizer/lbfgs", FEW, SMALL, options=_by_optimizer("lbfgs"))
    yield Run("optimizer/lbfgs/heat", HEAT, TINY, steps=5, options=_by_optimizer("lbfgs"))
    yield Run("optimizer/muon", FEW, SMALL, options=_by_optimizer("muon", 1e-2))
    free = _by_optimizer("schedule_free_adamw", 1e-2)
    yield Run("optimizer/schedule-free", FEW, SMALL, FIVE[:2], options=free)
    yield Run("optimizer/prodigy", FEW, SMALL, options=_by_optimizer("prodigy", 1.0))
    yield Run("optimizer/diverged", FEW, SMALL, options=_by_optimizer("sgd", 1e9))


def _sizes() -> Iterator[Run]:
    yield Run("wide", FEW, WIDE, FIVE[:2])
    cosine = _by_optimizer("adam", 1e-2, {"name": "cosine_decay", "decay_steps": 10})
    yield Run("wide/cosine", FEW, WIDE, options=cosine)
    yield Run("wide/dense", FEW, WIDE, steps=5, options={"backend": "dense"})
    yield Run("wide/heat", HEAT, WIDE, steps=5, checkpoints=(3,))
    yield Run("wide/coefficient", DIFFUSIVITY, WIDE, steps=5)
    yield Run("wide/refined", FEW, WIDE, steps=5, options={"grids": (20, 40)})
    yield Run("batch-of-1", "f1", SMALL, [("power-law", 4)])
    yield Run("batch-of-5", "f1", SMALL, [("power-law", seed) for seed in range(5)])
    mixed = [("baseline", 0), ("lecun-normalized", 1), (init.PowerLaw(1.0, 0.5), 2), ("quiet", 3)]
    yield Run("batch-of-5/mixed", FEW, SMALL, [*mixed, ("lecun-normalized", 4)], checkpoints=(0, 5))
    yield Run("long", FEW, TINY, steps=600)
    yield Run("float64", FEW, SMALL, options={"dtype": "float64"})
    yield Run("dense", FEW, SMALL, FIVE[:2], options={"backend": "dense"})
    yield Run("reference", FEW, TINY, steps=5, options={"backend": "reference"})
    yield Run("continued", FEW, SMALL, prepare=_continued)
    yield Run("published-draws", "f1", SMALL, FIVE[:2], prepare=_published)


def _bases() -> Iterator[Run]:
    yield Run("basis/chebyshev", FEW, _on_basis(Chebyshev(6)), FIVE[:2])
    yield Run("basis/chebyshev/heat", HEAT, _on_basis(Chebyshev(6)), steps=5)
    yield Run("basis/legendre", FEW, _on_basis(Legendre(6)))
    yield Run("basis/fourier", FEW, _on_basis(Fourier(3)))
    yield Run("basis/rbf", FEW, _on_basis(RBF(8)))
    yield Run("basis/knots", FEW, Architecture(4, 1, basis=Knots((-1.0, -0.3, 0.1, 0.4, 1.0))))
    yield Run("basis/degree-2", FEW, Architecture(width=8, depth=2, grid=5, degree=2))
    bare = Architecture(width=8, depth=2, grid=5, residual=None, bias=False)
    yield Run("basis/without-residual", FEW, bare)
    yield Run("basis/tanh", FEW, Architecture(width=8, depth=1, grid=5, residual="tanh"))


def runs() -> dict[str, Run]:
    """All runs by name."""
    makers = (_schemes, _attention, _own_pdes, _squares, _refined, _optimizers, _sizes, _bases)
    every = [run for make in makers for run in make()]
    by_name = {run.name: run for run in every}
    assert len(by_name) == len(every)
    return by_name


# Runs of every kind that compile fast.
QUICK = (
    "attention/allen-cahn/published/small",
    "attention/burgers/text/small",
    "pde/heat",
    "pde/coefficient",
    "pde/resampled",
    "squares/normal/restarts",
    "squares/normal/converged",
    "squares/kernel/restarts",
    "refined/adam/heat",
    "recipe/fast",
    "optimizer/schedule-free",
    "wide",
    "batch-of-1",
    "batch-of-5/mixed",
    "long",
    "float64",
    "continued",
    "basis/rbf",
)


# --- results -------------------------------------------------------------------------------------


def _hash(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        given = np.asarray(array)
        digest.update(f"{given.dtype} {given.shape}".encode())
        digest.update(given.tobytes())
    return digest.hexdigest()[:16]


def _weights(model: Any) -> list[Any]:
    """The arrays of a network in a fixed order, and the domains that its layers ended with."""
    arrays = []
    for layer in model.layers:
        named = (layer.r, layer.c, layer.b, layer.bias, layer.mean, layer.variance)
        arrays += [array for array in named if array is not None]
        arrays.append(np.asarray(layer.basis.domain))
    return arrays


def entry(result: Result, checkpoints: Sequence[Any] = ()) -> dict[str, Any]:
    """What is recorded of one result: numbers as hexadecimal text, arrays as hashes."""
    recorded: dict[str, Any] = {
        "dtype": result.curve_loss.dtype.name,
        "status": result.status,
        "loss": result.loss.hex(),
        "l2": result.l2.hex(),
        "test_mse": result.test_mse.hex(),
        "last": float(result.curve_loss[-1]).hex(),
        "curve": _hash(result.curve_steps, result.curve_loss),
        "weights": _hash(*_weights(result.model)),
    }
    if result.coefficients:
        recorded["coefficients"] = {k: c.hex() for k, c in result.coefficients.items()}
        recorded["curve_coefficients"] = _hash(*result.curve_coefficients.values())
    if "outside" in result.extra:
        recorded["outside"] = _hash(*result.extra["outside"])
    if checkpoints:
        seen = []
        for step, checkpoint in checkpoints:
            seen += [np.asarray(step), *_weights(checkpoint.model), *checkpoint.rba.values()]
        recorded["checkpoints"] = _hash(*seen)
    return recorded


def results_of(run: Run) -> dict[str, dict[str, Any]]:
    """Train, and describe each result under the name of its run and member."""
    options = dict(run.options)
    if run.prepare is not None:
        options |= run.prepare()
    seen: dict[int, list[Any]] = {}

    def on_checkpoint(step, models):
        for checkpoint in models:
            seen.setdefault(checkpoint.index, []).append((step, checkpoint))

    if run.checkpoints:
        options |= {"checkpoints": run.checkpoints, "on_checkpoint": on_checkpoint}
    members = [Member(*member) for member in run.members]
    results = train(
        run.problem,
        run.architecture,
        members,
        steps=run.steps,
        keep_weights=True,
        progress=lambda done, total, losses: None,
        **options,
    )
    described = {}
    for i, (member, result) in enumerate(zip(members, results, strict=True)):
        several = f"/{init.get(member.scheme).name}-{member.seed}" if len(members) > 1 else ""
        described[run.name + several] = entry(result, seen.get(i, ()))
    return described


def all_results(names: Iterable[str], timed: bool = False) -> dict[str, dict[str, Any]]:
    """The results of the runs of these names; an error is a result as well."""
    every, described = runs(), {}
    for name in names:
        began = time.process_time()
        try:
            described |= results_of(every[name])
        except Exception as error:
            described[name] = {"error": f"{type(error).__name__}: {error}"}
            traceback.print_exc()
        if timed:
            print(f"{time.process_time() - began:6.1f} s  {name}", file=sys.stderr, flush=True)
    return described


# --- comparison ----------------------------------------------------------------------------------

# Sums in BLAS depend on the number of threads.
ONE_THREAD = {
    "PJRT_NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def machine() -> dict[str, str]:
    """What bits depend on beside the code: backend, processor and versions."""
    model, flags = "", ""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        label, _, value = line.partition(":")
        if label.strip() == "model name":
            model = value.strip()
        if label.strip() in ("flags", "Features"):
            flags = value.strip()
    vector = [f for f in sorted(flags.split()) if f.startswith(("avx", "fma", "asimd", "sve"))]
    packages = ("jax", "jaxlib", "numpy", "scipy", "optax")
    return {
        "backend": kernels.default_backend(),
        "processor": model,
        "instructions": " ".join(vector),
        **{package: importlib.metadata.version(package) for package in packages},
    }


def in_process(*options: str, **environment: str) -> dict[str, Any]:
    """The machine and the results of the runs that the options select, from another process.

    It has one thread unless the environment says otherwise.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        command = [sys.executable, __file__, "run", str(file), *options]
        subprocess.run(command, env={**os.environ, **ONE_THREAD, **environment}, check=True)
        return json.loads(file.read_text())


def relative(old: str, new: str) -> float:
    """The relative difference of two numbers in hexadecimal text; two NaN are equal."""
    a, b = float.fromhex(old), float.fromhex(new)
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    difference = abs(a - b) / abs(a) if a else math.inf
    return difference if math.isfinite(difference) else math.inf


def differences(old: Mapping[str, Any], new: Mapping[str, Any], to_the_bit: bool) -> list[str]:
    """The parts of a result that differ, in a bit or by more than the tolerance of the record."""
    if "error" in old or "error" in new:
        return [] if old.get("error") == new.get("error") else ["error"]
    if to_the_bit and old["exact"]:
        names = dict.fromkeys([*old, *new])
        return [name for name in names if name not in SETTINGS and old.get(name) != new.get(name)]
    changed = [] if old["status"] == new["status"] else ["status"]
    if relative(old["loss"], new["loss"]) > old["rtol"]:
        changed.append("loss")
    return changed


def compare(file: Path, *options: str) -> int:
    """Train again, and print which results differ from the record; their number."""
    record, here = json.loads(file.read_text()), in_process(*options)
    other = [name for name, value in record["machine"].items() if here["machine"][name] != value]
    for name in other:
        print(f"other {name}: {record['machine'][name]!r} recorded, {here['machine'][name]!r} here")
    n_changed = 0
    for name, new in here["results"].items():
        old = record["results"].get(name)
        if old is None:
            n_changed += 1
            print(f"{name}: not in the record")
            continue
        changed = differences(old, new, to_the_bit=not other)
        if not changed:
            continue
        n_changed += 1
        if "error" in changed:
            print(f"{name}: {new.get('error', 'no error any more')}")
            continue
        before, after = float.fromhex(old["loss"]), float.fromhex(new["loss"])
        print(
            f"{name}: {', '.join(changed)} changed; loss {before:.9g} -> {after:.9g}, "
            f"relative difference {relative(old['loss'], new['loss']):.2g}"
        )
    how = "to rounding" if other else "to the bit"
    print(f"{len(here['results'])} results compared {how}: {n_changed} differ")
    return n_changed


# --- recording -----------------------------------------------------------------------------------

# What the record says of a result beside its values.
SETTINGS = {"exact", "rtol"}

# Between trainings on other machines losses may always differ by this much.
FLOOR = {"float32": 1e-5, "float64": 1e-8}


def record(file: Path, *options: str) -> None:
    """Train everything in four processes, and write down what they agree on."""
    first, second = in_process(*options), in_process()
    threads = in_process(PJRT_NPROC="2")["results"]
    plain = in_process(KANDLE_DISABLE_NATIVE="1")["results"]
    results = {}
    for name, described in first["results"].items():
        exact = described == second["results"][name] == threads[name]
        # Another rounding shows how fast differences grow; tenfold, as others may grow faster.
        others = (threads[name], plain[name])
        changes = [relative(described["loss"], other["loss"]) for other in others]
        rtol = 10 * max(FLOOR[described["dtype"]], *changes)
        results[name] = {"exact": exact, "rtol": float(f"{rtol:.1g}"), **described}
    # One line per result keeps differences between records readable.
    lines = [f"{json.dumps(name)}: {json.dumps(result)}" for name, result in results.items()]
    head = json.dumps(first["machine"], indent=1)
    body = ",\n".join(lines)
    file.write_text(f'{{"machine": {head},\n"results": {{\n{body}\n}}}}\n')
    unstable = [name for name, result in results.items() if not result["exact"]]
    print(f"{len(results)} results recorded; not exact: {', '.join(unstable) or 'none'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare", "run"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="runs with this text in their name")
    parser.add_argument("--quick", action="store_true", help="a selection that takes seconds")
    parser.add_argument(
        "--timed", action="store_true", help="print the time of the processor per run"
    )
    given = parser.parse_args()
    flags = [f"--{name}" for name in ("quick", "timed") if getattr(given, name)]
    options = [*flags, "--only", given.only]
    if given.action == "compare":
        return int(compare(given.file, *options) > 0)
    if given.action == "record":
        record(given.file, *options)
        return 0
    names = [name for name in (QUICK if given.quick else runs()) if given.only in name]
    results = all_results(names, given.timed)
    given.file.write_text(json.dumps({"machine": machine(), "results": results}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
