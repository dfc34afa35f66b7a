"""The paper's tables and figures from nothing: train what a store lacks, then render."""

from kandle.reproduce._render import explorer, render
from kandle.reproduce._targets import TARGETS, Target, chosen
from kandle.reproduce._work import Work, train, work

__all__ = ["TARGETS", "Target", "Work", "chosen", "explorer", "render", "train", "work"]
