"""The form of a study file: which keys it may have, and what each may hold.

Every check ends in one line that names the file, the key, what it must be and what it is.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kandle._errors import must, unknown
from kandle._seed import is_seed


@dataclass(frozen=True)
class Kind:
    """What a key may hold: a predicate, and the words an error says it with."""

    words: str
    accepts: Callable[[Any], bool]


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


text = Kind("text", lambda value: isinstance(value, str) and value != "")
positive = Kind("a whole number of at least 1", lambda value: _is_whole(value, 1))
natural = Kind("a whole number of at least 0", lambda value: _is_whole(value, 0))
degree = Kind("a whole number from 1 to 5", lambda value: _is_whole(value, 1) and value <= 5)
number = Kind("a finite number", _is_number)
seed = Kind(
    "a whole number from 0 to 2³² - 1", lambda value: _is_whole(value, 0) and is_seed(value)
)
rate = Kind("a positive number", lambda value: _is_number(value) and value > 0)
truth = Kind("true or false", lambda value: isinstance(value, bool))
table = Kind("a table", lambda value: isinstance(value, Mapping))
scalar = Kind(
    "a finite number, text or true/false",
    lambda value: isinstance(value, str | bool) or _is_number(value),
)


def _is_plain(value: Any) -> bool:
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
    return Kind(f"one of {', '.join(map(repr, names))}", lambda value: value in names)


def either(*kinds: Kind) -> Kind:
    return Kind(
        " or ".join(kind.words for kind in kinds),
        lambda value: any(kind.accepts(value) for kind in kinds),
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


def listed(value: Any) -> tuple[Any, ...]:
    """An axis as a tuple: a single value is an axis of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def check(
    place: str,
    given: Mapping[str, Any],
    kinds: Mapping[str, Kind],
    *,
    required: Iterable[str] = (),
    others: Kind | None = None,
) -> None:
    """Raise unless every key of `given` is in `kinds` and holds what its kind accepts.

    `place` begins each error (`study.toml: `, `study.toml: scheme 2: `); keys that are not in
    `kinds` are errors, or must be of kind `others` where that is given.
    """
    # A key that is misspelt is the better thing to hear than one that is missing for it.
    for key in given:
        if others is None and key not in kinds:
            raise unknown(f"key in {place.removesuffix(': ')}:", key, kinds)
    for key in required:
        if key not in given:
            raise must(f"{place}'{key}'", f"given: {kinds[key].words}", None)
    for key, value in given.items():
        kind = kinds.get(key) or others
        assert kind is not None
        if not kind.accepts(value):
            raise must(f"{place}'{key}'", kind.words, value)
