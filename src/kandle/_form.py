"""What a value may be, and the words an error message uses for it.

A `Kind` describes one value; `check` applies kinds to a table of keys. Every error is one line
that names the key, what it must be and what it is.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kandle._errors import must, unknown
from kandle._seed import is_seed

Accepts = Callable[[object], bool]


@dataclass(frozen=True)
class Kind:
    """What a key may hold: a predicate, and the words an error message uses for it."""

    words: str
    accepts: Accepts

    def check(self, what: str, value: object) -> None:
        """Raise unless `value` is of this kind; `what` begins the error message."""
        if not self.accepts(value):
            raise must(what, self.words, value)


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond float64
        return False


def whole(least: int, most: int | None = None) -> Kind:
    """Whole numbers from `least` to `most`."""
    words = f"of at least {least}" if most is None else f"from {least} to {most}"

    def accepts(value: object) -> bool:
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return least <= value and (most is None or value <= most)

    return Kind(f"a whole number {words}", accepts)


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.strip() == value != ""
        and value.isprintable()
        and not set(value) & set("/\\")
    )


text = Kind("text", lambda value: isinstance(value, str) and value != "")
name = Kind("a name (printable text without '/' and '\\')", _is_name)
positive = whole(1)
natural = whole(0)
number = Kind("a finite number", _is_number)
seed = Kind("a whole number from 0 to 2³² - 1", is_seed)
rate = Kind("a positive number", lambda value: _is_number(value) and value > 0)  # type: ignore[operator]
truth = Kind("true or false", lambda value: isinstance(value, bool))
none = Kind("empty", lambda value: value is None)
blank = Kind("empty", lambda value: value == "")
table = Kind("a table", lambda value: isinstance(value, Mapping))
scalar = Kind(
    "a finite number, text or true/false",
    lambda value: isinstance(value, str | bool) or _is_number(value),
)


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return scalar.accepts(value)


plain = Kind(f"{scalar.words}, or a list or table of such", _is_plain)
interval = Kind(
    "two finite numbers, the lower first",
    lambda value: (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(map(_is_number, value))
        and value[0] < value[1]
    ),
)


def choice(*names: str) -> Kind:
    """One of a few texts."""
    return Kind(f"one of {', '.join(map(repr, names))}", lambda value: value in names)


def either(*kinds: Kind) -> Kind:
    return Kind(
        " or ".join(kind.words for kind in kinds),
        lambda value: any(kind.accepts(value) for kind in kinds),
    )


def filled(kind: Kind) -> Kind:
    """`kind` without empty values."""
    return Kind(
        kind.words.removesuffix(f" or {blank.words}"),
        lambda value: value not in (None, "") and kind.accepts(value),
    )


def several(kind: Kind) -> Kind:
    """A list that is an axis: at least one value, each of `kind`, none twice."""
    return Kind(
        f"a list of at least one value, each {kind.words}, none twice",
        lambda value: (
            isinstance(value, list | tuple)
            and len(value) > 0
            and all(kind.accepts(entry) for entry in value)
            and all(entry not in value[:i] for i, entry in enumerate(value))
        ),
    )


def one_or_several(kind: Kind) -> Kind:
    return either(kind, several(kind))


def encoded(kind: Kind, words: str) -> Kind:
    """JSON text of a value of `kind`."""

    def accepts(value: object) -> bool:
        try:
            return isinstance(value, str) and kind.accepts(json.loads(value))
        except (ValueError, RecursionError):
            return False

    return Kind(f"{words} in JSON", accepts)


def as_axis(value: object) -> tuple:
    """An axis as a tuple: a single value is an axis of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def check(
    place: str,
    entries: Mapping[str, object],
    kinds: Mapping[str, Kind],
    *,
    required: Iterable[str] = (),
    others: Kind | None = None,
) -> None:
    """Raise unless every key of `entries` is in `kinds` and holds what its kind accepts.

    `place` begins each error (`study.toml: `, `study.toml: scheme 2: `). Keys that are not in
    `kinds` are errors, unless `others` says what they may hold.
    """
    # Unknown keys first: a required key is often missing because it was misspelt.
    for key in entries:
        if others is None and key not in kinds:
            raise unknown(f"key in {place.removesuffix(': ')}:", key, kinds)
    for key in required:
        if key not in entries:
            raise must(f"{place}'{key}'", f"given: {kinds[key].words}", None)
    for key, value in entries.items():
        kind = kinds.get(key) or others
        assert kind is not None  # or the key was refused above
        kind.check(f"{place}'{key}'", value)
