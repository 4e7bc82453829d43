"""The texts of distributed values."""

import jax
import jax.numpy as jnp

import mirrax
from mirrax.values.distributed_values import describe, describe_parts


def test_scalar_is_shown_as_the_documents_show_tensors():
    shown = describe(jnp.float32(1.5))
    assert shown == "<tf.Tensor: shape=(), dtype=float32, numpy=1.5>"


def test_vector_is_shown_as_the_documents_show_tensors():
    shown = describe(jnp.array([1.0, 2.0]))
    text = (
        "<tf.Tensor: shape=(2,), dtype=float32, numpy=array([1., 2.], dtype=float32)>"
    )
    assert shown == text


def test_usual_integers_are_shown_as_numpy_shows_its_own():
    shown = describe(jnp.array([1, 2]))
    assert shown == "<tf.Tensor: shape=(2,), dtype=int32, numpy=array([1, 2])>"


def test_other_parts_are_shown_as_python_shows_them():
    assert describe("left") == "'left'"


def test_traced_part_is_shown_without_a_value():
    shown = []
    jax.jit(lambda x: shown.append(describe(x)))(1.0)
    assert "numpy" not in shown[0]


def test_each_part_has_its_line():
    assert describe_parts("Kind", (1, "a"), repr) == "Kind:{\n  0: 1,\n  1: 'a'\n}"


def test_distributed_values_are_one_family(two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(1.0)
    assert isinstance(variable, mirrax.DistributedValues)
    assert isinstance(mirrax.PerReplica((1, 2)), mirrax.DistributedValues)
    assert isinstance(mirrax.Mirrored(jnp.ones(2)), mirrax.DistributedValues)


def test_argument_of_run_is_replaced_by_the_part():
    assert mirrax.PerReplica(("left", "right")).for_replica(1) == "right"
