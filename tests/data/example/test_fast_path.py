"""Usual examples are read as all others are."""

from hypothesis import given
from hypothesis import strategies as st

from mirrax.data.example.fast_path import read_canonical_example
from mirrax.data.example.protobuf import MalformedError
from mirrax.data.example.spans import read_example
from tests.data.example.examples import EXAMPLES


@given(st.binary(max_size=60))
def test_usual_examples_are_read_as_all_others(data):
    assert read_canonical_example(data) in (None, outcome_of_reading(data))


@given(EXAMPLES, st.data())
def test_changed_examples_are_read_as_all_others(example, data):
    changed = bytearray(example.SerializeToString())
    position = data.draw(st.integers(0, len(changed) - 1))
    changed[position] = data.draw(st.integers(0, 255))
    changed = bytes(changed)
    assert read_canonical_example(changed) in (None, outcome_of_reading(changed))


@given(EXAMPLES)
def test_written_examples_are_usual(example):
    data = example.SerializeToString()
    assert read_canonical_example(data) == read_example(data)


def outcome_of_reading(data):
    try:
        return read_example(data)
    except MalformedError:
        return "malformed"
