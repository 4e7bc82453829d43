"""Device names: every spelling means one device, and nothing else is accepted."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.devices.device_names import (
    KINDS,
    DeviceName,
    find_kind,
    parse,
)

NUMBERS = st.integers(0, 10**9 - 1)
JOBS = st.from_regex(r"\A[A-Za-z][A-Za-z0-9_.\-]*\Z")
NAMES = st.builds(
    DeviceName,
    job=JOBS,
    replica=NUMBERS,
    task=NUMBERS,
    kind=st.sampled_from(KINDS),
    index=NUMBERS,
)
LOCAL_NAMES = st.builds(DeviceName, kind=st.sampled_from(KINDS), index=NUMBERS)
# Near misses find more than plain noise does.
FRAGMENTS = st.lists(
    st.sampled_from(
        ["/", ":", "job", "task", "replica", "device", "CPU", "gpu", "0", "-1", "²", ""]
    )
    | st.text(max_size=3)
).map("".join)


@given(NAMES)
def test_name_returns_from_its_canonical_string(name):
    assert parse(str(name)) == name


@given(NAMES, st.permutations(range(4)))
def test_name_returns_from_parts_in_any_order(name, order):
    parts = [f"job:{name.job}", f"replica:{name.replica}", f"task:{name.task}"]
    parts.append(f"device:{name.short}")
    assert parse("/" + "/".join(parts[i] for i in order)) == name


@given(name=LOCAL_NAMES)
@pytest.mark.parametrize("prefix", ["", "/", "device:", "/device:"])
@pytest.mark.parametrize("spell", [str.lower, str.upper, str.title])
def test_name_returns_from_its_short_spellings(name, prefix, spell):
    assert parse(f"{prefix}{spell(name.kind)}:{name.index}") == name


@given(NAMES)
def test_name_returns_without_the_word_device(name):
    assert parse(f"{name.process}/{name.kind.lower()}:{name.index}") == name


@given(NAMES)
def test_canonical_string_is_a_fixed_point(name):
    assert str(parse(str(name))) == str(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0"),
        ("CPU", "/job:localhost/replica:0/task:0/device:CPU:0"),
        ("/device:GPU", "/job:localhost/replica:0/task:0/device:GPU:0"),
        ("cuda:1", "/job:localhost/replica:0/task:0/device:GPU:1"),
        ("/rocm:01", "/job:localhost/replica:0/task:0/device:GPU:1"),
        ("/job:worker/task:1/cpu:0", "/job:worker/replica:0/task:1/device:CPU:0"),
    ],
)
def test_canonicalize_fills_in_what_is_left_out(text, expected):
    assert str(parse(text)) == expected


@given(st.text() | FRAGMENTS)
def test_any_text_is_a_name_or_a_value_error(text):
    with contextlib.suppress(ValueError):
        assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", ""),
        ("XPU:0", "XPU:0"),
        ("/device:XPU:0", "device:XPU:0"),
        ("CPU:0:1", "CPU:0:1"),
        ("CPU:0/", ""),
        ("CPU:0 ", "CPU:0 "),
        ("CPU:-1", "CPU:-1"),
        ("CPU:x", "CPU:x"),
        ("CPU:*", "CPU:*"),
        ("CPU:", "CPU:"),
        ("CPU:²", "CPU:²"),
        ("device:CPU:", "device:CPU:"),
        ("/task:a/CPU:0", "task:a"),
        ("/job:/CPU:0", "job:"),
        ("/job:1/CPU:0", "job:1"),
        ("/job:a/replica:/CPU:0", "replica:"),
        ("/CPU:0/GPU:1", "GPU:1"),
        ("/task:0/task:1/CPU:0", "task:1"),
        ("device", "device"),
        ("CPU:" + "9" * 5000, "CPU:" + "9" * 5000),
    ],
)
def test_parse_names_the_wrong_part(text, wrong):
    shown = re.escape(f"Received: {wrong!r} in {text!r}. Use a name such as 'CPU:0'")
    with pytest.raises(ValueError, match=shown):
        parse(text)


@pytest.mark.parametrize("text", ["/job:worker/task:0", "replica:0"])
def test_parse_refuses_a_name_without_a_kind_of_device(text):
    with pytest.raises(ValueError, match=f"Received: no kind of device in '{text}'"):
        parse(text)


@pytest.mark.parametrize("value", [None, 0, b"CPU:0", ["CPU:0"]], ids=repr)
def test_parse_refuses_what_is_no_string(value):
    with pytest.raises(TypeError, match=r"must be a string\. Received: .* of type"):
        parse(value)


def test_find_kind_knows_no_other_word():
    assert find_kind("physical_device") is None
