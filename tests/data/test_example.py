"""Examples: the format, byte by byte; parsing, one by one and many at once."""

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data.example import (
    BytesList,
    Example,
    Feature,
    Features,
    FixedLenFeature,
    FloatList,
    Int64List,
    VarLenFeature,
    _MalformedError,
    _read_example,
    _read_usual_example,
    parse_example,
    parse_single_example,
)
from mirrax.errors import DataLossError

# Example{x: Int64List[-1, 300]}, byte by byte.
NEGATIVE = bytes.fromhex(
    "0a17"  # Example.features
    "0a15"  # Features.feature
    "0a0178"  # key: "x"
    "1210"  # value
    "1a0e"  # Feature.int64_list
    "0a0c"  # Int64List.value, packed
    "ffffffffffffffffff01"  # -1
    "ac02"  # 300
)
FLOATS = bytes.fromhex("0a130a110a0166120c120a0a080000803f000000c0")  # {f: [1, -2]}
STRINGS = bytes.fromhex("0a100a0e0a016212090a070a0261000a010a")  # {b: [b"a\0", b"\n"]}
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FEATURES = st.one_of(
    st.lists(st.binary(max_size=9)).map(lambda v: Feature(bytes_list=BytesList(v))),
    st.lists(st.floats(width=32, allow_nan=False)).map(
        lambda v: Feature(float_list=FloatList(v))
    ),
    st.lists(INT64).map(lambda v: Feature(int64_list=Int64List(v))),
    st.just(Feature()),
)
EXAMPLES = st.dictionaries(st.text(max_size=4), FEATURES, max_size=5).map(
    lambda feature: Example(features=Features(feature=feature))
)


def ints(*values):
    return Feature(int64_list=Int64List(value=values))


def floats(*values):
    return Feature(float_list=FloatList(value=values))


def strings(*values):
    return Feature(bytes_list=BytesList(value=values))


def serialize(**feature):
    return Example(features=Features(feature=feature)).SerializeToString()


def field(number, data):
    """A field of bytes, shorter than 128."""
    return bytes([number << 3 | 2, len(data)]) + data


def example_of(feature_bytes):
    """An example with the feature `x`, of given bytes."""
    return field(1, field(1, field(1, b"x") + field(2, feature_bytes)))


@pytest.mark.parametrize(
    ("golden", "feature"),
    [
        (NEGATIVE, {"x": ints(-1, 300)}),
        (FLOATS, {"f": floats(1.0, -2.0)}),
        (STRINGS, {"b": strings(b"a\0", b"\n")}),
    ],
    ids=["ints", "floats", "strings"],
)
def test_golden_bytes_are_written_and_read(golden, feature):
    example = Example(features=Features(feature=feature))
    assert example.SerializeToString() == golden
    assert Example.FromString(golden) == example


@given(EXAMPLES)
def test_examples_round_trip(example):
    assert Example.FromString(example.SerializeToString()) == example


@pytest.mark.parametrize(
    "message",
    [
        BytesList([b"a"]),
        FloatList([0.5]),
        Int64List([-3]),
        ints(1),
        Feature(),
        Features({"a": strings(b"")}),
    ],
    ids=repr,
)
def test_parts_round_trip(message):
    assert type(message).FromString(message.SerializeToString()) == message


@given(INT64)
def test_every_integer_is_parsed(number):
    record = serialize(x=ints(number, 1, number))
    parsed = parse_single_example(record, {"x": VarLenFeature(np.int64)})
    assert parsed["x"].tolist() == [number, 1, number]


def test_floats_are_rounded():
    assert FloatList([0.1]).value == [float(np.float32(0.1))]


def test_large_floats_are_infinite():
    assert FloatList([1e300]).value == [float("inf")]


def test_arrays_can_be_values():
    assert Int64List(value=np.arange(3)).value == [0, 1, 2]


def test_values_can_be_appended():
    example = Example()
    example.features.feature["x"] = Feature()
    example.features.feature["x"].int64_list.value.append(7)
    parsed = parse_single_example(
        example.SerializeToString(), {"x": FixedLenFeature((), np.int64)}
    )
    assert parsed == {"x": 7}


