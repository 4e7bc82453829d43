import gc
import threading

import pytest

from mirrax.data import Dataset
from mirrax.data.node import has_expensive_node
from mirrax.data.prefetcher import Prefetcher


class Numbers:
    """A feed of the numbers from 0 on."""

    def __init__(self, count, error_at=None):
        self.next = 0
        self._count = count
        self._error_at = error_at

    def step(self):
        if self.next == self._error_at:
            raise ArithmeticError("no good")
        if self.next == self._count:
            return None
        self.next += 1
        return [self.next - 1]

    def position(self):
        return self.next

    def seek(self, state):
        self.next = state


def threads():
    return [t for t in threading.enumerate() if t.name == "mirrax-prefetch"]


def test_steps_come_in_order_and_end():
    feed = Prefetcher(Numbers(5), depth=2)
    assert [feed.step() for _ in range(7)] == [[0], [1], [2], [3], [4], None, None]


def test_no_more_is_read_ahead_than_was_asked_for():
    numbers = Numbers(100)
    feed = Prefetcher(numbers, depth=2)
    feed.step()
    assert numbers.next <= 1 + 2 + 1


def test_position_is_that_of_what_was_handed_out():
    feed = Prefetcher(Numbers(100), depth=8)
    feed.step()
    feed.step()
    assert feed.position() == 2


def test_position_can_be_restored():
    feed = Prefetcher(Numbers(9), depth=3)
    feed.step()
    feed.seek(6)
    assert [feed.step() for _ in range(4)] == [[6], [7], [8], None]


def test_what_comes_before_an_error_arrives_first():
    feed = Prefetcher(Numbers(9, error_at=2), depth=8)
    assert [feed.step(), feed.step()] == [[0], [1]]
    with pytest.raises(ArithmeticError, match="no good"):
        feed.step()


def test_thread_ends_with_the_feed():
    feed = Prefetcher(Numbers(100), depth=2)
    feed.step()
    del feed
    gc.collect()
    assert threads() == []


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Dataset.range(4).shuffle(4).batch(2), False),
        (Dataset.range(4).map(lambda x: x + 1).batch(2), True),
    ],
    ids=["lookups", "work"],
)
def test_reading_ahead_pays_where_there_is_work(dataset, expected):
    assert has_expensive_node(dataset.plan) is expected


def test_a_distributed_dataset_reads_ahead(two_replicas):
    seen = []
    dataset = Dataset.range(64).map(lambda x: seen.append(int(x)) or x).batch(4)
    iterator = iter(two_replicas.experimental_distribute_dataset(dataset))
    next(iterator)
    assert threads() != []
    assert [len(step.values[0]) for step in iterator] == [2] * 15
    # Before that it was called with zeros, to find out about shapes.
    assert seen[-64:] == list(range(64))
