"""Who takes part in saving and restoring: the seam to the workers of a job."""

from __future__ import annotations

from typing import Protocol


class Party(Protocol):
    """The workers of a job, as one of them sees it; `cluster.Job` is one."""

    @property
    def num_workers(self) -> int:
        """How many workers there are."""

    @property
    def worker_index(self) -> int:
        """Which of them this is."""

    @property
    def is_chief(self) -> bool:
        """Whether this is the worker that writes files."""

    def exchange(
        self, topic: str, payload: bytes, timeout: float | None = None
    ) -> list[bytes]:
        """Returns what every worker has given; raises if one does not come."""


class Alone:
    """The party of a single process."""

    num_workers = 1
    worker_index = 0
    is_chief = True

    def exchange(
        self, topic: str, payload: bytes, timeout: float | None = None
    ) -> list[bytes]:
        return [payload]
