"""What only Python can work through."""

import collections

from mirrax import trees
from mirrax.trees import Driving

Pair = collections.namedtuple("Pair", ["first", "second"])


class DrivingPair(Driving, Pair):
    """A structure by itself, if it did not drive."""


def test_what_drives_is_one_leaf_of_a_structure():
    pair = DrivingPair(1, 2)
    leaves = trees.leaves({"a": [pair], "b": Pair(3, 4)})
    assert leaves[0] is pair
    assert leaves[1:] == [3, 4]


def test_what_drives_is_mapped_as_a_whole():
    mapped = trees.map_leaves(type, [DrivingPair(1, 2), Pair(1, 2)])
    assert mapped == [DrivingPair, (int, int)]
