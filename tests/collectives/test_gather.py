"""Joining the parts of a per-replica value along an axis."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax.errors import InvalidArgumentError
from tests.programs import engines, per_replica, replica_id

MATRIX = jnp.array([[1.0, 2.0], [3.0, 4.0]])


@engines
@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (0, [[1.0, 2.0], [3.0, 4.0], [11.0, 12.0], [13.0, 14.0]]),
        (1, [[1.0, 2.0, 11.0, 12.0], [3.0, 4.0, 13.0, 14.0]]),
        (-1, [[1.0, 2.0, 11.0, 12.0], [3.0, 4.0, 13.0, 14.0]]),
        (-2, [[1.0, 2.0], [3.0, 4.0], [11.0, 12.0], [13.0, 14.0]]),
    ],
    ids=str,
)
def test_gather_joins_along_the_axis_in_replica_order(
    two_replicas, engine, axis, expected
):
    value = per_replica(two_replicas, [MATRIX, MATRIX + 10])
    gathered = engine(lambda x: two_replicas.gather(x, axis=axis))(value)
    assert gathered.tolist() == expected


@engines
def test_gather_takes_what_run_returned(strategy, engine):
    count = strategy.num_replicas_in_sync
    result = strategy.run(engine(lambda: jnp.ones(1) * replica_id()))
    assert strategy.gather(result, axis=0).tolist() == list(range(count))


@engines
def test_gather_joins_parts_of_unequal_sizes(two_replicas, engine):
    value = per_replica(two_replicas, [jnp.array([[1], [2], [3]]), jnp.array([[4]])])
    gathered = engine(lambda x: two_replicas.gather(x, axis=0))(value)
    assert gathered.tolist() == [[1], [2], [3], [4]]


def test_gather_joins_unequal_sizes_along_a_negative_axis(two_replicas):
    value = per_replica(two_replicas, [jnp.ones((2, 1)), jnp.zeros((2, 2))])
    gathered = two_replicas.gather(value, axis=-1)
    assert gathered.tolist() == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_gather_leaves_empty_parts_out(four_replicas):
    sizes = [2, 0, 1, 0]
    value = per_replica(four_replicas, [jnp.arange(float(n)) for n in sizes])
    assert four_replicas.gather(value, axis=0).tolist() == [0.0, 1.0, 0.0]


@engines
def test_gather_of_empty_parts_is_empty(strategy, engine):
    def gathered_and_part():
        part = jnp.zeros((0, 3))
        return mirrax.get_replica_context().all_gather(part, axis=0), part

    gathered, parts = strategy.run(engine(gathered_and_part))
    assert strategy.experimental_local_results(gathered)[0].shape == (0, 3)
    assert engine(lambda x: strategy.gather(x, axis=0))(parts).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["bool", "bfloat16"])
def test_gather_keeps_the_dtype(strategy, dtype):
    result = strategy.run(lambda: jnp.ones(1, dtype))
    assert strategy.gather(result, axis=0).dtype == dtype


def test_gather_takes_structures(two_replicas):
    result = two_replicas.run(
        lambda: {"a": jnp.ones(1) * replica_id(), "b": [jnp.ones((1, 1))]}
    )
    gathered = two_replicas.gather(result, axis=0)
    assert gathered["a"].tolist() == [0.0, 1.0]
    assert gathered["b"][0].shape == (2, 1)


@engines
def test_gather_of_a_mirrored_value_repeats_it(two_replicas, engine):
    def everyone():
        return mirrax.get_replica_context().all_reduce("SUM", jnp.ones(1))

    step = mirrax.function(everyone)
    gathered = engine(lambda: two_replicas.gather(two_replicas.run(step), axis=0))()
    assert gathered.tolist() == [2.0, 2.0]


def test_gather_of_a_plain_value_gives_it_back(strategy):
    assert strategy.gather(jnp.array([1.0, 2.0]), axis=0).tolist() == [1.0, 2.0]


@engines
@pytest.mark.parametrize("axis", [2, -3, None, True, (0, 1)], ids=repr)
def test_axis_that_is_not_there_is_refused(two_replicas, engine, axis):
    result = two_replicas.run(engine(lambda: MATRIX * replica_id()))
    with pytest.raises(ValueError, match=r"`axis` of gather .* with 2 dimension"):
        two_replicas.gather(result, axis=axis)


@engines
def test_scalars_cannot_be_gathered(two_replicas, engine):
    result = two_replicas.run(engine(lambda: jnp.float32(replica_id())))
    with pytest.raises(ValueError, match=r"axis=0 for values with 0 dimension"):
        two_replicas.gather(result, axis=0)


@pytest.mark.parametrize(
    "second",
    [jnp.ones((2, 3)), jnp.ones(2), jnp.ones((2, 2), jnp.int32)],
    ids=["size", "rank", "dtype"],
)
def test_parts_that_do_not_fit_are_refused(two_replicas, second):
    value = per_replica(two_replicas, [jnp.ones((2, 2)), second])
    message = (
        r"match on every replica, but for axis 0; .* Received: "
        r"replica 0: float32\[2, 2\], replica 1: "
    )
    with pytest.raises(InvalidArgumentError, match=message):
        two_replicas.gather(value, axis=0)


def test_result_is_an_ordinary_array(strategy):
    result = strategy.gather(strategy.run(lambda: jnp.ones(1)), axis=0)
    assert isinstance(result, jax.Array)
    assert len(result.devices()) == 1


def test_results_of_different_strategies_can_be_mixed(two_replicas):
    others = mirrax.MirroredStrategy(["CPU:2", "CPU:3"])
    first, second = (
        s.gather(s.run(lambda: jnp.ones(1)), axis=0) for s in (two_replicas, others)
    )
    assert (first + second).tolist() == [2.0, 2.0]
