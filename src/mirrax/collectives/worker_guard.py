"""Runs programs over several workers: typed errors, and checks of their order."""

from __future__ import annotations

import collections
import functools
import json
import zlib
from collections.abc import Callable
from typing import Any

import jax

from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch


def guarded(
    topology: Topology, phase: str, program: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns `program`, made to raise if another worker dies, fails or is stuck.

    With several workers it waits for its results, so that the error is raised at the
    call.
    """
    job = topology.job
    if job is None:
        return program
    log = program_log_of(topology)

    def run(*inputs: Any) -> Any:
        log.add(phase)
        with job.guard(phase):
            return jax.block_until_ready(program(*inputs))

    return run


_INTERVAL = 64
_NUM_RECENT = 2 * _INTERVAL


class ProgramLog:
    """The collective programs that this worker has run."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._count = 0
        self._checksum = 0
        self._recent: collections.deque[str] = collections.deque(maxlen=_NUM_RECENT)

    def add(self, name: str) -> None:
        """Logs a run of the program `name`; sometimes compares the workers' logs."""
        self._count += 1
        self._checksum = zlib.crc32(f"{name}\n".encode(), self._checksum)
        self._recent.append(name)
        # After 1, 2, 4, ... programs and then at equal intervals.
        if self._count % min(_INTERVAL, 1 << (self._count.bit_length() - 1)) == 0:
            self._compare()

    def _compare(self) -> None:
        job = self._topology.job
        assert job is not None
        topic = f"order of programs, after {self._count}"
        checksums = job.exchange(topic, str(self._checksum).encode())
        if len(set(checksums)) == 1:
            return
        own = json.dumps(list(self._recent)).encode()
        recent = [json.loads(a) for a in job.exchange("recent programs", own)]
        other = next(i for i, c in enumerate(checksums) if c != checksums[0])
        pairs = list(zip(recent[0], recent[other], strict=True))
        index = next((i for i, (a, b) in enumerate(pairs) if a != b), 0)
        number = self._count - len(pairs) + index + 1
        raise ProgramMismatch(
            "All workers must run the same programs in the same order. Received: as "
            f"number {number} {job.workers[0].name} ran {recent[0][index]} and "
            f"{job.workers[other].name} ran {recent[other][index]}; their results "
            "since then are wrong. Do not make `run`, or a read that combines "
            "replicas, depend on the worker.",
            worker=other,
        )


@functools.lru_cache(maxsize=8)
def program_log_of(topology: Topology) -> ProgramLog:
    """Returns the log of the programs over these devices."""
    return ProgramLog(topology)
