"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
import warnings
from pathlib import Path

import pytest

import kandle
from kandle import problems

_BUILT_IN = dict(problems.PROBLEMS)
_ROOT = Path(kandle.__file__).parent
_MODULES = sorted(
    ".".join(("kandle", *path.relative_to(_ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in _ROOT.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def test_examples_are_found():
    assert "kandle.init._glorot" in _MODULES
    assert "kandle.problems._pde" in _MODULES


@pytest.mark.parametrize("module", _MODULES)
def test_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        # Modules that only forward an old name warn when they are imported.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            imported = importlib.import_module(module)
        except ModuleNotFoundError as error:
            pytest.skip(f"{module} needs {error.name}")
    # An example that registers a problem neither sees those of other tests nor leaves its own.
    monkeypatch.setattr(problems, "PROBLEMS", dict(_BUILT_IN))
    failed, attempted = doctest.testmod(imported)
    # The examples of classes that are pickled by a public name are run where that name is.
    classes = [value for value in vars(imported).values() if isinstance(value, type)]
    elsewhere = any(module.startswith(f"{each.__module__}._") for each in classes)
    assert attempted > 0 or elsewhere
    assert failed == 0
