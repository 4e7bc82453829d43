"""What the first of several workers does alone: it writes the files of Keras models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mirrax.collectives import worker_exchange
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.integrations.keras import hooks, internals
from mirrax.train import worker_sync


def variables_of(model: Any) -> list[Any]:
    """Returns the variables of a model, its optimizer and its metrics."""
    optimizer = getattr(model, "optimizer", None)
    slots = [] if optimizer is None else optimizer.variables
    return [*model.variables, *slots, *model.metrics_variables]


def run_on_chief(strategy: Any, model: Any, what: str, run: Callable[[], None]) -> None:
    """Runs code on the first worker; raises on all workers if it fails there.

    All workers call this together. Meanwhile the others take part in what the first
    one does with the variables of the model.

    Args:
        what: What the code writes, for the error.
    """
    topology = strategy.topology
    if topology.is_local:
        run()
        return
    variables = variables_of(model)
    numbers = {id(variable): number for number, variable in enumerate(variables)}

    def ask(operation: str, variable: Any) -> None:
        if strategy.is_chief:
            _from_chief(topology, [operation, numbers[id(variable)]])

    def lead() -> None:
        try:
            run()
        finally:
            _from_chief(topology, None)

    with stack.entered(hooks.ChiefOnly(strategy, ask)):
        if not strategy.is_chief:
            _follow(topology, variables)
        worker_sync.write_on_chief(topology.peers, what, lead)


def _from_chief(topology: Topology, own: Any) -> Any:
    return worker_exchange.exchange(topology, "a call of the first worker", own)[0]


def _follow(topology: Topology, variables: Sequence[Any]) -> None:
    """Does what the first worker does with variables, until it says None."""
    while (wanted := _from_chief(topology, None)) is not None:
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
