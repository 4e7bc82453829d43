"""The strategy in force where none was chosen."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from tests.programs import mirrored


@pytest.fixture
def default():
    return mirrax.get_strategy()


def test_default_strategy_is_always_the_same(default):
    assert mirrax.get_strategy() is default
    assert isinstance(default, mirrax.Strategy)
    assert default.num_replicas_in_sync == 1


def test_its_scope_changes_nothing(default):
    with default.scope() as entered:
        assert entered is mirrax.get_strategy() is default
        assert not mirrax.has_strategy()
        assert not mirrax.in_cross_replica_context()
        assert mirrax.get_replica_context() is not None


def test_another_scope_can_be_entered_inside_its_own(default, two_replicas):
    with default.scope(), two_replicas.scope():
        assert mirrax.get_strategy() is two_replicas


def test_its_scope_is_refused_inside_another(default, two_replicas):
    with two_replicas.scope(), pytest.raises(RuntimeError, match="another strategy"):
        default.scope()


def test_run_calls_the_function(default):
    result = default.run(lambda x, y: x + y, args=(jnp.float32(2),), kwargs={"y": 3.0})
    assert result == 5.0
    assert default.experimental_local_results(result) == (result,)


def test_run_is_replica_context_without_a_strategy(default):
    def look():
        return (
            mirrax.has_strategy(),
            mirrax.in_cross_replica_context(),
            mirrax.get_replica_context().replica_id_in_sync_group,
        )

    assert default.run(look) == (False, False, 0)


def test_reduce_and_gather_take_plain_values(default):
    assert default.reduce("SUM", 5.0, axis=None) == 5.0
    assert default.reduce("MEAN", jnp.array([1.0, 3.0]), axis=0) == 2.0
    assert default.gather(jnp.array([1.0, 3.0]), axis=0).tolist() == [1.0, 3.0]


def test_values_from_a_function_are_plain(default):
    value = default.experimental_distribute_values_from_function(
        lambda context: (context.replica_id_in_sync_group, context.num_replicas_in_sync)
    )
    assert value == (0, 1)


def test_replica_context_outside_everything_combines_plain_values():
    context = mirrax.get_replica_context()
    assert context.all_reduce("SUM", jnp.float32(2)) == 2.0
    assert context.all_reduce("MEAN", {"a": jnp.float32(2)}) == {"a": 2.0}
    assert context.all_gather(jnp.ones(2), axis=0).tolist() == [1.0, 1.0]
    assert context.replica_id_in_sync_group == 0
    assert context.num_replicas_in_sync == 1


def test_merge_call_outside_everything_is_cross_replica_context(default):
    def merge(strategy, x):
        assert strategy is default
        assert mirrax.in_cross_replica_context()
        assert mirrax.get_replica_context() is None
        return 2 * x

    assert mirrax.get_replica_context().merge_call(merge, args=(3.0,)) == 6.0


def test_its_replica_context_is_refused_inside_a_scope(two_replicas):
    context = mirrax.get_replica_context()
    with two_replicas.scope(), pytest.raises(RuntimeError, match="in replica context"):
        context.all_reduce("SUM", 1.0)


def test_variables_outside_every_scope_are_its_own(default):
    plain = mirrax.Variable(1.0)
    with mirrored(2).scope():
        other = mirrax.Variable(1.0)
    with mirrax.OneDeviceStrategy("CPU:0").scope():
        placed = mirrax.Variable(1.0)
    found = [
        default.extended.variable_created_in_scope(v) for v in (plain, other, placed)
    ]
    assert found == [True, False, False]


def test_update_calls_the_function(default):
    v = mirrax.Variable(1.0)
    default.extended.update(v, lambda var, x: var.assign_add(x), args=(2.0,))
    assert v.numpy() == 3.0


def test_its_device_is_the_first(default):
    assert default.extended.worker_devices == (
        f"/job:localhost/replica:0/task:0/device:CPU:{jax.devices('cpu')[0].id}",
    )
