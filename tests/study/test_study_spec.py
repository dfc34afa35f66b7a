"""What a run is."""

import dataclasses
import hashlib
import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandle import UserError
from kandle import _form as form
from kandle.store import RunSpec, compact
from kandle.study._environment import _as_name

NAMES = st.text(st.characters(exclude_characters="/\\"), min_size=1).filter(form.name.accepts)
SPEC = RunSpec("functions", "f3", "power-law", 5, 8, 2, 1, alpha=0.25, beta=1.75)


def test_dict_and_back_is_the_identity():
    assert RunSpec.from_dict(SPEC.to_dict()) == SPEC
    assert RunSpec.from_dict(json.loads(json.dumps(SPEC.to_dict()))) == SPEC


@given(
    st.builds(
        RunSpec,
        study=NAMES,
        problem=NAMES,
        scheme=NAMES,
        G=st.integers(1),
        width=st.integers(1),
        depth=st.integers(1),
        seed=st.integers(0),
        alpha=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        learning_rate=st.floats(allow_nan=False, allow_infinity=False),
        settings=st.dictionaries(st.text(), st.integers()).map(compact),
    )
)
def test_any_spec_round_trips(spec):
    again = RunSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    assert again.identity == spec.identity


def test_identity_is_the_hash_of_the_canonical_configuration():
    text = json.dumps(SPEC.to_dict(), sort_keys=True, separators=(",", ":"))
    assert SPEC.identity == hashlib.sha256(text.encode()).hexdigest()


def test_identity_does_not_change_between_versions():
    # Stores outlive the program: a change here orphans every stored run.
    assert SPEC.identity.startswith("66a657608257e239")


def test_fields_that_came_later_are_told_only_where_they_matter():
    assert SPEC.draws == "independent"
    assert "draws" not in SPEC.to_dict()
    other = SPEC.replace(draws="published")
    assert RunSpec.from_dict(other.to_dict()) == other


def test_every_field_is_part_of_the_identity():
    other = {str: "x", int: 77, float: 0.5, bool: False}
    for field in dataclasses.fields(RunSpec):
        kind = get_args(field.type)[0]
        kind = float if kind == float | None else kind
        assert SPEC.replace(**{field.name: other[kind]}).identity != SPEC.identity, field.name


def test_whole_numbers_and_floats_are_one_configuration():
    assert SPEC.replace(alpha=1).identity == SPEC.replace(alpha=1.0).identity


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wdith": 8}, "Unknown field of a run 'wdith'. Did you mean 'width'?"),
        ({"width": "8"}, "'width' of a run must be a whole number of at least 1. Got '8' instead."),
        ({"width": True}, "'width' of a run must be a whole number"),
        ({"bias": 1}, "'bias' of a run must be true or false"),
        ({"learning_rate": None}, "'learning_rate' of a run must be a finite number"),
    ],
)
def test_a_wrong_dict_is_refused(change, message):
    with pytest.raises(UserError) as error:
        RunSpec.from_dict(SPEC.to_dict() | change)
    assert message in str(error.value)


def test_a_missing_field_is_refused():
    with pytest.raises(UserError, match="'problem' of a run must be given"):
        RunSpec.from_dict({"study": "functions"})


def test_settings_of_the_scheme():
    spec = RunSpec("s", "f1", "glorot", 5, 8, 2, 0, gain=1.5, settings='{"split":"half"}')
    assert spec.scheme_settings == {"gain": 1.5, "split": "half"}


def test_the_name_of_a_machine_is_a_name():
    assert form.name.accepts(_as_name(" AMD/EPYC \x1b[31m 7B13\n"))
    assert _as_name("x86_64 AMD EPYC") == "x86_64 AMD EPYC"
