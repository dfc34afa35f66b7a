"""The page itself: one HTML file with the plotting library, the data and the program inside."""

import json
import re
from collections.abc import Collection
from importlib.resources import files
from pathlib import Path
from typing import Any

from kandle._errors import UserError, needs_extra
from kandle.report._load import open_store
from kandle.report.explorer._payload import payload


def page(data: dict[str, Any]) -> str:
    """The HTML of an explorer of `data`, the plain values of `payload`."""
    folder = files("kandle.report.explorer")
    parts = {
        "STYLE": (folder / "page.css").read_text(encoding="utf-8"),
        "PLOTLY": _plotly(),
        "DATA": escaped(data),
        "SCRIPT": (folder / "page.js").read_text(encoding="utf-8"),
    }
    template = (folder / "page.html").read_text(encoding="utf-8")
    # One pass: what is put in is never searched for places itself.
    return re.sub(r"/\*(STYLE|PLOTLY|DATA|SCRIPT)\*/", lambda found: parts[found[1]], template)


def escaped(data: Any) -> str:
    """JSON that cannot leave its script element, whatever names are in it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plotly() -> str:
    with needs_extra("'kandle explore'", "explore"):
        from plotly.offline import get_plotlyjs
    return get_plotlyjs()


def explore(store: str | Path, out: str | Path, plain_studies: Collection[str] = ()) -> Path:
    """Write the explorer of a store to `out`; `plain_studies` as for `payload`."""
    out = Path(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"The explorer's file must end in .html. Got {str(out)!r} instead.")
    _plotly()  # before the work, if it is missing
    with open_store(store) as opened:
        data = payload(opened.frame(), opened.curves, opened.spectra, plain_studies)
    if not data["studies"]:
        raise UserError(f"The store {store} holds no runs that can be shown.")
    text = page(data)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    return out
