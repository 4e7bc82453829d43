"""Columns: missing features, defaults, and values that do not fit."""

import numpy as np
import pytest

from mirrax.data.example import (
    Feature,
    FixedLenFeature,
    VarLenFeature,
    parse_example,
    parse_single_example,
)
from tests.data.example.examples import floats, ints, serialize


def test_missing_feature_is_an_error():
    with pytest.raises(
        ValueError, match=r"Feature 'y' of example 1.*is required.*default_value"
    ):
        parse_example(
            [serialize(y=ints(1)), serialize(x=ints(1))],
            {"y": FixedLenFeature((), np.int64)},
        )


@pytest.mark.parametrize(
    ("dtype", "shape", "default", "expected"),
    [
        (np.int64, (), 7, 7),
        (np.float32, (2,), 0.5, [0.5, 0.5]),
        (np.float32, (1, 2), [[1, 2]], [[1, 2]]),
        (bytes, (), b"none", b"none"),
        (bytes, (), "", b""),
        (bytes, (2,), ["a", b"b"], [b"a", b"b"]),
    ],
    ids=str,
)
def test_missing_feature_has_its_default(dtype, shape, default, expected):
    spec = {"y": FixedLenFeature(shape, dtype, default_value=default)}
    parsed = parse_example([serialize(x=ints(1)), serialize(y=Feature())], spec)
    assert parsed["y"].tolist() == [expected, expected]


def test_default_must_fit_the_shape():
    spec = {"y": FixedLenFeature([3], np.int64, default_value=[1, 2])}
    with pytest.raises(ValueError, match=r"shape \(2,\) for 'y' with the shape \(3,\)"):
        parse_example([b""], spec)


def test_missing_variable_feature_is_empty():
    parsed = parse_single_example(b"", {"y": VarLenFeature(np.float32)})
    assert (parsed["y"].shape, parsed["y"].dtype) == ((0,), np.float32)


@pytest.mark.parametrize("kind", [FixedLenFeature, VarLenFeature], ids=["fixed", "var"])
def test_wrong_kind_is_an_error(kind):
    spec = {"x": kind((), np.float32) if kind is FixedLenFeature else kind(np.float32)}
    records = [serialize(x=floats(1))] * 9 + [serialize(x=ints(1))]
    with pytest.raises(
        ValueError, match=r"'x' of example 9: .*type: float32\. Received: int64"
    ):
        parse_example(records, spec)


@pytest.mark.parametrize("num_records", [1, 20])
@pytest.mark.parametrize("values", [(), (1,), (1, 2, 3)], ids=str)
def test_wrong_number_of_values_is_an_error(num_records, values):
    records = [serialize(x=ints(*values))] * num_records
    with pytest.raises(
        ValueError, match=rf"'x' of example 0: .*: {len(values)} values .*\(2,\)"
    ):
        parse_example(records, {"x": FixedLenFeature([2], np.int64)})
