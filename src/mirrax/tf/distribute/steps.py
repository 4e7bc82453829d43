"""The outputs of a loop of training steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirrax


class MultiStepContext:
    """Collects the outputs of a step function that runs several times.

    Args:
        reduce: Combines an output over the replicas, given how and the output.
        initial_values: `last_step_outputs` before the first step.
    """

    run_op: None = None
    """None: the steps have already run."""

    def __init__(
        self, reduce: Callable[[Any, Any], Any], initial_values: Any = None
    ) -> None:
        self._reduce = reduce
        self.last_step_outputs: dict[str, Any] = dict(initial_values or {})
        self.non_tensor_outputs: dict[str, Any] = {}

    def set_last_step_output(
        self, name: str, output: Any, reduce_op: Any = None
    ) -> None:
        """Stores `output`, reduced if `reduce_op` is given; later steps replace it."""
        context = mirrax.get_replica_context()
        if context is not None and mirrax.has_strategy():
            context.merge_call(
                lambda _, value: self._set_output(name, value, reduce_op), (output,)
            )
        else:
            self._set_output(name, output, reduce_op)

    def set_non_tensor_output(self, name: str, output: Any) -> None:
        """Stores `output` unchanged; inside `run`, the outputs of all replicas."""
        context = mirrax.get_replica_context()
        if context is not None and mirrax.has_strategy():
            context.merge_call(
                lambda strategy, value: self._set_all(name, strategy, value), (output,)
            )
        else:
            self.non_tensor_outputs[name] = output

    def _set_output(self, name: str, output: Any, reduce_op: Any) -> None:
        if reduce_op is not None:
            output = self._reduce(reduce_op, output)
        self.last_step_outputs[name] = output

    def _set_all(self, name: str, strategy: Any, value: Any) -> None:
        self.non_tensor_outputs[name] = strategy.experimental_local_results(value)
