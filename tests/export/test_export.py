"""Exported programs compute what the network computes."""

import importlib.util
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, UserError, bases, export
from kandle.nn import RESIDUALS

KNOTS = bases.Knots([-1.0, -0.3, 0.1, 0.15, 1.0], degree=3)
MODELS = {
    "small": {"grid": 5},
    "quintic": {"grid": 4, "degree": 5},
    "linear on (0, 2)": {"grid": 3, "degree": 1, "domain": (0.0, 2.0)},
    "no residual": {"grid": 5, "residual": None},
    "no bias": {"grid": 5, "bias": False},
    "knots": {"basis": KNOTS},
    **{f"residual {name}": {"grid": 3, "residual": name} for name in RESIDUALS},
}
SCALING = {
    "input_offset": [0.3, -2.0],
    "input_scale": [2.0, 0.7],
    "output_offset": [10.0, -1.0, 0.5],
    "output_scale": [5.0, 0.1, 2.0],
}


def _model(name: str) -> KAN:
    # Glorot's scales, so that splines matter as much as residuals.
    return KAN([2, 5, 3], **MODELS[name], init="glorot", key=jax.random.key(3))


def _points() -> np.ndarray:
    """Inside the domain, outside of it, on knots, and beyond the last one."""
    rng = np.random.default_rng(0)
    spread = rng.uniform(-6, 6, (300, 2))
    knots = np.stack(np.meshgrid(np.linspace(-3, 3, 16), [0.0, 0.15, 1.0]), -1).reshape(-1, 2)
    return np.concatenate([spread, knots]).astype(np.float32)


def _expected(model: KAN, x: np.ndarray) -> np.ndarray:
    """The reference backend in double precision, scaled by hand."""
    with jax.enable_x64(True):
        exact = jax.tree.map(lambda w: jnp.asarray(w, jnp.float64), model)
        z = (x.astype(np.float64) - SCALING["input_offset"]) / np.array(SCALING["input_scale"])
        layers = z
        for layer in exact.layers:
            options = {"basis": layer.basis, "residual": layer.residual, "backend": "reference"}
            from kandle import kernels

            layers = kernels.layer(layers, layer.r, layer.c, layer.b, layer.bias, **options)
        return np.asarray(layers) * SCALING["output_scale"] + SCALING["output_offset"]


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.max(np.abs(a - b)) / np.max(np.abs(b)))


@pytest.mark.parametrize("name", MODELS)
def test_the_python_program_agrees(name, tmp_path):
    model, x = _model(name), _points()
    path = export.export(export.portable(model, **SCALING), tmp_path / "model.py")
    source = path.read_text()
    assert "kandle." not in source
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert _relative(module.predict(x), _expected(model, x)) < 1e-12


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("name", ["small", "linear on (0, 2)", "no residual", "knots"])
def test_the_c_program_agrees(name, tmp_path):
    model, x = _model(name), _points()
    export.export(export.portable(model, **SCALING), tmp_path / "model.c")
    assert _relative(_run_c(tmp_path, x, 3), _expected(model, x)) < 1e-12


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_all_residuals_in_c_compile_without_warnings_and_agree(tmp_path):
    for name in RESIDUALS:
        model, x = _model(f"residual {name}"), _points()
        export.export(export.portable(model, **SCALING), tmp_path / "model.c")
        assert _relative(_run_c(tmp_path, x, 3), _expected(model, x)) < 1e-12, name


def _run_c(folder, x: np.ndarray, n_out: int) -> np.ndarray:
    n_in = x.shape[1]
    (folder / "main.c").write_text(
        f"""#include <stdio.h>
void kandle_predict(const double *x, double *y);
int main(void) {{
    double x[{n_in}], y[{n_out}];
    while (fread(x, sizeof x, 1, stdin) == 1) {{
        kandle_predict(x, y);
        fwrite(y, sizeof y, 1, stdout);
    }}
    return 0;
}}
"""
    )
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    sources = ["main.c", "model.c"]
    subprocess.run(["cc", *flags, *sources, "-o", "run", "-lm"], cwd=folder, check=True)
    rows = x.astype(np.float64).tobytes()
    done = subprocess.run([folder / "run"], input=rows, capture_output=True, check=True)
    return np.frombuffer(done.stdout).reshape(len(x), n_out)


@pytest.mark.parametrize("name", MODELS)
def test_the_onnx_graph_agrees(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    model, x = _model(name), _points()
    path = export.export(export.portable(model, **SCALING), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    assert _relative(y, _expected(model, x)) < 1e-5


@pytest.mark.parametrize("name", ["small", "no residual"])
def test_a_row_that_is_not_finite_gives_nan(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    portable = export.portable(_model(name))
    x = np.array([[0.1, 0.2], [np.nan, 0.0], [np.inf, 0.0]], np.float32)
    export.export(portable, tmp_path / "model.py")
    spec = importlib.util.spec_from_file_location("exported", tmp_path / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    export.export(portable, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(
        str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    export.export(portable, tmp_path / "model.c")
    for y in (module.predict(x), session.run(None, {"x": x})[0], _run_c(tmp_path, x, 3)):
        assert np.isfinite(y[0]).all()
        assert np.isnan(y[1:]).all()


def test_a_frozen_normalized_network_exports_its_own_outputs(tmp_path):
    model = KAN([2, 4, 1], grid=5, init="lecun-normalized", key=jax.random.key(0))
    x = _points()[:300]
    with pytest.raises(UserError, match="freeze"):
        export.export(model, tmp_path / "model.py")
    frozen = model.freeze(x)
    path = export.export(frozen, tmp_path / "model.py")
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert _relative(module.predict(x), np.asarray(frozen(x))) < 1e-5


def test_what_cannot_be_exported_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"\*\.c, \*\.onnx, \*\.py"):
        export.export(_model("small"), tmp_path / "model.txt")
    own = KAN([2, 1], grid=3, residual=lambda x: x**2, key=jax.random.key(0))
    with pytest.raises(UserError, match="residual function of your own"):
        export.export(own, tmp_path / "model.c")
