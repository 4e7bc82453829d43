import contextvars
import gc
import weakref

import pytest

from mirrax.run.eager.greenlets import (
    Cancelled,
    Failed,
    Finished,
    TaskGreenlet,
    acquire,
    release,
)

NAME = contextvars.ContextVar("name", default="nobody")


def test_a_task_that_returns_is_finished():
    assert TaskGreenlet().start(lambda: 3) == Finished(3)


def test_a_task_that_raises_has_failed():
    outcome = TaskGreenlet().start(lambda: 1 / 0)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, ZeroDivisionError)


def test_a_task_can_pause_and_is_given_an_answer():
    worker = TaskGreenlet()
    assert worker.start(lambda: worker.pause("question") + 1) == "question"
    assert worker.resume(41) == Finished(42)


def test_a_worker_takes_one_task_after_another():
    worker = TaskGreenlet()
    assert [worker.start(lambda i=i: i).result for i in range(3)] == [0, 1, 2]


def test_a_worker_goes_on_after_a_failure():
    worker = TaskGreenlet()
    worker.start(lambda: 1 / 0)
    assert worker.start(lambda: "fine") == Finished("fine")


def test_a_cancelled_task_runs_its_finally_blocks():
    worker, log = TaskGreenlet(), []

    def task():
        try:
            worker.pause(None)
        finally:
            log.append("cleaned up")

    worker.start(task)
    outcome = worker.cancel()
    assert isinstance(outcome.error, Cancelled)
    assert log == ["cleaned up"]


def test_each_task_has_a_context_of_its_own():
    worker = TaskGreenlet()
    NAME.set("caller")

    def task():
        seen = NAME.get()
        NAME.set("task")
        return seen

    assert worker.start(task) == Finished("caller")
    assert worker.start(task) == Finished("caller")
    assert NAME.get() == "caller"


def test_dismissed_workers_are_hired_again():
    worker = acquire()
    worker.start(lambda: None)
    release(worker)
    assert acquire() is worker


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_comes_out_too(error):
    def task():
        raise error

    assert isinstance(TaskGreenlet().start(task).error, error)


class Thing:
    """Something that can be referred to weakly."""


def test_nothing_of_an_ended_task_is_kept():
    worker, things = TaskGreenlet(), []

    def make():
        thing = Thing()
        NAME.set(thing)
        things.append(weakref.ref(thing))
        return thing

    def fail():
        raise ValueError(make())

    assert isinstance(worker.start(make).result, Thing)
    worker.start(fail)
    gc.collect()
    assert [reference() for reference in things] == [None, None]
