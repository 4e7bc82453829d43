"""Feeds of workers that each read something else."""

import numpy as np
import pytest

from mirrax.data import Dataset
from mirrax.input.batch_rows import Share
from mirrax.input.dataset_position import DatasetPosition
from mirrax.input.feeds import RowFeed, SingleReplicaFeed
from tests.data.plans import ragged
from tests.input.several import restore, rows_of, save, take_all, take_step


def shares(count, size=4):
    """Returns a function that opens a worker's shard of the numbers below `count`."""

    def open_pipeline(num_workers, index):
        return iter(Dataset.range(count).shard(num_workers, index).batch(size))

    return open_pipeline


def everything(count, size):
    """Returns what opens all numbers below `count`, for every worker."""
    return lambda num_workers, index: iter(Dataset.range(count).batch(size))


def flowing(open_pipeline, batch_size, num_workers, replicas=1, is_per_worker=False):
    """Returns the feed of each worker."""
    return [
        RowFeed(
            open_pipeline, batch_size, Share(num_workers, i, replicas), is_per_worker
        )
        for i in range(num_workers)
    ]


def sizes_of(steps):
    return [[len(part) for parts in step for part in parts] for step in steps]


# Rows that flow across the borders of batches.


def test_parts_are_cut_across_batches():
    feeds = flowing(everything(7, 3), 4, 1, replicas=2)
    assert take_all(feeds) == [[[[0, 1], [2, 3]]], [[[4, 5], [6]]]]


def test_each_worker_reads_its_own_pipeline():
    steps = take_all(flowing(shares(8), 4, 2))
    assert steps == [[[[0, 2]], [[1, 3]]], [[[4, 6]], [[5, 7]]]]


def test_sizes_of_parts_go_round():
    steps = take_all(flowing(everything(10, 5), 5, 2, is_per_worker=True))
    assert sizes_of(steps) == [[3, 2], [2, 3], [3, 2], [2, 3]]


def test_replicas_without_rows_get_empty_parts_like_the_others():
    dataset = Dataset.from_tensor_slices({"x": np.ones((1, 3), np.float16)}).batch(2)
    (feed,) = flowing(lambda *_: iter(dataset), 4, 1, replicas=2)
    full, empty = feed.step()
    assert full["x"].shape == (1, 3)
    assert (empty["x"].shape, empty["x"].dtype) == ((0, 3), np.float16)


def test_pipeline_without_rows_ends_at_once():
    (feed,) = flowing(everything(0, 3), 4, 1)
    assert feed.step() is None
    assert feed.position().has_ended
    assert feed.sizes is None


def test_worker_that_has_no_more_takes_no_more_steps():
    short, long = flowing(shares(3), 2, 2)
    steps = [take_step([short, long]) for _ in range(3)]
    assert steps == [[[[0]], [[1]]], [[[2]], [[]]], None]
    assert (short.position().step, long.position().step) == (2, 1)
    assert short.position().has_ended


def test_position_tells_what_was_taken():
    feed = flowing(shares(8), 4, 2)[1]
    feed.step()
    position = feed.position()
    assert (position.step, position.num_pipelines) == (1, 2)
    assert list(position.rows) == [1]
    assert position.of(1)[1] == 2
    assert not position.has_ended
    assert not position.is_per_worker


@pytest.mark.parametrize("steps", [0, 1, 3, 5, 9])
@pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
def test_another_number_of_workers_reads_the_rest(steps, after):
    def make(num_workers):
        return flowing(shares(29, 3), 5, num_workers, replicas=2)

    feeds, others = make(3), make(after)
    for _ in range(steps):
        take_step(feeds)
    restore(others, save(feeds))
    rest = rows_of(take_all(feeds))
    assert sorted(rows_of(take_all(others))) == sorted(rest)


def test_fewer_workers_read_several_pipelines_in_turn():
    feeds = flowing(shares(12), 4, 2)
    take_step(feeds)
    (other,) = others = flowing(shares(12), 4, 1)
    restore(others, save(feeds))
    # The step says whose turn it is.
    assert take_all(others) == [[[[5, 7, 9, 11]]], [[[4, 6, 8, 10]]]]
    assert sorted(other.position().rows) == [0, 1]


def test_more_workers_share_a_pipeline_in_their_order():
    feeds = flowing(shares(12), 4, 1)
    take_step(feeds)
    others = flowing(shares(12), 4, 2)
    restore(others, save(feeds))
    assert take_all(others) == [[[[4, 5]], [[6, 7]]], [[[8, 9]], [[10, 11]]]]


def test_same_workers_go_on_identically():
    feeds, others = (flowing(shares(21), 5, 2, replicas=2) for _ in range(2))
    take_step(feeds)
    for other, state in zip(others, save(feeds), strict=True):
        restore([other], state)
    assert take_all(others) == take_all(feeds)


def test_position_of_one_worker_does_not_suffice_for_another_number():
    states = save(flowing(shares(8), 4, 2))
    with pytest.raises(ValueError, match="none of worker 1 of 2"):
        restore(flowing(shares(8), 4, 1), states[0])


