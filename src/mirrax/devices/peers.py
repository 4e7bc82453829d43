"""The workers of a job, as one of them sees the others; or that there are none."""

from __future__ import annotations

import contextlib
import dataclasses
import json
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
    """The workers of a job, as one of them sees the others; `cluster.Job` is one."""

    @property
    def workers(self) -> Sequence[Worker]:
        """All of them, in the order of their replicas."""

    @property
    def worker_index(self) -> int:
        """Which of them this process is."""

    @property
    def num_workers(self) -> int:
        """How many there are."""

    @property
    def is_chief(self) -> bool:
        """Whether this is the worker that does what one must do for all."""

    def exchange(self, topic: str, payload: bytes) -> list[bytes]:
        """Returns what every worker has given, in the order of the workers."""

    def guard(self, phase: str) -> AbstractContextManager[Any]:
        """Returns a context in which this worker may wait for the others."""


@dataclasses.dataclass(frozen=True)
class _Me:
    type: str = "worker"
    index: int = 0
    name: str = "worker 0"


class Alone:
    """The peers of a process that has none.

    >>> Alone().exchange("anything", b"mine")
    [b'mine']
    """

    workers = (_Me(),)
    worker_index = 0
    num_workers = 1
    is_chief = True

    def exchange(self, topic: str, payload: bytes) -> list[bytes]:
        """Returns what this process gives."""
        return [payload]

    def guard(self, phase: str) -> AbstractContextManager[Any]:
        """Returns a context in which nobody waits for anybody."""
        return contextlib.nullcontext()


def exchange_json(peers: Peers, topic: str, value: Any) -> list[Any]:
    """Returns the values that all workers give, as what JSON makes of them.

    >>> exchange_json(Alone(), "sizes", (1, 2))
    [[1, 2]]
    """
    answers = peers.exchange(topic, json.dumps(value).encode())
    return [json.loads(answer) for answer in answers]
