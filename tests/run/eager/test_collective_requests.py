"""What the replicas of an eager `run` ask for when they meet, and the answers."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.collectives import host_all_reduce
from mirrax.collectives.reduce import Collective
from mirrax.errors import InvalidArgumentError, ReplicaError
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.run.eager.collective_requests import (
    AllGather,
    AllReduce,
    MergeCall,
    add_location,
    matching,
)
from mirrax.run.replica_context import ReplicaCall
from tests.programs import replica_id

OPTIONS = CommunicationOptions()
HERE = r"test_collective_requests\.py:\d+"


@pytest.fixture
def call(two_replicas):
    collective = two_replicas.collective
    return ReplicaCall(two_replicas, collective, replica_id, (), {})


def add(*values, op=ReduceOp.SUM, options=OPTIONS):
    arrays = [jnp.asarray(value) for value in values]
    return AllReduce(op, arrays, options, jax.tree.structure(arrays))


def join(*values, axis=0):
    arrays = [jnp.asarray(value) for value in values]
    return AllGather(arrays, axis, jax.tree.structure(arrays))


def merge(fn, *args, **kwargs):
    return MergeCall(fn, args, kwargs)


def answers(call, *requests):
    return requests[0].answer_all(call, requests)


def as_lists(rows):
    return [[value.tolist() for value in row] for row in rows]


def waiting(request):
    """Returns a request as of a replica that waits where this is called."""
    request.frame = sys._getframe(1)
    return request


# Answers.


@pytest.fixture(params=["small", "large"])
def size(request, monkeypatch):
    """Small values are added up here, large ones by a collective of the devices."""
    if request.param == "large":
        monkeypatch.setattr(host_all_reduce, "MAX_BYTES", -1)


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize(
    ("op", "expected"),
    [(ReduceOp.SUM, [[4, 6], 5]), (ReduceOp.MEAN, [[2, 3], 2.5])],
    ids=["sum", "mean"],
)
def test_values_are_combined_for_each_replica(call, op, expected):
    first, second = add([1.0, 2.0], 4, op=op), add([3.0, 4.0], 1, op=op)
    assert as_lists(answers(call, first, second)) == [expected, expected]


@pytest.mark.usefixtures("size")
def test_each_replica_gets_what_lies_on_its_device(call):
    rows = answers(call, add([1.0]), add([2.0]))
    assert [row[0].devices() for row in rows] == [{d} for d in call.topology.devices]
    (first,), (second,) = rows
    assert (first + second).tolist() == [6]


def test_nothing_is_combined_to_nothing(call):
    assert answers(call, add(), add()) == [[], []]


def test_the_options_of_the_call_reach_the_collective(two_replicas):
    seen = []

    class Noting(mirrax.CrossDeviceOps):
        def sum_over_replicas(self, values, num_replicas, options):
            seen.append(options)
            return [jax.lax.psum(value, "replica") for value in values]

    usual = CommunicationOptions(bytes_per_pack=7)
    collective = Collective(two_replicas.topology, Noting(), usual)
    call = ReplicaCall(two_replicas, collective, replica_id, (), {})
    wanted = CommunicationOptions(bytes_per_pack=9)
    answers(call, add(1.0, options=wanted), add(2.0, options=wanted))
    answers(call, add(1.0, options=usual), add(2.0, options=usual))
    assert seen == [wanted, usual]


def test_unequal_shapes_are_refused(call):
    with pytest.raises(InvalidArgumentError, match="same shape and dtype on each"):
        answers(call, add([1.0]), add([1.0, 2.0]))


def test_parts_are_joined_for_each_replica(call):
    first, second = join([[1], [2]], [[1]], axis=0), join([[3]], [[2]], axis=0)
    rows = answers(call, first, second)
    assert as_lists(rows) == [[[[1], [2], [3]], [[1], [2]]]] * 2
    assert [row[0].devices() for row in rows] == [{d} for d in call.topology.devices]


def test_parts_are_joined_along_the_axis(call):
    rows = answers(call, join([[1]], axis=-1), join([[2]], axis=-1))
    assert as_lists(rows) == [[[[1, 2]]]] * 2


def test_a_merge_function_is_called_once_with_what_all_bring(call):
    calls, shared = [], object()

    def fn(strategy, x, y, *, z):
        calls.append((strategy, x.values, y, z["a"].values))
        assert mirrax.in_cross_replica_context()
        return "done"

    first = merge(fn, 1, shared, z={"a": "l"})
    second = merge(fn, 2, shared, z={"a": "r"})
    assert answers(call, first, second) == ["done", "done"]
    assert calls == [(call.strategy, (1, 2), shared, ("l", "r"))]


def test_each_replica_gets_its_part_of_what_a_merge_function_returns(call):
    def fn(strategy, x):
        return {"own": x, "all": [None, "text"]}

    assert answers(call, merge(fn, 1), merge(fn, 2)) == [
        {"own": 1, "all": [None, "text"]},
        {"own": 2, "all": [None, "text"]},
    ]


def test_a_merge_function_needs_no_values(call):
    assert answers(call, merge(lambda _: None), merge(lambda _: None)) == [None, None]


# What must be equal.


@pytest.mark.parametrize(
    "requests",
    [
        (add(1.0), add(2.0)),
        (add(), add()),
        (join([1]), join([1, 2])),
        (merge(max, 1), merge(max, 2)),
        (merge(functools.partial(max, 1)), merge(functools.partial(max, 2))),
    ],
    ids=["all_reduce", "nothing", "all_gather", "merge_call", "partial"],
)
def test_requests_that_match_are_returned(requests):
    assert matching(dict(enumerate(requests))) == list(requests)


def test_merge_functions_that_are_made_in_one_place_match():
    """Each replica makes its own function where it calls `merge_call`."""

    def made(number):
        return lambda _: number

    first, second = merge(made(1)), merge(made(2))
    assert matching({0: first, 1: second}) == [first, second]


@pytest.mark.parametrize(
    "requests",
    [
        (add(1.0), join([1.0])),
        (add(1.0), merge(max)),
        (add(1.0), add(1.0, op=ReduceOp.MEAN)),
        (add(1.0), add(1.0, 2.0)),
        (add(1.0), add(1.0, options=CommunicationOptions(bytes_per_pack=3))),
        (join([1.0]), join([1.0], axis=-1)),
        (join([1.0]), join([1.0], [1.0])),
        (merge(max), merge(min)),
        (merge(functools.partial(max)), merge(max)),
    ],
    ids=[
        "gather",
        "merge",
        "operation",
        "count",
        "options",
        "axis",
        "gathered",
        "function",
        "partial",
    ],
)
def test_requests_that_differ_are_refused_with_their_places(requests):
    first, second = map(waiting, requests)
    message = (
        rf"same collective calls, in the same order.*replica 0 calls {first.kind} .*at "
        rf".*{HERE}; replica 5 calls {second.kind} .*at .*{HERE}"
    )
    with pytest.raises(ReplicaError, match=message):
        matching({0: first, 5: second})


def test_replicas_that_have_ended_are_named():
    message = (
        rf"replica\(s\) \[1, 2\] wait in all_gather at .*{HERE}, but replica\(s\) "
        r"\[0, 3\] ended without calling it. Take the all_gather out of the condition"
    )
    request = waiting(join([1.0]))
    with pytest.raises(ReplicaError, match=message):
        matching({0: None, 1: request, 2: request, 3: None})


# Where replicas wait.


def test_a_request_that_nobody_waits_for_has_no_place():
    assert add(1.0).where == "an unknown place"


def test_an_error_says_where_the_replicas_met():
    error = ValueError("mine")
    requests = [waiting(add(1.0)), waiting(add(2.0))]
    add_location(error, requests)
    line = sys._getframe().f_lineno - 1
    place = f"{__file__}:{line}"
    assert error.__notes__ == [f"[mirrax] raised in all_reduce, called at {place}"]


def test_an_error_names_each_place_once():
    def elsewhere(first):
        second = waiting(join([1]))
        error = ValueError("mine")
        add_location(error, [first, second, first])
        return error

    (note,) = elsewhere(waiting(join([1]))).__notes__
    assert note.count(" and at ") == 1
    assert note.count("test_collective_requests.py") == 2


# In a `run`.


def all_reduce(value, op="SUM"):
    return mirrax.get_replica_context().all_reduce(op, value)


def test_different_operations_are_refused(two_replicas):
    with pytest.raises(ReplicaError, match="the same collective calls"):
        two_replicas.run(lambda: all_reduce(1.0, "MEAN" if replica_id() else "SUM"))


def test_different_gather_axes_are_refused(two_replicas):
    def step():
        return mirrax.get_replica_context().all_gather(jnp.ones((2, 2)), replica_id())

    with pytest.raises(ReplicaError, match="the same collective calls"):
        two_replicas.run(step)


@pytest.mark.parametrize(
    "functions",
    [
        (lambda _: "this", lambda _: "that"),
        (functools.partial(max, default=1), functools.partial(min, default=1)),
    ],
    ids=["functions", "partials"],
)
def test_different_merge_functions_are_refused(two_replicas, functions):
    def step():
        mirrax.get_replica_context().merge_call(functions[replica_id()])

    with pytest.raises(ReplicaError, match="the same collective calls"):
        two_replicas.run(step)


def test_different_numbers_of_values_are_refused(two_replicas):
    with pytest.raises(ReplicaError, match="the same collective calls"):
        two_replicas.run(lambda: all_reduce([1.0] * (replica_id() + 1)))


class Named:
    """A node whose own data cannot be compared."""

    def __init__(self, value, name):
        self.value, self.name = value, name


jax.tree_util.register_pytree_node(
    Named, lambda node: ([node.value], node.name), lambda name, v: Named(v[0], name)
)


@pytest.mark.parametrize(
    "trees",
    [
        [jax.tree_util.Partial(lambda x: x, 1.0) for _ in range(2)],
        [Named(1.0, np.ones(2)) for _ in range(2)],
    ],
    ids=["functions", "arrays"],
)
def test_values_in_the_same_places_fit_whatever_else_the_nodes_hold(call, trees):
    requests = [
        AllReduce(ReduceOp.SUM, [jnp.float32(1)], OPTIONS, jax.tree.structure(tree))
        for tree in trees
    ]
    assert matching(dict(enumerate(requests))) == requests
