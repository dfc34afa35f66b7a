"""How schemes, problems and metrics are called in tables and figures."""

import re

from kandle.problems import FEYNMAN, FUNCTIONS, PDES

SCHEMES = {
    "baseline": "Baseline",
    "lecun-numerical": "LeCun–numerical",
    "lecun-normalized": "LeCun–normalized",
    "glorot": "Glorot",
    "power-law": "Power law",
    "quiet": "Quiet",
}
BUILT_IN = (
    "functions",
    "pdes",
    "feynman",
    "curves-functions",
    "curves-pdes",
    "ntk-functions",
    "ntk-pdes",
    "ntk-exponents",
)
"""The studies of the paper: what a scheme is there is known, and variants of it are strays."""
METRICS = {"loss": "Loss", "l2": "L²", "both": "Both"}
SMALL = {"G": 5, "width": 8, "depth": 2}
LARGE = {"G": 20, "width": 32, "depth": 3}
POWER_LAW = (0.25, 1.75)
"""The exponents of `power-law` by name alone."""

_PDES = {"allen-cahn": "Allen–Cahn", "burgers": "Burgers", "helmholtz": "Helmholtz"}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def scheme(name: str) -> str:
    """A scheme's name for people: `Glorot`, `Glorot (gain=2)`, or as it is."""
    base, told = _split(name)
    return f"{SCHEMES[base]} {told}".rstrip() if base in SCHEMES else name


def _split(name: str) -> tuple[str, str]:
    """A scheme and what tells a variant of it apart: `glorot`, `(gain=2)`."""
    base, opening, told = name.partition("(")
    return base, opening + told


def problem(name: str) -> str:
    """A problem's name for people: `f₃`, `Allen–Cahn`, or as it is."""
    if name in FUNCTIONS:
        return name[0] + name[1:].translate(_SUBSCRIPTS)
    return _PDES.get(name, name)


def tex(text: str) -> str:
    """`text` for LaTeX: what has a meaning there is escaped, our own symbols become commands."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    ours = {"–": "--", "−": "$-$", "×": r"$\times$", "²": r"$^2$", "α": r"$\alpha$"}
    ours |= {"β": r"$\beta$", "≤": r"$\le$", "≥": r"$\ge$", "†": r"$^\dagger$", "‡": r"$^\ddagger$"}
    ours |= {s: f"$_{i}$" for i, s in enumerate("₀₁₂₃₄₅₆₇₈₉")} | {
        "≈": r"$\approx$",
        "§": r"\S{}",
        "¶": r"\P{}",
    }
    table = special | {c: f"\\{c}" for c in "&%$#_{}"} | ours | {"<": r"$<$", ">": r"$>$"}
    return "".join(table.get(c, c) for c in text)


def plot(text: str) -> str:
    """`text` for matplotlib, where a dollar sign would start a formula."""
    return text.replace("$", r"\$")


def ordered(names: list[str]) -> list[str]:
    """Problems in the order of the study; a user's own come after, in theirs."""
    known = [*FUNCTIONS, *PDES, *FEYNMAN]
    return [n for n in known if n in names] + [n for n in dict.fromkeys(names) if n not in known]


def ordered_schemes(names: list[str]) -> list[str]:
    """Schemes in the order of the study, variants of one together and by their numbers."""
    place = {name: i for i, name in enumerate(SCHEMES)}
    # Schemes that are not built in have one place: they stay as they come.
    return sorted(
        dict.fromkeys(names),
        key=lambda n: (
            place.get(_split(n)[0], len(place)),
            _numbers(n) if _split(n)[0] in place else [],
        ),
    )


def _numbers(name: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", _split(name)[1])]


def file_name(name: str) -> str:
    """`name` as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "problem"
