"""What variables become inside the scope of a strategy."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax import VariableSynchronization
from mirrax.variables import variable_creator_scope
from tests.programs import create, device_of, mirrored, parts


def test_mirrored_strategy_keeps_a_copy_on_every_device(two_replicas):
    v = create(two_replicas, 1.0)
    copies = two_replicas.experimental_local_results(v)
    assert [device_of(copy.value) for copy in copies] == jax.devices("cpu")[:2]


def test_one_device_strategy_keeps_the_variable_there():
    strategy = mirrax.OneDeviceStrategy("CPU:4")
    assert device_of(create(strategy, 1.0).value) == jax.devices("cpu")[4]


def test_initial_value_is_computed_on_the_one_device():
    strategy = mirrax.OneDeviceStrategy("CPU:4")
    seen = []

    def initial_value():
        seen.append(device_of(jnp.ones(1)))
        return 1.0

    create(strategy, initial_value)
    assert seen == [jax.devices("cpu")[4]]


def test_default_strategy_leaves_variables_alone():
    v = create(mirrax.get_strategy(), 1.0)
    assert v.owner is None


def test_strategy_owns_its_variables(strategy):
    assert create(strategy, 1.0).owner is strategy


def test_scope_entered_twice_makes_one_variable(two_replicas):
    with two_replicas.scope(), two_replicas.scope():
        v = mirrax.Variable(1.0)
    assert parts(two_replicas, v) == [1.0, 1.0]


def test_run_inside_a_scope_makes_one_variable(two_replicas):
    with two_replicas.scope():
        v = two_replicas.run(lambda: mirrax.Variable(1.0))
    assert parts(two_replicas, v) == [1.0, 1.0]


@pytest.mark.parametrize("num_replicas", [1, 3])
def test_creators_around_the_scope_see_as_many_copies(num_replicas):
    names = []

    def creator(next_creator, **kwargs):
        names.append(kwargs["name"])
        return next_creator(**kwargs)

    with variable_creator_scope(creator):
        create(mirrored(num_replicas), 1.0, name="v")
    assert names == ["v", "v/replica_1", "v/replica_2"][:num_replicas]


def test_creators_around_the_scope_see_the_first_copys_value():
    seen = []

    def creator(next_creator, **kwargs):
        copy = next_creator(**kwargs)
        seen.append(copy.numpy().tolist())
        return copy

    with variable_creator_scope(creator):
        create(mirrored(2), lambda: jnp.array([1.0, 2.0]))
    assert seen == [[1.0, 2.0], [1.0, 2.0]]


def test_creators_around_the_scope_see_copies_of_on_read_variables():
    seen = []

    def creator(next_creator, **kwargs):
        seen.append(next_creator(**kwargs))
        return seen[-1]

    with variable_creator_scope(creator):
        v = create(mirrored(2), 1.0, synchronization=VariableSynchronization.ON_READ)
    assert len(seen) == 2
    assert type(v).__name__ == "SyncOnReadVariable"
