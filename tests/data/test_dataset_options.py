"""Options of datasets."""

import pytest

from mirrax.data import AutoShardPolicy, Dataset, DistributeOptions, Options


def test_the_policy_is_auto():
    policy = Options().experimental_distribute.auto_shard_policy
    assert policy is AutoShardPolicy.AUTO


def test_each_options_has_its_own_distribution():
    first, second = Options(), Options()
    first.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    assert second.experimental_distribute.auto_shard_policy is AutoShardPolicy.AUTO


@pytest.mark.parametrize(
    ("choice", "policy"),
    [(True, AutoShardPolicy.AUTO), (False, AutoShardPolicy.OFF)],
    ids=["on", "off"],
)
def test_the_older_switch_sets_the_policy(choice, policy):
    options = DistributeOptions()
    options.auto_shard = choice
    assert options.auto_shard_policy is policy
    assert options.auto_shard is choice


@pytest.mark.parametrize(
    ("policy", "number"),
    [("OFF", -1), ("AUTO", 0), ("FILE", 1), ("DATA", 2), ("HINT", 3)],
    ids=str,
)
def test_policies_have_tensorflows_numbers(policy, number):
    assert AutoShardPolicy[policy] == number


def test_misspelt_options_of_distribution_are_refused():
    options = DistributeOptions()
    with pytest.raises(AttributeError, match="auto_shrad"):
        options.auto_shrad = True


def test_options_are_equal_by_their_values():
    options = Options()
    assert options == Options()
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    assert options != Options()


def test_later_options_leave_earlier_ones():
    first, second = Options(deterministic=False), Options(vectorize_map=False)
    first.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    found = Dataset.range(3).with_options(first).with_options(second).options()
    assert (found.deterministic, found.vectorize_map) == (False, False)
    assert found.experimental_distribute.auto_shard_policy is AutoShardPolicy.OFF
    assert first.vectorize_map
    assert second.deterministic is None


def test_later_options_win():
    first, second = Options(deterministic=False), Options(deterministic=True)
    first.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    second.experimental_distribute.auto_shard_policy = AutoShardPolicy.DATA
    found = Dataset.range(3).with_options(first).with_options(second).options()
    assert found.deterministic is True
    assert found.experimental_distribute.auto_shard_policy is AutoShardPolicy.DATA
