"""Elements that a thread reads in advance."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import AUTOTUNE, Dataset
from tests.data.plans import quick, resumed, values


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("mirrax-data")]


def doubled(count):
    """Returns a dataset that takes work."""
    return Dataset.range(count).map(lambda x: int(x) * 2)


@pytest.mark.parametrize("size", [AUTOTUNE, 0, 1, 5])
@pytest.mark.parametrize("make", [Dataset.range, doubled], ids=["rows", "work"])
def test_prefetch_changes_nothing(make, size):
    assert values(make(5).prefetch(size)) == values(make(5))


def test_elements_are_read_while_nobody_asks():
    has_read = [threading.Event() for _ in range(4)]

    def read(x):
        has_read[int(x)].set()
        return int(x)

    iterator = iter(Dataset.range(4).map(read).prefetch(3))
    assert int(next(iterator)) == 0
    assert has_read[3].wait(120)


def test_a_thread_is_there_only_for_work():
    iterator = iter(Dataset.range(9).shuffle(9).batch(2).prefetch(2))
    next(iterator)
    assert threads() == []


@quick
@given(position=st.integers(0, 12), size=st.integers(1, 3), batch=st.integers(1, 5))
def test_the_position_is_that_of_what_was_got(position, size, batch):
    def make():
        return doubled(12 * batch).prefetch(size).batch(batch).prefetch(size)

    rest, other = resumed(make, position)
    assert other == rest
    assert len(rest) == 12 - position


def test_what_comes_before_an_error_arrives():
    def fail_at_three(x):
        if int(x) == 3:
            raise ArithmeticError("no good")
        return int(x)

    iterator = iter(Dataset.range(9).map(fail_at_three).prefetch(2))
    assert [int(next(iterator)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ArithmeticError, match="no good"):
        next(iterator)


def test_no_thread_is_left_behind():
    iterator = iter(doubled(99).prefetch(2))
    next(iterator)
    (thread,) = threads()
    del iterator
    thread.join()


def test_the_thread_ends_with_the_data():
    iterator = iter(doubled(9).prefetch(2))
    next(iterator)
    (thread,) = threads()
    assert len(list(iterator)) == 8
    thread.join()


def test_a_distributed_dataset_has_one_thread_that_reads_as_far_as_asked(two_replicas):
    read, has_read = [], threading.Event()
    expected = 2 * (1 + 9 + 1)

    def note(x):
        read.append(int(x))
        if len(read) == expected:
            has_read.set()
        return x

    numbers = Dataset.range(80).map(note).batch(2)
    iterator = iter(two_replicas.experimental_distribute_dataset(numbers.prefetch(9)))
    del read[:]
    next(iterator)
    assert len(threads()) == 1
    assert has_read.wait(120)
    assert len(read) == expected


def test_position_can_be_restored_while_a_thread_reads():
    iterator = iter(doubled(9).prefetch(3))
    next(iterator)
    position = iterator.save_state()
    first = [int(next(iterator)) for _ in range(3)]
    iterator.restore_state(position)
    assert [int(next(iterator)) for _ in range(3)] == first
