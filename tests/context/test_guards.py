"""Errors that say where we are and where we should be."""

import pytest

from mirrax.context import guards, stack

FRAMES = {
    "cross_replica": stack.CrossReplica("ours"),
    "replica": stack.Replica("ours", context=None, index=0),
    "update": stack.Update("ours", index=0, pending={}),
}


@pytest.mark.parametrize("name", ["cross_replica", "update"])
def test_require_cross_replica_passes_outside_replicas(name):
    with stack.entered(FRAMES[name]):
        guards.require_cross_replica("`f`")


def test_require_cross_replica_passes_outside_every_strategy():
    guards.require_cross_replica("`f`")


def test_require_cross_replica_says_where_we_are_and_where_to_go():
    message = (
        r"^`f` works on all replicas at once.*call it in cross-replica context: "
        r"outside `strategy.run` or inside a merge function\. You are in replica "
        r"context: inside a function called by `strategy.run`\. Move the call out"
    )
    with stack.entered(FRAMES["replica"]), pytest.raises(RuntimeError, match=message):
        guards.require_cross_replica("`f`")


def test_require_replica_passes_in_a_replica():
    with stack.entered(FRAMES["replica"]):
        guards.require_replica("`f`")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("cross_replica", r"cross-replica context \(in a scope or a merge function\)"),
        ("update", r"update context \(inside `extended.update`\)"),
    ],
    ids=["cross_replica", "update"],
)
def test_require_replica_says_where_we_are(name, place):
    message = (
        f"`f` acts for one replica.*call it in replica context.*You are in {place}"
    )
    with stack.entered(FRAMES[name]), pytest.raises(RuntimeError, match=message):
        guards.require_replica("`f`")


def test_require_replica_fails_outside_every_strategy():
    with pytest.raises(RuntimeError, match="You are in no strategy's scope"):
        guards.require_replica("`f`")


@pytest.mark.parametrize("name", FRAMES)
def test_require_same_strategy_passes_in_its_own_frames(name):
    with stack.entered(FRAMES[name]):
        guards.require_same_strategy("`f`", FRAMES[name].strategy)


def test_require_same_strategy_passes_outside_every_strategy():
    guards.require_same_strategy("`f`", "ours")


@pytest.mark.parametrize("name", FRAMES)
def test_require_same_strategy_names_both_strategies(name):
    message = "^`f` was called inside the scope of another .*: 'theirs' inside 'ours'"
    with stack.entered(FRAMES[name]), pytest.raises(RuntimeError, match=message):
        guards.require_same_strategy("`f`", "theirs")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cross_replica", "cross-replica context (in a scope or a merge function)"),
        ("replica", "replica context (inside `strategy.run`)"),
        ("update", "update context (inside `extended.update`)"),
    ],
    ids=["cross_replica", "replica", "update"],
)
def test_describe_names_the_frame(name, words):
    with stack.entered(FRAMES[name]):
        assert guards.describe() == words


def test_describe_names_the_absence_of_a_frame():
    assert guards.describe() == "no strategy's scope"


def test_frame_is_left_after_an_error():
    with pytest.raises(KeyError), stack.entered(FRAMES["replica"]):
        raise KeyError
    assert stack.frame() is None
