"""The workers of a job as one of them sees them; `NoPeers` for a single process."""

from __future__ import annotations

import contextlib
import json
import types
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Peers(Protocol):
    """The workers of a job; implemented by `cluster.Job` and `NoPeers`."""

    @property
    def workers(self) -> Sequence[Any]:
        """Type, index and name of all workers, in the order of their replicas."""

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


class NoPeers:
    """The null object for a single process.

    >>> NoPeers().exchange("anything", b"mine")
    [b'mine']
    """

    workers = (types.SimpleNamespace(type="worker", index=0, name="worker 0"),)
    worker_index = 0
    num_workers = 1
    is_chief = True

    def exchange(self, topic: str, payload: bytes) -> list[bytes]:
        return [payload]

    def guard(self, phase: str) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()


def exchange_json(peers: Peers, topic: str, value: Any) -> list[Any]:
    """Returns the values of all workers, after a round trip through JSON.

    >>> exchange_json(NoPeers(), "sizes", (1, 2))
    [[1, 2]]
    """
    answers = peers.exchange(topic, json.dumps(value).encode())
    return [json.loads(answer) for answer in answers]
