"""What devices of several processes need: the other workers of a job."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Worker(Protocol):
    """One process of a job."""

    @property
    def type(self) -> str:
        """The kind of task: worker or chief."""

    @property
    def index(self) -> int:
        """Its number among tasks of this kind."""

    @property
    def name(self) -> str:
        """What messages call it."""


class Peers(Protocol):
    """The workers of a job, as one of them sees the others."""

    @property
    def workers(self) -> Sequence[Worker]:
        """All of them, in the order of their replicas."""

    @property
    def worker_index(self) -> int:
        """Which of them this process is."""

    @property
    def num_workers(self) -> int:
        """How many there are."""

    def exchange(self, topic: str, payload: bytes) -> list[bytes]:
        """Returns what every worker has given, in the order of the workers."""

    def guard(self, phase: str) -> AbstractContextManager[Any]:
        """Returns a context in which this worker may wait for the others."""
