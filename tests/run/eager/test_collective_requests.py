"""What the replicas of an eager `run` must agree on when they meet."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.errors import ReplicaError
from tests.programs import replica_id


def all_reduce(value, op="SUM"):
    return mirrax.get_replica_context().all_reduce(op, value)


def test_different_gather_axes_are_refused(two_replicas):
    def step():
        return mirrax.get_replica_context().all_gather(jnp.ones((2, 2)), replica_id())

    with pytest.raises(ReplicaError, match="the same collective calls"):
        two_replicas.run(step)


@pytest.mark.parametrize(
    "functions",
    [
        (lambda _: "this", lambda _: "that"),
        (functools.partial(max, default=1), functools.partial(min, default=1)),
    ],
    ids=["functions", "partials"],
)
def test_different_merge_functions_are_refused(two_replicas, functions):
    def step():
        mirrax.get_replica_context().merge_call(functions[replica_id()])

    with pytest.raises(ReplicaError, match="the same collective calls"):
        two_replicas.run(step)


def test_different_numbers_of_values_are_refused(two_replicas):
    with pytest.raises(ReplicaError, match="the same collective calls"):
        two_replicas.run(lambda: all_reduce([1.0] * (replica_id() + 1)))


class Named:
    """A node whose own data cannot be compared."""

    def __init__(self, value, name):
        self.value, self.name = value, name


jax.tree_util.register_pytree_node(
    Named, lambda node: ([node.value], node.name), lambda name, v: Named(v[0], name)
)


@pytest.mark.parametrize(
    "make",
    [lambda x: jax.tree_util.Partial(lambda y: y, x), lambda x: Named(x, np.ones(2))],
    ids=["functions", "arrays"],
)
def test_values_in_the_same_places_fit_whatever_else_the_nodes_hold(two_replicas, make):
    summed = two_replicas.run(lambda: jax.tree.leaves(all_reduce(make(1.0))))
    assert [float(part) for part in summed[0].values] == [2, 2]


def test_equal_partials_are_one_merge_function(two_replicas):
    def step():
        merge = functools.partial(lambda strategy, scale: scale, scale=3)
        return mirrax.get_replica_context().merge_call(merge)

    assert two_replicas.run(step) == 3
