"""Checks that all workers run the same programs in the same order."""

from __future__ import annotations

import abc
import collections
import functools
import zlib
from collections.abc import Sequence
from typing import Any, NoReturn

from mirrax.devices.peers import exchange_json
from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch

_INTERVAL = 64
_NUM_RECENT = 2 * _INTERVAL
_NUM_OTHERS = 8


class Log:
    """A sequence that is the same on all workers, as a checksum."""

    def __init__(self) -> None:
        self.count = 0
        self.checksum = 0
        self._recent: collections.deque[str] = collections.deque(maxlen=_NUM_RECENT)

    def append(self, entry: str) -> None:
        self.count += 1
        self.checksum = zlib.crc32(f"{entry}\n".encode(), self.checksum)
        self._recent.append(entry)

    @property
    def is_due(self) -> bool:
        """Whether to compare it: after 1, 2, 4, ... entries, then at intervals."""
        return self.count % min(_INTERVAL, 1 << (self.count.bit_length() - 1)) == 0

    def first_difference(
        self, job: Any, topic: str, other: int
    ) -> tuple[int, str, str]:
        """Returns where worker 0 and `other` first differ, and the two entries."""
        recent = exchange_json(job, topic, list(self._recent))
        pairs = list(zip(recent[0], recent[other], strict=True))
        index = next((i for i, (a, b) in enumerate(pairs) if a != b), 0)
        return self.count - len(pairs) + index + 1, *pairs[index]


class ComparedLog(Log, abc.ABC):
    """A log that is compared together with the programs."""

    @abc.abstractmethod
    def raise_difference(self, job: Any, other: int) -> NoReturn:
        """Raises an error that names the first difference from the worker `other`."""


class ProgramLog:
    """The collective programs that this worker has run."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._programs = Log()
        self._others: dict[str, ComparedLog] = {}
        self._num_others = 0

    def add(self, name: str) -> None:
        """Logs a run of the program `name`; sometimes compares the workers' logs."""
        self._programs.append(name)
        if self._programs.is_due:
            self._compare()

    def compare_along(self, log: ComparedLog) -> None:
        """Compares another log whenever the programs are; every worker calls this."""
        self._num_others += 1
        self._others[str(self._num_others)] = log
        # An old one does not grow any more, or was compared often.
        self._others.pop(str(self._num_others - _NUM_OTHERS), None)

    def _compare(self) -> None:
        job = self._topology.job
        assert job is not None
        own = {name: (log.count, log.checksum) for name, log in self._others.items()}
        topic = f"order of programs, after {self._programs.count}"
        answers = exchange_json(job, topic, [self._programs.checksum, own])
        other = _differing([programs for programs, _ in answers])
        if other is not None:
            self._raise_other_program(job, other)
        for name, log in self._others.items():
            found = [others.get(name, [0, 0]) for _, others in answers]
            counts, checksums = zip(*found, strict=True)
            other = _differing(checksums)
            # One worker may be ahead, for example to look at a batch.
            if other is not None and _differing(counts) is None:
                log.raise_difference(job, other)

    def _raise_other_program(self, job: Any, other: int) -> None:
        number, first, second = self._programs.first_difference(
            job, "recent programs", other
        )
        raise ProgramMismatch(
            "All workers must run the same programs in the same order. Received: as "
            f"number {number} {job.workers[0].name} ran {first} and "
            f"{job.workers[other].name} ran {second}; their results "
            "since then are wrong. Do not make `run`, or a read that combines "
            "replicas, depend on the worker.",
            worker=other,
        )


def _differing(values: Sequence[Any]) -> int | None:
    """Returns the first worker whose value is not that of the first one."""
    return next((i for i, value in enumerate(values) if value != values[0]), None)


@functools.lru_cache(maxsize=8)
def program_log_of(topology: Topology) -> ProgramLog:
    """Returns the log of the programs over these devices."""
    return ProgramLog(topology)
