import copy

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax.variables import aliasing
from tests.programs import create


def test_views_are_forgotten_with_the_array():
    variable = mirrax.Variable(jnp.ones(3))
    before = len(aliasing._views)
    view = variable.value
    assert len(aliasing._views) == before + 1
    del view
    assert len(aliasing._views) == before


def test_numpy_lends_nothing():
    variable = mirrax.Variable(1.0)
    variable.numpy()
    assert not variable.is_aliased


@pytest.mark.parametrize(
    "use",
    [
        lambda variable: variable.value,
        lambda variable: variable.numpy(),
        copy.copy,
        lambda variable: mirrax.function(lambda: variable.assign_add(jnp.ones(9)))(),
    ],
    ids=["value", "numpy", "copy", "program"],
)
def test_variable_whose_array_the_user_donated_says_so(strategy, use):
    variable = create(strategy, jnp.ones(9), name="mine")
    jax.jit(lambda x: x + 1, donate_argnums=0)(jax.device_put(variable.value))
    message = r"donated to an earlier call.*'mine:0'.*jnp.copy\(variable.value\)"
    with pytest.raises(RuntimeError, match=message):
        use(variable)
    variable.assign(jnp.zeros(9))
    assert variable.numpy().tolist() == [0] * 9
