"""What a replica does while one trace stands for all of them."""

import jax
import jax.numpy as jnp
import pytest

from mirrax import PerReplica
from mirrax.run.compiled.spmd_communicator import SpmdCommunicator
from mirrax.values.mirrored import Mirrored


@pytest.fixture
def communicator(two_replicas):
    return SpmdCommunicator(two_replicas, two_replicas.collective)


def on_replicas(fn, *columns):
    """Returns what `fn` makes of each replica's values, as lists."""
    mapped = jax.vmap(fn, axis_name="replica", axis_size=2)
    return jax.tree.map(lambda x: x.tolist(), mapped(*map(jnp.asarray, columns)))


def test_each_replica_gets_its_part_of_what_a_merge_function_returns(communicator):
    def merge(strategy, x):
        mirrored = Mirrored(jnp.float32(5))
        return {"own": x, "parts": PerReplica((10, 20)), "all": [mirrored, 7]}

    def fn(x):
        result = communicator.merge_call(merge, (x,), {})
        assert result["all"][1] == 7
        return result["own"], result["parts"], jnp.asarray(result["all"][0])

    assert on_replicas(fn, [1.0, 2.0]) == ([1, 2], [10, 20], [5, 5])
