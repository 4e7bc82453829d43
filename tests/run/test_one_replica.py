"""The communicator of a single replica, and what every communicator requires."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.run.replica_context import SingleReplica

OPTIONS = CommunicationOptions()


@pytest.fixture
def one():
    return mirrax.OneDeviceStrategy("CPU:0")


def reduced(op, *values):
    return SingleReplica(None).all_reduce(op, list(values), OPTIONS)


def test_a_single_replica_is_the_first(one):
    assert SingleReplica(one).replica_id == 0


@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.MEAN])
def test_a_single_value_is_its_own_sum_and_mean(op):
    first, second = reduced(op, jnp.array([1.5, 2.5]), jnp.float32(3))
    assert (first.tolist(), float(second)) == ([1.5, 2.5], 3)
    assert reduced(op) == []


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        (ReduceOp.SUM, "int32", "int32"),
        (ReduceOp.MEAN, "int32", "float32"),
        (ReduceOp.SUM, "bool", "int32"),
        (ReduceOp.MEAN, "bool", "float32"),
        (ReduceOp.MEAN, "bfloat16", "bfloat16"),
        (ReduceOp.SUM, "complex64", "complex64"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_single_value_gets_the_dtype_of_a_reduction(op, dtype, expected):
    (found,) = reduced(op, jnp.ones(2, dtype))
    assert str(found.dtype) == expected


def test_a_number_of_python_is_reduced_to_a_strong_array():
    """As on several replicas."""
    weak = jnp.asarray(2.0)
    (found,) = reduced(ReduceOp.SUM, weak)
    assert (weak.weak_type, found.weak_type) == (True, False)


def test_a_single_value_is_gathered_as_it_is():
    values = [jnp.ones((2, 1)), jnp.ones(3)]
    assert SingleReplica(None).all_gather(values, 0) is values


def test_a_merge_function_gets_bare_values_and_the_strategy(one):
    given, named = jnp.ones(2), object()

    def merge(strategy, x, *, y):
        return strategy, x, y, mirrax.in_cross_replica_context()

    strategy, x, y, is_cross = SingleReplica(one).merge_call(
        merge, (given,), {"y": named}
    )
    assert (strategy is one, x is given, y is named, is_cross) == (True,) * 4
    assert not mirrax.has_strategy()


def test_the_replica_gets_its_part_of_what_a_merge_function_returns(one):
    def merge(strategy):
        return {"a": [mirrax.PerReplica(("mine",)), None], "b": "for all"}

    found = SingleReplica(one).merge_call(merge, (), {})
    assert found == {"a": ["mine", None], "b": "for all"}


def test_an_error_in_a_merge_function_leaves_the_strategy(one):
    def merge(strategy):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        SingleReplica(one).merge_call(merge, (), {})
    assert not mirrax.has_strategy()


@pytest.mark.parametrize(
    ("shape", "axis"), [((), 0), ((2,), 1), ((2,), -2), ((2,), True), ((2,), 0.0)]
)
def test_a_value_without_the_axis_is_refused(one, shape, axis):
    def gather():
        values = [jnp.ones((2, 2, 2)), jnp.ones(shape)]
        return mirrax.get_replica_context().all_gather(values, axis)

    with pytest.raises(ValueError, match=rf"all_gather.*axis={axis}"):
        one.run(gather)


@pytest.mark.parametrize("whole", [False, True], ids=["run", "run in a function"])
def test_the_axis_of_the_replicas_has_size_one(one, whole):
    with one.scope():
        weight = mirrax.Variable(2.0)

    @mirrax.function
    def step(x):
        number = jax.lax.axis_index("replica")
        total, slope = jax.value_and_grad(lambda x: jax.lax.psum(x, "replica"))(x)
        weight.assign_add(jax.lax.pmean(number + slope, "replica"))
        jax.debug.print("{}", number)
        return total, jax.lax.all_gather(weight, "replica"), x

    run = mirrax.function(lambda x: one.run(step, (x,)))
    total, gathered, same = run(3.0) if whole else one.run(step, (3.0,))
    assert (total, gathered.tolist(), same, weight) == (3, [3], 3, 3)


def test_the_axis_of_the_replicas_is_unknown_between_them(two_replicas):
    outside = mirrax.function(lambda x: jax.lax.psum(x, "replica"))
    with two_replicas.scope(), pytest.raises(NameError, match="replica"):
        outside(1.0)
