"""What a replica does while one trace stands for all of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import PerReplica
from mirrax.context.guards import NotTraceable
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.run.compiled.spmd_communicator import (
    SpmdCommunicator,
    call_in_replica,
    run_within,
)
from mirrax.run.replica_context import ReplicaCall
from mirrax.values.layouts import Spmd
from mirrax.values.mirrored import Mirrored
from tests.programs import replica_id

OPTIONS = CommunicationOptions()


@pytest.fixture
def communicator(two_replicas):
    return SpmdCommunicator(two_replicas, two_replicas.collective)


def on_replicas(fn, *columns):
    """Returns what `fn` makes of each replica's values, as lists."""
    mapped = jax.vmap(fn, axis_name="replica", axis_size=2)
    return jax.tree.map(lambda x: x.tolist(), mapped(*map(jnp.asarray, columns)))


def call(strategy, fn, *args, **kwargs):
    return ReplicaCall(strategy, strategy.collective, fn, args, kwargs)


def context():
    return mirrax.get_replica_context()


def test_the_number_is_that_of_whoever_runs_the_trace(communicator):
    assert on_replicas(lambda _: communicator.replica_id, [0, 0]) == [0, 1]


@pytest.mark.parametrize(
    ("op", "expected"),
    [(ReduceOp.SUM, [[3, 3], [30, 30]]), (ReduceOp.MEAN, [[1.5, 1.5], [15, 15]])],
    ids=["sum", "mean"],
)
def test_values_are_combined_over_the_replicas(communicator, op, expected):
    def fn(x, y):
        return communicator.all_reduce(op, [x, y], OPTIONS)

    assert on_replicas(fn, [1.0, 2.0], [10, 20]) == expected
    assert communicator.all_reduce(op, [], OPTIONS) == []


def test_parts_are_joined_along_the_axis(communicator):
    def fn(x):
        return communicator.all_gather([x, x * 10], 1)

    joined, tens = on_replicas(fn, [[[1], [2]], [[3], [4]]])
    assert joined == [[[1, 3], [2, 4]]] * 2
    assert tens == [[[10, 30], [20, 40]]] * 2


def test_parts_that_may_be_unequal_are_not_gathered_in_a_trace(two_replicas):
    own = SpmdCommunicator(two_replicas, two_replicas.collective, False)
    with pytest.raises(NotTraceable):
        own.all_gather([jnp.ones(2)], 0)


# Merge functions.


def test_a_merge_function_gets_the_values_of_all(communicator, two_replicas):
    def merge(strategy, x, *, y):
        assert strategy is two_replicas
        assert mirrax.in_cross_replica_context()
        return strategy.reduce("SUM", x, axis=None) + sum(y["a"].values)

    def fn(x):
        return communicator.merge_call(merge, (x,), {"y": {"a": x * 10}})

    assert on_replicas(fn, [1.0, 2.0]) == [33, 33]


def test_what_is_not_traced_reaches_a_merge_function_as_it_is(communicator):
    shared, seen = jnp.ones(2), []

    def merge(strategy, *values):
        seen.extend(values)

    communicator.merge_call(merge, (shared, "text", None, 3, np.float32(1)), {})
    assert seen[0] is shared
    assert seen[1:4] == ["text", None, 3]
    assert isinstance(seen[4].layout, Spmd)


def test_each_replica_gets_its_part_of_what_a_merge_function_returns(communicator):
    def merge(strategy, x):
        mirrored = Mirrored(jnp.float32(5))
        return {"own": x, "parts": PerReplica((10, 20)), "all": [mirrored, 7]}

    def fn(x):
        result = communicator.merge_call(merge, (x,), {})
        assert result["all"][1] == 7
        return result["own"], result["parts"], jnp.asarray(result["all"][0])

    assert on_replicas(fn, [1.0, 2.0]) == ([1, 2], [10, 20], [5, 5])


def test_an_error_in_a_merge_function_leaves_the_strategy(communicator):
    def merge(strategy):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        communicator.merge_call(merge, (), {})
    assert not mirrax.has_strategy()


# Calls.


def test_a_function_is_called_in_the_context_of_a_replica(two_replicas):
    def step(x, *, scale):
        assert context().strategy is two_replicas
        assert not mirrax.in_cross_replica_context()
        return {"sum": context().all_reduce("SUM", x * scale), "id": replica_id()}

    def fn(x):
        return call_in_replica(call(two_replicas, step), (x,), {"scale": 10})

    assert on_replicas(fn, [1.0, 2.0]) == {"sum": [30, 30], "id": [0, 1]}
    assert not mirrax.has_strategy()


def test_an_error_in_a_function_leaves_the_context(two_replicas):
    def step():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        call_in_replica(call(two_replicas, step), (), {})
    assert not mirrax.has_strategy()


def test_a_run_in_a_merge_function_takes_parts_and_gives_parts(two_replicas):
    def step(x, parts, mirrored, *, plain):
        return x + parts + mirrored + plain, "text"

    def fn(x):
        values = PerReplica(Spmd(x)), PerReplica((10, 20)), Mirrored(jnp.float32(100))
        result, text = run_within(call(two_replicas, step, *values, plain=1000))
        assert isinstance(result.layout, Spmd)
        assert text == "text"
        return result.layout.value

    assert on_replicas(fn, [1.0, 2.0]) == [1111, 1122]
