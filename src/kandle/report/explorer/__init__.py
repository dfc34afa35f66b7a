"""The explorer: one self-contained HTML page to look through a store with."""

from kandle.report.explorer._page import escaped, explore, page
from kandle.report.explorer._payload import CURVE_POINTS, payload

__all__ = ["CURVE_POINTS", "escaped", "explore", "page", "payload"]