@pytest.mark.parametrize("after", [1, 3])
def test_datasets_of_each_workers_own_need_as_many_workers(after):
    states = save(flowing(everything(9, 3), 3, 2, is_per_worker=True))
    with pytest.raises(ValueError, match=rf"2 input pipeline\(s\), for {after}"):
        restore(flowing(everything(9, 3), 3, after, is_per_worker=True), states)


@pytest.mark.parametrize("is_per_worker", [False, True])
def test_shares_do_not_go_on_from_datasets_of_each_workers_own(is_per_worker):
    states = save(flowing(shares(9), 3, 2, is_per_worker=is_per_worker))
    with pytest.raises(ValueError, match=r"2 input pipeline\(s\), for 3"):
        restore(flowing(shares(9), 3, 3, is_per_worker=not is_per_worker), states)


# Batches of unknown size.


def pieces(open_pipeline, num_workers, replicas=1, is_per_worker=False):
    return flowing(open_pipeline, None, num_workers, replicas, is_per_worker)


def batches_of(*sizes):
    return lambda num_workers, index: iter(ragged(*sizes))


def test_each_batch_is_cut_on_its_own():
    feeds = pieces(batches_of(5, 2), 1, replicas=2)
    assert sizes_of(take_all(feeds)) == [[3, 2], [1, 1]]


def test_worker_takes_as_many_pieces_as_it_has_replicas():
    """There are four pieces of each batch, and the worker has two replicas."""
    feeds = pieces(batches_of(8), 2, replicas=2)
    assert sizes_of(take_all(feeds)) == [[2, 2, 2, 2]] * 2


def test_every_row_comes_once_where_batches_cannot_be_divided():
    feeds = pieces(batches_of(5, 0, 1, 3), 1, replicas=4)
    rows = rows_of(take_all(feeds))
    assert sorted(rows) == [1, 3, 3, 3, 5, 5, 5, 5, 5]


def test_last_replicas_without_rows_get_empty_pieces():
    feeds = pieces(batches_of(2), 1, replicas=3)
    assert sizes_of(take_all(feeds)) == [[1, 1, 0]]


def test_no_batches_are_no_steps():
    (feed,) = pieces(batches_of(), 1)
    assert feed.step() is None
    assert (feed.position().step, feed.sizes) == (0, None)


def test_position_in_pieces_is_gone_to():
    feeds, others = (
        pieces(batches_of(8, 3, 5), 2, is_per_worker=True) for _ in range(2)
    )
    take_step(feeds)
    position = feeds[1].position()
    assert (position.step, position.num_pipelines, position.is_per_worker) == (
        1,
        2,
        True,
    )
    assert position.of(1)[1] == 4
    for other, state in zip(others, save(feeds), strict=True):
        restore([other], state)
    assert take_all(others) == take_all(feeds)


@pytest.mark.parametrize("after", [1, 2, 3, 5])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_another_number_of_workers_reads_the_rest_of_the_batches(steps, after):
    feeds = pieces(shares(23, size=5), 3)
    got = [take_step(feeds) for _ in range(steps)]
    others = pieces(shares(23, size=5), after, replicas=2)
    restore(others, save(feeds))
    assert sorted(rows_of([*got, *take_all(others)])) == list(range(23))


# The only replica of the only worker.


def test_the_only_replica_gets_batches_as_they_come():
    feed = SingleReplicaFeed(everything(5, 3), 3)
    assert take_all([feed]) == [[[[0, 1, 2]]], [[[3, 4]]]]
    assert feed.sizes is None


def test_the_only_replica_goes_on_from_its_own_position():
    feeds, others = (
        [SingleReplicaFeed(everything(9, 2), 2)],
        [SingleReplicaFeed(everything(9, 2), 2)],
    )
    take_step(feeds)
    restore(others, save(feeds))
    assert (
        take_all(others)
        == take_all(feeds)
        == [
            [[[2, 3]]],
            [[[4, 5]]],
            [[[6, 7]]],
            [[[8]]],
        ]
    )


def test_the_only_replica_goes_on_for_several_workers():
    feeds = flowing(shares(12), 4, 2)
    take_step(feeds)
    single = SingleReplicaFeed(shares(12), 4)
    restore([single], save(feeds))
    assert single.position().num_pipelines == 2
    assert take_all([single]) == [[[[5, 7, 9, 11]]], [[[4, 6, 8, 10]]]]


def test_the_only_replica_can_go_back_to_a_position_of_its_own():
    start = SingleReplicaFeed(shares(4, 2), 2).position()
    single = SingleReplicaFeed(shares(4, 2), 2)
    restore([single], save(flowing(shares(4, 2), 2, 2)))
    single.seek(start)
    assert take_all([single]) == [[[[0, 1]]], [[[2, 3]]]]


def test_the_only_replica_does_not_go_on_for_datasets_of_workers_own():
    with pytest.raises(ValueError, match=r"2 input pipeline\(s\), for 1"):
        SingleReplicaFeed(everything(4, 2), 2).seek(DatasetPosition(1, 2, True, {}))
