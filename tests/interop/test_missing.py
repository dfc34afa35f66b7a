"""Without an extra, the error names the command that installs it."""

import subprocess
import sys

import pytest

BLOCKED = """
import sys
sys.modules[{package!r}] = None
import kandle
try:
    {use}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("package", "use", "extra"),
    [
        ("torch", "kandle.torch", "torch"),
        ("jaxkan", "kandle.jaxkan", "jaxkan"),
        ("sklearn", "kandle.KANRegressor", "sklearn"),
    ],
)
def test_missing_extra(package, use, extra):
    code = BLOCKED.format(package=package, use=use)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install 'kandle[{extra}]'" in run.stdout


def test_nothing_optional_is_imported_with_kandle():
    code = (
        "import sys, kandle, kandle.nn, kandle.train, kandle.cli;"
        "print([m for m in ('torch', 'kan', 'jaxkan', 'sklearn', 'flax') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
