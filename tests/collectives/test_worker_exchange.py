"""What workers tell each other before they compute together."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.collectives.worker_exchange import (
    differing,
    digest,
    equal_on_all,
    exchange,
    from_first,
    from_host,
    merge_shapes,
    require_equal,
    shape_dtype_of,
    with_shapes,
)
from mirrax.errors import ProgramMismatch
from mirrax.values.layouts import Joined, Parts, Replicated
from tests.peers import FakeJob, meet, topology_of


def others_say(value):
    """Returns a job whose second worker says `value`, whatever it is about."""
    return FakeJob(lambda topic, payload: [payload, json.dumps(value).encode()])


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.float32(1), ((), "float32")),
        (np.zeros((2, 0, 3), np.int64), ((2, 0, 3), "int64")),
        (jnp.zeros(2, jnp.bfloat16), ((2,), "bfloat16")),
        (jax.random.key(0), ((), "key<fry>")),
    ],
    ids=["scalar", "empty", "bfloat16", "key"],
)
def test_kind_is_shape_and_name_of_dtype(array, expected):
    assert shape_dtype_of(array) == expected


# Shapes of parts.


def test_layouts_of_one_process_are_left_as_they_are():
    layouts = [Parts((np.ones(2), np.ones(3)))]
    assert with_shapes(topology_of(num_devices=2), layouts) == layouts


def test_parts_get_the_kinds_of_all_workers():
    job = others_say([[[[5], "float32"]]])
    (layout,) = with_shapes(topology_of(job), [Parts((np.ones(2, np.float32),))])
    assert layout.shapes == (((2,), "float32"), ((5,), "float32"))
    assert layout.parts[0].tolist() == [1, 1]
    assert layout.topology.job is job


def test_workers_are_asked_only_about_parts_of_unknown_kind():
    job = others_say([[[[4], "int8"]]])
    topology = topology_of(job)
    alike = Replicated(jnp.ones(2), topology)
    joined = Joined(jnp.ones(2), False, topology)
    known = Parts((np.ones(1),), topology, (((1,), "float64"), ((7,), "float64")))
    unknown = Parts((np.ones(3, np.int8),))
    result = with_shapes(topology, [alike, known, unknown, joined], "a topic")
    assert result[0] is alike
    assert result[1] is known
    assert result[2].shapes == (((3,), "int8"), ((4,), "int8"))
    assert result[3] is joined
    assert job.topics == ["a topic"]


@pytest.mark.parametrize(
    "layouts",
    [[], [Parts((np.ones(1),), None, (((1,), "float64"),))]],
    ids=["nothing", "known"],
)
def test_workers_are_not_asked_what_is_known(layouts):
    job = FakeJob()
    assert with_shapes(topology_of(job), layouts) == layouts
    assert job.topics == []


def test_kinds_of_several_values_are_kept_apart():
    answers = [[[[[1], "a"]], [[[2], "b"]]], [[[[3], "c"]], [[[4], "d"]]]]
    assert merge_shapes(answers) == [
        (((1,), "a"), ((3,), "c")),
        (((2,), "b"), ((4,), "d")),
    ]


def test_kinds_of_nothing_are_none():
    assert merge_shapes([[], []]) == []


def test_workers_that_combine_another_number_of_values_are_told():
    kind = [[[1], "int8"]]
    message = r"the same number of values. Received: \[2, 1, 2\] value\(s\), in the"
    with pytest.raises(ProgramMismatch, match=message):
        merge_shapes([[kind, kind], [kind], [kind, kind]])


def test_values_are_exchanged_as_json():
    job = FakeJob(lambda topic, payload: [payload, b"[1]"])
    assert exchange(topology_of(job), "a topic", "süß") == ["süß", [1]]
    assert job.topics == ["a topic"]


# The value of the first worker.


VALUES = [
    np.float32(1.5),
    np.arange(6, dtype=np.int64).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.zeros((0, 4), np.float16),
    np.array([True, False]),
    np.array([1 + 2j, 3]),
    np.asarray(jnp.array([1.5, -2], jnp.bfloat16)),
]


def start_with(value):
    """Returns a worker that brings `value` and takes that of the first."""
    return lambda job: from_first(topology_of(job), "start", value)


@pytest.mark.parametrize("first", VALUES, ids=lambda v: f"{v.dtype}{v.shape}")
def test_every_worker_gets_the_value_of_the_first(first):
    for found in meet(start_with(first), start_with(np.zeros_like(first))):
        assert (found.dtype, found.shape) == (first.dtype, first.shape)
        assert found.tolist() == first.tolist()


@pytest.mark.parametrize(
    ("worker_index", "sent"), [(0, np.ones(3).tobytes()), (1, b"")]
)
def test_only_the_first_worker_sends_its_value(worker_index, sent):
    job = FakeJob(lambda *_: [np.zeros(3).tobytes(), b""], worker_index=worker_index)
    assert start_with(np.ones(3))(job).tolist() == [0, 0, 0]
    assert job.payloads == [sent]


def test_kind_of_the_value_is_part_of_the_topic():
    """So workers with another one are found out when they exchange it."""
    job = FakeJob()
    start_with(np.ones((2, 3), np.int8))(job)
    assert job.topics == ["start int8[2, 3]"]


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_random_keys_of_the_first_worker_are_keys_again(impl):
    first, other = jax.random.key(3, impl=impl), jax.random.key(4, impl=impl)
    found = meet(start_with(first), start_with(other))
    assert [key.dtype for key in found] == [first.dtype] * 2
    data = [jax.random.key_data(key).tolist() for key in found]
    assert data == [jax.random.key_data(first).tolist()] * 2


def test_value_of_the_only_process_is_left_as_it_is():
    value = [1.0, 2.0]
    assert from_first(topology_of(), "start", value) is value


def test_number_like_a_key_is_a_key_and_others_stay_arrays():
    key = jax.random.key(7)
    made = from_host(key, np.asarray(jax.random.key_data(key)))
    assert made.dtype == key.dtype
    array = np.ones(2)
    assert from_host(jnp.ones(2), array) is array
    assert from_host(1.0, array) is array


# What differs between workers.


def test_every_worker_is_told_which_values_differ():
    def compare(*values):
        return lambda job: differing(topology_of(job), "args", values)

    found = meet(compare(1.0, 2.0, "x"), compare(1.0, 9.0, "x"))
    assert found == [[False, True, False]] * 2


def test_value_that_only_the_third_worker_has_differs():
    other = json.dumps([[digest(5)]]).encode()
    job = FakeJob(lambda topic, payload: [payload, payload, other], num_workers=3)
    assert differing(topology_of(job), "args", [4]) == [True]


@pytest.mark.parametrize(
    ("job", "values", "expected"),
    [(None, [1, 2], [False, False]), (FakeJob(), [], [])],
    ids=["alone", "no values"],
)
def test_nothing_differs_where_there_is_nothing_to_compare(job, values, expected):
    assert differing(topology_of(job), "args", values) == expected
    assert job is None or job.topics == []


def test_parts_are_equal_if_they_are_on_all_workers():
    def compare(*values):
        return lambda job: equal_on_all(topology_of(job), "results", values)

    here, there = compare((1, 1), (2, 3), (4, 4)), compare((1, 1), (2, 2), (5, 5))
    assert meet(here, there) == [[True, False, False]] * 2
    nothing = FakeJob()
    assert equal_on_all(topology_of(nothing), "results", []) == []
    assert nothing.topics == []


def test_equal_values_may_be_assigned():
    job = FakeJob()
    require_equal(topology_of(job), mirrax.Variable(0, name="v"), np.ones(2))
    assert job.topics == ["assign v:0"]


def test_different_values_may_not_be_assigned():
    job = FakeJob(
        lambda topic, payload: [json.dumps([[digest(2.0)]]).encode(), payload],
        worker_index=1,
    )
    message = (
        r"Variable 'v:0' is shared by all workers.*Received: 3.0 on worker 1, and "
        r"another value elsewhere. Combine the values first \(`strategy.reduce`\)"
    )
    with pytest.raises(ValueError, match=message):
        require_equal(topology_of(job), mirrax.Variable(0, name="v"), 3.0)


# Digests.


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.arange(6).reshape(2, 3), jnp.arange(6, dtype=jnp.int32).reshape(2, 3)),
        (np.zeros(2, np.float32), np.zeros(3, np.float32)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros((0, 2)), np.zeros((2, 0))),
        (np.float32(1), np.ones(1, np.float32)),
        (np.int32(0), np.float32(0)),
        (0.0, -0.0),
        ("ab", "abc"),
        (jax.random.key(1), jax.random.key(2)),
    ],
    ids=[
        "dtype of many",
        "number of rows",
        "shape",
        "empty shapes",
        "scalar",
        "dtype",
        "sign of zero",
        "text",
        "keys",
    ],
)
def test_digests_of_different_values_differ(first, second):
    assert digest(first) != digest(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.arange(3, dtype=np.float32), jnp.arange(3.0)),
        (
            np.arange(6).reshape(2, 3).T,
            np.ascontiguousarray(np.arange(6).reshape(2, 3).T),
        ),
        (np.arange(8)[::2], np.array([0, 2, 4, 6])),
        (np.nan, float("nan")),
        (jax.random.key(1), jax.random.key(1)),
        (True, np.True_),
    ],
    ids=["library", "order in memory", "strides", "nan", "keys", "number"],
)
def test_digests_of_equal_values_are_equal(first, second):
    assert digest(first) == digest(second)
