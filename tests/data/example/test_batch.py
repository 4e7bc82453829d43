"""Many examples at once mean the same as one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data.example import FixedLenFeature, VarLenFeature, parse_example
from tests.data.example.examples import (
    EXAMPLES,
    INT64,
    RECORDS,
    SPEC,
    example_of,
    field,
    ints,
    serialize,
    strings,
)


@given(st.lists(EXAMPLES, max_size=5), st.integers(1, 6))
def test_many_at_once_equal_one_by_one(examples, repeats):
    records = [e.SerializeToString() for e in examples] * repeats
    for example in examples:
        spec = {
            name: VarLenFeature(
                {"bytes_list": bytes, "float_list": np.float32}.get(
                    feature.WhichOneof("kind"), np.int64
                )
            )
            for name, feature in example.features.feature.items()
        }
        assert outcome(records, spec) == outcome_one_by_one(records, spec)


@given(
    st.lists(st.lists(INT64, min_size=2, max_size=2), min_size=1, max_size=40),
    st.lists(st.binary(min_size=2, max_size=2), min_size=1),
)
def test_integers_of_mixed_sizes_are_parsed(rows, texts):
    records = [
        serialize(x=ints(*row), s=strings(texts[i % len(texts)]))
        for i, row in enumerate(rows)
    ]
    parsed = parse_example(
        records, {"x": FixedLenFeature([2], np.int64), "s": FixedLenFeature([], bytes)}
    )
    assert parsed["x"].tolist() == rows
    assert parsed["s"].tolist() == [texts[i % len(texts)] for i in range(len(rows))]


@given(st.integers(0, 255), st.integers(0, len(RECORDS[5]) - 1), st.integers(0, 9))
def test_changed_byte_means_the_same_among_many(byte, position, index):
    records = RECORDS[:10]
    changed = bytearray(records[index])
    changed[position] = byte
    records[index] = bytes(changed)
    assert outcome(records, SPEC) == outcome_one_by_one(records, SPEC)


def test_unpacked_integers_of_other_sizes_are_not_mixed_up():
    # As long as the others, but with an unknown field where they have their number.
    one = example_of(field(3, b"\x08\xff\x01\x10\x01"))
    other = example_of(field(3, b"\x08\x01\x08\x82\x01"))
    parsed = parse_example([one] * 5 + [other], {"x": VarLenFeature(np.int64)})
    assert [x.tolist() for x in parsed["x"]] == [[255]] * 5 + [[1, 130]]


def outcome(records, spec):
    """What parsing gives, in a form that can be compared."""
    try:
        parsed = parse_example(records, spec)
    except ValueError as error:
        return type(error)
    return {name: [as_bytes(row) for row in rows] for name, rows in parsed.items()}


def outcome_one_by_one(records, spec):
    parsed = [outcome([record], spec) for record in records]
    errors = [p for p in parsed if isinstance(p, type)]
    if errors:
        return errors[0]
    return {name: [p[name][0] for p in parsed] for name in spec}


def as_bytes(row):
    array = np.asarray(row)
    return array.tolist() if array.dtype == object else array.tobytes()
