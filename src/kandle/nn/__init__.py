"""The layer and the network, derivatives carried through them, saving and loading."""

from kandle.nn._derivatives import Derivatives
from kandle.nn._layer import KANLayer
from kandle.nn._network import KAN
from kandle.nn._residuals import RESIDUALS, get_residual
from kandle.nn._save import load, load_metadata, save

__all__ = [
    "KAN",
    "RESIDUALS",
    "Derivatives",
    "KANLayer",
    "get_residual",
    "load",
    "load_metadata",
    "save",
]
