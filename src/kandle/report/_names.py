"""Names of schemes, problems, metrics and values in tables and figures."""

import json
import re
from collections.abc import Mapping

import pandas as pd

from kandle._text import printable
from kandle.problems import PROBLEMS
from kandle.store import SchemeLook

SCHEMES = {
    "baseline": "Baseline",
    "lecun-numerical": "LeCun–numerical",
    "lecun-normalized": "LeCun–normalized",
    "glorot": "Glorot",
    "glorot-fine": "Glorot–fine",
    "power-law": "Power law",
    "quiet": "Quiet",
    "data": "Data-dependent",
}
METRICS = {"loss": "Loss", "l2": "L²", "both": "Both"}

_PDES = {"allen-cahn": "Allen–Cahn", "burgers": "Burgers", "helmholtz": "Helmholtz"}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


_own: dict[str, SchemeLook] = {}


def use_looks(looks: Mapping[tuple[str, str], SchemeLook]) -> None:
    """Use the labels and colors that a store recorded for own schemes, by (scheme, settings).

    A scheme with several settings is called by its class; its variants add their settings.
    """
    _own.clear()
    for (name, _), look in looks.items():
        other = _own.get(name)
        label = look.label if other is None or other.label == look.label else _class(name)
        _own[name] = SchemeLook(label, look.color)


def own_color(name: str) -> str | None:
    """The color that a store recorded for an own scheme, if it is one."""
    look = _own.get(_split(name)[0])
    return look.color if look and re.fullmatch(r"#[0-9A-Fa-f]{6}", look.color) else None


def scheme(name: str) -> str:
    """A scheme's name for people: `Glorot`, `Glorot (gain=2)`, the label of an own one."""
    base, variant = _split(name)
    if base in SCHEMES:
        label = SCHEMES[base]
    elif base in _own:
        label = _own[base].label or _class(base)
    else:
        return printable(name)
    return printable(f"{label} {variant}".rstrip())


def _class(name: str) -> str:
    return name.rpartition(":")[2]


def scheme_at(name: str, pair: tuple[float, float]) -> str:
    """A scheme's name for people, with the exponents that represent the power law."""
    return scheme(name) + (f" ({pair[0]:g}, {pair[1]:g})" if name == "power-law" else "")


def _split(name: str) -> tuple[str, str]:
    """A scheme and what distinguishes a variant of it: `glorot`, `(gain=2)`."""
    base, opening, variant = name.partition("(")
    return base, opening + variant


def problem(name: str) -> str:
    """A problem's name for people: `f₃`, `Allen–Cahn`, or as it is."""
    if re.fullmatch(r"f\d+", name):
        return name[0] + name[1:].translate(_SUBSCRIPTS)
    return _PDES.get(name, printable(name))


def tex(text: str) -> str:
    """`text` for LaTeX: what has a meaning there is escaped, our own symbols become commands."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    ours = {"–": "--", "−": "$-$", "×": r"$\times$", "²": r"$^2$", "α": r"$\alpha$"}
    ours |= {"β": r"$\beta$", "≤": r"$\le$", "≥": r"$\ge$", "†": r"$^\dagger$", "‡": r"$^\ddagger$"}
    ours |= {s: f"$_{i}$" for i, s in enumerate("₀₁₂₃₄₅₆₇₈₉")} | {
        "≈": r"$\approx$",
        "§": r"\S{}",
        "¶": r"\P{}",
        "‖": r"$\|$",
    }
    table = special | {c: f"\\{c}" for c in "&%$#_{}"} | ours | {"<": r"$<$", ">": r"$>$"}
    return "".join(table.get(c, c) for c in printable(text))


def plot(text: str) -> str:
    """`text` for matplotlib, where a dollar sign would start a formula."""
    return printable(text).replace("$", r"\$")


def ordered(names: list[str]) -> list[str]:
    """Problems in the order of the registry; those given as `module:object` follow."""
    unique = dict.fromkeys(names)
    return [n for n in PROBLEMS if n in unique] + [n for n in unique if n not in PROBLEMS]


def ordered_schemes(names: list[str]) -> list[str]:
    """Schemes in the order of the study, variants of one together and by their numbers."""
    place = {name: i for i, name in enumerate(SCHEMES)}
    # Schemes that are not built in have one place: they stay as they come.
    return sorted(
        dict.fromkeys(names),
        key=lambda n: (
            place.get(_split(n)[0], len(place)),
            _variant(n) if _split(n)[0] in place else (),
        ),
    )


def labels(runs: pd.DataFrame, column: str) -> pd.Series:
    """The values of an exported column for people.

    Values with settings are called by their name and by those settings in which values of that name
    differ: `chebyshev`, or `chebyshev (degree 4)` and `chebyshev (degree 8)`.
    """
    if column == "scheme":
        return runs[column].map(scheme)
    settings = {v: json.loads(v) for v in runs[column].unique() if _has_settings(v)}
    known = {v: _with_settings(own, list(settings.values())) for v, own in settings.items()}
    if column == "basis":
        known[""] = "bspline"  # the default, which rows leave out
    return runs[column].map(lambda value: known[value] if value in known else _label(value))


def _has_settings(value: object) -> bool:
    return isinstance(value, str) and value.startswith("{")


def _with_settings(own: dict, every: list[dict]) -> str:
    name = own.get("name", "")
    alike = [other for other in every if other.get("name", "") == name]
    parts = [
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in own.items()
        if key != "name" and (not name or any(other.get(key) != value for other in alike))
    ]
    return printable(f"{name} ({', '.join(parts)})".strip() if parts else name)


def ordered_labels(runs: pd.DataFrame, column: str) -> list[str]:
    """The different labels of a column in the order of its values, schemes as in the study."""
    values = runs[column].drop_duplicates()
    if column == "scheme":
        return [scheme(name) for name in ordered_schemes(values.tolist())]
    return list(dict.fromkeys(labels(values.sort_values().to_frame(), column)))


def _label(value: object) -> str:
    if value is None or value == "" or value != value:
        return "–"
    return f"{value:g}" if isinstance(value, float) else printable(value)


def _variant(name: str) -> tuple[int, list[float]]:
    """Sort key of a variant: the plain scheme, then those with numbers, then those with words."""
    setting = _split(name)[1]
    numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", setting)]
    return (1 if numbers else 2) if setting else 0, numbers


def file_name(name: str) -> str:
    """`name` as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "problem"
