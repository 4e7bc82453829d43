"""`input_signature`: which arguments fit it, and which sizes it leaves open."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import PerReplica, TensorSpec
from mirrax.values.tensor_spec import PerReplicaSpec

ROWS = TensorSpec([None, 2])


def signature(*specs, fn=lambda x, y=None: None):
    fn.__name__ = "step"
    return mirrax.function(fn, input_signature=specs)


def test_without_a_signature_everything_fits():
    free = mirrax.function(lambda *_: None)
    free.fitted((object(), 1), {"x": "text"})
    assert free.input_signature is None


def test_an_empty_signature_takes_no_arguments():
    nothing = signature()
    nothing.fitted((), {})
    with pytest.raises(TypeError, match=r"step takes 0 argument.*Received: 1"):
        nothing.fitted((1.0,), {})


@pytest.mark.parametrize(
    "argument",
    [np.ones((0, 2), np.float32), jnp.ones((3, 2)), [[1.0, 2.0]], ((1.0, 2.0),)],
    ids=["empty", "array", "list", "tuple"],
)
def test_what_can_become_an_array_fits(argument):
    signature(ROWS).fitted((argument,), {})


def test_each_argument_is_held_against_its_own_entry():
    both = signature(ROWS, TensorSpec([], np.int32))
    both.fitted((jnp.ones((3, 2)), 1), {})
    with pytest.raises(TypeError, match=r"float32\[3\] for TensorSpec"):
        both.fitted((jnp.ones((3, 2)), jnp.ones(3)), {})


def test_arguments_by_name_take_their_places():
    both = signature(ROWS, TensorSpec([]))
    both.fitted((), {"y": 1.0, "x": jnp.ones((1, 2))})
    with pytest.raises(TypeError, match="must match its entry"):
        both.fitted((), {"x": 1.0, "y": jnp.ones((1, 2))})


def test_a_method_is_checked_without_its_object():
    method = signature(ROWS, fn=lambda self, x: None)
    method.is_method = True
    method.fitted((object(), jnp.ones((1, 2))), {})
    method.fitted((object(),), {"x": jnp.ones((1, 2))})
    with pytest.raises(TypeError, match=r"takes 1 argument.*Received: 2"):
        method.fitted((object(), 1.0, 2.0), {})


def test_every_part_is_held_against_its_own_entry():
    parts = signature(PerReplicaSpec((TensorSpec([2]), TensorSpec([3]))))
    parts.fitted((PerReplica((jnp.ones(2), jnp.ones(3))),), {})
    parts.fitted((jnp.ones(2),), {})
    with pytest.raises(TypeError, match="must match its entry"):
        parts.fitted((PerReplica((jnp.ones(2), jnp.ones(2))),), {})
    with pytest.raises(TypeError, match="must match its entry"):
        parts.fitted((jnp.ones(3),), {})


def test_an_entry_for_an_array_holds_for_a_part():
    pair = signature(TensorSpec([2]))
    pair.fitted((PerReplica((jnp.ones(2), jnp.ones(2))),), {})
    with pytest.raises(TypeError, match="must match its entry"):
        pair.fitted((PerReplica((jnp.ones(4), jnp.ones(4))),), {})


def test_arguments_that_fit_the_signature_are_accepted():
    spec = mirrax.TensorSpec([None, 2], np.float32)
    total = mirrax.function(lambda x: x.sum(), input_signature=[spec])
    assert float(total(jnp.ones((3, 2)))) == 6
    assert float(total(np.ones((1, 2), np.float32))) == 2


@pytest.mark.parametrize(
    "argument",
    [jnp.ones((3, 3)), jnp.ones(2), jnp.ones((3, 2), int)],
    ids=["size", "rank", "dtype"],
)
def test_arguments_that_do_not_fit_the_signature_are_refused(argument):
    spec = mirrax.TensorSpec([None, 2], np.float32)
    total = mirrax.function(lambda x: x.sum(), input_signature=[spec])
    # TensorFlow raises a TypeError.
    with pytest.raises(TypeError, match="must match its entry in `input_signature`"):
        total(argument)
    with pytest.raises(ValueError, match="must match its entry in `input_signature`"):
        total(argument)


@pytest.mark.parametrize("two", [2, [2, 2], np.int64(2), np.full(2, 2)])
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_integers_of_the_host_fit_a_floating_dtype(two, dtype):
    spec = mirrax.TensorSpec(np.shape(two), dtype)
    half = mirrax.function(lambda x: x / 4, input_signature=[spec])
    result = half(two)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.full(np.shape(two), 0.5))


def test_reals_do_not_fit_an_integer_dtype():
    spec = mirrax.TensorSpec([], np.int32)
    same = mirrax.function(lambda x: x, input_signature=[spec])
    with pytest.raises(TypeError, match="must match its entry"):
        same(2.0)


def test_another_number_of_arguments_than_in_the_signature_is_refused():
    total = mirrax.function(lambda x: x, input_signature=[mirrax.TensorSpec([])])
    with pytest.raises(TypeError, match=r"takes 1 argument.*Received: 2"):
        total(1.0, 2.0)


def test_an_argument_in_the_signature_can_be_given_by_name():
    total = mirrax.function(lambda x: x + 1, input_signature=[mirrax.TensorSpec([])])
    assert float(total(x=1.0)) == 2


def test_a_signature_can_be_nested():
    spec = {"x": (mirrax.TensorSpec([2]),)}
    total = mirrax.function(lambda tree: tree["x"][0] + 1, input_signature=[spec])
    np.testing.assert_array_equal(total({"x": (jnp.ones(2),)}), [2, 2])
    with pytest.raises(ValueError, match="must match its entry"):
        total({"x": (jnp.ones(3),)})


def test_the_signature_holds_for_what_a_replica_gets(two_replicas):
    step = mirrax.function(lambda x: x + 1, input_signature=[mirrax.TensorSpec([2])])
    fits, too_long = (
        mirrax.PerReplica(
            [jax.device_put(jnp.ones(n), d) for d in two_replicas.topology.devices]
        )
        for n in (2, 4)
    )
    np.testing.assert_array_equal(
        two_replicas.run(step, args=(fits,)).values, [[2, 2], [2, 2]]
    )
    with pytest.raises(ValueError, match="must match its entry"):
        two_replicas.run(step, args=(too_long,))


@pytest.mark.parametrize(
    ("nested", "given"),
    [
        ({"a": TensorSpec([])}, {"b": 1.0}),
        ({"a": TensorSpec([])}, {"a": 1.0, "b": 1.0}),
        ({"a": TensorSpec([])}, [1.0]),
        ([TensorSpec([]), TensorSpec([])], [1.0]),
        ((TensorSpec([]),), 1.0),
    ],
    ids=repr,
)
def test_an_argument_that_is_nested_differently_is_refused(nested, given):
    with pytest.raises(TypeError, match="must be nested as its entry"):
        signature(nested).fitted((given,), {})


def test_a_list_of_distributed_values_is_left_alone(two_replicas):
    parts = PerReplica((jnp.float32(1), jnp.float32(2)))
    total = mirrax.function(
        lambda pair: pair[0] + pair[1], input_signature=[TensorSpec([2])]
    )
    result = two_replicas.run(total, args=([parts, parts],))
    assert [float(part) for part in result.values] == [2, 4]


def test_a_dictionary_of_another_kind_stays_what_it_is():
    given = collections.OrderedDict(a=1.0)
    ((fitted,), _) = signature({"a": TensorSpec([])}).fitted((given,), {})
    assert fitted is given
