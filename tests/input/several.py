"""Several workers without processes: their feeds, one step after another."""

import numpy as np

from mirrax.input.batch_rows import Share
from mirrax.input.dataset_position import load
from mirrax.input.distribute import feed_opener
from tests.data.plans import through_json, with_policy


def open_feeds(make, policy, workers, replicas=1):
    """Returns the feed of each worker, for a dataset of its own."""
    return [
        feed_opener(with_policy(make(), policy), Share(workers, i, replicas))()
        for i in range(workers)
    ]


def take_step(feeds):
    """Returns the parts of each worker, those without data empty; None at the end."""
    steps = [feed.step() for feed in feeds]
    if all(step is None for step in steps):
        return None
    count = max(len(step) for step in steps if step is not None)
    return [
        [np.asarray(part).tolist() for part in step] if step else [[]] * count
        for step in steps
    ]


def take_all(feeds):
    return list(iter(lambda: take_step(feeds), None))


def rows_of(steps):
    """Returns all rows, in the order of steps, workers and replicas."""
    return [row for step in steps for parts in step for part in parts for row in part]


def save(feeds):
    return [through_json(feed.position().dump()) for feed in feeds]


def restore(feeds, states):
    for feed in feeds:
        feed.seek(load(states))
