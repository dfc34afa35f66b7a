"""Tables of any study: built from frames as plain data, then written in one of four formats."""

from kandle.report.tables._compare import compare_table
from kandle.report.tables._made_of import Design
from kandle.report.tables._medians import median_table
from kandle.report.tables._region import region_table
from kandle.report.tables._render import FORMATS, render
from kandle.report.tables._table import Cell, Reference, Table
from kandle.report.tables._wins import SHARE, win_table

__all__ = [
    "FORMATS",
    "SHARE",
    "Cell",
    "Design",
    "Reference",
    "Table",
    "compare_table",
    "median_table",
    "region_table",
    "render",
    "win_table",
]
