"""Examples to test with: written, random, and byte by byte."""

import numpy as np
from hypothesis import strategies as st

from mirrax.data.example import (
    BytesList,
    Example,
    Feature,
    Features,
    FixedLenFeature,
    FloatList,
    Int64List,
)

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


RECORDS = [
    serialize(x=ints(i), f=floats(i, i + 0.5), s=strings(b"%d" % (i % 10), b"\0"))
    for i in range(300)
]
SPEC = {
    "x": FixedLenFeature((), np.int64),
    "f": FixedLenFeature((1, 2), np.float32),
    "s": FixedLenFeature([2], bytes),
}
