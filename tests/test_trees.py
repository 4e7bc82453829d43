"""Nested structures in which Mirrax' own containers are leaves."""

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mirrax
from mirrax import trees

LEAVES = st.one_of(st.booleans(), st.integers(), st.text(), st.floats(allow_nan=False))
STRUCTURES = st.recursive(
    LEAVES | st.none(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mirrax.PerReplica((1, 2)),
        lambda: mirrax.Mirrored(jax.numpy.ones(2)),
        lambda: mirrax.Variable(1.0),
    ],
    ids=["per_replica", "mirrored", "variable"],
)
def test_own_container_is_one_leaf(make):
    container = make()
    assert trees.is_leaf(container)
    (leaf,) = trees.leaves({"a": [container]})
    assert leaf is container


def test_array_is_no_container():
    assert not trees.is_leaf(jax.numpy.ones(2))


def test_none_belongs_to_the_structure():
    leaves, structure = trees.flatten((1, None, {"a": None}))
    assert leaves == [1]
    assert trees.unflatten(structure, [5]) == (5, None, {"a": None})


@given(tree=STRUCTURES)
def test_unflatten_undoes_flatten(tree):
    leaves, structure = trees.flatten(tree)
    assert trees.unflatten(structure, leaves) == tree


@given(tree=STRUCTURES)
def test_map_leaves_keeps_the_structure(tree):
    mapped = trees.map_leaves(lambda leaf: [leaf].index(leaf), tree)
    assert trees.leaves(mapped) == [0] * len(trees.leaves(tree))
    assert jax.tree.structure(mapped) == jax.tree.structure(tree)


def test_map_leaves_takes_several_trees():
    added = trees.map_leaves(lambda *xs: sum(xs), {"a": [1]}, {"a": [2]}, {"a": [4]})
    assert added == {"a": [7]}


def test_map_leaves_refuses_trees_of_other_structure():
    with pytest.raises(ValueError, match="different pytree metadata"):
        trees.map_leaves(lambda *xs: xs, {"a": 1}, {"b": 1})
