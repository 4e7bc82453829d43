"""Keras models on several workers: same initial values, same batches.

Every worker runs the same calls on the same batches, and computes its rows of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from mirrax.collectives import worker_exchange
from mirrax.collectives.worker_guard import Log
from mirrax.devices.topology import Topology
from mirrax.input.batch_digest import digest_of
from mirrax.integrations.keras import internals
from mirrax.trees import Tree


def from_chief(topology: Topology, variable: Any, array: Any) -> Any:
    """Returns the first worker's array; sends it only if another worker's differs."""
    topic = f"Keras variable {internals.role_of(variable)}"
    if any(worker_exchange.differing(topology, topic, [array])):
        return worker_exchange.from_first(topology, topic, array)
    return array


def sync_numpy_random(topology: Topology) -> None:
    """Synchronizes NumPy's random state, with which Keras shuffles rows."""
    if topology.is_local:
        return
    kind, keys, position, *_ = np.random.get_state()
    own = np.asarray([*keys, position], np.uint32)
    *keys, position = worker_exchange.from_first(topology, "NumPy's random state", own)
    np.random.set_state((kind, np.asarray(keys, np.uint32), int(position), 0, 0.0))


def require_same_batch(batch: Tree, topology: Topology) -> None:
    """Raises unless all workers were given the same batch."""
    if not topology.is_local:
        _compare(topology, digest_of(batch))


def same_batches(batches: Iterable[Tree], topology: Topology) -> Iterator[Tree]:
    """Yields batches; compares them with those of other workers now and then."""
    log = Log()
    for batch in batches:
        log.append(digest_of(batch))
        if log.is_due:
            _compare(topology, [log.count, log.checksum])
        yield batch
    _compare(topology, [log.count, log.checksum])


def _compare(topology: Topology, own: Any) -> None:
    answers = worker_exchange.exchange(topology, "batches", own)
    if any(answer != answers[0] for answer in answers):
        raise ValueError(
            "All workers must get the same batches; each computes its rows. "
            f"Received: other batches on worker {topology.worker_index} than on "
            f"others: {answers}. Seed what shuffles them; or let each worker read its "
            "own data, with `strategy.distribute_datasets_from_function`."
        )


def gathered(predict: Callable[..., Any], topology: Topology) -> Callable[..., Any]:
    """Returns `predict` with outputs that are gathered on every worker."""
    whole = jax.jit(lambda outputs: outputs, out_shardings=topology.replicated)

    def predict_all(state: Any, iterator: Any) -> Any:
        outputs, state = predict(state, iterator)
        return whole(outputs), state

    return predict_all
