"""Networks move between libraries with their outputs, and files need no JAX."""

# ruff: noqa: E402

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))

from torch_layers import KANLinear as EfficientLinear

import kandle
import kandle.torch as kt
from kandle import UserError
from kandle.kernels import route


def points(n=30, n_in=3):
    return np.random.default_rng(0).uniform(-1, 1, (n, n_in)).astype(np.float32)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"residual": None, "bias": False},
        {"residual": "gelu", "domain": (-2.0, 1.0), "degree": 2},
        {"init": "lecun-normalized"},
    ],
    ids=str,
)
def test_from_jax_and_back(options):
    model = kandle.KAN([3, 5, 2], grid=6, key=jax.random.key(0), **options)
    x = points()
    ours = kt.from_kandle(model)
    y = np.asarray(model(x))
    np.testing.assert_allclose(ours(torch.from_numpy(x)).detach(), y, rtol=1e-5, atol=1e-6)
    back = kt.to_kandle(ours)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(back), strict=True)
    )


@pytest.mark.parametrize("options", [{}, {"residual": "tanh", "bias": False}], ids=str)
def test_files_of_either_side_load_in_the_other(options, tmp_path):
    x = points()
    model = kandle.KAN([3, 5, 2], grid=6, key=jax.random.key(0), **options)
    kandle.save(model, tmp_path / "jax.safetensors", {"note": "hello"})
    ours = kt.load(tmp_path / "jax.safetensors")
    y = ours(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(y, model(x), rtol=1e-5, atol=1e-6)
    kt.save(ours, tmp_path / "torch.safetensors", {"note": "hello"})
    assert kandle.nn.load_metadata(tmp_path / "torch.safetensors") == {"note": "hello"}
    same = (tmp_path / "torch.safetensors").read_bytes()
    assert same == (tmp_path / "jax.safetensors").read_bytes()
    np.testing.assert_allclose(kandle.load(tmp_path / "torch.safetensors")(x), model(x))


def test_residuals_without_a_name_must_be_given(tmp_path):
    def cosine(x):
        return torch.cos(x)

    model = kt.KAN([3, 2], residual=cosine)
    kt.save(model, tmp_path / "own.safetensors")
    with pytest.raises(UserError, match="cosine"):
        kt.load(tmp_path / "own.safetensors")
    x = torch.from_numpy(points())
    assert torch.equal(kt.load(tmp_path / "own.safetensors", residual=cosine)(x), model(x))
    with pytest.raises(UserError, match="residual"):
        kt.to_kandle(model)
    y = kt.to_kandle(model, residual=jnp.cos)(points())
    np.testing.assert_allclose(y, model(x).detach(), rtol=1e-5, atol=1e-6)


def test_from_efficient_kan():
    torch.manual_seed(0)
    layer = EfficientLinear(3, 4, grid_range=(-2, 1), base_activation=torch.nn.GELU)
    x = torch.from_numpy(points())
    ours = kt.from_module(layer)
    assert ours.domain == pytest.approx((-2, 1))
    torch.testing.assert_close(ours(x), layer(x), rtol=1e-5, atol=1e-5)

    class KAN(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(
                [EfficientLinear(3, 4), EfficientLinear(4, 2, enable_standalone_scale_spline=False)]
            )

    network = KAN()
    y = network.layers[1](network.layers[0](x))
    ours = kt.from_module(network)
    assert isinstance(ours, kt.KAN)
    torch.testing.assert_close(ours(x), y, rtol=1e-4, atol=1e-4)
    with pytest.raises(UserError, match="Linear"):
        kt.from_module(torch.nn.Linear(2, 2))
    # These have a bias, which efficient-kan's layers do not.
    with pytest.raises(UserError, match="efficient-kan or pykan"):
        kt.from_module(kt.KAN([3, 2]))


@pytest.mark.filterwarnings("ignore")
def test_from_pykan(tmp_path, monkeypatch):
    kan = pytest.importorskip("kan")
    for module in ("tqdm", "sklearn", "sympy", "yaml"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    model = kan.KAN(width=[3, 4, 2], grid=5, k=3, seed=0, auto_save=False)
    with torch.no_grad():
        model.act_fun[0].mask[1, 2] = 0
        model.node_scale[0].uniform_(0.5, 2.0)
        model.node_bias[1].normal_()
        model.subnode_scale[1].uniform_(0.5, 2.0)
        model.subnode_bias[0].normal_()
    x = torch.from_numpy(points())
    ours = kt.from_module(model)
    torch.testing.assert_close(ours(x), model(x), rtol=1e-4, atol=1e-5)
    layer = kt.from_module(model.act_fun[0])
    torch.testing.assert_close(layer(x), model.act_fun[0](x)[0], rtol=1e-4, atol=1e-5)
    model.fix_symbolic(0, 0, 0, "sin", verbose=False, log_history=False)
    with pytest.raises(UserError, match="symbolic"):
        kt.from_module(model)
    with pytest.raises(UserError, match="multiplication"):
        kt.from_module(kan.KAN(width=[3, [2, 1], 1], seed=0, auto_save=False))


@pytest.mark.filterwarnings("ignore")
def test_pykan_networks_that_read_some_inputs_only(tmp_path, monkeypatch):
    kan = pytest.importorskip("kan")
    monkeypatch.chdir(tmp_path)
    x = torch.from_numpy(points())
    model = kan.KAN(width=[3, 4, 2], grid=5, k=3, seed=0, auto_save=False)
    model(x)
    pruned = model.prune_input(active_inputs=[0, 2], log_history=False)
    y = pruned(x)
    with pytest.raises(UserError, match=r"arange\(2\).*x\[:, \[0, 2\]\]"):
        kt.from_module(pruned)
    pruned.input_id = torch.arange(2)
    torch.testing.assert_close(kt.from_module(pruned)(x[:, [0, 2]]), y, rtol=1e-4, atol=1e-5)


WITHOUT_JAX = """
import sys
for name in ("jax", "jaxlib", "equinox", "optax"):
    sys.modules[name] = None
import torch, kandle
from kandle import init
model = kandle.torch.KAN([3, 5, 2], init=init.Glorot())
x = torch.rand(7, 3, requires_grad=True)
model(x).sum().backward()
model.refine(10)
model.update_grid(x)
kandle.torch.save(model, sys.argv[1])
again = kandle.torch.load(sys.argv[1])
assert torch.equal(again(x), model(x))
kandle.torch.initialize_(model, "power-law")
from kandle._route import route
print(route(model, torch.rand(7, 3)).path)
"""


def test_everything_works_without_jax(tmp_path):
    command = [sys.executable, "-c", WITHOUT_JAX, str(tmp_path / "model.safetensors")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    model, x = kt.KAN([3, 5, 2]), torch.rand(7, 3)
    assert run.stdout.strip() == route(model, x).path, run.stderr


def test_importing_does_not_import_jax():
    code = "import sys, kandle.torch; kandle.torch.KAN([2, 3, 1]); print('jax' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_without_native_kernels_the_numbers_are_the_same(tmp_path):
    torch.manual_seed(0)
    model = kt.KAN([3, 5, 2], init="lecun-numerical")
    x = torch.from_numpy(points())
    kt.save(model, tmp_path / "model.safetensors")
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, warnings, numpy as np, torch; warnings.simplefilter('ignore');"
        "import kandle.torch as kt; from kandle.kernels import route;"
        "model, x = kt.load(sys.argv[1]), torch.from_numpy(np.load(sys.argv[2]));"
        "print(route(model, x)); np.save(sys.argv[2], model(x).detach().numpy())"
    )
    command = [sys.executable, "-c", code, tmp_path / "model.safetensors", tmp_path / "x.npy"]
    import os

    environment = {**os.environ, "KANDLE_DISABLE_NATIVE": "1"}
    run = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    assert run.stdout.startswith("plain (not one call, not per layer: ")
    assert "KANDLE_DISABLE_NATIVE is set" in run.stdout
    y = np.load(tmp_path / "x.npy")
    np.testing.assert_allclose(y, model(x).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"residual": "tanh", "spline_order": 2}], ids=str)
def test_onnx_runtime_agrees(options, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    model = kt.KAN([3, 5, 2], init="lecun-numerical", **options).eval()
    x = 1.3 * torch.from_numpy(points())
    path = tmp_path / "model.onnx"
    batch = torch.export.Dim("batch")
    torch.onnx.export(model, (x,), path, dynamo=True, dynamic_shapes=({0: batch},), verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (name,) = [argument.name for argument in session.get_inputs()]
    (y,) = session.run(None, {name: x.numpy()[:11]})
    np.testing.assert_allclose(y, model(x[:11]).detach(), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"residual": "tanh"}], ids=str)
def test_the_older_onnx_exporter_agrees(options, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    torch.manual_seed(0)
    model, x = kt.KAN([2, 5, 3], **options), 3 * torch.rand(7, 2) - 1.5
    path = tmp_path / "model.onnx"
    axes = {"x": {0: "n"}}
    torch.onnx.export(model, (x,), path, dynamo=False, input_names=["x"], dynamic_axes=axes)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for rows in (x, x[:2]):
        (y,) = session.run(None, {"x": rows.numpy()})
        np.testing.assert_allclose(y, model(rows).detach().numpy(), atol=1e-5)
