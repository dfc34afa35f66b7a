"""Bits do not depend on threads, on the compilation cache, on a batch or on the slot in it.

Whole trainings are hashed: every weight and every loss of the curve.
"""

import functools
import hashlib
import itertools
import json
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from kandle import kernels
from kandle.bases import BSpline, Chebyshev

pytestmark = [
    pytest.mark.optimized,
    pytest.mark.skipif(
        kernels.default_backend() != "native", reason="the native backend is not available here"
    ),
]

BASIS = BSpline(grid=5)
WIDTHS = (2, 9, 1)
N, STEPS = 2000, 4  # enough work for several threads in every layer
SIZES = (1, 2, 3, 5, 8, 16)


def weights(seed):
    rng = np.random.default_rng(seed)
    layers = []
    for n_in, n_out in itertools.pairwise(WIDTHS):
        shapes = (n_out, n_in), (n_out, n_in), (n_out, n_in, BASIS.n_basis), (n_out,)
        layers.append([0.4 * rng.normal(size=shape).astype(np.float32) for shape in shapes])
    return layers


def points():
    return np.random.default_rng(99).uniform(-1, 1, (N, 2)).astype(np.float32)


def function_loss(layers, x, basis=BASIS):
    y = x
    for layer in layers:
        y = kernels.layer(y, *layer, basis=basis, residual=jax.nn.silu, backend="native")
    error = y[:, 0] - x[:, 0] * x[:, 1]
    return kernels.total(error * error, "native") * np.float32(1 / N)


def chebyshev_loss(layers, x):
    return function_loss(layers, x, Chebyshev(BASIS.n_basis))


def pde_loss(layers, x):
    y = jnp.zeros((4, *x.shape), x.dtype).at[0].set(x).at[1, :, 0].set(1.0).at[2, :, 1].set(1.0)
    options = {"first": 2, "second": 1, "basis": BASIS, "residual": jax.nn.silu}
    for layer in layers:
        y = kernels.jet(y, *layer, **options, backend="native")
    u, _, u_y, u_xx = y[..., 0]
    error = u_xx - u_y + u
    return kernels.total(error * error, "native") * np.float32(1 / N)


@functools.cache
def training(loss):
    """Steps of Adam on a batch of models, compiled once for each size of the batch."""
    optimizer = optax.adam(1e-2)
    x = points()

    def one_step(carry, _):
        layers, state = carry
        value, gradient = jax.value_and_grad(loss)(layers, x)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(layers, updates), state), value

    @jax.jit
    @jax.vmap
    def run(layers):
        (layers, _), curve = jax.lax.scan(
            one_step, (layers, optimizer.init(layers)), None, length=STEPS
        )
        return layers, curve

    return run


def trained(loss, seeds):
    """Train a batch of models; one hash per model."""
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *(weights(seed) for seed in seeds))
    results = jax.tree.map(np.asarray, training(loss)(batch))
    assert np.isfinite(results[1]).all()
    return [
        hashlib.sha256(b"".join(leaf[p].tobytes() for leaf in jax.tree.leaves(results))).hexdigest()
        for p in range(len(seeds))
    ]


@pytest.mark.parametrize("loss", [function_loss, pde_loss])
def test_a_model_trains_to_the_same_bits_in_every_batch_and_slot(loss):
    found = {}
    for size in SIZES:
        seeds = list(range(size))
        for turn in {0, size // 3, size - 1}:
            rotated = seeds[turn:] + seeds[:turn]
            for seed, digest in zip(rotated, trained(loss, rotated), strict=True):
                found.setdefault(seed, set()).add(digest)
            if size > 5:
                break  # the larger programs are slow to compile: one order of each will do
    assert {seed: len(digests) for seed, digests in found.items()} == dict.fromkeys(found, 1)
    assert len(set.union(*found.values())) == max(SIZES)


PROGRAM = textwrap.dedent(
    """
    import collections, json, sys
    import jax
    events = collections.Counter()
    jax.monitoring.register_event_listener(lambda name, **_: events.update([name]))
    sys.path.insert(0, sys.argv[1])
    import test_native_bits as t
    digests = [
        t.trained(t.function_loss, [0]),
        t.trained(t.chebyshev_loss, [0]),
        t.trained(t.pde_loss, [0, 1, 2]),
    ]
    hits = events["/jax/compilation_cache/cache_hits"]
    print(json.dumps({"digests": digests, "hits": hits}))
    """
)


def in_a_process(threads, **environment):
    environment = {
        **os.environ,
        "PJRT_NPROC": str(threads),
        "PYTHONPATH": os.pathsep.join(sys.path),
        **environment,
    }
    command = [sys.executable, "-c", PROGRAM, os.path.dirname(__file__)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_bits_do_not_depend_on_threads_or_on_the_compilation_cache(tmp_path):
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    here = [
        trained(function_loss, [0]),
        trained(chebyshev_loss, [0]),
        trained(pde_loss, [0, 1, 2]),
    ]
    compiled = in_a_process(1, **cache)
    assert compiled["hits"] == 0
    assert any(tmp_path.iterdir())
    cached = in_a_process(1, **cache)
    assert cached["hits"] >= 2
    for result in (compiled, cached, in_a_process(2), in_a_process(4)):
        assert result["digests"] == here
