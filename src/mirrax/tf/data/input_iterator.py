"""The input iterators of the version 1 API."""

from __future__ import annotations

from typing import Any

import jax

import mirrax


class InputIterator:
    """Iterates over a distributed dataset; `initialize` restarts it."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.initialize()

    def initialize(self) -> None:
        self._iterator = iter(self._dataset)

    @property
    def initializer(self) -> None:
        """Restarts the iteration; there is no operation to run in a session."""
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
    """Returns the spec of the first replica."""
    if isinstance(spec, mirrax.TensorSpec):
        return spec
    return spec.parts[0]
