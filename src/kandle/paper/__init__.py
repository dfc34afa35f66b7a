"""Everything that belongs to the paper: its design, printed numbers, published draws, targets.

The rest of the package knows no paper: problems, schemes and reports are open to any study. Names
are resolved when first used, so that a worker that needs the published draws does not load the
plotting library.
"""

import importlib
from typing import TYPE_CHECKING, Any

from kandle._errors import needs_extra

# name -> the module that defines it
_PUBLIC = {
    "STUDIES": "_studies",
    "PublishedSampler": "_draws",
    "published": "_draws",
    "published_draws": "_draws",
    "FIGURES": "_figures",
    "TABLES": "_tables",
    "figure": "_figures",
    "table": "_tables",
    "TARGETS": "_targets",
    "Target": "_targets",
    "chosen": "_targets",
    "Work": "_work",
    "train": "_work",
    "work": "_work",
    "explorer": "_render",
    "render": "_render",
}

__all__ = list(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from kandle.paper._draws import PublishedSampler, published, published_draws  # noqa: F401
    from kandle.paper._figures import FIGURES, figure  # noqa: F401
    from kandle.paper._render import explorer, render  # noqa: F401
    from kandle.paper._studies import STUDIES  # noqa: F401
    from kandle.paper._tables import TABLES, table  # noqa: F401
    from kandle.paper._targets import TARGETS, Target, chosen  # noqa: F401
    from kandle.paper._work import Work, train, work  # noqa: F401


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra(f"{__name__}.{name}", "study"):
        value = getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
