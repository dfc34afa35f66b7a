"""A run's numbers do not depend on its neighbours: to the bit on native, to rounding elsewhere."""

import hashlib
import itertools

import jax
import numpy as np
import pytest

from kandle import UserError, kernels
from kandle.train import Architecture, train

MEMBERS = [("baseline", 0), ("glorot", 1), ("power-law", 2), ("lecun-numerical", 3), ("glorot", 4)]
NORMALIZED = [("lecun-normalized", seed) for seed in range(5)]

# Wide enough for XLA to choose other loops for other batch sizes.
ARCHITECTURE = Architecture(width=16, depth=2, grid=10)


def fingerprint(result):
    """Weights, curve and errors of a result, by their bits."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(result.model):
        digest.update(np.asarray(leaf).tobytes())
    digest.update(result.curve_loss.tobytes())
    digest.update(np.array([result.loss, result.l2, result.test_mse]).tobytes())
    return digest.hexdigest()


def train_in_batches(problem, members, sizes, backend):
    """Every member's results from batches of several sizes, in two slots each."""
    found = {}
    for size in sizes:
        chosen = members[:size]
        for turn in {0, size // 2}:
            batch = chosen[turn:] + chosen[:turn]
            options = {"steps": 8, "curve": "all", "keep_weights": True, "backend": backend}
            results = train(problem, ARCHITECTURE, batch, **options)
            for member, result in zip(batch, results, strict=True):
                found.setdefault(member, []).append(result)
    return found


def require(backend):
    try:
        kernels.check_backend(backend)
    except UserError:
        pytest.skip(f"the {backend} backend is not available here")


@pytest.mark.optimized
def test_native_results_do_not_depend_on_the_batch_by_a_bit(tiny, poisson):
    """All in one test, hence one process: most of its programs serve every case."""
    require("native")
    for problem, members in itertools.product((tiny, poisson), (MEMBERS, NORMALIZED)):
        found = train_in_batches(problem, members, (1, 2, 3, 5), "native")
        assert found.keys() == set(members)
        for member, results in found.items():
            different = {fingerprint(result) for result in results}
            assert len(different) == 1, (problem.name, member)


def test_dense_results_do_not_depend_on_the_batch_beyond_rounding(tiny):
    for results in train_in_batches(tiny, MEMBERS, (1, 3), "dense").values():
        for result in results:
            np.testing.assert_allclose(result.curve_loss, results[0].curve_loss, rtol=1e-4)
            np.testing.assert_allclose(result.l2, results[0].l2, rtol=1e-4)