@pytest.mark.parametrize(
    ("feature", "kind"),
    [
        (strings(), "bytes_list"),
        (floats(1), "float_list"),
        (ints(1), "int64_list"),
        (Feature(), None),
    ],
    ids=repr,
)
def test_feature_knows_its_kind(feature, kind):
    assert feature.WhichOneof("kind") == kind


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BytesList(["a"]), TypeError, r"must be bytes.*'a' of type str"),
        (lambda: BytesList(b"a"), TypeError, r"Use value=\[b'a'\]"),
        (lambda: FloatList(["1"]), TypeError, "must be a number"),
        (lambda: FloatList(1.0), TypeError, r"Use value=\[1\.0\]"),
        (lambda: Int64List([1.5]), TypeError, "must be an integer"),
        (lambda: Int64List([1 << 63]), ValueError, "fit in 64 bits"),
        (lambda: Feature(BytesList(), FloatList()), ValueError, "one kind"),
        (lambda: Feature().WhichOneof("x"), ValueError, 'Use "kind"'),
        (lambda: VarLenFeature(np.int32), ValueError, "float32, int64 or bytes"),
        (lambda: VarLenFeature("nonsense"), ValueError, "float32, int64 or bytes"),
        (lambda: FixedLenFeature((), None), ValueError, "float32, int64 or bytes"),
        (lambda: FixedLenFeature((None,), bytes), ValueError, "must be known"),
        (lambda: parse_example(b"", {}), TypeError, "parse_single_example"),
        (lambda: parse_example([b"", "a"], {}), TypeError, "str at index 1"),
        (lambda: parse_example([b""], {"x": bytes}), TypeError, "for 'x'"),
    ],
)
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


RECORDS = [
    serialize(x=ints(i), f=floats(i, i + 0.5), s=strings(b"%d" % (i % 10), b"\0"))
    for i in range(300)
]
SPEC = {
    "x": FixedLenFeature((), np.int64),
    "f": FixedLenFeature((1, 2), np.float32),
    "s": FixedLenFeature([2], bytes),
}


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


@given(st.lists(EXAMPLES, max_size=12), st.integers(1, 6))
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


@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        (field(3, b"\x08\x01\x08\xac\x02"), [1, 300]),
        (field(3, b"\x08\x01" + field(1, b"\x02\x03") + b"\x08\x04"), [1, 2, 3, 4]),
        (field(3, field(1, b"\x01")) + field(3, field(1, b"\x02")), [1, 2]),
        (field(2, field(1, b"abcd")) + field(3, field(1, b"\x02")), [2]),
        (field(3, b"\x10\x05" + field(1, b"\x02")), [2]),
        (field(9, b"??") + field(3, field(1, b"\x02")), [2]),
        (field(3, b"\x11" + b"8 bytes!" + field(1, b"\x02")), [2]),
        (field(3, b""), []),
        (b"", []),
    ],
    ids=[
        "unpacked",
        "mixed",
        "merged",
        "last_kind",
        "unknown_varint",
        "unknown_bytes",
        "unknown_fixed64",
        "no_values",
        "no_kind",
    ],
)
@pytest.mark.parametrize("num_records", [1, 9])
def test_unusual_encodings_of_integers_are_parsed(feature, expected, num_records):
    records = [example_of(feature)] * num_records
    parsed = parse_example(records, {"x": VarLenFeature(np.int64)})
    assert [x.tolist() for x in parsed["x"]] == [expected] * num_records


@pytest.mark.parametrize("num_records", [1, 9])
def test_unpacked_floats_are_parsed(num_records):
    values = b"".join(b"\x0d" + struct.pack("<f", v) for v in (0.5, -1))
    records = [example_of(field(2, values))] * num_records
    parsed = parse_example(records, {"x": FixedLenFeature([2], np.float32)})
    assert parsed["x"].tolist() == [[0.5, -1]] * num_records


def test_unpacked_integers_of_other_sizes_are_not_mixed_up():
    # As long as the others, but with an unknown field where they have their number.
    one = example_of(field(3, b"\x08\xff\x01\x10\x01"))
    other = example_of(field(3, b"\x08\x01\x08\x82\x01"))
    parsed = parse_example([one] * 5 + [other], {"x": VarLenFeature(np.int64)})
    assert [x.tolist() for x in parsed["x"]] == [[255]] * 5 + [[1, 130]]


