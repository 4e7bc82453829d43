import jax
import jax.numpy as jnp
import pytest

from mirrax._jax.arrays import shards, uncommitted
from mirrax._jax.config import get_local_config, set_local_config
from mirrax._jax.traces import current_trace
from mirrax._jax.traces import is_eager as jax_is_eager
from mirrax._jax.traces import is_staging as jax_is_staging


def test_arrays_without_a_tie_can_be_mixed_across_devices():
    left, right = (
        uncommitted(jax.device_put(jnp.ones(2), device)) for device in jax.devices()[:2]
    )
    assert (left + right).tolist() == [2, 2]


def test_tied_arrays_cannot_be_mixed_across_devices():
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


@pytest.mark.parametrize(
    ("transform", "is_eager", "is_staging"),
    [
        (lambda f: f(), True, False),
        (lambda f: jax.jit(f)(), False, True),
        (lambda f: jax.grad(lambda x: [f()] and x)(1.0), False, False),
        (lambda f: jax.vmap(lambda x: [f()] and x)(jnp.ones(2)), False, False),
        (lambda f: jax.jit(jax.grad(lambda x: [f()] and x))(1.0), False, True),
        (lambda f: jax.jit(jax.vmap(lambda x: [f()] and x))(jnp.ones(2)), False, True),
    ],
    ids=["eager", "jit", "grad", "vmap", "jit_of_grad", "jit_of_vmap"],
)
def test_traces_are_told_apart(transform, is_eager, is_staging):
    seen = []
    transform(lambda: seen.append((jax_is_eager(), jax_is_staging())))
    assert seen == [(is_eager, is_staging)]


def test_only_what_was_begun_inside_counts_as_staging():
    seen = []

    @jax.jit
    def outer(x):
        trace = current_trace()
        seen.append(jax_is_staging(inside=trace))
        jax.lax.scan(lambda c, _: (c, look(trace)), x, None, length=1)
        return x

    def look(trace):
        seen.append(jax_is_staging(inside=trace))

    outer(1.0)
    assert seen == [False, True]


def test_settings_are_exchanged_as_a_whole():
    before = get_local_config()
    with jax.default_matmul_precision("highest"):
        inside = get_local_config()
        set_local_config(before)
        assert jax.config.jax_default_matmul_precision is None
        set_local_config(inside)
        assert jax.config.jax_default_matmul_precision == "highest"
    assert jax.config.jax_default_matmul_precision is None
