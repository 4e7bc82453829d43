"""The texts of distributed values."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from tests.programs import engines, replica_id


@pytest.fixture(autouse=True)
def without_tensorflow_texts(monkeypatch):
    """Undoes what `import mirrax.tf`, in another test, sets for the process."""
    monkeypatch.setattr(mirrax.DistributedValues, "part_repr", repr)
    monkeypatch.setattr(mirrax.DistributedValues, "part_str", str)


def test_arrays_are_shown_as_those_of_jax():
    value = mirrax.PerReplica((jnp.float32(1), jnp.array([1.0, 2.0])))
    assert repr(value) == (
        "PerReplica:{\n"
        "  0: Array(1., dtype=float32),\n"
        "  1: Array([1., 2.], dtype=float32)\n"
        "}"
    )
    assert str(value) == "PerReplica:{\n  0: 1.0,\n  1: [1. 2.]\n}"


@engines
def test_text_of_a_result_is_the_same_in_both_engines(two_replicas, engine):
    result = two_replicas.run(engine(lambda: jnp.float32(replica_id())))
    assert repr(result).splitlines()[2] == "  1: Array(1., dtype=float32)"


def test_mirrored_value_lists_its_parts(two_replicas):
    devices = two_replicas.extended.worker_devices
    value = two_replicas.extended.broadcast_to(jnp.ones(2), destinations=devices)
    part = "Array([1., 1.], dtype=float32)"
    assert repr(value) == f"Mirrored:{{\n  0: {part},\n  1: {part}\n}}"


@engines
def test_keys_of_the_replicas_are_shown(two_replicas, engine):
    shared = jax.random.key(0)
    step = engine(lambda: jax.random.fold_in(shared, replica_id()))
    shown = repr(two_replicas.run(step))
    assert shown.startswith("PerReplica:{\n  0: Array((), dtype=key<fry>)")


def test_distributed_values_are_one_family(two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(1.0)
    assert isinstance(variable, mirrax.DistributedValues)
    assert isinstance(mirrax.PerReplica((1, 2)), mirrax.DistributedValues)
    assert isinstance(mirrax.Mirrored(jnp.ones(2)), mirrax.DistributedValues)


def test_argument_of_run_is_replaced_by_the_part():
    assert mirrax.PerReplica(("left", "right")).for_replica(1) == "right"
