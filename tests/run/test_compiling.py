"""A traced function becomes a program of four lists of arrays."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax.devices.topology import local_topology
from mirrax.run.compiled.placement import PLAIN, Form
from mirrax.run.compiled.program import trace_program
from mirrax.run.compiled.program_jit import compiled
from mirrax.run.compiled.variable_io import Holdings
from mirrax.values.layouts import join_parts, replicate
from tests.programs import create, replica_id

SCALAR = jax.ShapeDtypeStruct((), "float32")


def program(fn, count=0, donated=(), topology=None, forms=None, stand_ins=None):
    """Returns a program of `count` numbers, and its variables."""
    forms = forms or [PLAIN] * count
    traced = trace_program(fn, stand_ins or [SCALAR] * count, forms)
    held = Holdings(traced, topology, may_overwrite=True)
    kept = [index for index in range(len(forms)) if index not in donated]
    _, result_forms, _, _ = traced.result
    return compiled(traced, held, topology, forms, result_forms, donated, kept), held


@pytest.mark.parametrize("donated", [(), (1,), (2, 0), (0, 1, 2)], ids=str)
def test_donated_and_kept_arguments_take_their_places(donated):
    def fn(a, b, c):
        return a * 100 + b * 10 + c, a + b, b + c

    run, _ = program(fn, 3, donated)
    numbers = [jnp.float32(n) for n in (1, 2, 3)]
    given = [numbers[index] for index in donated]
    kept = [numbers[index] for index in range(3) if index not in donated]
    results = run([], [], given, kept)
    assert [float(result) for result in results] == [123, 3, 5]


def test_donated_arguments_are_taken_and_no_others():
    run, _ = program(lambda a, b: (a + b, a * b), 2, donated=[1])
    kept, given = jnp.float32(2), jnp.float32(3)
    run([], [], [given], [kept])
    assert (given.is_deleted(), kept.is_deleted()) == (True, False)


def test_a_program_of_nothing_returns_nothing():
    run, _ = program(lambda: None)
    assert run([], [], [], []) == []


def test_variables_come_in_the_order_of_their_holdings():
    first, second, third = (mirrax.Variable(float(n)) for n in (1, 2, 3))

    def row():
        third.assign_add(1.0)
        first.assign_add(1.0)

    # They lie side by side from now on, in this order.
    Holdings(trace_program(row, [], []), None, True).arrays()

    def fn(x):
        first.assign(first * 10 + second)
        third.assign(third * 10 + x)
        return x

    run, held = program(fn, 1)
    assert held.changed == [third, first]
    changed, read_only = held.arrays()
    outputs = run(changed, read_only, [], [jnp.float32(5)])
    assert [float(output) for output in outputs] == [35, 12, 5]


def test_variables_that_are_not_overwritten_come_after_those_that_are(two_replicas):
    plain, mirrored = mirrax.Variable(1.0), create(two_replicas, 2.0)

    def fn():
        plain.assign(7.0)
        mirrored.assign_add(1.0)
        return jnp.float32(9)

    run, held = program(fn, topology=two_replicas.topology)
    assert held.written == [mirrored, plain]
    assert [float(output) for output in run(*held.arrays(), [], [])] == [3, 7, 9]


def test_changed_variables_are_overwritten_and_others_are_not():
    changed, read = mirrax.Variable(jnp.ones(2)), mirrax.Variable(jnp.ones(2))

    def fn():
        changed.assign_add(read.value)

    run, held = program(fn)
    taken, kept = held.arrays()
    run(taken, kept, [], [])
    assert [array.is_deleted() for array in (*taken, *kept)] == [True, False]


def test_everything_lies_where_its_form_says(two_replicas):
    topology = two_replicas.topology
    mirrored = create(two_replicas, 1.0)
    on_read = create(
        two_replicas,
        0.0,
        synchronization=mirrax.VariableSynchronization.ON_READ,
        aggregation=mirrax.VariableAggregation.SUM,
    )

    def replica(x):
        on_read.assign_add(x)
        return x * mirrored + replica_id()

    def fn(x, y):
        varying = two_replicas.run(replica, args=(x,))
        mirrored.assign_add(y)
        return varying, two_replicas.run(lambda: y), y * 2

    forms = [Form("joined", topology, is_scalar=True), PLAIN]
    stand_ins = [jax.ShapeDtypeStruct((2,), "float32"), SCALAR]
    run, held = program(fn, 2, (), topology, forms, stand_ins)
    numbers = [join_parts((10.0, 20.0), topology), jnp.float32(3)]
    outputs = run(*held.arrays(), [], numbers)
    values = [output.tolist() for output in outputs]
    lie_on = [output.sharding for output in outputs]
    by_variable = dict(zip(held.written, range(2), strict=True))
    assert values[by_variable[on_read]] == [10, 20]
    assert values[by_variable[mirrored]] == 4
    assert values[2:] == [[10, 21], 3, 6]
    assert lie_on[by_variable[on_read]] == lie_on[2] == topology.split
    assert lie_on[by_variable[mirrored]] == topology.replicated
    assert lie_on[3:] == [topology.replicated] * 2


def test_plain_arguments_are_spread_over_the_devices():
    topology = local_topology(["CPU:2", "CPU:3"])
    run, _ = program(lambda x: x + 1, 1, (), topology)
    (result,) = run([], [], [], [jnp.float32(1)])
    assert result.devices() == set(topology.devices)
    (result,) = run([], [], [], [replicate(2.0, topology)])
    assert float(result) == 3


def test_an_operation_that_gives_nan_is_found_as_a_whole():
    topology = local_topology(["CPU:0", "CPU:1"])
    with jax.debug_nans(True):
        run, _ = program(lambda x: x / x, 1, (), topology)
        with pytest.raises(FloatingPointError, match="a function over several repl"):
            run([], [], [], [jnp.float32(0)])
