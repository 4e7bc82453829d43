"""State that goes into a step and comes out of it, without an all-reduce."""

import warnings

import jax.numpy as jnp
import pytest

import mirrax

BATCH = (jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))


@mirrax.function
def drifting(state, x):
    return {"w": state["w"] - x.mean()}, x.sum()


def test_state_that_comes_back_different_warns_once(two_replicas):
    batch, state = mirrax.PerReplica(BATCH), {"w": jnp.zeros(2)}
    state, _ = two_replicas.run(drifting, (state, batch))
    with pytest.warns(UserWarning, match=r"`args\[0\]\['w'\]` of 'drifting'.*differs"):
        state, _ = two_replicas.run(drifting, (state, batch))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two_replicas.run(drifting, (state, batch))


def test_state_that_was_different_from_the_start_does_not_warn(two_replicas):
    batch = mirrax.PerReplica(BATCH)
    zeros = two_replicas.experimental_distribute_values_from_function(
        lambda context: jnp.zeros(2)
    )
    state = {"w": zeros}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            state, _ = two_replicas.run(drifting, (state, batch))


def test_a_sum_of_each_replica_does_not_warn(two_replicas):
    @mirrax.function
    def add(total, x):
        return total + x.sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total = jnp.zeros(())
        for _ in range(3):
            total = two_replicas.run(add, (total, mirrax.PerReplica(BATCH)))


def test_another_batch_in_place_of_an_array_does_not_warn(two_replicas):
    @mirrax.function
    def double(x):
        return 2 * x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two_replicas.run(double, (BATCH[0],))
        two_replicas.run(double, (mirrax.PerReplica(BATCH),))


def test_a_result_that_goes_through_the_same_function_does_not_warn(two_replicas):
    @mirrax.function
    def augment(images):
        return images + mirrax.get_replica_context().replica_id_in_sync_group

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        images = two_replicas.run(augment, (jnp.zeros((4, 3)),))
        two_replicas.run(augment, (images,))


def test_a_result_of_another_shape_does_not_warn(two_replicas):
    @mirrax.function
    def summed(table, x):
        return (table.sum() + x).sum(keepdims=True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total = two_replicas.run(summed, (jnp.zeros(3), mirrax.PerReplica(BATCH)))
        two_replicas.run(summed, (total, mirrax.PerReplica(BATCH)))
