"""Test an installed wheel: not the source tree, without a compiler, with the native kernels.

python tests/installed.py PROJECT    in the environment in which the wheel is installed
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# What needs no extra, and covers the library: kernels against the reference, networks, files.
SELECTION = (
    *("kernels/test_backends.py", "kernels/test_native_bits.py", "nn/test_network.py"),
    *("nn/test_save.py", "nn/test_edges.py", "init/test_schemes.py"),
)

CHECK = """
import kandle
from kandle.kernels import _library, default_backend
assert default_backend() == "native", "the wheel has no native kernels"
print(kandle.__file__, kandle.__version__, _library.instruction_set())
"""


def main() -> int:
    source = Path(sys.argv[1]).resolve() / "tests"
    with tempfile.TemporaryDirectory() as folder:
        # A copy of the tests alone: the package of the source tree must not be found.
        copied = Path(folder) / "tests"
        shutil.copytree(source, copied, ignore=shutil.ignore_patterns("__pycache__"))
        config = source.parent / "pyproject.toml"
        shutil.copy(config, folder)
        environment = {**os.environ, "PATH": str(Path(sys.executable).parent)}
        for command in (
            [sys.executable, "-c", CHECK],
            [sys.executable, "-m", "pytest", "-q", *(str(copied / name) for name in SELECTION)],
        ):
            run = subprocess.run(command, cwd=folder, env=environment)
            if run.returncode:
                return run.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
