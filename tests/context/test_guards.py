"""Errors that say where we are and where we should be."""

import pytest

from mirrax.context import guards, stack

FRAMES = {
    "cross_replica": stack.CrossReplica("ours"),
    "replica": stack.Replica("ours", context=None, index=0),
    "update": stack.Update("ours", index=0, pending={}),
}


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
