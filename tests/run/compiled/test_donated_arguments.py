"""Arrays that are given to a program: where they lie, and which it may overwrite."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.run.compiled.arguments import jit_key
from mirrax.run.compiled.donated_arguments import copy_shared, refuse_donated


def test_arrays_that_lie_elsewhere_are_placed_differently(two_replicas):
    here = jnp.ones(2)
    tied = jax.device_put(here, jax.devices()[0])
    elsewhere = jax.device_put(here, jax.devices()[1])
    spread = jax.device_put(here, two_replicas.topology.replicated)
    found = [jit_key(array) for array in (here, tied, elsewhere, spread)]
    assert len(set(found)) == 4
    assert jit_key(jnp.zeros(5)) == jit_key(here)


def test_what_is_no_array_of_jax_is_placed_by_its_type():
    assert jit_key(1.5) == jit_key(2.5)
    assert jit_key(np.ones(2)) == jit_key(np.zeros(3))
    assert len({jit_key(1.5), jit_key(1), jit_key(np.ones(2))}) == 3


def test_what_is_there_is_accepted():
    refuse_donated([])
    refuse_donated([jnp.ones(2), np.ones(2), 1.5, (jnp.ones(1), jnp.ones(2))])


def test_an_array_that_is_gone_is_refused_wherever_it_stands():
    gone = jnp.ones(2)
    gone.delete()
    with pytest.raises(RuntimeError, match=r"donated to an earlier call.*a copy"):
        refuse_donated([jnp.ones(2), 1.5, gone])


def test_arrays_of_nobody_else_are_given_as_they_are():
    arrays = [jnp.ones(2), jnp.ones(3)]
    assert copy_shared(arrays, [jnp.ones(2)]) is arrays
    assert copy_shared([], []) == []


def test_an_array_that_is_given_twice_is_copied_once():
    array = jnp.ones(2)
    first, second = copy_shared([array, array], [])
    assert first is array
    assert second.unsafe_buffer_pointer() != array.unsafe_buffer_pointer()
    assert second.tolist() == [1, 1]


def test_an_array_that_is_also_kept_is_copied():
    shared, own = jnp.ones(2), jnp.zeros(2)
    copied, same = copy_shared([shared, own], [shared])
    assert copied.unsafe_buffer_pointer() != shared.unsafe_buffer_pointer()
    assert (copied.tolist(), same is own) == ([1, 1], True)


def test_the_value_of_a_variable_is_copied(two_replicas):
    plain = mirrax.Variable(jnp.ones(2))
    with two_replicas.scope():
        mirrored = mirrax.Variable(jnp.ones(2))
    values, own = [plain.value, mirrored.value], jnp.zeros(2)
    *copies, same = copy_shared([*values, own], [])
    pairs = zip(copies, values, strict=True)
    assert not any(copy is value for copy, value in pairs)
    assert [copy.tolist() for copy in copies] == [[1, 1], [1, 1]]
    assert same is own


def test_numbers_and_arrays_of_numpy_are_given_as_they_are():
    """JAX makes new arrays of them in any case."""
    array = np.ones(2)
    given = copy_shared([array, 1.5], [])
    assert given[0] is array
    assert given[1] == 1.5


@pytest.mark.parametrize("is_run", [False, True], ids=["function", "run"])
def test_an_array_that_an_earlier_call_took_is_refused(two_replicas, is_run):
    taking = mirrax.function(lambda x: x + 1, donate_argnums=0)
    step = mirrax.function(lambda x: x * 2)
    taken = taking(jnp.zeros(4))
    taking(taken)
    with pytest.raises(RuntimeError, match=r"donated to an earlier call.*a copy"):
        two_replicas.run(step, args=(taken,)) if is_run else step(taken)


def test_donating_the_value_of_a_variable_leaves_the_variable(strategy):
    with strategy.scope():
        variable = mirrax.Variable(jnp.ones(4))
    step = mirrax.function(lambda x: x + 1, donate_argnums=0)
    step(variable.value)
    np.testing.assert_array_equal(variable.numpy(), [1] * 4)


def test_numpy_arguments_can_be_donated():
    array = np.ones(4, np.float32)
    step = mirrax.function(functools.partial(jnp.add, 1), donate_argnums=0)
    np.testing.assert_array_equal(step(array), [2] * 4)
    np.testing.assert_array_equal(array, [1] * 4)


def test_donating_one_array_twice_copies_it(two_replicas):
    step = mirrax.function(lambda s: {k: v + 1 for k, v in s.items()}, donate_argnums=0)
    array = jax.device_put(jnp.zeros(4), two_replicas.topology.replicated)
    state = two_replicas.run(step, args=({"a": array, "b": array},))
    assert state["b"].tolist() == [1] * 4


def test_an_array_that_was_donated_is_refused(two_replicas):
    step = mirrax.function(lambda x: x + 1, donate_argnums=0)
    state = two_replicas.run(step, args=(jnp.zeros(4),))
    two_replicas.run(step, args=(state,))
    with pytest.raises(RuntimeError, match="donated to an earlier call"):
        two_replicas.run(step, args=(state,))


@pytest.mark.parametrize("numbers", ["x", -1, 1.5, (True,), (0, None)], ids=repr)
def test_donated_arguments_are_named_by_number(numbers):
    with pytest.raises(ValueError, match="is the number of a positional argument"):
        mirrax.function(lambda x: x, donate_argnums=numbers)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {"x": 1}), ((1,), {})], ids=["by_name", "too_few"]
)
def test_donated_argument_that_is_not_given_by_position_is_refused(args, kwargs):
    step = mirrax.function(lambda x, y=1: x, donate_argnums=1)
    with pytest.raises(ValueError, match=r"donate_argnums=\(1,\).*by position"):
        step(*args, **kwargs)
