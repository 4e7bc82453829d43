"""One program per replica side by side, which meet at their collectives."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

import mirrax
from mirrax import PerReplica
from mirrax.run.compiled.callbacks import Failures, catch_failures
from mirrax.run.compiled.results import split_results_of_replica
from mirrax.run.compiled.spmd_communicator import call_in_replica
from mirrax.run.compiled.tracing import trace
from mirrax.run.replica_context import ReplicaCall
from mirrax.run.uneven.lockstep import Lockstep
from mirrax.run.uneven.segments import cut
from tests.programs import create, replica_id
from tests.variables.library import Box

AXIS_ENV = [("replica", 2)]
ON_READ = {
    "synchronization": mirrax.VariableSynchronization.ON_READ,
    "aggregation": mirrax.VariableAggregation.SUM,
}


def total(x):
    return lax.psum(x, "replica")


def traces_of(strategy, fn, rows):
    """Returns what `fn` does on each replica with its arguments."""
    call = ReplicaCall(strategy, strategy.collective, fn, (), {})

    def body(*values):
        found = call_in_replica(call, values, {}, has_equal_parts=False)
        return split_results_of_replica(found)

    return [trace(body, row, inside_replica=True, axis_env=AXIS_ENV) for row in rows]


def side_by_side(strategy, fn, rows):
    """Returns for each output what the replicas computed."""
    topology = strategy.topology
    traces = traces_of(strategy, fn, rows)
    cuts = [cut(traced.closed, topology) for traced in traces]
    return list(zip(*Lockstep(topology, (), cuts, ())._run(rows), strict=True))


def lockstep(strategy, fn, rows, varying=(), failures=None):
    traces = traces_of(strategy, fn, rows)
    if failures is not None:
        traces = [
            dataclasses.replace(t, closed=catch_failures(t.closed, failures))
            for t in traces
        ]
    topology = strategy.topology
    cuts = tuple(cut(traced.closed, topology) for traced in traces)
    run = Lockstep(topology, tuple(traces), cuts, tuple(varying), failures)
    return run(rows)


def test_each_replica_computes_on_its_device(two_replicas):
    ((left, right),) = side_by_side(
        two_replicas,
        lambda x: x * 2,
        [[np.ones(3, np.float32)], [np.ones(1, np.float32)]],
    )
    assert (left.tolist(), right.tolist()) == ([2, 2, 2], [2])
    assert [left.devices(), right.devices()] == [
        {d} for d in two_replicas.topology.devices
    ]


def test_replicas_meet_in_every_collective(two_replicas):
    def fn(x):
        mean = total(x.sum()) / total(jnp.float32(x.size))
        return total(mean * x.sum()), mean

    rows = [[jnp.array([1.0, 2.0, 3.0])], [jnp.array([4.0])]]
    sums, means = side_by_side(two_replicas, fn, rows)
    assert [value.tolist() for value in (*sums, *means)] == [25, 25, 2.5, 2.5]
    assert [value.shape for value in sums] == [(), ()]


def test_collectives_of_several_shapes_run_as_one_program(two_replicas):
    def fn(x, y):
        return total(x), lax.pmax(y, "replica")

    rows = [[jnp.ones((2, 2)), jnp.float32(1)], [jnp.ones((2, 2)), jnp.float32(5)]]
    sums, largest = side_by_side(two_replicas, fn, rows)
    assert [value.tolist() for value in sums] == [[[2, 2], [2, 2]]] * 2
    assert [float(value) for value in largest] == [5, 5]


def test_what_is_given_and_constants_come_back(two_replicas):
    rows = [[jnp.ones(1)], [jnp.zeros(2)]]
    given, constants = side_by_side(two_replicas, lambda x: (x, jnp.float32(7)), rows)
    assert [value.tolist() for value in given] == [[1], [0, 0]]
    assert [float(value) for value in constants] == [7, 7]


def test_a_function_of_nothing_gives_nothing(two_replicas):
    assert side_by_side(two_replicas, lambda: None, [[], []]) == []


# As a whole.


def test_results_that_vary_are_parts_and_others_are_mirrored(two_replicas):
    def fn(x):
        return {"own": [x * 2], "all": total(x.sum()), "none": None}

    rows = [[jnp.ones(2)], [jnp.ones(1)]]
    result = lockstep(two_replicas, fn, rows, [False, True])
    assert float(result["all"]) == 3
    assert result["all"].sharding == two_replicas.topology.replicated
    (own,) = result["own"]
    assert [part.tolist() for part in own.values] == [[2, 2], [2]]
    assert [part.devices() for part in own.values] == [
        {d} for d in two_replicas.topology.devices
    ]
    assert result["none"] is None


def test_results_can_be_used_with_each_other(two_replicas):
    result = lockstep(two_replicas, lambda x: x * 2, [[1.0], [2.0]], [True])
    assert float(sum(result.values)) == 6


def test_constants_lie_on_the_devices_of_their_replicas(two_replicas):
    result = lockstep(two_replicas, lambda x: jnp.float32(7), [[1.0], [2.0]], [True])
    assert [part.devices() for part in result.values] == [
        {d} for d in two_replicas.topology.devices
    ]


def test_objects_that_are_the_same_come_back_bare_and_others_as_parts(two_replicas):
    names = iter(("left", "right"))
    result = lockstep(two_replicas, lambda: ["same", next(names)], [[], []])
    assert result[0] == "same"
    assert isinstance(result[1], PerReplica)
    assert result[1].values == ("left", "right")


def test_variables_are_read_as_each_replica_sees_them(two_replicas):
    mirrored, plain = create(two_replicas, 2.0), mirrax.Variable(10.0)
    on_read = create(two_replicas, 0.0, **ON_READ)
    two_replicas.run(lambda: on_read.assign(jnp.float32(replica_id())))

    def fn(x):
        return total(x.sum()) * mirrored.value * plain.value, on_read.value

    rows = [[jnp.ones(3)], [jnp.ones(2)]]
    mean, own = lockstep(two_replicas, fn, rows, [False, True])
    assert float(mean) == 100
    assert [float(part) for part in own.values] == [0, 1]


def test_what_is_written_is_stored_on_all_replicas(two_replicas):
    mirrored, on_read = create(two_replicas, 2.0), create(two_replicas, 1.0, **ON_READ)
    topology = two_replicas.topology

    def fn(x):
        mirrored.assign_add(total(x.sum()))
        on_read.assign_add(x.sum())

    assert lockstep(two_replicas, fn, [[jnp.ones(3)], [jnp.ones(2)]]) is None
    assert mirrored.stored.sharding == topology.replicated
    assert [float(part.numpy()) for part in mirrored.values] == [7, 7]
    assert on_read.stored.sharding == topology.split
    assert [float(part.numpy()) for part in on_read.values] == [4, 3]


def test_values_that_were_read_or_written_may_be_held_by_others(two_replicas):
    read, written = create(two_replicas, 1.0), create(two_replicas, 2.0)

    def fn(x):
        written.assign(total(x))
        return read.value

    lockstep(two_replicas, fn, [[1.0], [2.0]], [False])
    assert (read.is_aliased, written.is_aliased) == (True, True)


def test_a_variable_of_another_library_is_put_on_all_devices(two_replicas):
    box = Box(3.0)
    rows = [[jnp.ones(1)], [jnp.ones(2)]]
    result = lockstep(two_replicas, lambda x: x * box.own.value, rows, [True])
    assert [part.tolist() for part in result.values] == [[3], [3, 3]]
    assert box.held.sharding == two_replicas.topology.replicated


def test_a_callback_that_raises_leaves_variables_as_they_were(two_replicas):
    variable = create(two_replicas, 1.0)

    def callback(x):
        raise KeyError("mine")

    def fn(x):
        shape = jax.ShapeDtypeStruct((), "float32")
        variable.assign(total(io_callback(callback, shape, x)))

    with pytest.raises(KeyError, match="mine") as caught:
        lockstep(two_replicas, fn, [[1.0], [2.0]], failures=Failures())
    assert "raised by a callback" in caught.value.__notes__[0]
    assert variable.numpy() == 1
