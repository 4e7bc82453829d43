"""Small pieces of programs that many tests run on replicas."""

import jax
import numpy as np
import pytest

import mirrax

engines = pytest.mark.parametrize(
    "engine", [lambda fn: fn, mirrax.function], ids=["eager", "compiled"]
)


def mirrored(num_replicas, **options):
    devices = [f"CPU:{i}" for i in range(num_replicas)]
    return mirrax.MirroredStrategy(devices, **options)


def replica_id():
    return mirrax.get_replica_context().replica_id_in_sync_group


def create(strategy, *args, **kwargs):
    """Creates a variable in the scope of `strategy`."""
    with strategy.scope():
        return mirrax.Variable(*args, **kwargs)


def per_replica(strategy, values):
    """Returns a distributed value whose part on replica `i` is `values[i]`."""
    return strategy.experimental_distribute_values_from_function(
        lambda context: values[context.replica_id_in_sync_group]
    )


def part_arrays(strategy, value):
    """Returns the parts of `value` as NumPy arrays, one for each replica."""
    return [np.asarray(p) for p in strategy.experimental_local_results(value)]


def parts(strategy, value):
    """Returns the parts of `value` as nested lists, one for each replica."""
    return [part.tolist() for part in part_arrays(strategy, value)]


def device_of(array):
    assert isinstance(array, jax.Array)
    (device,) = array.devices()
    return device


def cut_in_two(array):
    """Returns `array` cut over two devices, on a mesh of the user's own."""
    mesh = jax.make_mesh((2,), ("data",), devices=jax.devices()[:2])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    return jax.device_put(array, sharding)
