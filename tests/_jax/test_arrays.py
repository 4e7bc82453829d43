import jax
import jax.numpy as jnp
import pytest

from mirrax._jax.arrays import shards, uncommitted


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
    mesh = jax.make_mesh((2,), ("replica",), devices=jax.devices()[:2])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("replica"))
    array = jax.device_put(jnp.arange(4), sharding)
    assert [shard.tolist() for shard in shards(array)] == [[0, 1], [2, 3]]


def test_keys_have_shards_too():
    key = jax.device_put(jax.random.key(1), jax.devices()[1])
    (shard,) = shards(key)
    assert (jax.random.key_data(shard) == jax.random.key_data(key)).all()
