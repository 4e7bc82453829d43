"""A `jax.Ref` in a replica function, in every engine."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import mirrax
from tests.programs import parts

EVEN = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])
UNEVEN = jnp.array([1.0, 2.0, 4.0]), jnp.array([3.0])


def add_up(x):
    reference = jax.new_ref(jnp.float32(0))

    def body(_, value):
        reference[...] += value
        return None, None

    lax.scan(body, None, x)
    total = mirrax.get_replica_context().all_reduce("SUM", reference[...])
    reference[...] += total
    return reference[...]


@pytest.mark.parametrize("x", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("wrap", [lambda fn: fn, mirrax.function], ids=["eager", "F"])
def test_replicas_have_references_of_their_own(two_replicas, wrap, x):
    result = two_replicas.run(wrap(add_up), args=(mirrax.PerReplica(x),))
    assert parts(two_replicas, result) == [sum(map(sum, x)) + sum(own) for own in x]


@pytest.mark.parametrize("x", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("wrap", [lambda fn: fn, mirrax.function], ids=["eager", "F"])
def test_a_varying_write_through_a_reference_is_refused(two_replicas, wrap, x):
    with two_replicas.scope():
        weight = mirrax.Variable(0.0)

    def step(x):
        reference = jax.new_ref(jnp.float32(0))
        reference[...] = x.sum()
        weight.assign(reference[...])

    with pytest.raises(ValueError, match=r"assign the same value|assigned the same"):
        two_replicas.run(wrap(step), args=(mirrax.PerReplica(x),))


def in_a_jit(write):
    return jax.jit(write)()


def in_a_scan(write):
    return lax.scan(lambda *_: (None, write()), None, length=1)[1][0]


@pytest.mark.parametrize("inside", [in_a_jit, in_a_scan])
def test_the_size_of_a_part_that_is_written_through_a_reference_varies(
    two_replicas, inside
):
    @mirrax.function
    def step(x):
        def write():
            reference = jax.new_ref(jnp.float32(0))
            reference[...] = float(x.shape[0])
            return reference[...]

        return inside(write)

    result = two_replicas.run(step, args=(mirrax.PerReplica(UNEVEN),))
    assert [float(part) for part in result.values] == [3, 1]


def test_a_reference_from_outside_is_refused(two_replicas):
    reference = jax.new_ref(jnp.float32(0))

    @mirrax.function
    def step(x):
        reference[...] += x.sum()

    with pytest.raises(TypeError, match=r"cannot share a `jax.Ref`"):
        two_replicas.run(step, args=(mirrax.PerReplica(EVEN),))
