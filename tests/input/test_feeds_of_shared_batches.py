"""Feeds: the parts of each step, one for each replica of this worker."""

import itertools

import jax
import numpy as np
import pytest

from mirrax.data import Dataset
from mirrax.errors import InvalidArgumentError
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


def test_the_only_replica_gets_batches_as_they_come():
    assert drained(batches(5, 3, Share())) == [[[0, 1, 2]], [[3, 4]]]


def test_the_only_replica_may_get_what_is_no_batch():
    feed = SharedBatchFeed(iter(Dataset.range(2)), Share())
    assert drained(feed) == [[0], [1]]
    assert feed.sizes is None


def test_empty_dataset_ends_at_once():
    feed = batches(0, 3, Share(2, 0, 2))
    assert feed.step() is None
    assert feed.step() is None


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (Share(1, 0, 4), [[[0, 1], [2, 3], [4], []], [[5], [6], [], []]]),
        (Share(2, 0, 2), [[[0, 1], [2, 3]], [[5], [6]]]),
        (Share(2, 1, 2), [[[4], []], [[], []]]),
        (Share(4, 2, 1), [[[4]], [[]]]),
    ],
    ids=["all", "first of two", "second of two", "third of four"],
)
def test_each_worker_takes_the_pieces_of_its_replicas(share, expected):
    assert drained(batches(7, 5, share)) == expected


def test_sizes_are_those_of_all_workers_at_the_latest_step():
    feed = batches(7, 5, Share(2, 1, 2))
    assert feed.sizes is None
    feed.step()
    assert list(feed.sizes) == [2, 2, 1, 0]
    feed.step()
    assert list(feed.sizes) == [1, 1, 0, 0]


def test_nested_batches_are_cut_alike():
    arrays = {"a": np.arange(4), "b": (np.eye(4), None)}
    feed = SharedBatchFeed(
        iter(Dataset.from_tensor_slices(arrays).batch(4)), Share(2, 1)
    )
    ((part,),) = iter(feed.step, None)
    assert part["a"].tolist() == [2, 3]
    assert part["b"][0].shape == (2, 4)
    assert part["b"][1] is None


def test_scalars_cannot_be_cut():
    with pytest.raises(IndexError, match="must be batches"):
        SharedBatchFeed(iter(Dataset.range(2)), Share(1, 0, 2)).step()


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
@pytest.mark.parametrize("after", [Share(), Share(3, 1, 2)], ids=["alone", "more"])
def test_position_fits_any_number_of_workers(steps, after):
    def make(share):
        return SharedBatchFeed(
            iter(Dataset.range(9).shuffle(9, seed=1).batch(4)), share
        )

    feed, expected, other = make(Share(2, 0, 2)), make(after), make(after)
    for _ in range(steps):
        feed.step()
        expected.step()
    position = saved(feed)
    assert (position.step, position.num_pipelines, position.is_per_worker) == (
        min(steps, 3),
        1,
        False,
    )
    other.seek(position)
    assert drained(other) == drained(expected)
    assert saved(other).step == 3


def test_position_inside_a_batch_leaves_out_its_first_rows():
    """As another feed of the same dataset saves it."""
    feed = batches(8, 4, Share(1, 0, 2))
    start, _ = feed.position().of(0)
    feed.seek(DatasetPosition(5, 1, False, {0: (start, 3)}))
    assert feed.position() == DatasetPosition(5, 1, False, {0: (start, 3)})
    assert drained(feed) == [[[3], []], [[4, 5], [6, 7]]]
    assert feed.position().of(0)[1] == 0


def test_position_of_files_of_each_worker_is_refused():
    with pytest.raises(ValueError, match="shared in the same way"):
        batches(8, 4, Share()).seek(DatasetPosition(0, 2, False, {}))


# Batches in turn.


def turns(count, size, share=None, num_replicas=2):
    """Returns a feed in which the replicas take from one dataset."""
    source = iter(Dataset.range(count).batch(size))
    return PerReplicaFeed([source] * num_replicas, share or Share(1, 0, num_replicas))


def test_replicas_take_batches_in_turn():
    feed = turns(8, 2)
    assert drained(feed) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert feed.sizes is None


def test_who_finds_no_batch_gets_an_empty_one():
    assert drained(turns(3, 2, num_replicas=3)) == [[[0, 1], [2], []]]


def test_replicas_may_have_datasets_of_their_own():
    sources = [iter(Dataset.range(n).batch(2)) for n in (1, 4)]
    feed = PerReplicaFeed(sources, Share(1, 0, 2))
    assert drained(feed) == [[[0], [0, 1]], [[], [2, 3]]]


def test_empty_batch_is_like_the_others():
    arrays = {"a": np.ones((1, 3), np.float16), "b": None}
    source = iter(Dataset.from_tensor_slices(arrays).batch(1))
    _, empty = PerReplicaFeed([source] * 2, Share(1, 0, 2)).step()
    assert (empty["a"].shape, empty["a"].dtype) == ((0, 3), np.float16)
    assert empty["b"] is None


def test_datasets_without_elements_end_at_once():
    feed = turns(0, 2)
    assert feed.step() is None
    assert feed.position().step == 0


def test_scalars_that_suffice_are_given_out():
    feed = PerReplicaFeed([iter(Dataset.range(4))] * 2, Share(1, 0, 2))
    assert drained(feed) == [[0, 1], [2, 3]]


def test_scalars_that_do_not_suffice_are_refused():
    feed = PerReplicaFeed([iter(Dataset.range(1))] * 2, Share(1, 0, 2))
    message = "Received: fewer scalars than replicas in the last step. Batch the data"
    with pytest.raises(InvalidArgumentError, match=message):
        feed.step()


@pytest.mark.parametrize("is_common", [True, False], ids=["common", "own"])
def test_position_goes_on_where_the_replicas_were(is_common):
    def make():
        def opened():
            return iter(Dataset.range(9).shuffle(9, seed=2).batch(2))

        sources = [opened()] * 2 if is_common else [opened(), opened()]
        return PerReplicaFeed(sources, Share(3, 1, 2))

    feed, other = make(), make()
    feed.step()
    position = saved(feed)
    assert (position.step, position.num_pipelines, position.is_per_worker) == (
        1,
        3,
        True,
    )
    assert list(position.rows) == [1]
    assert len(position.of(1)[0]) == (1 if is_common else 2)
    other.seek(position)
    assert drained(other) == drained(feed)
    assert saved(other).step == saved(feed).step


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
