"""One visual language for all figures: sizes, type, colours, and how a figure is saved.

Figures are made at the width of a text column (5.5 inches), with type that needs no enlarging.
Colours are Okabe and Ito's and Tol's, which people with any colour vision can tell apart; line
styles say the same a second time.
"""

import math
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from kandle._errors import UserError
from kandle.report import _names

WIDTH = 5.5
SCHEMES = {
    "baseline": ("#4D4D4D", (0, (4, 1.2))),
    "lecun-numerical": ("#E69F00", (0, (1.2, 1))),
    "lecun-normalized": ("#CC79A7", (0, (5, 1, 1, 1))),
    "glorot": ("#0072B2", (0, (6, 1, 1.5, 1))),
    "glorot-fine": ("#56B4E9", (0, (8, 1, 1, 1))),
    "power-law": ("#D55E00", "solid"),
    "quiet": ("#009E73", (0, (3, 1, 1, 1, 1, 1))),
    "data": ("#AA4499", (0, (2, 2))),
}
_OTHERS = ("#882255", "#332288", "#999933", "#117733", "#AA4499", "#6699CC")
_DASHES = ("solid", (0, (4, 1.5)), (0, (1, 1)))
INITIAL, INTERMEDIATE, FINAL = "#0B4FA0", "#44AA99", "#117733"
COLOUR_MAP = "viridis"
MISSING, DIVERGED = "#DDDDDD", "#FFFFFF"
INK = "#333333"
FORMATS = (".png", ".pdf", ".svg")

_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 6.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlepad": 3.0,
    "axes.labelpad": 2.0,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 6,
    "ytick.labelsize": 6,
    "xtick.major.size": 2.2,
    "ytick.major.size": 2.2,
    "xtick.minor.size": 1.2,
    "ytick.minor.size": 1.2,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.pad": 1.8,
    "ytick.major.pad": 1.8,
    "lines.linewidth": 1.0,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.4,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "mathtext.fontset": "dejavusans",
    "svg.hashsalt": "kandle",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "savefig.dpi": 300,
}


@contextmanager
def style() -> Iterator[None]:
    """Apply the style of these figures, independent of the reader's matplotlib settings."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def line_style(scheme: str, place: int = 0) -> tuple[str, Any]:
    """Colour and dashes of a scheme; one that is not built in gets them by its `place`."""
    color = _names.own_color(scheme) or _OTHERS[place % len(_OTHERS)]
    dashes = _DASHES[place // len(_OTHERS) % len(_DASHES)]
    return SCHEMES.get(scheme.partition("(")[0], (color, dashes))


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure outside pyplot: no global state, no window, no backend."""
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.03, wspace=0.02, hspace=0.03)
    return figure


def check_format(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        known = ", ".join(FORMATS)
        raise UserError(f"A figure's file must end in {known}. Got {str(path)!r} instead.")
    return path


def save(figure: Figure, path: str | Path) -> Path:
    """Write the figure as its file's ending says; the same figure gives the same bytes."""
    path = check_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    undated = {".png": {"Software": None}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    with style():
        figure.savefig(path, metadata=undated[path.suffix.lower()])
    return path


def decades(axis: Axis, count: int) -> None:
    """At most `count` labelled powers of ten and no minor ticks, alike on all panels."""
    axis.set_major_locator(LogLocator(numticks=count))
    axis.set_minor_locator(NullLocator())


def label_log_ticks(axis: Axis, low: float | None, high: float | None) -> None:
    """Tick labels on a logarithmic colour bar, also if it spans less than two decades."""
    decades_spanned = math.log10(high / low) if low and high else 2.0
    if decades_spanned >= 2:
        return
    multiples = (1, 2, 5) if decades_spanned > 0.7 else (1, 1.5, 2, 3, 4, 5, 7)
    axis.set_major_locator(LogLocator(subs=multiples, numticks=12))
    axis.set_major_formatter(FuncFormatter(_short))
    axis.set_minor_locator(NullLocator())


def _short(value: float, _: int) -> str:
    """`200`, `1.5e-6`: the shortest way to write a tick's value."""
    if 1e-2 <= value < 1e4:
        return f"{value:g}"
    mantissa, exponent = f"{value:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def say(axes: Axes, message: str) -> None:
    """A panel without data says so instead of looking like a mistake."""
    axes.set_facecolor("#F5F5F5")
    axes.tick_params(left=False, labelleft=False, which="both")
    centre = {"ha": "center", "va": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, message, color="#777777", **centre)


def remark(figure: Figure, text: str) -> None:
    """A line at the foot, for what a reader must know of the data."""
    if text:
        figure.supxlabel(wrapped(text, figure), fontsize=5.5, color="#777777", x=0.01, ha="left")


def wrapped(text: str, figure: Figure) -> str:
    """`text` in lines that fit the figure's width at the size of a remark, 26 letters per inch."""
    return textwrap.fill(text, int(26 * figure.get_figwidth()))
