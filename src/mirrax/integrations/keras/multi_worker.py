"""Keras models on several workers: same initial values, same batches, one writer.

Every worker runs the same calls on the same batches, and computes its rows of each. The
first one, the chief, writes the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from mirrax.collectives import worker_exchange
from mirrax.collectives.program_order import Log
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.input.batch_digest import digest_of
from mirrax.integrations.keras import hooks, internals
from mirrax.train import worker_sync
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


def variables_of(model: Any) -> list[Any]:
    """Returns the variables of a model, its optimizer and its metrics."""
    optimizer = getattr(model, "optimizer", None)
    slots = [] if optimizer is None else optimizer.variables
    return [*model.variables, *slots, *model.metrics_variables]


def run_on_chief(strategy: Any, model: Any, what: str, run: Callable[[], None]) -> None:
    """Runs code on the first worker; raises on all workers if it fails there.

    All workers call this together. Meanwhile the others take part in what the first
    one does with the variables of the model.
    """
    topology = strategy.topology
    if topology.is_local:
        run()
        return
    variables = variables_of(model)
    numbers = {id(variable): number for number, variable in enumerate(variables)}

    def ask(operation: str, variable: Any) -> None:
        if strategy.is_chief:
            _call_of_chief(topology, [operation, numbers[id(variable)]])

    def lead() -> None:
        try:
            run()
        finally:
            _call_of_chief(topology, None)

    with stack.entered(hooks.ChiefOnly(strategy, ask)):
        if not strategy.is_chief:
            _follow(topology, variables)
        worker_sync.write_on_chief(topology.peers, what, lead)


def _call_of_chief(topology: Topology, own: Any) -> Any:
    return worker_exchange.exchange(topology, "a call of the first worker", own)[0]


def _follow(topology: Topology, variables: Sequence[Any]) -> None:
    """Does what the first worker does with variables, until it says None."""
    while (wanted := _call_of_chief(topology, None)) is not None:
        operation, number = wanted
        variable = variables[number]
        if operation == "read":
            _ = variable.value
        else:
            variable.assign(np.zeros(variable.shape, internals.dtype_of(variable)))


def write_on_chief(
    strategy: Any, model: Any, what: str, write: Callable[[], Any]
) -> Any:
    """Writes files on the first worker; all workers wait for it, or raise its error.

    Inside `fit` nobody waits for the files of a mirrored model.
    """
    frame = stack.frame()
    is_within = isinstance(frame, hooks.ChiefOnly) or (
        isinstance(frame, hooks.Fitting) and strategy.shard_bytes is None
    )
    if strategy.topology.is_local or (is_within and strategy.is_chief):
        return write()
    if not is_within:
        run_on_chief(strategy, model, what, write)
    return None


def wait_for_files(topology: Topology) -> None:
    """Waits until the first worker's callbacks have written their files."""
    if not topology.is_local:
        worker_exchange.exchange(topology, "files of callbacks", "")
