"""What an engine is asked to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from mirrax.collectives.reduce import Collective
from mirrax.devices.topology import Topology


@dataclasses.dataclass(frozen=True)
class ReplicaCall:
    """A function to be called on every replica.

    Args:
        strategy: The strategy that runs it.
        collective: Its devices, and how they communicate.
        fn: The function.
        args: Positional arguments; distributed values among them are divided.
        kwargs: Keyword arguments, likewise.
        is_deciding: Whether replicas may go different ways, because the function
            decides in Python on values of tensors.
    """

    strategy: Any
    collective: Collective
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_deciding: bool = False

    @property
    def topology(self) -> Topology:
        return self.collective.topology
