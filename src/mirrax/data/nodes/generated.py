"""`from_generator`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from mirrax.data.plan.columns import STRING, Columns, from_rows
from mirrax.data.plan.node import UNKNOWN, Epoch, Node, ReplayedStream, Stream
from mirrax.values.tensor_spec import TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Generated(Node):
    """What a Python function yields."""

    is_expensive = True
    cardinality = UNKNOWN

    function: Callable[[], Iterable[Any]]
    signature: Any

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _GeneratedStream(self)

    @property
    @override
    def spec(self) -> Any:
        return self.signature


class _GeneratedStream(ReplayedStream):
    def __init__(self, node: Generated) -> None:
        self._elements = _begin(node.function)
        self._specs, self.structure = jax.tree.flatten(node.signature)

    @override
    def _take(self, limit: int) -> Columns | None:
        # One at a time, so that nothing is read ahead.
        for element in itertools.islice(self._elements, 1):
            return from_rows([self._checked(element)])
        return None

    def _checked(self, element: Any) -> list[Any]:
        try:
            leaves = self.structure.flatten_up_to(element)
            pairs = zip(leaves, self._specs, strict=True)
            return [_fitted(leaf, spec) for leaf, spec in pairs]
        except (TypeError, ValueError) as error:
            raise ValueError(
                "What a generator yields must fit its `output_signature`. Received: "
                f"element {self._taken}, {element!r}, for "
                f"{jax.tree.unflatten(self.structure, self._specs)}."
            ) from error


def _begin(function: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    elements: Any = function()
    if not isinstance(elements, Iterable):
        raise TypeError(
            "`generator` must return something to iterate over. Received: "
            f"{elements!r} of type {type(elements).__name__}."
        )
    return iter(elements)


def _fitted(leaf: Any, spec: TensorSpec) -> Any:
    if spec.dtype == STRING:
        if not isinstance(leaf, bytes | str):
            raise TypeError
        return leaf.encode() if isinstance(leaf, str) else leaf
    array = np.asarray(leaf)
    if array.size and not np.can_cast(array.dtype, spec.dtype, "same_kind"):
        raise TypeError
    if not spec.allows(array.shape):
        raise ValueError
    return array.astype(spec.dtype)
