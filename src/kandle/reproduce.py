"""Deprecated: `kandle.reproduce` is now part of `kandle.paper`."""

import warnings

from kandle.paper import TARGETS, Target, Work, chosen, explorer, render, train, work

__all__ = ["TARGETS", "Target", "Work", "chosen", "explorer", "render", "train", "work"]

warnings.warn("kandle.reproduce is deprecated: use kandle.paper.", DeprecationWarning, stacklevel=2)
