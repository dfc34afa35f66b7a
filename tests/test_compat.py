"""The package runs on every JAX that it declares."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

from kandle import _compat

PACKAGE = Path(_compat.__file__).parent


@pytest.mark.parametrize("name", ["enable_x64", "typeof"])
def test_names_that_moved_are_imported_from_one_place(name):
    """`jax.enable_x64` exists since 0.8 only, so modules import `kandle._compat.enable_x64`."""
    direct = re.compile(rf"\bjax\.{name}\(")
    for path in PACKAGE.rglob("*.py"):
        assert path.name == "_compat.py" or not direct.search(path.read_text()), path


def test_double_precision_is_switched_for_a_block():
    with _compat.enable_x64(True):
        assert jax.numpy.ones(1).dtype == np.float64
    assert jax.numpy.ones(1).dtype == np.float32


def test_the_type_of_a_value():
    assert _compat.typeof(jax.numpy.ones((2, 3))).shape == (2, 3)
