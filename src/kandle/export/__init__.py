"""Take a trained network elsewhere: C, ONNX, or Python with NumPy alone."""

from kandle.export._export import FORMATS, export
from kandle.export._pieces import Portable, portable

__all__ = ["FORMATS", "Portable", "export", "portable"]
