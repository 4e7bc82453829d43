"""A per-replica value that is taken for an array says what to do instead."""

import jax.numpy as jnp
import numpy as np
import pytest

import mirrax

USES = {
    "float": float,
    "int": int,
    "format": lambda value: f"{value:.3f}",
    "round": lambda value: round(value, 2),
    "add": lambda value: value + 1,
    "add_to_number": lambda value: 1 + value,
    "add_to_array": lambda value: jnp.ones(2) + value,
    "add_to_numpy_array": lambda value: np.ones(2) + value,
    "multiply": lambda value: value * 2,
    "divide": lambda value: value / 2,
    "compare": lambda value: value < 1,
    "negate": lambda value: -value,
    "index": lambda value: value[0],
    "iterate": list,
    "jnp": jnp.sum,
    "numpy": np.sum,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_use_as_an_array_is_refused(use):
    message = r"is not an array.*`strategy.reduce.*experimental_local_results"
    with pytest.raises(TypeError, match=message):
        use(mirrax.PerReplica((jnp.float32(1), jnp.float32(2))))


@pytest.mark.parametrize("name", ["shape", "dtype", "numpy", "item", "mean"])
def test_attribute_of_an_array_is_refused(name):
    value = mirrax.PerReplica((jnp.float32(1), jnp.float32(2)))
    assert not hasattr(value, name)
    with pytest.raises(AttributeError, match=f"has no `{name}`.*strategy.reduce"):
        getattr(value, name)


def test_other_uses_are_those_of_any_object():
    value = mirrax.PerReplica((1, 2))
    assert value
    assert value == value  # noqa: PLR0124
    assert value in {value}
    assert f"{value}" == repr(value)
