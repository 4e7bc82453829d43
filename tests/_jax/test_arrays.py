import jax
import jax.numpy as jnp
import pytest

from mirrax._jax.arrays import shards, uncommitted, whole
from tests.programs import cut_in_two


def test_uncommitted_arrays_can_be_mixed_across_devices():
    left, right = (
        uncommitted(jax.device_put(jnp.ones(2), device)) for device in jax.devices()[:2]
    )
    assert (left + right).tolist() == [2, 2]


def test_committed_arrays_cannot_be_mixed_across_devices():
    left, right = (jax.device_put(jnp.ones(2), d) for d in jax.devices()[:2])
    with pytest.raises(ValueError, match="incompatible devices"):
        left + right


def test_shards_gives_what_each_device_holds():
    array = cut_in_two(jnp.arange(4))
    assert [shard.tolist() for shard in shards(array)] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("index", [0, 1])
def test_array_that_is_cut_is_put_together_on_one_device(index):
    array = whole(cut_in_two(jnp.arange(4)), index)
    assert array.tolist() == [0, 1, 2, 3]
    assert array.devices() == {jax.devices()[index]}


def test_copy_of_a_replicated_array_is_not_copied_again():
    mesh = cut_in_two(jnp.arange(4)).sharding.mesh
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    array = jax.device_put(jnp.arange(4), everywhere)
    assert whole(array, 1) is shards(array)[1]


def test_keys_that_are_cut_are_put_together():
    keys = jax.random.split(jax.random.key(1), 4)
    assert (whole(cut_in_two(keys)) == keys).all()


def test_keys_have_shards_too():
    key = jax.device_put(jax.random.key(1), jax.devices()[1])
    (shard,) = shards(key)
    assert (jax.random.key_data(shard) == jax.random.key_data(key)).all()
