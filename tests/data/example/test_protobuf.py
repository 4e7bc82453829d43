"""Google's package reads and writes the same examples."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data.example import Example
from mirrax.errors import DataLossError
from tests.data.example.examples import EXAMPLES


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
