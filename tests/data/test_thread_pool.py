"""Threads of datasets: they end with whoever uses them, and block nobody."""

import threading

import pytest

import mirrax
from mirrax.data.thread_pool import Pool
from tests.devices.fresh import run_fresh


class Owner:
    """Who uses threads."""


def test_results_and_errors_come_back():
    owner = Owner()
    pool = Pool(owner, size=2)
    futures = [pool.submit(divmod, 7, n) for n in (2, 0)]
    assert futures[0].result() == (3, 1)
    with pytest.raises(ZeroDivisionError):
        futures[1].result()
    pool.close()


def test_no_more_threads_are_started_than_were_asked_for():
    owner = Owner()
    pool = Pool(owner, size=2)
    names = {pool.submit(threading.get_ident).result() for _ in range(10)}
    assert len(names) <= 2
    pool.close()


def test_what_waits_for_a_thread_is_cancelled_with_the_pool():
    owner = Owner()
    pool = Pool(owner, size=1)
    has_begun, may_end = threading.Event(), threading.Event()
    first = pool.submit(lambda: has_begun.set() or may_end.wait())
    has_begun.wait()
    second = pool.submit(int)
    pool.close()
    may_end.set()
    assert first.result()
    assert second.cancelled()


def test_threads_end_with_their_owner():
    owner = Owner()
    thread = Pool(owner, size=1).submit(threading.current_thread).result()
    del owner
    thread.join()
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "use",
    [
        "dataset.map(stuck, num_parallel_calls=2)",
        "dataset.map(stuck).prefetch(1)",
    ],
    ids=["map", "prefetch"],
)
def test_a_stuck_function_does_not_keep_the_process(use):
    code = f"""
import threading
from mirrax.data import Dataset

has_begun = threading.Event()

def stuck(x):
    has_begun.set()
    threading.Event().wait()

dataset = Dataset.range(4)
iterator = iter({use})
threading.Thread(target=lambda: next(iterator), daemon=True).start()
has_begun.wait()
print("left")
"""
    assert run_fresh(code) == "left"


def interleaved(dataset):
    return dataset.interleave(
        lambda x: mirrax.data.Dataset.range(1).map(lambda y: x + y),
        cycle_length=2,
        num_parallel_calls=2,
    )


def mapped_in_threads(dataset):
    # `int` is not vectorized, so it is called in the threads.
    return dataset.map(int, num_parallel_calls=2)


@pytest.mark.parametrize("parallel", [interleaved, mapped_in_threads])
def test_no_element_is_lost_by_an_interruption(monkeypatch, parallel):
    iterator = iter(parallel(mirrax.data.Dataset.range(8)))
    with monkeypatch.context() as patch:
        patch.setattr("concurrent.futures.Future.result", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
    assert [int(x) for x in iterator] == list(range(8))


def raise_interrupt(_):
    raise KeyboardInterrupt
