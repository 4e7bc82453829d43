"""Groups of neighbours: every replica is in one, and every sum is whole."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.collectives.hierarchical_copy import group_size, stages


@given(num_replicas=st.integers(1, 200))
def test_group_size_divides_the_replicas(num_replicas):
    size = group_size(num_replicas)
    assert num_replicas % size == 0
    assert size * size <= num_replicas


@pytest.mark.parametrize("num_replicas", [2, 3, 5, 7])
def test_prime_counts_are_one_group(num_replicas):
    assert group_size(num_replicas) == 1


@given(num_replicas=st.integers(1, 200))
def test_both_stages_hold_every_replica_once(num_replicas):
    near, far = stages(num_replicas, group_size(num_replicas))
    assert sorted(itertools.chain(*near)) == list(range(num_replicas))
    assert sorted(itertools.chain(*far)) == list(range(num_replicas))


@given(num_replicas=st.integers(1, 200))
def test_second_stage_meets_each_group_of_the_first(num_replicas):
    near, far = stages(num_replicas, group_size(num_replicas))
    group_of = {replica: i for i, group in enumerate(near) for replica in group}
    met = [sorted(group_of[replica] for replica in group) for group in far]
    assert met == [list(range(len(near)))] * len(far)
