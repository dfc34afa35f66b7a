"""Pictures of a network: its units, its edges and the functions on them."""

from kandle.drawing._network import plot
from kandle.drawing._picture import Picture, picture

__all__ = ["Picture", "picture", "plot"]
