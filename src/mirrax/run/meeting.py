"""Where the replicas of one `run` meet: the seam between user code and engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax

from mirrax.collectives.reduce import reduce_one, require_axis
from mirrax.context import stack
from mirrax.options import CommunicationOptions, ReduceOp
from mirrax.values.array_like import strong
from mirrax.values.regroup import select


class Meeting(Protocol):
    """One replica's connection to the others, in whichever engine runs it."""

    @property
    def replica_id(self) -> Any:
        """This replica's number among all: an int, or a traced scalar."""

    def merge_call(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Calls `fn` once for all replicas with what each brought."""

    def all_reduce(
        self,
        op: ReduceOp,
        values: list[jax.Array],
        options: CommunicationOptions,
        structure: Any = None,
    ) -> list[jax.Array]:
        """Returns the values, which are nested in this way, combined over replicas."""

    def all_gather(
        self, values: list[jax.Array], axis: int, structure: Any = None
    ) -> list[jax.Array]:
        """Returns the values of all replicas joined along `axis`."""


class Alone:
    """The meeting of a single replica: there is nobody to wait for."""

    replica_id = 0

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    def merge_call(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        with stack.entered(stack.CrossReplica(self._strategy)):
            return select(fn(self._strategy, *args, **kwargs), 0)

    def all_reduce(
        self,
        op: ReduceOp,
        values: list[jax.Array],
        options: CommunicationOptions,
        structure: Any = None,
    ) -> list[jax.Array]:
        return [strong(reduce_one(op, value, axis=None)) for value in values]

    def all_gather(
        self, values: list[jax.Array], axis: int, structure: Any = None
    ) -> list[jax.Array]:
        return values


def require_gatherable(values: Sequence[jax.Array], axis: int) -> None:
    """Raises unless each value has the dimension `axis`."""
    for value in values:
        require_axis(axis, value.ndim, "all_gather")
