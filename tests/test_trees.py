"""Nested structures in which Mirrax' own containers are leaves."""

import collections

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


Pair = collections.namedtuple("Pair", ["first", "second"])


class NotTraceablePair(trees.NotTraceableLeaf, Pair):
    """A named tuple that would be a structure, were it traceable."""


def test_not_traceable_object_is_one_leaf():
    pair = NotTraceablePair(1, 2)
    leaves = trees.leaves({"a": [pair], "b": Pair(3, 4)})
    assert leaves[0] is pair
    assert leaves[1:] == [3, 4]


def test_not_traceable_object_is_mapped_as_a_whole():
    mapped = trees.map_leaves(type, [NotTraceablePair(1, 2), Pair(1, 2)])
    assert mapped == [NotTraceablePair, (int, int)]
