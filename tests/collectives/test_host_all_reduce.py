"""Small values of CPU devices, which are combined without a collective."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.collectives import host_all_reduce, reduce
from tests.programs import mirrored, replica_id

DTYPES = ["float32", "float16", "int32", "uint8", "bool", "complex64"]


def all_reduce(op, value):
    return mirrax.get_replica_context().all_reduce(op, value)


def values_of(replica, dtype):
    """Returns numbers whose sum depends on the order, as far as the dtype allows."""
    numbers = np.random.default_rng(replica).normal(scale=10, size=(3, 65))
    if dtype in ("int32", "uint8", "bool"):
        numbers = np.abs(numbers)
    return jnp.asarray(numbers.astype(dtype))


def refuse(*_):
    raise AssertionError("A collective was made for small values.")


@pytest.mark.parametrize("op", ["SUM", "MEAN"])
@pytest.mark.parametrize("num_replicas", [2, 3, 8])
def test_equal_to_the_collective_to_the_bit(num_replicas, op, monkeypatch):
    strategy = mirrored(num_replicas)

    def step():
        return all_reduce(op, [values_of(replica_id(), dtype) for dtype in DTYPES])

    with monkeypatch.context() as patch:
        patch.setattr(reduce, "_reduce_program", refuse)
        quick = strategy.run(step)
    monkeypatch.setattr(host_all_reduce, "MAX_BYTES", -1)
    for own, other in zip(quick, strategy.run(step), strict=True):
        for ours, theirs in zip(own.values, other.values, strict=True):
            assert ours.aval == theirs.aval
            assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()


def test_bfloat16_takes_a_collective(four_replicas):
    """It is rounded once, at the end."""
    numbers = jnp.array([256, 1, 1, 1], jnp.bfloat16)

    def step():
        return all_reduce("SUM", numbers[replica_id()])

    def results(fn):
        return four_replicas.experimental_local_results(four_replicas.run(fn))

    assert results(step) == results(mirrax.function(step))


def test_result_lies_on_the_device_of_each_replica(four_replicas):
    results = four_replicas.run(lambda: all_reduce("SUM", jnp.ones(3)))
    devices = [result.devices() for result in results.values]
    assert devices == [{device} for device in four_replicas.topology.devices]
    # Not tied to it: users compute with the results of several replicas.
    assert sum(results.values).tolist() == [16, 16, 16]


def test_result_is_no_one_elses(two_replicas):
    """A program may overwrite what one replica got, and not change the other's."""
    overwrite = jax.jit(lambda x: x * 0, donate_argnums=0)

    def step():
        total = all_reduce("SUM", jnp.ones(1024))
        return overwrite(total) if replica_id() == 0 else total

    zeros, twos = two_replicas.run(step).values
    assert (float(zeros.sum()), float(twos.sum())) == (0, 2048)


def test_nested_values_of_several_kinds_and_none(two_replicas):
    def step():
        number = replica_id() + 1
        value = {"a": [jnp.float32(number), jnp.array([number])], "b": None, "c": 2.5}
        return all_reduce("MEAN", value)

    first, second = two_replicas.experimental_local_results(two_replicas.run(step))[0:2]
    for result in (first, second):
        assert result["a"][0].shape == ()
        assert result["a"][0] == 1.5
        assert result["a"][1].tolist() == [1.5]
        assert (result["b"], float(result["c"])) == (None, 2.5)


def test_large_values_take_a_collective(two_replicas, monkeypatch):
    monkeypatch.setattr(reduce, "_reduce_program", refuse)
    assert two_replicas.run(lambda: all_reduce("SUM", jnp.ones(16384))).values
    with pytest.raises(AssertionError, match="A collective was made"):
        two_replicas.run(lambda: all_reduce("SUM", jnp.ones(16385)))


def test_operations_of_the_user_are_asked_for_small_values_too():
    class Halves(mirrax.CrossDeviceOps):
        def sum_over_replicas(self, values, num_replicas, options):
            return [jax.lax.psum(value, "replica") / 2 for value in values]

    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"], Halves())
    result = strategy.run(lambda: all_reduce("SUM", jnp.ones(2)))
    assert [value.tolist() for value in result.values] == [[1, 1], [1, 1]]


def test_nan_is_found_where_jax_looks_for_it(two_replicas):
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        two_replicas.run(
            lambda: all_reduce("SUM", jnp.float32(np.inf) * (1 - 2 * replica_id()))
        )


def test_different_shapes_are_refused(two_replicas):
    def step():
        return all_reduce("SUM", jnp.ones(replica_id() + 1))

    with pytest.raises(ValueError, match="same shape and dtype on each"):
        two_replicas.run(step)


def test_64_bits_stay_64_bits(two_replicas):
    def step():
        with jax.enable_x64(True):
            return all_reduce("SUM", jnp.float64(1.1))

    for total in two_replicas.run(step).values:
        assert total.dtype == jnp.float64
        assert np.asarray(total) == 2.2


def test_nothing_is_moved_where_jax_guards_transfers(two_replicas):
    values = two_replicas.run(lambda: jnp.ones(3) * (replica_id() + 1))

    def step(value):
        return all_reduce("SUM", value)

    two_replicas.run(step, args=(values,))
    with jax.transfer_guard("disallow"):
        result = two_replicas.run(step, args=(values,))
    assert [value.tolist() for value in result.values] == [[3, 3, 3]] * 2
