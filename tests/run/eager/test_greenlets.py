import contextvars
import gc
import weakref

from mirrax.run.eager.greenlets import TaskGreenlet

NAME = contextvars.ContextVar("name", default="nobody")


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
