"""Write a model file in the format that its name asks for."""

from collections.abc import Callable
from pathlib import Path

from kandle._errors import must
from kandle.export._c import c_source
from kandle.export._onnx import onnx_model
from kandle.export._pieces import Portable, portable
from kandle.export._python import python_source
from kandle.nn import KAN

FORMATS: dict[str, Callable[[Portable], bytes]] = {
    ".c": lambda model: c_source(model).encode(),
    ".onnx": onnx_model,
    ".py": lambda model: python_source(model).encode(),
}


def export(model: KAN | Portable, path: str | Path) -> Path:
    """Write a network to FILE.c (C99), FILE.onnx, or FILE.py (Python with NumPy alone).

    Args:
        model: a network, or one with scaling as `portable` describes it.
        path: the file; its suffix chooses the format.

    Returns:
        The path.
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise must("The file to export to", f"named *{', *'.join(FORMATS)}", str(path))
    given = portable(model) if isinstance(model, KAN) else model
    path.write_bytes(FORMATS[path.suffix](given))
    return path
