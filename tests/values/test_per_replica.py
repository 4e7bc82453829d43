"""PerReplica: parts and nothing else."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from tests.programs import replica_id


def test_values_are_the_parts_in_order():
    assert mirrax.PerReplica(["left", "right"]).values == ("left", "right")


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda x: x + 1, TypeError),
        (lambda x: 1 + x, TypeError),
        (len, TypeError),
        (float, TypeError),
        (lambda x: x[0], TypeError),
        (lambda x: x.numpy(), AttributeError),
        (lambda x: x.shape, AttributeError),
        (lambda x: x.dtype, AttributeError),
    ],
    ids=["add", "radd", "len", "float", "getitem", "numpy", "shape", "dtype"],
)
def test_per_replica_is_no_array(use, error):
    with pytest.raises(error, match="PerReplica"):
        use(mirrax.PerReplica((1.0, 2.0)))


@pytest.mark.parametrize("function", [jnp.sum, jnp.asarray], ids=["sum", "asarray"])
def test_jax_functions_refuse_a_per_replica(function):
    with pytest.raises((TypeError, ValueError), match="PerReplica"):
        function(mirrax.PerReplica((1.0, 2.0)))


def test_jax_sees_the_parts_of_a_per_replica():
    value = mirrax.PerReplica((jnp.ones(2), jnp.zeros(2)))
    doubled = jax.tree.map(lambda x: 2 * x, {"a": value})["a"]
    assert isinstance(doubled, mirrax.PerReplica)
    assert [part.tolist() for part in doubled.values] == [[2.0, 2.0], [0.0, 0.0]]


def test_parts_of_different_replicas_can_be_mixed(two_replicas):
    result = two_replicas.run(lambda: jnp.arange(2.0) + replica_id())
    first, second = result.values
    assert first.devices() != second.devices()
    assert (first + second).tolist() == [1.0, 3.0]


def test_parts_of_a_compiled_result_can_be_mixed(two_replicas):
    step = mirrax.function(lambda: jnp.arange(2.0) + replica_id())
    first, second = two_replicas.run(step).values
    assert first.devices() != second.devices()
    assert (first + second).tolist() == [1.0, 3.0]


def test_values_stay_the_same_objects(two_replicas):
    step = mirrax.function(lambda: jnp.arange(2.0) + replica_id())
    result = two_replicas.run(step)
    assert result.values[1] is result.values[1]


def test_a_value_whose_array_was_given_away_says_so(two_replicas):
    value = two_replicas.run(mirrax.function(lambda: jnp.ones(2) * replica_id()))
    take = mirrax.function(lambda x: x * 2, donate_argnums=0)
    two_replicas.run(take, args=(value,))
    for look in (repr, two_replicas.experimental_local_results):
        with pytest.raises(RuntimeError, match=r"donated to an earlier call.*a copy"):
            look(value)
