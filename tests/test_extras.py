"""The core works with its own dependencies alone, and the rest says which extra it needs."""

import pickle
import subprocess
import sys

import pytest

import kandle

OPTIONAL = (
    *("pandas", "pyarrow", "matplotlib", "rich", "plotly", "sklearn"),
    *("torch", "kan", "jaxkan", "flax", "ray", "onnx"),
)

# As if the packages were not installed, whatever tries to import them.
BLOCK = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""

CORE = """
import jax, jax.numpy as jnp, optax, kandle
from kandle import KAN, bases, init

x = jax.random.uniform(jax.random.key(1), (32, 2), minval=-1.0)
y = jnp.sin(3 * x[:, :1]) * x[:, 1:]
model = KAN([2, 3, 1], grid=5, init=init.Glorot(), key=jax.random.key(0))
optimizer = optax.adam(1e-2)
state = optimizer.init(model)
loss = lambda model: jnp.mean((model(x) - y) ** 2)
before = loss(model)

@jax.jit
def step(model, state):
    updates, state = optimizer.update(jax.grad(loss)(model), state)
    return optax.apply_updates(model, updates), state

for _ in range(20):
    model, state = step(model, state)
assert loss(model) < 0.8 * before

kandle.save(model, "model.safetensors")
assert jnp.array_equal(kandle.load("model.safetensors")(x), model(x))
KAN([2, 3, 1], basis=bases.Chebyshev(4), key=jax.random.key(0))(x)
model.edges(x), model.prune(x, keep=5), model.refine(grid=10), model.derivatives(x, first=(0,))

import numpy as np
from kandle.train import Architecture, train
small = kandle.problems.Function(
    lambda x, y: x * np.sin(y), [(-1, 1)] * 2, n_train=64, n_test=8, n_grid=9, name="small"
)
[result] = train(small, Architecture(width=2, depth=1, grid=5), [("glorot", 0)], steps=2)
assert result.status == "ok"
kandle.ntk, kandle.store, kandle.study, kandle.tabular, kandle.tune
kandle.export.export(model, "model.c"), kandle.export.export(model, "model.py")
print("done")
"""

USES = [
    ("kandle.plot(model)", "plot"),
    ("kandle.export.export(model, 'model.onnx')", "onnx"),
    ("kandle.tabular.read_frame('data.csv')", "table"),
    ("kandle.tabular.ParquetRows('data.parquet', ['y'])", "table"),
    ("kandle.analysis", "study"),
    ("kandle.report", "study"),
    ("kandle.paper.table", "study"),
    ("kandle.store.Store.open('runs', 'w').frame()", "study"),
    ("kandle.study.RayExecutor()", "ray"),
    ("kandle.KANRegressor", "sklearn"),
    ("kandle.torch", "torch"),
    ("kandle.jaxkan", "jaxkan"),
]


def run_blocked(code, folder, environment=None):
    command = [sys.executable, "-c", BLOCK + code]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_core_needs_no_extra(tmp_path, quickly_compiling):
    assert run_blocked(CORE, tmp_path, quickly_compiling).strip() == "done"


def test_every_use_names_its_extra(tmp_path):
    attempts = "".join(
        f"try:\n    {use}\n    print('no error')\n"
        f"except ImportError as error:\n    print(type(error).__name__, error)\n"
        for use, _ in USES
    )
    setup = "import jax, kandle\nmodel = kandle.KAN([1, 1], key=jax.random.key(0))\n"
    (tmp_path / "data.csv").write_text("x,y\n1,2\n")
    lines = run_blocked(setup + attempts, tmp_path).splitlines()
    for (use, extra), line in zip(USES, lines, strict=True):
        assert line.startswith("MissingExtra"), (use, line)
        assert line.endswith(f"pip install 'kandle[{extra}]'"), (use, line)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["fit", "data.csv", "--target", "y", "--out", "model.safetensors"], "table"),
        (["reproduce", "--scale", "smoke"], "study"),
        (["table", "1", "--store", "runs"], "study"),
        (["figure", "heatmap", "--store", "runs", "--out", "f.png"], "study"),
    ],
)
def test_a_command_names_its_extra_in_one_line(arguments, extra, tmp_path):
    (tmp_path / "data.csv").write_text("x,y\n1,2\n")
    code = f"{BLOCK}\nimport kandle.cli\nsys.exit(kandle.cli.main({arguments!r}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("kandle: error: ")
    assert run.stderr.endswith(f"Install it with: pip install 'kandle[{extra}]'\n")
    assert run.stderr.count("\n") == 1


def test_nothing_optional_is_imported_with_kandle():
    code = (
        "import sys, kandle, kandle.nn, kandle.train, kandle.cli;"
        f"print([m for m in {OPTIONAL!r} if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_errors_are_public_and_survive_a_pickle():
    """Processes of a pool send what they raise to each other."""
    assert issubclass(kandle.UserError, ValueError)
    assert issubclass(kandle.MissingExtra, ImportError)
    for error in (kandle.UserError("wrong"), kandle.MissingExtra("A plot", "plot", "matplotlib")):
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is type(error)
        assert str(copied) == str(error)
        assert f"kandle.{type(error).__name__}" == f"{copied.__module__}.{type(copied).__name__}"
    assert str(error).endswith("Install it with: pip install 'kandle[plot]'")
