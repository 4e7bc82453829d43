"""The workers of a job as one of them sees them; `NoPeers` for a single process."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Peer(Protocol):
    """One process of a job."""

    @property
    def type(self) -> str:
        """The task type: worker or chief."""

    @property
    def index(self) -> int:
        """Its task index."""

    @property
    def name(self) -> str:
        """Its name in messages."""


class Peers(Protocol):
    """The workers of a job; implemented by `cluster.Job` and `NoPeers`."""

    @property
    def workers(self) -> Sequence[Peer]:
        """All workers, in the order of their replicas."""

    @property
    def worker_index(self) -> int:
        """The index of this process."""

    @property
    def num_workers(self) -> int:
        """The number of workers."""

    @property
    def is_chief(self) -> bool:
        """Whether this is the first worker, which writes files for all."""

    def exchange(self, topic: str, payload: bytes) -> list[bytes]:
        """Returns the payloads of all workers, in order."""

    def guard(self, phase: str) -> AbstractContextManager[Any]:
        """Returns a context manager for code that may wait for other workers."""


@dataclasses.dataclass(frozen=True)
class _ThisProcess:
    type: str = "worker"
    index: int = 0
    name: str = "worker 0"


class NoPeers:
    """The null object for a single process.

    >>> NoPeers().exchange("anything", b"mine")
    [b'mine']
    """

    workers = (_ThisProcess(),)
    worker_index = 0
    num_workers = 1
    is_chief = True

    def exchange(self, topic: str, payload: bytes) -> list[bytes]:
        """Returns the payload of this process."""
        return [payload]

    def guard(self, phase: str) -> AbstractContextManager[Any]:
        """Returns a context manager that does nothing."""
        return contextlib.nullcontext()


def exchange_json(peers: Peers, topic: str, value: Any) -> list[Any]:
    """Returns the values of all workers, after a round trip through JSON.

    >>> exchange_json(NoPeers(), "sizes", (1, 2))
    [[1, 2]]
    """
    answers = peers.exchange(topic, json.dumps(value).encode())
    return [json.loads(answer) for answer in answers]
