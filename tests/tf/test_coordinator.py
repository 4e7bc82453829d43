"""`tf.train.Coordinator`: threads stop together."""

import re
import sys
import threading

import pytest

from mirrax import tf


@pytest.fixture
def coordinator():
    return tf.train.Coordinator()


def started(target):
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def test_all_threads_stop_when_one_asks(coordinator):
    waiting = [started(coordinator.wait_for_stop) for _ in range(2)]
    asking = started(coordinator.request_stop)
    coordinator.join([*waiting, asking])
    assert coordinator.should_stop()
    assert coordinator.joined
    assert not any(thread.is_alive() for thread in waiting)


def test_registered_threads_are_joined(coordinator):
    thread = started(coordinator.wait_for_stop)
    coordinator.register_thread(thread)
    coordinator.request_stop()
    coordinator.join()
    assert not thread.is_alive()


def test_the_first_error_is_raised_where_they_are_joined(coordinator):
    def fail():
        with coordinator.stop_on_exception():
            raise ValueError("first")

    threads = [started(fail)]
    threads[0].join()
    coordinator.request_stop(ValueError("second"))
    with pytest.raises(ValueError, match="first"):
        coordinator.join(threads)


def test_the_end_of_the_data_is_no_error(coordinator):
    coordinator.request_stop(tf.errors.OutOfRangeError("end"))
    coordinator.join([])
    assert coordinator.should_stop()


def test_errors_after_the_join_are_raised_at_once(coordinator):
    coordinator.join([])
    try:
        raise KeyError("late")
    except KeyError:
        with pytest.raises(KeyError, match="late"):
            coordinator.request_stop(sys.exc_info())


def test_a_stop_can_be_forgotten(coordinator):
    coordinator.request_stop(ValueError("first"))
    coordinator.clear_stop()
    assert not coordinator.should_stop()
    coordinator.join([])


def test_threads_that_go_on_are_named(coordinator):
    released = threading.Event()
    thread = started(released.wait)
    coordinator.request_stop()
    message = f"threads still running: {re.escape(thread.name)}"
    with pytest.raises(RuntimeError, match=message):
        coordinator.join([thread], stop_grace_period_secs=0)
    coordinator.join([thread], stop_grace_period_secs=0, ignore_live_threads=True)
    released.set()
    thread.join()
