"""Jobs without processes: the other workers say what a test wants, or are threads."""

import collections
import concurrent.futures
import contextlib
import itertools
import threading
import types

import jax

from mirrax.devices.topology import Topology


def topology_of(job=None, num_devices=1):
    return Topology(tuple(jax.devices("cpu")[:num_devices]), job=job)


class FakeJob:
    """A job as one worker sees it.

    Args:
        answer: Given topic and payload, returns what the workers say, in their order;
            by default all of them say what this one does.
    """

    def __init__(self, answer=None, num_workers=2, worker_index=0):
        self.num_workers = num_workers
        self.worker_index = worker_index
        self.is_chief = worker_index == 0
        self.workers = [
            types.SimpleNamespace(type="worker", index=i, name=f"worker {i}")
            for i in range(num_workers)
        ]
        self.topics = []
        self.payloads = []
        self.guarded = []
        self._answer = answer or (lambda topic, payload: [payload] * num_workers)

    def exchange(self, topic, payload):
        self.topics.append(topic)
        self.payloads.append(payload)
        return self._answer(topic, payload)

    @contextlib.contextmanager
    def guard(self, phase):
        self.guarded.append(f"enter {phase}")
        try:
            yield
        finally:
            self.guarded.append(f"leave {phase}")


def meet(*workers):
    """Returns what each of these functions returns, or the error that it raises.

    Each is a worker of one job, which it is given, and exchanges with the others.
    """
    count = len(workers)
    rounds = collections.defaultdict(dict)
    changed = threading.Condition()
    gone = []

    def run(index):
        numbers = itertools.count()

        def answer(topic, payload):
            with changed:
                said = rounds[next(numbers)]
                said[index] = payload
                changed.notify_all()
                changed.wait_for(lambda: len(said) == count or gone, timeout=60)
            assert len(said) == count, f"Worker {index} waits for the others: {topic}"
            return [said[i] for i in range(count)]

        try:
            return workers[index](FakeJob(answer, count, index))
        except Exception as error:
            return error
        finally:
            with changed:
                gone.append(index)
                changed.notify_all()

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