def test_last_of_a_name_counts():
    entries = [
        field(1, b"x") + field(2, field(3, field(1, bytes([i])))) for i in (1, 2)
    ]
    record = field(1, b"".join(field(1, entry) for entry in entries))
    parsed = parse_example([record] * 5, {"x": FixedLenFeature((), np.int64)})
    assert parsed["x"].tolist() == [2] * 5


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x00\x01",
        b"\x0f",
        b"\xff" * 11,
        b"\x0d\x01",
        NEGATIVE[:-1],
        example_of(field(2, field(1, b"abc"))),
        example_of(field(3, field(1, b"\x01\x80"))),
        example_of(field(3, field(1, b"\x80" * 10 + b"\x01"))),
        field(1, field(1, field(1, b"\xff\xfe"))),
    ],
    ids=repr,
)
def test_garbage_is_an_error(garbage):
    records = [NEGATIVE, garbage]
    with pytest.raises(DataLossError, match=r"Received: example 1 of \d+ bytes: .*"):
        parse_example(records, {"x": VarLenFeature(np.int64)})
    with pytest.raises(DataLossError, match=r"Received: \d+ bytes: "):
        Example.FromString(garbage)


@given(st.binary(max_size=60))
def test_usual_examples_are_read_as_all_others(data):
    assert _read_usual_example(data) in (None, outcome_of_reading(data))


@given(EXAMPLES, st.data())
def test_changed_examples_are_read_as_all_others(example, data):
    changed = bytearray(example.SerializeToString())
    position = data.draw(st.integers(0, len(changed) - 1))
    changed[position] = data.draw(st.integers(0, 255))
    changed = bytes(changed)
    assert _read_usual_example(changed) in (None, outcome_of_reading(changed))


def outcome_of_reading(data):
    try:
        return _read_example(data)
    except _MalformedError:
        return "malformed"


@given(EXAMPLES)
def test_written_examples_are_usual(example):
    data = example.SerializeToString()
    assert _read_usual_example(data) == _read_example(data)


@given(st.binary(max_size=60))
def test_random_bytes_never_do_worse_than_data_loss(data):
    for message in (Example, Features, Feature, BytesList, FloatList, Int64List):
        try:
            message.FromString(data)
        except DataLossError:
            continue


@pytest.fixture(scope="module")
def protobuf_example():
    """The message class that Google's package makes of the same definition."""
    pb = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    file = pb.FileDescriptorProto(name="x.proto", package="x", syntax="proto3")
    kinds = pb.FieldDescriptorProto
    for name, type_ in (
        ("BytesList", kinds.TYPE_BYTES),
        ("FloatList", kinds.TYPE_FLOAT),
        ("Int64List", kinds.TYPE_INT64),
    ):
        message = file.message_type.add(name=name)
        message.field.add(name="value", number=1, type=type_, label=3)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("Bytes", "Float", "Int64"), 1):
        feature.field.add(
            name=f"{name.lower()}_list",
            number=number,
            type=11,
            label=1,
            type_name=f".x.{name}List",
            oneof_index=0,
        )
    features = file.message_type.add(name="Features")
    entry = ".x.Features.FeatureEntry"
    features.field.add(name="feature", number=1, type=11, label=3, type_name=entry)
    nested = features.nested_type.add(name="FeatureEntry")
    nested.options.map_entry = True
    nested.field.add(name="key", number=1, type=9, label=1)
    nested.field.add(name="value", number=2, type=11, label=1, type_name=".x.Feature")
    example = file.message_type.add(name="Example")
    example.field.add(
        name="features", number=1, type=11, label=1, type_name=".x.Features"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("x.Example"))


@given(EXAMPLES)
def test_protobuf_reads_what_is_written(protobuf_example, example):
    other = protobuf_example.FromString(example.SerializeToString())
    assert Example.FromString(other.SerializeToString()) == example


@given(EXAMPLES, st.data())
def test_protobuf_agrees_on_changed_bytes(protobuf_example, example, data):
    message = pytest.importorskip("google.protobuf.message")
    changed = bytearray(example.SerializeToString())
    position = data.draw(st.integers(0, len(changed) - 1))
    changed[position] = data.draw(st.integers(0, 255))
    try:
        expected = protobuf_example.FromString(bytes(changed))
    except message.DecodeError:
        with pytest.raises(DataLossError):
            Example.FromString(bytes(changed))
        return
    # Protobuf still skips groups, which no version 3 message has.
    with contextlib.suppress(DataLossError):
        ours = Example.FromString(bytes(changed))
        assert ours == Example.FromString(expected.SerializeToString())
