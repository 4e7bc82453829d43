"""From one result per replica to one structure, and back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mirrax
from mirrax.devices.topology import Topology
from mirrax.values.regroup import is_mirrored_array, local_results, regroup, select

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["a", "b"])
)


@st.composite
def shapes(draw):
    """Draws a function that makes a structure of the values that `take` gives."""
    return draw(
        st.recursive(
            st.just(lambda take: take()),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3).map(
                    lambda fs: lambda take: [f(take) for f in fs]
                ),
                st.lists(inner, max_size=3).map(
                    lambda fs: lambda take: tuple(f(take) for f in fs)
                ),
                st.dictionaries(st.sampled_from("xyz"), inner, max_size=3).map(
                    lambda fs: lambda take: {k: f(take) for k, f in fs.items()}
                ),
            ),
            max_leaves=8,
        )
    )


@st.composite
def results_of_replicas(draw):
    """Draws structures that are equal but for their leaves, one for each replica."""
    shape = draw(shapes())
    return [shape(lambda: draw(VALUES)) for _ in range(draw(st.integers(1, 4)))]


@settings(max_examples=50)
@given(results=results_of_replicas())
def test_select_undoes_regroup(results):
    merged = regroup(results)
    assert [select(merged, i) for i in range(len(results))] == results


@settings(max_examples=50)
@given(results=results_of_replicas())
def test_select_keeps_the_types_of_leaves(results):
    merged = regroup(results)
    selected = [select(merged, i) for i in range(len(results))]
    assert repr(selected) == repr([_sorted(result) for result in results])


def _sorted(tree):
    return jax.tree.map(lambda leaf: leaf, tree)


@settings(max_examples=30)
@given(result=results_of_replicas().map(lambda results: results[0]))
def test_one_result_comes_back_bare(result):
    assert regroup([result]) is result


@settings(max_examples=30)
@given(result=results_of_replicas().map(lambda results: results[0]))
def test_equal_plain_results_come_back_bare(result):
    copy = jax.tree.map(lambda leaf: leaf, result)
    assert regroup([result, copy, result]) == result


def test_same_object_comes_back_bare():
    same = object()
    assert regroup([(same, 1), (same, 2)])[0] is same


def test_equal_arrays_stay_apart():
    merged = regroup([jnp.ones(2), jnp.ones(2)])
    assert isinstance(merged, mirrax.PerReplica)


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, True), (1, 1.0), ("a", "b"), (None, 1), (1, None)],
    ids=["bool", "float", "text", "none_first", "none_second"],
)
def test_different_plain_values_become_per_replica(first, second):
    merged = regroup([first, second])
    assert isinstance(merged, mirrax.PerReplica)
    assert merged.values == (first, second)
    assert [type(value) for value in merged.values] == [type(first), type(second)]


def test_none_from_all_stays_none():
    assert regroup([None, None]) is None


@pytest.mark.parametrize(
    "others",
    [({"a": 1}, {"b": 1}), ((1, 2), (1, 2, 3)), ((1, 2), [1, 2]), ({"a": 1}, 1)],
    ids=["keys", "lengths", "types", "depths"],
)
def test_different_structures_are_refused(others):
    message = "same structure. Received: replica 0 returned .*, replica 1 returned "
    with pytest.raises(AssertionError, match=message):
        regroup(others)


def test_own_containers_are_leaves(two_replicas):
    with two_replicas.scope():
        v = mirrax.Variable(1.0)
    assert regroup([{"v": v}, {"v": v}])["v"] is v


def test_select_keeps_a_variable_whole(two_replicas):
    with two_replicas.scope():
        v = mirrax.Variable(1.0)
    assert select([v], 1)[0] is v


def test_select_takes_the_part_of_each_distributed_value(two_replicas):
    array = jax.device_put(jnp.ones(2), two_replicas.topology.replicated)
    value = {"p": mirrax.PerReplica((1, 2)), "m": mirrax.Mirrored(array), "x": "plain"}
    selected = select(value, 1)
    assert selected["p"] == 2
    assert selected["m"].devices() == {two_replicas.topology.devices[1]}
    assert selected["x"] == "plain"


@pytest.mark.parametrize("value", [1.0, "text", None], ids=repr)
def test_local_results_of_a_single_value_are_that_value(two_replicas, value):
    assert local_results(value, two_replicas.topology) == (value,)


def test_local_results_of_a_mirrored_array_are_its_copies(two_replicas):
    topology = two_replicas.topology
    results = local_results(jax.device_put(jnp.ones(2), topology.replicated), topology)
    assert [np.asarray(part).tolist() for part in results] == [[1.0, 1.0]] * 2
    assert [part.devices() for part in results] == [{d} for d in topology.devices]


def test_array_of_other_devices_is_not_mirrored(two_replicas):
    other = Topology(tuple(jax.devices("cpu")[2:4]))
    array = jax.device_put(jnp.ones(2), other.replicated)
    assert not is_mirrored_array(array, two_replicas.topology)
    assert is_mirrored_array(array, other)


def test_split_array_is_not_mirrored(two_replicas):
    array = jax.device_put(jnp.ones(2), two_replicas.topology.split)
    assert not is_mirrored_array(array, two_replicas.topology)


def test_nothing_is_mirrored_on_one_replica():
    topology = Topology(tuple(jax.devices("cpu")[:1]))
    assert not is_mirrored_array(jnp.ones(2), topology)
