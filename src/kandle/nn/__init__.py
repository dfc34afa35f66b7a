"""The layer and the network, their derivatives, saving and loading."""

from kandle.nn._derivatives import Derivatives, MultiIndex, RecordingDerivatives
from kandle.nn._edges import LayerEdges, sparsity, strongest
from kandle.nn._layer import KANLayer
from kandle.nn._network import KAN, squared_error
from kandle.nn._prune import Pruned
from kandle.nn._residuals import RESIDUALS, get_residual, residual_name
from kandle.nn._save import load, load_metadata, save
from kandle.nn._transform import Transform, field_derivatives

__all__ = [
    "KAN",
    "RESIDUALS",
    "Derivatives",
    "KANLayer",
    "LayerEdges",
    "MultiIndex",
    "Pruned",
    "RecordingDerivatives",
    "Transform",
    "field_derivatives",
    "get_residual",
    "load",
    "load_metadata",
    "residual_name",
    "save",
    "sparsity",
    "squared_error",
    "strongest",
]
