"""Functions that run in threads: parallel, in order, and none left behind."""

import gc
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrax.data import AUTOTUNE, Dataset
from tests.data.plans import elements, fail_at, quick, resumed, through_json, values


def slowly(x):
    """Waits, as one who reads a file; numbers of Python cannot be vectorised."""
    time.sleep(0.001 * (int(x) % 3))
    return x * 2


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("mirrax-data")]


def test_calls_run_at_the_same_time():
    barrier = threading.Barrier(4, timeout=120)

    def meet(x):
        number = int(x)
        barrier.wait()
        return number

    dataset = Dataset.range(8).map(meet, num_parallel_calls=4)
    assert values(dataset) == list(range(8))


@quick
@given(
    count=st.integers(0, 20),
    calls=st.sampled_from([1, 2, 5, AUTOTUNE]),
    size=st.integers(1, 4),
)
def test_results_come_in_order(count, calls, size):
    dataset = Dataset.range(count).map(slowly, num_parallel_calls=calls).batch(size)
    assert values(dataset) == values(Dataset.range(0, 2 * count, 2).batch(size))


@quick
@given(position=st.integers(0, 12))
def test_a_position_loses_and_doubles_nothing(position):
    def make():
        return Dataset.range(12).map(slowly, num_parallel_calls=3)

    iterator = iter(make().take(12))
    got = [int(next(iterator)) for _ in range(position)]
    other = iter(make().take(12))
    other.restore_state(through_json(iterator.save_state()))
    again = iter(make().take(12))
    again.restore_state(through_json(other.save_state()))
    rest = values(again)
    assert got + rest == list(range(0, 24, 2))
    assert rest == values(iterator)


def test_a_position_in_batches_resumes_identically():
    def make():
        numbers = Dataset.range(30).shuffle(30, seed=1)
        return numbers.map(slowly, num_parallel_calls=4).batch(4)

    for position in range(8):
        rest, other = resumed(make, position)
        assert other == rest


def test_a_function_that_can_be_called_at_once_needs_no_threads():
    dataset = Dataset.range(100).map(lambda x: x * 2, num_parallel_calls=4)
    iterator = iter(dataset.batch(10))
    next(iterator)
    assert threads() == []
    assert elements(dataset) == elements(Dataset.range(0, 200, 2))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_single_and_vectorized_calls_together_lose_nothing(size):
    dataset = Dataset.range(40).map(lambda x: x * 2, num_parallel_calls=3)
    found = [int(x) for batch in dataset.skip(1).batch(size) for x in batch]
    assert found == list(range(2, 80, 2))


def test_an_error_names_its_element_and_comes_after_what_was_before():
    iterator = iter(Dataset.range(20).map(fail_at(7), num_parallel_calls=4))
    got = [int(next(iterator)) for _ in range(7)]
    with pytest.raises(ArithmeticError, match="no good: 7") as caught:
        next(iterator)
    assert "element 7" in caught.value.__notes__[0]
    assert got == list(range(7))


def test_a_slow_call_keeps_no_other_thread_waiting():
    barrier = threading.Barrier(2, timeout=120)

    def first_waits(x):
        if int(x) in (0, 3):
            # The first call ends once the fourth runs, which the other thread reaches.
            barrier.wait()
        return x

    dataset = Dataset.range(6).map(first_waits, num_parallel_calls=2)
    assert values(dataset) == list(range(6))


def test_an_error_is_raised_again_by_who_goes_on():
    iterator = iter(Dataset.range(9).map(fail_at(0, 1, 2), num_parallel_calls=3))
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="no good: 0"):
            next(iterator)


def test_an_error_of_the_source_comes_after_what_was_before():
    source = Dataset.range(9).map(fail_at(5))
    iterator = iter(source.map(slowly, num_parallel_calls=4))
    assert [int(next(iterator)) for _ in range(5)] == [0, 2, 4, 6, 8]
    with pytest.raises(ArithmeticError, match="no good: 5"):
        next(iterator)


@pytest.mark.parametrize("taken", [1, 30, 31], ids=["started", "all", "ended"])
def test_no_thread_is_left_behind(taken):
    iterator = iter(Dataset.range(30).map(slowly, num_parallel_calls=4))
    for _ in range(taken):
        next(iterator, None)
    del iterator
    gc.collect()
    for thread in threads():
        thread.join(60)
    assert threads() == []


def test_no_thread_is_left_behind_by_an_error():
    with pytest.raises(ArithmeticError):
        list(Dataset.range(30).map(fail_at(3), num_parallel_calls=4))
    gc.collect()
    for thread in threads():
        thread.join(60)
    assert threads() == []


@pytest.mark.parametrize("calls", [0, -2])
def test_a_wrong_number_of_calls_is_refused(calls):
    with pytest.raises(ValueError, match="`num_parallel_calls` must be at least 1"):
        Dataset.range(3).map(lambda x: x, num_parallel_calls=calls)


def test_threads_work_through_a_distributed_dataset(two_replicas):
    dataset = Dataset.range(40).map(slowly, num_parallel_calls=4).batch(8)
    distributed = two_replicas.experimental_distribute_dataset(dataset)
    found = np.concatenate([part for step in distributed for part in step.values])
    assert found.tolist() == list(range(0, 80, 2))
