"""Feeds: the parts of each step, one for each replica of this worker."""

import itertools

import jax
import numpy as np
import pytest

from mirrax.data import Dataset
from mirrax.input.batch_rows import Share
from mirrax.input.dataset_position import DatasetPosition, load
from mirrax.input.feeds import PerReplicaFeed, SharedBatchFeed
from tests.data.plans import through_json


def lists(parts):
    return jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), parts)


def drained(feed):
    steps = list(itertools.islice(iter(feed.step, None), 100))
    assert len(steps) < 100, "The feed has no end."
    return [lists(parts) for parts in steps]


def saved(feed):
    return load(through_json(feed.position().dump()))


# Batches, cut on their own.


def batches(count, size, share):
    return SharedBatchFeed(iter(Dataset.range(count).batch(size)), share)


def test_sizes_are_those_of_all_workers_at_the_latest_step():
    feed = batches(7, 5, Share(2, 1, 2))
    assert feed.sizes is None
    feed.step()
    assert list(feed.sizes) == [2, 2, 1, 0]
    feed.step()
    assert list(feed.sizes) == [1, 1, 0, 0]


def test_position_inside_a_batch_leaves_out_its_first_rows():
    """As another feed of the same dataset saves it."""
    feed = batches(8, 4, Share(1, 0, 2))
    start, _ = feed.position().of(0)
    feed.seek(DatasetPosition(5, 1, False, {0: (start, 3)}))
    assert feed.position() == DatasetPosition(5, 1, False, {0: (start, 3)})
    assert drained(feed) == [[[3], []], [[4, 5], [6, 7]]]
    assert feed.position().of(0)[1] == 0


# Batches in turn.


def turns(count, size, share=None, num_replicas=2):
    """Returns a feed in which the replicas take from one dataset."""
    source = iter(Dataset.range(count).batch(size))
    return PerReplicaFeed([source], share or Share(1, 0, num_replicas))


def test_empty_batch_is_like_the_others():
    arrays = {"a": np.ones((1, 3), np.float16), "b": None}
    source = iter(Dataset.from_tensor_slices(arrays).batch(1))
    _, empty = PerReplicaFeed([source], Share(1, 0, 2)).step()
    assert (empty["a"].shape, empty["a"].dtype) == ((0, 3), np.float16)
    assert empty["b"] is None


def test_position_of_another_number_of_workers_is_refused():
    position = saved(turns(4, 2, Share(2, 0, 2)))
    with pytest.raises(ValueError, match=r"2 input pipeline\(s\), for 3"):
        turns(4, 2, Share(3, 0, 2)).seek(position)


def test_position_of_another_worker_is_refused():
    position = saved(turns(4, 2, Share(2, 0, 2)))
    with pytest.raises(ValueError, match="none of worker 1 of 2"):
        turns(4, 2, Share(2, 1, 2)).seek(position)


def test_digest_tells_batches_apart_and_knows_them_again():
    def digests(data):
        feed = SharedBatchFeed(iter(data), Share(2, 0), has_digest=True)
        return [feed.digest for _ in iter(feed.step, None)]

    rows = np.random.default_rng(0).normal(size=(8, 1 << 17)).astype(np.float32)
    data = Dataset.from_tensor_slices({"x": rows, "s": [b"a", b"b"] * 4})
    assert digests(data.batch(4)) == digests(data.batch(4))
    assert len({*digests(data.batch(4)), *digests(data.skip(1).batch(4))}) == 4
