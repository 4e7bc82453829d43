"""The input iterators of the version 1 API."""

from __future__ import annotations

from typing import Any

import jax

import mirrax


class InputIterator:
    """Goes through a distributed dataset; `initialize` starts anew."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.initialize()

    def initialize(self) -> None:
        self._iterator = iter(self._dataset)

    @property
    def initializer(self) -> None:
        """Starts anew; there is no operation to be run in a session."""
        self.initialize()

    def __iter__(self) -> InputIterator:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)

    def get_next(self, name: str | None = None) -> Any:
        return self._iterator.get_next()

    def get_next_as_optional(self) -> Any:
        return self._iterator.get_next_as_optional()

    @property
    def element_spec(self) -> Any:
        return self._iterator.element_spec

    @property
    def output_shapes(self) -> Any:
        return jax.tree.map(lambda spec: _first(spec).shape, self.element_spec)

    @property
    def output_types(self) -> Any:
        return jax.tree.map(lambda spec: _first(spec).dtype, self.element_spec)


def _first(spec: Any) -> mirrax.TensorSpec:
    """Returns the description of one replica's part."""
    if isinstance(spec, mirrax.TensorSpec):
        return spec
    first: mirrax.TensorSpec = spec.parts[0]
    return first


class MultiStepContext:
    """What a step function sets aside, while it is run several times.

    Args:
        strategy: The strategy, whose `reduce` combines outputs.
        initial_values: What `last_step_outputs` are before the first step.
    """

    run_op: None = None
    """The steps have been run already, so there is nothing left to be run."""

    def __init__(self, strategy: Any, initial_values: Any = None) -> None:
        self._strategy = strategy
        self.last_step_outputs: dict[str, Any] = dict(initial_values or {})
        self.non_tensor_outputs: dict[str, Any] = {}

    def set_last_step_output(
        self, name: str, output: Any, reduce_op: Any = None
    ) -> None:
        """Keeps `output`, reduced if a `reduce_op` is given; later steps replace it."""
        context = mirrax.get_replica_context()
        if context is not None and mirrax.has_strategy():
            context.merge_call(
                lambda _, value: self._set_output(name, value, reduce_op), (output,)
            )
        else:
            self._set_output(name, output, reduce_op)

    def set_non_tensor_output(self, name: str, output: Any) -> None:
        """Keeps `output` as it is; inside `run`, what every replica gave."""
        context = mirrax.get_replica_context()
        if context is not None and mirrax.has_strategy():
            context.merge_call(
                lambda strategy, value: self._set_all(name, strategy, value), (output,)
            )
        else:
            self.non_tensor_outputs[name] = output

    def _set_output(self, name: str, output: Any, reduce_op: Any) -> None:
        if reduce_op is not None:
            output = self._strategy.reduce(reduce_op, output, axis=None)
        self.last_step_outputs[name] = output

    def _set_all(self, name: str, strategy: Any, value: Any) -> None:
        self.non_tensor_outputs[name] = strategy.experimental_local_results(value)
