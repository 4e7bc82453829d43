"""Parsing: what a batch, and what a single example gives."""

import numpy as np
import pytest
from hypothesis import given

from mirrax.data.example import (
    FixedLenFeature,
    VarLenFeature,
    parse_example,
    parse_single_example,
)
from tests.data.example.examples import INT64, RECORDS, SPEC, ints, serialize, strings


@given(INT64)
def test_every_integer_is_parsed(number):
    record = serialize(x=ints(number, 1, number))
    parsed = parse_single_example(record, {"x": VarLenFeature(np.int64)})
    assert parsed["x"].tolist() == [number, 1, number]


def test_batch_has_a_row_for_each_example():
    parsed = parse_example(RECORDS, SPEC)
    assert parsed["x"].tolist() == list(range(300))
    assert parsed["f"].tolist() == [[[i, i + 0.5]] for i in range(300)]
    assert parsed["s"].tolist() == [[b"%d" % (i % 10), b"\0"] for i in range(300)]
    assert [parsed[k].dtype for k in "xfs"] == [np.int64, np.float32, object]


def test_single_example_has_no_batch_dimension():
    parsed = parse_single_example(RECORDS[200], SPEC)
    assert parsed["x"] == 200
    assert parsed["f"].tolist() == [[200, 200.5]]
    assert parsed["s"].tolist() == [b"0", b"\0"]


def test_single_string_is_bytes():
    parsed = parse_single_example(
        serialize(x=strings(b"a")), {"x": FixedLenFeature((), bytes)}
    )
    assert parsed == {"x": b"a"}


def test_empty_batch_is_parsed():
    parsed = parse_example([], SPEC)
    assert [parsed[k].shape for k in "xfs"] == [(0,), (0, 1, 2), (0, 2)]


def test_variable_lengths_give_a_list():
    records = [serialize(x=ints(*range(i % 4))) for i in range(40)]
    parsed = parse_example(records, {"x": VarLenFeature(np.int64)})
    assert [x.tolist() for x in parsed["x"]] == [list(range(i % 4)) for i in range(40)]
    assert {x.dtype for x in parsed["x"]} == {np.dtype(np.int64)}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: parse_example(b"", {}), TypeError, "parse_single_example"),
        (lambda: parse_example([b"", "a"], {}), TypeError, "str at index 1"),
        (lambda: parse_example([b""], {"x": bytes}), TypeError, "for 'x'"),
    ],
)
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
