"""The sizes of gathered parts, which replicas learn from one another."""

import jax
import jax.numpy as jnp
import pytest

from mirrax.run.uneven.gather_sizes import GatheredSizes, UnknownSizes

AXIS_ENV = [("replica", 2)]


def shapes(gather, *calls):
    """Returns the shapes that come out of calls with values of these shapes."""

    def fn():
        return [gather([jnp.ones(s) for s in given], axis) for given, axis in calls]

    closed = jax.make_jaxpr(fn, axis_env=AXIS_ENV)()
    return [aval.shape for aval in closed.out_avals]


def report(sizes, *rows, axis=0):
    """Lets each replica call `all_gather` once with values of these shapes."""
    for number, given in enumerate(rows):
        gather = sizes.seen_by(number)
        with pytest.raises(UnknownSizes):
            gather([jnp.ones(shape) for shape in given], axis)


def test_a_trace_is_given_up_until_all_sizes_are_known():
    sizes = GatheredSizes(2)
    report(sizes, [(3,)], [(2,)])
    assert sizes.learn()
    assert shapes(sizes.seen_by(0), ([(3,)], 0)) == [(5,)]
    assert shapes(sizes.seen_by(1), ([(2,)], 0)) == [(5,)]


def test_each_value_has_sizes_of_its_own():
    sizes = GatheredSizes(2)
    report(sizes, [(3, 1), (4, 1)], [(2, 1), (4, 1)])
    assert sizes.learn()
    found = shapes(sizes.seen_by(0), ([(3, 1), (4, 1)], 0))
    assert found == [(5, 1), (8, 1)]


def test_sizes_are_those_along_the_axis():
    sizes = GatheredSizes(2)
    report(sizes, [(7, 3)], [(7, 0)], axis=-1)
    assert sizes.learn()
    assert shapes(sizes.seen_by(1), ([(7, 0)], -1)) == [(7, 3)]


def test_a_later_call_is_learned_after_the_first():
    sizes = GatheredSizes(2)
    report(sizes, [(3,)], [(2,)])
    assert sizes.learn()
    later = []
    for number, size in enumerate((3, 2)):
        gather = sizes.seen_by(number)

        def fn(gather=gather, size=size):
            later.append(gather([jnp.ones(size)], 0)[0].shape)
            return gather([jnp.ones(size + 10)], 0)

        with pytest.raises(UnknownSizes):
            jax.make_jaxpr(fn, axis_env=AXIS_ENV)()
    assert later == [(5,), (5,)]
    assert sizes.learn()
    calls = ([(3,)], 0), ([(13,)], 0)
    assert shapes(sizes.seen_by(0), *calls) == [(5,), (25,)]


def test_unequal_parts_are_joined_in_the_order_of_replicas():
    sizes = GatheredSizes(2)
    report(sizes, [(1,)], [(2,)])
    assert sizes.learn()
    gather = sizes.seen_by(1)
    # Both replicas bring two numbers here, and the first of them one that counts.
    joined = jax.vmap(lambda x: gather([x], 0)[0], axis_name="replica")(
        jnp.array([[1, 0], [2, 3]])
    )
    assert joined.tolist() == [[1, 2, 3], [1, 2, 3]]


def test_equal_parts_are_joined_in_the_order_of_replicas():
    sizes = GatheredSizes(2)
    report(sizes, [(2,)], [(2,)])
    assert sizes.learn()
    gather = sizes.seen_by(0)
    joined = jax.vmap(lambda x: gather([x], 0)[0], axis_name="replica")(
        jnp.array([[1, 2], [3, 4]])
    )
    assert joined.tolist() == [[1, 2, 3, 4]] * 2


def test_equal_parts_take_one_collective_and_nothing_else():
    sizes = GatheredSizes(2)
    report(sizes, [(2,)], [(2,)])
    assert sizes.learn()
    gather = sizes.seen_by(0)
    closed = jax.make_jaxpr(lambda x: gather([x], 0), axis_env=AXIS_ENV)(jnp.ones(2))
    assert [equation.primitive.name for equation in closed.eqns] == ["all_gather"]


def test_nothing_is_learned_if_a_replica_does_not_call():
    sizes = GatheredSizes(2)
    report(sizes, [(3,)])
    assert not sizes.learn()


def test_nothing_is_learned_if_replicas_bring_different_numbers_of_values():
    sizes = GatheredSizes(2)
    report(sizes, [(3,)], [(3,), (3,)])
    assert not sizes.learn()


def test_a_call_without_values_is_a_call():
    sizes = GatheredSizes(2)
    report(sizes, [], [])
    assert sizes.learn()
    assert sizes.seen_by(0)([], 0) == []


def test_what_was_reported_counts_once():
    sizes = GatheredSizes(2)
    report(sizes, [(3,)], [(2,)])
    assert sizes.learn()
    assert not sizes.learn()
